"""Batches of a fit, drawn as functions of the step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

DrawBatch = Callable[[int], tuple[Any, Tensor]]
"""From the step number to that step's inputs and targets. As a function of the step alone, it needs
no state of its own for a fit to be resumed."""


class ShuffledBatches:
    """Batches without replacement from rows of inputs and targets, equal for every fit.

    Each pass over the rows has its own order, drawn from the seed and the number of the pass; rows
    that do not fill a last batch are left out of that pass.

    Args:
        inputs: one row per example, on the device that the batches are drawn on.
        targets: the same number of rows.
        batch_size: rows in a batch; all rows if there are fewer.
        seed: of the orders.

    Raises:
        ValueError: If the numbers of rows differ, or a number is below 1.

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
            # On the device of the rows: a copy from the host would wait for it.
            device = self.inputs.device
            generator = torch.Generator(device).manual_seed(self.seed * 1_000_003 + this_pass)
            self._order = torch.randperm(len(self.inputs), generator=generator, device=device)
            self._pass = this_pass
        rows = self._order[batch * self.batch_size : (batch + 1) * self.batch_size]
        return self.inputs[rows], self.targets[rows]
