"""The training loop. It knows neither pictures nor rays: it is given batches and a loss."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.training.optimizers import OptimizerGroup

DrawBatch = Callable[[int], tuple[Any, Tensor]]
"""From the step number to that step's inputs and targets. Being a function of the step
alone, it needs no state of its own for a fit to be resumed."""

Loss = Callable[[Any, Tensor], Tensor]


@dataclass
class Record:
    """One point of a fit's history.

    Attributes:
        step: steps taken.
        seconds: training time so far.
        loss: mean loss over the steps since the record before.
    """

    step: int
    seconds: float
    loss: float


@dataclass
class FitState:
    """All that a fit needs to go on: save it, load it, and it goes on to the bit.

    Attributes:
        model: what is fitted.
        optimizer: its optimizer, with its moments.
        num_steps: length of the whole fit, which the learning-rate schedule is laid over.
        step: steps taken.
        seconds: training time so far.
        history: what was recorded on the way.
    """

    model: nn.Module
    optimizer: OptimizerGroup
    num_steps: int
    step: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """Plain containers and tensors only, for ``torch.save``."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "num_steps": self.num_steps,
            "step": self.step,
            "seconds": self.seconds,
            "history": [asdict(record) for record in self.history],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a saved fit of the same model, optimizer and length.

        Raises:
            ValueError: where the length differs, since the schedule would jump.
        """
        if state["num_steps"] != self.num_steps:
            raise ValueError(
                f"the saved fit is {state['num_steps']} steps long and this one "
                f"{self.num_steps}; give both the same length"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        self.seconds = state["seconds"]
        self.history = [Record(**record) for record in state["history"]]


def cosine_decay(progress: float, *, final: float = 0.01) -> float:
    """Factor of the learning rate, from 1 at progress 0 to ``final`` at progress 1.

    Half a cosine (Loshchilov and Hutter 2017, equation 5, without restarts).
    """
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def constant(progress: float) -> float:
    """Factor of a learning rate that stays as it is."""
    return 1.0


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error, taken in float32 whatever the network ran in."""
    return (prediction.float() - target).square().mean()


def fit(
    state: FitState,
    draw_batch: DrawBatch,
    loss_fn: Loss = mse,
    *,
    schedule: Callable[[float], float] = cosine_decay,
    autocast_dtype: torch.dtype | None = None,
    compiled: bool = False,
    record_every: int = 10,
    after_step: Callable[[FitState], None] | None = None,
    on_record: Callable[[FitState], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> FitState:
    """Run a fit to its end, or until it is told to stop.

    The device is only waited for when a record is due, so that it never idles in between.

    Args:
        state: the fit, fresh or part of the way; it is changed in place.
        draw_batch: from the step to its inputs and targets.
        loss_fn: from prediction and target to a scalar.
        schedule: from progress in [0, 1) to the factor of the learning rate.
        autocast_dtype: run the network under autocast in this type; None for float32.
        compiled: run the model, forward and backward, through ``torch.compile``, on a GPU with
            ``mode="max-autotune"``, which has CUDA graphs; batches must keep their shape.
        record_every: steps from one record to the next.
        after_step: called after each step, as to keep an occupancy grid up to date.
        on_record: called after each record, as by a progress bar; its time is not counted.
        should_stop: asked before each step.

    Returns:
        The same state.

    Raises:
        FloatingPointError: where the loss is no longer finite.
    """
    device = next(state.model.parameters()).device
    started = time.perf_counter() - state.seconds
    losses: list[Tensor] = []
    model: Callable[[Any], Any] = state.model
    if compiled:
        mode = "max-autotune" if device.type == "cuda" else None
        model = torch.compile(state.model, mode=mode, dynamic=False)
    while state.step < state.num_steps and not should_stop():
        inputs, targets = draw_batch(state.step)
        state.optimizer.scale_lrs(schedule(state.step / state.num_steps))
        state.optimizer.zero_grad()
        if compiled:
            torch.compiler.cudagraph_mark_step_begin()
        with autocast(device, autocast_dtype):
            prediction = model(inputs)
        loss = loss_fn(prediction, targets)
        loss.backward()
        state.optimizer.step()
        losses.append(loss.detach())
        state.step += 1
        if after_step is not None:
            after_step(state)
        if state.step % record_every == 0 or state.step == state.num_steps:
            _record(state, losses, started)
            losses = []
            if on_record is not None:
                on_record(state)
                # What is done with a record takes none of the training time.
                started = time.perf_counter() - state.seconds
    if losses:
        _record(state, losses, started)
        if on_record is not None:
            on_record(state)
    return state


def _record(state: FitState, losses: list[Tensor], started: float) -> None:
    loss = float(torch.stack(losses).mean())
    state.seconds = time.perf_counter() - started
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the loss became {loss} at step {state.step}; use a smaller learning rate"
        )
    state.history.append(Record(state.step, state.seconds, loss))


def autocast(device: torch.device, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast in this type; None for no autocast."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


class ShuffledBatches:
    """Batches without replacement from rows of inputs and targets, the same for every fit.

    Each pass over the rows has its own order, drawn from the seed and the number of the
    pass; rows that do not fill a last batch are left for other passes.

    Args:
        inputs: one row an example.
        targets: the same number of rows.
        batch_size: rows in a batch; all of them where there are fewer.
        seed: of the orders.

    Examples:
        >>> draw_batch = ShuffledBatches(torch.rand(10, 2), torch.rand(10, 3), 4, seed=0)
        >>> [tuple(rows.shape) for rows in draw_batch(0)]
        [(4, 2), (4, 3)]
    """

    def __init__(self, inputs: Tensor, targets: Tensor, batch_size: int, *, seed: int) -> None:
        if len(inputs) != len(targets) or len(inputs) == 0 or batch_size < 1:
            raise ValueError(
                "inputs and targets need the same number of rows, 1 or more, and batch_size "
                f"must be 1 or more; got {len(inputs)}, {len(targets)} and {batch_size}"
            )
        self.inputs = inputs
        self.targets = targets
        self.batch_size = min(batch_size, len(inputs))
        self.seed = seed
        self._pass = -1
        self._order = torch.empty(0, dtype=torch.long)

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Rows of one step."""
        batches_per_pass = len(self.inputs) // self.batch_size
        this_pass, batch = divmod(step, batches_per_pass)
        if this_pass != self._pass:
            # On the device of the rows, which a copy from the host would wait for.
            device = self.inputs.device
            generator = torch.Generator(device).manual_seed(self.seed * 1_000_003 + this_pass)
            self._order = torch.randperm(len(self.inputs), generator=generator, device=device)
            self._pass = this_pass
        rows = self._order[batch * self.batch_size : (batch + 1) * self.batch_size]
        return self.inputs[rows], self.targets[rows]


@torch.no_grad()
def predict(model: nn.Module, inputs: Tensor, *, rows: int = 8192) -> Tensor:
    """Outputs for all inputs, in float32 and in pieces that stay in a CPU's cache.

    Args:
        model: from ``(n, in_dim)`` to ``(n, out_dim)``.
        inputs: one row an example.
        rows: rows in a piece.
    """
    return torch.cat([model(piece).float() for piece in inputs.split(rows)])
