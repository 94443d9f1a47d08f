"""A training step captured as a CUDA graph, which takes one launch instead of hundreds."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

# The first steps set up state, such as the moments of an optimizer; do not capture them.
_EAGER_STEPS = 3


class CapturedStep:
    """Run a training step a few times, then capture it as a CUDA graph and replay that.

    A small network's step is hundreds of operations of microseconds each, and a GPU waits for the
    host between them. A graph is launched as a whole: the same operations on the same
    memory, so what the step reads must stay where it is. The batch is copied to where the
    captured one lay, and `OptimizerGroup.make_capturable` keeps learning rates on the device.

    Args:
        step: function from a batch, nested tuples of tensors, random number generators and
            constants, to the loss. It must not wait for the device, nor compute by a value of the
            host that changes, nor draw random numbers of another generator.
        device: CUDA device of the batch and the model.
    """

    def __init__(self, step: Callable[[Any], Tensor], device: torch.device) -> None:
        self._step = step
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._eager_steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Any = None
        self._loss = torch.empty(())

    def __call__(self, batch: Any) -> Tensor:
        """Take one step; all batches must have the same shapes.

        Returns:
            The loss.
        """
        with torch.cuda.device(self._device):
            if self._eager_steps < _EAGER_STEPS:
                self._eager_steps += 1
                return self._run_eagerly(batch)
            if self._graph is None:
                self._graph = self._capture(batch)
            held, given = pytree.tree_leaves(self._batch), pytree.tree_leaves(batch)
            for own, new in zip(held, given, strict=True):
                if isinstance(own, Tensor):
                    own.copy_(new)
                elif isinstance(own, torch.Generator):
                    own.set_state(new.get_state())
            self._graph.replay()
            return self._loss.clone()

    def _run_eagerly(self, batch: Any) -> Tensor:
        # Beside the main stream, where autograd and the libraries may set up what is captured.
        main = torch.cuda.current_stream()
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            loss = self._step(batch)
        main.wait_stream(self._stream)
        return loss

    def _capture(self, batch: Any) -> torch.cuda.CUDAGraph:
        """Capture the step, which does not run it."""
        self._batch = pytree.tree_map_only(Tensor, torch.clone, batch)
        graph = torch.cuda.CUDAGraph()
        for part in pytree.tree_leaves(self._batch):
            if isinstance(part, torch.Generator):
                graph.register_generator_state(part)
        # Other threads, such as those that save a fit, may use the device meanwhile.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            self._loss = self._step(self._batch)
        return graph
