"""Sparse local cosine series: windowed cosines per cell, of which only the largest are kept."""

import copy
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from baselines.coefficient_masks import compress, largest, num_words
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.images import Image, strips, unit_range

CELL = 8
"""Pixels along the side of a cell, and cosines per axis in it."""
MAX_COSINE_PIXELS = 1 << 28
"""Largest image of a series."""

_LEVELS = 127
# Pixels that are transformed at a time.
_STRIP_PIXELS = 1 << 20


class LocalCosineSeries(nn.Module):
    r"""RGB at any coordinate as a sparse sum of windowed cosines.

    The image is divided into cells of 8 x 8 pixels. At distance $u$ in pixels from the left edge of
    its cell, an axis has the functions $\sqrt{2/8}\, w(u) \cos(\pi (k + 1/2) u / 8)$,
    $k = 0 \dots 7$, which extend half a cell into both neighbors, where the window $w$ falls as a
    sine (Malvar 1990, "Lapped transforms for efficient transform/subband coding", modulated
    lapped transform; Coifman and Meyer 1991). Products of two axes' functions are orthonormal on
    the pixels, so that the best coefficients need no training, and the best ones to keep are the
    largest. Colors are in the principal axes of the image's own.

    A new series is empty; `fit` gives it coefficients. Which ones are kept is a compressed bit
    mask, which counts as parameters of 16 bits.

    Examples:
        >>> series = LocalCosineSeries()
        >>> rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(24.0), indexing="ij")
        >>> image = Image.from_rgb((rows / 40 + columns / 80)[..., None].expand(-1, -1, 3))
        >>> series.fit(image, num_parameters=200)
        >>> bool((series(image.coordinates) - image.rgb).abs().max() < 0.01)
        True
    """

    mask: Tensor
    size: Tensor
    grid: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.zeros(0))
        self.color = nn.Parameter(torch.cat([torch.zeros(1, 3), torch.eye(3)]))
        self.register_buffer("mask", torch.zeros(0, dtype=torch.uint8))
        self.register_buffer("size", torch.zeros(2, dtype=torch.long))
        self.register_buffer("grid", torch.tensor([0.0, 0.0, 1.0]))
        axis = torch.arange(CELL, dtype=torch.float64, device="cpu")
        self.cosines = SinCos(1, math.pi / CELL * (axis + 0.5), layout="pka")
        self.window = SinCos(1, [math.pi / (2 * CELL)])
        self.cells = (0, 0)
        """Rows and columns of cells."""
        self._positions = torch.zeros(0, dtype=torch.long)
        self._dense: tuple[tuple[int, torch.device, torch.dtype], Tensor] | None = None

    @property
    def num_index_parameters(self) -> int:
        """Size of the mask, the size and the grid in parameters of 16 bits."""
        return num_words(self.mask.numel()) + self.size.numel() + self.grid.numel()

    @property
    def frequencies(self) -> Int[Tensor, " kept"]:
        """Number of each coefficient's color and pair of cosines, 0 ... 191.

        Multiples of 64 are the lowest of a color: the mean of a cell, nearly.
        """
        per_row = math.prod(self.cells) * CELL
        return self._positions // per_row * CELL + self._positions % CELL

    @torch.no_grad()
    def fit(self, image: Image, num_parameters: int) -> None:
        """Find the best series of so many parameters, in closed form.

        Args:
            image: its fitted pixels, evenly spaced, the same along both axes. Beside the image,
                about 30 bytes per pixel are held, with the series.
            num_parameters: largest number of parameters, the mask's among them.

        Raises:
            ValueError: If that is too few for a single coefficient, or the image has more than
                ``MAX_COSINE_PIXELS``.
        """
        device = self.coefficients.device
        width, height = image.size
        if width * height > MAX_COSINE_PIXELS:
            raise ValueError(
                f"a local cosine series has at most {MAX_COSINE_PIXELS:,} pixels; got {width} x "
                f"{height}"
            )
        self.size = torch.tensor([height, width], device=device)
        self.cells = math.ceil(height / CELL), math.ceil(width / CELL)
        extent = torch.stack([image.x[-1] - image.x[0], image.y[-1] - image.y[0]]).max()
        spacing = extent / max(1, max(height, width) - 1)
        spacing = spacing if spacing > 0 else torch.ones_like(spacing)
        self.grid = torch.stack([image.x[0], image.y[0], spacing]).to(device, torch.float32)
        self.color.data = _principal_axes(image).to(device, torch.float32)
        values = self._analyze(image)
        # The largest coefficients, as many as the parameters leave after the mask.
        others = self.color.numel() + self.size.numel() + self.grid.numel()
        mask = largest(values, num_parameters - others)
        if mask is None:
            raise ValueError(f"{num_parameters} parameters are too few for a local cosine series")
        self.mask = compress(mask).to(device)
        self._positions = mask.nonzero().squeeze(1)
        kept = values.reshape(-1)[self._positions]
        self.coefficients, self._dense = nn.Parameter(kept.to(device)), None

    def forward(self, x: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
        """RGB at coordinates; those outside the image are moved to its edge.

        It is computed in the type of the coefficients, also under autocast, whose 8 bits of
        precision would cost more than the series leaves out.

        Raises:
            ValueError: If the series was not fitted.
        """
        if not all(self.cells):
            raise ValueError("the local cosine series is empty; fit it first")
        with torch.autocast(x.device.type, enabled=False):
            return self._evaluate(x.to(self.coefficients.dtype))

    def _evaluate(self, x: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
        # From coordinates to pixels: 0 is the left edge of the first one.
        position = (x.reshape(-1, 2) - self.grid[:2]) / self.grid[2] + 0.5
        cells_down, cells_across = self.cells
        columns, across = self._functions(position[:, 0], cells_across)
        rows, down = self._functions(position[:, 1], cells_down)
        dense = self._dense_coefficients()
        # Sum over the four cells whose windows reach a point: coefficients times the products of
        # their functions down and across.
        total = x.new_zeros(position.shape[0], 3)
        for row, down_values in zip(rows, down, strict=True):
            for column, across_values in zip(columns, across, strict=True):
                nearby = nn.functional.embedding(row * cells_across + column, dense)
                products = (down_values[:, :, None] * across_values[:, None]).flatten(1)
                total = total + (nearby.unflatten(1, (3, -1)) @ products[..., None]).squeeze(-1)
        # Back from the principal axes to RGB.
        return (total @ self.color[1:] + self.color[0]).reshape(*x.shape[:-1], 3)

    def _functions(
        self, position: Float[Tensor, " n"], cells: int
    ) -> tuple[Int[Tensor, "2 n"], Float[Tensor, "2 n 8"]]:
        """The two cells along an axis that reach a position, and their functions there."""
        position = position.clamp(0, cells * CELL)
        # The window of a cell reaches half a cell beyond its edges: around each edge the function
        # of the cell before falls and that of the cell after rises.
        edge = (position / CELL).round()
        offset = position - edge * CELL
        rising, falling = self.window(offset[:, None] + CELL / 2).unbind(-1)
        # Nothing lies beyond the first and the last cell, and nothing falls off towards it.
        is_first, is_last = edge == 0, edge == cells
        rising = torch.where(is_last, 0.0, torch.where(is_first, 1.0, rising))
        falling = torch.where(is_first, 0.0, torch.where(is_last, 1.0, falling))
        before, after = self._cosines(offset + CELL), self._cosines(offset)
        # A coordinate that is not a number has such values, in any cell.
        index = edge.nan_to_num(0.0).long()
        return (
            torch.stack([(index - 1).clamp(min=0), index.clamp(max=cells - 1)]),
            torch.stack([falling[:, None] * before, rising[:, None] * after]),
        )

    def _cosines(self, offset: Float[Tensor, " n"]) -> Float[Tensor, "n 8"]:
        """Cosines of one cell at distances from its left edge, without the window."""
        values: Tensor = self.cosines(offset[:, None])
        return math.sqrt(2 / CELL) * values[:, CELL:]

    def _dense_coefficients(self) -> Float[Tensor, "all_cells 192"]:
        """All coefficients by cell, zeros included; kept while they do not change."""
        version = self.coefficients._version, self.coefficients.device, self.coefficients.dtype
        tracks = torch.is_grad_enabled() and self.coefficients.requires_grad
        if not tracks and self._dense is not None and self._dense[0] == version:
            return self._dense[1]
        cells = math.prod(self.cells)
        cell = self._positions // CELL % cells
        function = self.frequencies
        indices = (cell * (3 * CELL * CELL) + function).to(self.coefficients.device)
        # scatter would return a second copy, of hundreds of megabytes.
        dense = self.coefficients.new_zeros(cells * 3 * CELL * CELL)
        dense = dense.scatter_(0, indices, self.coefficients).reshape(cells, -1)
        self._dense = None if tracks else (version, dense)
        return dense

    def _analyze(self, image: Image) -> Float[Tensor, "3 8 down across 8"]:
        """Inner products of an image with all functions, some rows of cells at a time."""
        down, across = self.cells
        values = torch.empty(3, CELL, down, across, CELL)
        count = max(1, _STRIP_PIXELS // (across * CELL * CELL))
        for first in range(0, down, count):
            last = min(first + count, down)
            # The functions of a cell reach into its neighbors.
            top, bottom = max(0, first - 1), min(down, last + 1)
            pixels = image.pixels[top * CELL : bottom * CELL].to(self.color.device)
            colors = (unit_range(pixels).float() - self.color[0]) @ self.color[1:].T
            values[:, :, first:last] = self._analyze_rows(colors)[:, :, first - top : last - top]
        return values

    def _analyze_rows(
        self, values: Float[Tensor, "height width 3"]
    ) -> Float[Tensor, "3 8 down across 8"]:
        """Inner products of some rows of cells with all functions."""
        height, width, _ = values.shape
        down, across = math.ceil(height / CELL), self.cells[1]
        padding = (0, across * CELL - width, 0, down * CELL - height)
        padded = nn.functional.pad(values.permute(2, 0, 1), padding, mode="replicate")
        # The transform is separable: along the rows, then along the columns.
        along = self._analyze_axis(padded).reshape(3, down * CELL, across * CELL).mT
        both = self._analyze_axis(along).reshape(3, across, CELL, down, CELL)
        return both.permute(0, 4, 3, 1, 2)

    def _analyze_axis(
        self, values: Float[Tensor, "channels lines samples"]
    ) -> Float[Tensor, "channels lines cells 8"]:
        """Inner products along the last axis with the functions of all cells."""
        cells = values.reshape(*values.shape[:2], -1, CELL).clone()
        half = CELL // 2
        centers = torch.arange(CELL, device=values.device) + 0.5
        rising, falling = self.window(centers[half:, None]).to(values.dtype).unbind(-1)
        # A function is even about the left edge of its cell and odd about the right one, so that
        # what reaches into the neighbors folds back into the cell.
        after, before = cells[..., 1:, :half].clone(), cells[..., :-1, half:].flip(-1)
        cells[..., 1:, :half] = rising * after + falling * before
        cells[..., :-1, half:] = (rising * before - falling * after).flip(-1)
        return cells @ self._cosines(centers)


@torch.no_grad()
def round_series(series: LocalCosineSeries, bits: int) -> tuple[LocalCosineSeries, int]:
    """Round a series to float16, or its coefficients to 8 bits without a loss that is seen.

    In 8 bits the coefficients of each frequency have a square-root scale of their own, and the
    lowest frequencies stay in float16; all stay in float16 where there are too few for scales to
    pay.

    Args:
        series: a fitted series; it is not changed.
        bits: 16 or 8.

    Returns:
        The rounded series, which computes in float32, and the bits to store it with its mask.
    """
    rounded = copy.copy(series)
    rounded._parameters = {name: nn.Parameter(p.clone()) for name, p in series.named_parameters()}
    rounded._dense = None
    values, groups = rounded.coefficients, series.frequencies
    rounded.color.copy_(rounded.color.half())
    num_bits = 16 * (series.color.numel() + series.num_index_parameters)
    # The means of cells are large, and an error of one is seen as a square.
    is_lowest = groups % (CELL * CELL) == 0
    # 8 bits each, 8 more for the lowest, and two scales of 16 bits for each frequency.
    small = 8 * len(groups) + 8 * int(is_lowest.sum()) + 2 * 16 * len(groups.unique())
    if bits == 16 or small >= 16 * len(groups):
        values.copy_(values.half())
        return rounded, num_bits + 16 * len(groups)
    root = values.abs().sqrt()
    least, largest_root = (
        root.new_zeros(int(groups.max()) + 1)
        .scatter_reduce(0, groups, root, reduction, include_self=False)
        .half()
        .float()[groups]
        for reduction in ("amin", "amax")
    )
    span = (largest_root - least).clamp(min=torch.finfo(torch.float16).tiny)
    # 127 steps between the smallest and the largest root of a frequency; the sign is the 8th bit.
    level = ((root - least) / span * _LEVELS).round().clamp(0, _LEVELS)
    restored = (least + level / _LEVELS * span).square() * values.sign()
    values.copy_(torch.where(is_lowest, values.half().float(), restored))
    return rounded, num_bits + small


def _principal_axes(image: Image) -> Float[Tensor, "4 3"]:
    """Mean color, and the axes along which the colors vary, most first."""
    mean = image.mean_color().double()
    squares = torch.zeros(3, 3, dtype=torch.float64, device=mean.device)
    for strip in strips(image.pixels):
        colors = unit_range(strip).reshape(-1, 3).double() - mean
        squares += colors.T @ colors
    return torch.cat([mean[None], torch.linalg.eigh(squares).eigenvectors.flip(1).T])
