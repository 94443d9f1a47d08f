"""Sparse local cosine series: windowed cosines per cell, of which only the largest are kept."""

import lzma
import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from nerf_posenc.core.sinusoids import SinCos

CELL = 8
"""Pixels along the side of a cell, and cosines per axis in it."""

_BITS_PER_WORD = 16
# An image file has at most 200 megapixels unless the user says otherwise.
_MOST_PIXELS = 1 << 28


class LocalCosineSeries(nn.Module):
    r"""RGB at any coordinate as a sparse sum of windowed cosines.

    The image is divided into cells of 8 x 8 pixels. At distance $u$ in pixels from the left edge of
    its cell, an axis has the functions $\sqrt{2/8}\, w(u) \cos(\pi (k + 1/2) u / 8)$,
    $k = 0 \dots 7$, which extend half a cell into both neighbors, where the window $w$ falls as a
    sine (Malvar 1990, "Lapped transforms for efficient transform/subband coding", modulated
    lapped transform; Coifman and Meyer 1991). Products of two axes' functions are orthonormal on
    the pixels, so that the best coefficients need no training, and the best ones to keep are the
    largest. Colors are in the principal axes of the image's own.

    A new series is empty; `fit` or a state dict gives it coefficients. Which ones are kept is
    stored as a compressed bit mask, and counts as parameters of 16 bits.

    Examples:
        >>> series = LocalCosineSeries()
        >>> rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(24.0), indexing="ij")
        >>> image = (rows / 40 + columns / 80)[..., None].expand(-1, -1, 3)
        >>> coordinates = torch.stack([columns, rows], dim=-1)
        >>> series.fit(image, coordinates, num_parameters=200)
        >>> bool((series(coordinates) - image).abs().max() < 0.01)
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
        return _num_words(self.mask.numel()) + self.size.numel() + self.grid.numel()

    @property
    def frequencies(self) -> Int[Tensor, " kept"]:
        """Number of each coefficient's color and pair of cosines, 0 ... 191.

        Multiples of 64 are the lowest of a color: the mean of a cell, nearly.
        """
        per_row = math.prod(self.cells) * CELL
        return self._positions // per_row * CELL + self._positions % CELL

    @torch.no_grad()
    def fit(
        self,
        rgb: Float[Tensor, "height width 3"],
        coordinates: Float[Tensor, "height width 2"],
        num_parameters: int,
    ) -> None:
        """Find the best series of so many parameters, in closed form.

        Args:
            rgb: values in [0, 1].
            coordinates: (x, y) of the pixel centers, evenly spaced, the same along both axes.
            num_parameters: at most so many, the mask's among them.

        Raises:
            ValueError: If that is too few for a single coefficient.
        """
        height, width, _ = rgb.shape
        device = self.coefficients.device
        self.size = torch.tensor([height, width], device=device)
        self.cells = math.ceil(height / CELL), math.ceil(width / CELL)
        spacing = (coordinates[-1, -1] - coordinates[0, 0]).max() / max(1, max(height, width) - 1)
        spacing = spacing if spacing > 0 else torch.ones_like(spacing)
        self.grid = torch.stack([*coordinates[0, 0], spacing]).to(device, torch.float32)
        flat = rgb.reshape(-1, 3).double()
        mean = flat.mean(0)
        axes = torch.linalg.eigh((flat - mean).T @ (flat - mean)).eigenvectors.flip(1).T
        self.color.data = torch.cat([mean[None], axes]).to(device, torch.float32)
        values = self._analyze(((rgb - mean.float()) @ axes.float().T).to(device))
        others = self.color.numel() + self.size.numel() + self.grid.numel()
        mask = _choose(values, num_parameters - others)
        if mask is None:
            raise ValueError(f"{num_parameters} parameters are too few for a local cosine series")
        self._set_mask(mask)
        kept = values.reshape(-1)[self._positions.to(device)]
        self.coefficients, self._dense = nn.Parameter(kept), None

    def forward(self, x: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
        """RGB at coordinates; those outside the image are moved to its edge.

        Raises:
            ValueError: If the series was neither fitted nor loaded.
        """
        if not all(self.cells):
            raise ValueError("the local cosine series is empty; fit it or load a state dict")
        position = (x.reshape(-1, 2) - self.grid[:2]) / self.grid[2] + 0.5
        cells_down, cells_across = self.cells
        columns, across = self._functions(position[:, 0], cells_across)
        rows, down = self._functions(position[:, 1], cells_down)
        dense = self._dense_coefficients().permute(2, 3, 0, 1, 4)
        total = x.new_zeros(position.shape[0], 3)
        for row, down_values in zip(rows, down, strict=True):
            for column, across_values in zip(columns, across, strict=True):
                nearby = dense[row, column].reshape(-1, 3 * CELL, CELL)
                along = (nearby @ across_values[..., None]).reshape(-1, 3, CELL)
                total = total + (along @ down_values[..., None]).squeeze(-1)
        return (total @ self.color[1:] + self.color[0]).reshape(*x.shape[:-1], 3)

    def _functions(
        self, position: Float[Tensor, " n"], cells: int
    ) -> tuple[Int[Tensor, "2 n"], Float[Tensor, "2 n 8"]]:
        """The two cells along an axis that reach a position, and their functions there."""
        position = position.clamp(0, cells * CELL)
        edge = (position / CELL).round()
        offset = position - edge * CELL
        rising, falling = self.window(offset[:, None] + CELL / 2).unbind(-1)
        # Nothing lies beyond the first and the last cell, and nothing falls off towards it.
        is_first, is_last = edge == 0, edge == cells
        rising = torch.where(is_last, 0.0, torch.where(is_first, 1.0, rising))
        falling = torch.where(is_first, 0.0, torch.where(is_last, 1.0, falling))
        before, after = self._cosines(offset + CELL), self._cosines(offset)
        index = edge.long()
        return (
            torch.stack([(index - 1).clamp(min=0), index.clamp(max=cells - 1)]),
            torch.stack([falling[:, None] * before, rising[:, None] * after]),
        )

    def _cosines(self, offset: Float[Tensor, " n"]) -> Float[Tensor, "n 8"]:
        """Cosines of one cell at distances from its left edge, without the window."""
        values: Tensor = self.cosines(offset[:, None])
        return math.sqrt(2 / CELL) * values[:, CELL:]

    def _dense_coefficients(self) -> Float[Tensor, "3 8 down across 8"]:
        """All coefficients, zeros included; kept while they do not change."""
        version = self.coefficients._version, self.coefficients.device, self.coefficients.dtype
        tracks = torch.is_grad_enabled() and self.coefficients.requires_grad
        if not tracks and self._dense is not None and self._dense[0] == version:
            return self._dense[1]
        zeros = self.coefficients.new_zeros(3 * CELL * CELL * math.prod(self.cells))
        dense = zeros.scatter(0, self._positions.to(zeros.device), self.coefficients)
        dense = dense.reshape(3, CELL, *self.cells, CELL)
        self._dense = None if tracks else (version, dense)
        return dense

    def _analyze(
        self, values: Float[Tensor, "height width 3"]
    ) -> Float[Tensor, "3 8 down across 8"]:
        """Inner products of an image with all functions."""
        down, across = self.cells
        height, width, _ = values.shape
        padding = (0, across * CELL - width, 0, down * CELL - height)
        padded = nn.functional.pad(values.permute(2, 0, 1), padding, mode="replicate")
        along = self._analyze_axis(padded).reshape(3, down * CELL, across * CELL).mT
        both = self._analyze_axis(along).reshape(3, across, CELL, down, CELL)
        return both.permute(0, 4, 3, 1, 2).contiguous()

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

    def _set_mask(self, mask: Bool[Tensor, " functions"]) -> None:
        """Keep the coefficients of a mask."""
        packed = np.frombuffer(_compressed(mask), dtype=np.uint8).copy()
        self.mask = torch.from_numpy(packed).to(self.coefficients.device)
        self._positions = mask.nonzero().squeeze(1)

    def __getstate__(self) -> dict[str, Any]:
        # The coefficients of a copy may be changed as often as these were.
        return {**self.__dict__, "_dense": None}

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # The number of coefficients is the checkpoint's, not this module's.
        device = self.coefficients.device
        coefficients, mask = state_dict[prefix + "coefficients"], state_dict[prefix + "mask"]
        self.coefficients = nn.Parameter(torch.empty_like(coefficients, device=device))
        self.mask = torch.empty_like(mask, device=device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        height, width = (int(side) for side in self.size)
        if not (min(height, width) >= 1 and height * width <= _MOST_PIXELS):
            raise ValueError(f"a local cosine series cannot be of {width} x {height} pixels")
        self.cells = math.ceil(height / CELL), math.ceil(width / CELL)
        self._positions = _positions(self.mask, 3 * CELL * CELL * math.prod(self.cells))
        if self._positions.shape != self.coefficients.shape:
            raise ValueError(
                f"the mask of a local cosine series keeps {len(self._positions)} coefficients and "
                f"there are {len(self.coefficients)}"
            )
        self._dense = None


def _choose(values: Float[Tensor, "*shape"], budget: int) -> Bool[Tensor, " functions"] | None:
    """Mask of the largest coefficients that fit into a budget together with the mask itself."""
    magnitudes = values.abs().reshape(-1)
    descending = magnitudes.sort(descending=True).values
    best: Tensor | None = None
    # So many fit, and so many are too many.
    fits, too_many = 0, min(budget, len(descending)) + 1
    most = too_many - 1
    while most > fits and (best is None or too_many - fits > budget // 1000 + 1):
        mask = (magnitudes >= descending[most - 1]).cpu()
        mask[mask.nonzero().squeeze(1)[most:]] = False
        words = _num_words(len(_compressed(mask)))
        if most + words <= budget:
            best, fits = mask, most
        else:
            too_many = most
        # The mask of nearly as many is nearly as large.
        most = budget - words
        if not fits < most < too_many:
            most = (fits + too_many) // 2
    return best


def _num_words(num_bytes: int) -> int:
    return math.ceil(num_bytes * 8 / _BITS_PER_WORD)


def _filters(num_bytes: int) -> list[dict[str, int]]:
    """LZMA for a mask of so many bytes: with the memory that it needs, and no more."""
    return [
        {
            "id": lzma.FILTER_LZMA2,
            "preset": 9 | lzma.PRESET_EXTREME,
            "dict_size": max(1 << 12, num_bytes),
            # Bits that belong together lie in neighboring bytes: contexts by bytes only dilute.
            "lc": 0,
            "lp": 0,
            "pb": 0,
        }
    ]


def _compressed(mask: Bool[Tensor, " functions"]) -> bytes:
    packed = np.packbits(mask.numpy()).tobytes()
    return lzma.compress(packed, format=lzma.FORMAT_RAW, filters=_filters(len(packed)))


def _positions(packed: UInt8[Tensor, " bytes"], count: int) -> Int[Tensor, " kept"]:
    """Positions of the ones in a compressed mask of so many bits.

    Raises:
        ValueError: If it is damaged.
    """
    size = math.ceil(count / 8)
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=_filters(size))
    try:
        data = decoder.decompress(packed.cpu().numpy().tobytes(), max_length=size + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"the mask of a local cosine series is damaged: {error}") from None
    if len(data) != size:
        raise ValueError(
            f"the mask of a local cosine series has {len(data)} bytes and must have {size}"
        )
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count)
    return torch.from_numpy(np.flatnonzero(bits))
