"""Batches of a fit, drawn as functions of the step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.images import Image, pixels_at, unit_range

DrawBatch = Callable[[int], tuple[Any, Any]]
"""From the step number to that step's inputs and targets: a tensor with a row for each example, or
one for each of several models. As a function of the step alone, it needs no state of its own for a
fit to be resumed."""


class ShuffledRows:
    """Numbers of the rows of each batch: without replacement, in an order for each pass.

    The order is drawn from the seed and the number of the pass; rows that do not fill a last batch
    are left out of that pass. On a CPU the rows of each batch are sorted.

    Args:
        num_rows: number of rows, 1 to 2^31 - 1; an order takes 4 bytes for each.
        batch_size: rows in a batch; all rows if there are fewer.
        seed: random seed of the orders.
        device: device of the numbers.
    """

    def __init__(
        self, num_rows: int, batch_size: int, *, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        self.num_rows = num_rows
        self.batch_size = min(batch_size, num_rows)
        self.seed = seed
        self.device = torch.device(device)
        self._pass = -1
        self._order = torch.empty(0, dtype=torch.int32)

    def __call__(self, step: int) -> Tensor:
        """Numbers of one step."""
        this_pass, batch = divmod(step, self.num_rows // self.batch_size)
        if this_pass != self._pass:
            # On the device of the rows: a copy from the host would wait for it.
            generator = torch.Generator(self.device).manual_seed(self.seed * 1_000_003 + this_pass)
            self._order = torch.randperm(
                self.num_rows, generator=generator, device=self.device, dtype=torch.int32
            )
            self._pass = this_pass
        first = batch * self.batch_size
        rows = self._order[first : first + self.batch_size].long()
        # Neighboring rows share cache lines of a CPU: the gradient of a grid's table takes 0.6 of
        # its time. The sum over a batch is the same in any order.
        return rows.sort().values if self.device.type == "cpu" else rows


class ShuffledBatches:
    """Batches from rows of inputs and targets, equal for every fit.

    See `ShuffledRows` for their order.

    Args:
        inputs: one row per example, on the device that the batches are drawn on.
        targets: the same number of rows.
        batch_size: rows in a batch; all rows if there are fewer.
        seed: random seed of the orders.

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
        self.rows = ShuffledRows(len(inputs), batch_size, seed=seed, device=inputs.device)

    def inputs_at(self, rows: Tensor) -> Tensor:
        """Inputs of these rows."""
        return self.inputs[rows]

    def targets_at(self, rows: Tensor) -> Tensor:
        """Targets of these rows."""
        return self.targets[rows]

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of one step."""
        rows = self.rows(step)
        return self.inputs_at(rows), self.targets_at(rows)


class PixelBatches:
    """Batches of the coordinates and colors of an image's pixels, computed as they are drawn.

    They are those of `ShuffledBatches` over all coordinates and colors, which are never held.
    Pixels of weight 0 are never drawn. Where the others differ in weight, a fourth column of the
    targets is the weight relative to their mean, for `nerf_posenc.training.loop.weighted_mse`.

    Args:
        image: its fitted pixels.
        batch_size: pixels in a batch; all pixels if there are fewer.
        seed: random seed of the orders.
        device: device of the batches.

    Raises:
        ValueError: If there are no pixels, or the batch size is below 1.

    Examples:
        >>> draw_batch = PixelBatches(Image.from_rgb(torch.rand(4, 5, 3)), 8, seed=0)
        >>> [tuple(rows.shape) for rows in draw_batch(0)]
        [(8, 2), (8, 3)]
    """

    def __init__(
        self, image: Image, batch_size: int, *, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        if image.num_fitted == 0 or batch_size < 1:
            raise ValueError(
                "the image needs 1 pixel or more, and batch_size must be 1 or more; got "
                f"{image.num_fitted} and {batch_size}"
            )
        self._x, self._y = image.x.to(device), image.y.to(device)
        self._pixels = image.pixels.reshape(-1, 3).to(device)
        self._fitted, self._weights = None, None
        if image.weights is not None and image.fitted is not None:
            weights = image.weights.flatten()[image.fitted]
            self._fitted = image.fitted.to(device)
            if bool((weights != weights[0]).any()):
                self._weights = (weights / weights.mean())[:, None].to(device)
        self.rows = ShuffledRows(image.num_fitted, batch_size, seed=seed, device=device)

    @property
    def is_weighted(self) -> bool:
        """Whether the fitted pixels differ in weight."""
        return self._weights is not None

    def inputs_at(self, rows: Tensor) -> Tensor:
        """Coordinates (x, y) of the fitted pixels of these numbers, row by row of the image."""
        rows = rows if self._fitted is None else self._fitted[rows]
        line = rows.div(len(self._x), rounding_mode="floor")
        column = rows - line * len(self._x)
        return torch.stack((self._x[column], self._y[line]), dim=-1)

    def targets_at(self, rows: Tensor) -> Tensor:
        """Colors of these pixels, and their weights if they differ."""
        places = rows if self._fitted is None else self._fitted[rows]
        colors = unit_range(pixels_at(self._pixels, places))
        return colors if self._weights is None else torch.cat([colors, self._weights[rows]], -1)

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Coordinates and colors of one step."""
        rows = self.rows(step)
        return self.inputs_at(rows), self.targets_at(rows)
