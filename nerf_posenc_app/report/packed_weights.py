"""Weights of a fitted image in the fewest bits that leave its pixels as they are.

All weights of a fit are rounded to integers of a few bits, times a scale for each row of a
matrix or level of a grid. The browser decodes what `pack` lays out:

```text
floats   float32, little-endian: what is not rounded, then the scales
high     int8: the upper 8 bits of each number
low      the remaining bits of each number, packed
```

compressed by zlib. With 32 bits the weights themselves stand after the floats.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.fits import ImageFit

if TYPE_CHECKING:
    from jaxtyping import Float

TOLERANCE = 0.45 / 255
"""Largest difference to the exact fit: less than half a step of 8 bits, so that a pixel in 8 bits
is off by one step at most."""

_BITS = range(8, 17)
_EXACT = 32
_CHUNK = 4096
_MOST_POINTS = 1 << 18
_POINTS_BETWEEN = 1 << 13
_POINTS_PER_BAND = 1 << 9


@dataclass(frozen=True)
class PackedFit:
    """A fit's weights for the page.

    Attributes:
        bits: per weight; 32 are unrounded numbers.
        difference: largest one to the exact fit, of values in [0, 1].
        data: compressed bytes.
    """

    bits: int
    difference: float
    data: bytes


def pack_fit(fit: ImageFit, exact: Sequence[Tensor]) -> PackedFit:
    """Pack a fit in the fewest bits that keep it within ``TOLERANCE``.

    Checked at the centers of the pixels, between them, and for the Fourier encoding also with its
    upper bands off.

    Args:
        fit: a ReLU network, after a grid or an encoding without weights.
        exact: numbers to put before the scales in float32, unrounded.
    """
    points = _checked_points(fit)
    with torch.no_grad():
        reference = list(_outputs(fit.encoder, fit.network, points))
        for bits in _BITS:
            difference = _difference(*_rounded_fit(fit, bits), points, reference)
            if difference is not None:
                return PackedFit(bits, difference, pack(weight_rows(fit), exact, bits))
    return PackedFit(_EXACT, 0.0, pack(weight_rows(fit), exact, _EXACT))


def pack(rows: Sequence[Tensor], exact: Sequence[Tensor], bits: int) -> bytes:
    """Lay weights out as the module's text says.

    Args:
        rows: weights that share a scale, row by row.
        exact: numbers that are not rounded.
        bits: per weight, 8 to 16 or 32.
    """
    unrounded = torch.cat([part.detach().flatten().double() for part in exact])
    if bits == _EXACT:
        values = torch.cat([unrounded, *(row.double() for row in rows)])
        return zlib.compress(values.numpy().astype("<f4").tobytes(), 9)
    parts = [_whole_numbers(row, bits) for row in rows]
    scales = torch.stack([scale for _, scale in parts]).double()
    numbers = torch.cat([number for number, _ in parts]).numpy().astype(np.int32)
    floats = torch.cat([unrounded, scales]).numpy().astype("<f4").tobytes()
    num_low = bits - 8
    high = (numbers >> num_low).astype(np.int8).tobytes()
    each = (numbers[:, None] >> np.arange(num_low)) & 1
    low = np.packbits(each.astype(np.uint8).reshape(-1), bitorder="little").tobytes()
    return zlib.compress(floats + high + low, 9)


def weight_rows(fit: ImageFit) -> list[Tensor]:
    """Weights that share a scale: levels of a grid, then rows of each linear layer."""
    rows: list[Tensor] = []
    if isinstance(fit.encoder, HashGridEncoder):
        rows += [level.detach().flatten() for level in fit.encoder.tables]
    for layer in linear_layers(fit.network):
        rows += list(layer.weight.detach().unbind())
    return rows


def linear_layers(network: nn.Module) -> list[nn.Linear]:
    """Linear layers from input to output."""
    return [module for module in network.modules() if isinstance(module, nn.Linear)]


def _whole_numbers(row: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Integers of the given number of bits, and the float32 scale that gives the row back."""
    most = 2 ** (bits - 1) - 1
    scale = (row.abs().max() / most).clamp(min=1e-30)
    return (row / scale).round().clamp(-most, most), scale


@torch.no_grad()
def _rounded_fit(fit: ImageFit, bits: int) -> tuple[nn.Module, nn.Module]:
    """The encoder and the network that the browser decodes."""
    encoder, network = copy.deepcopy(fit.encoder), copy.deepcopy(fit.network)
    rounded = ImageFit(encoder, network, fit.options, fit.size, fit.step, fit.num_steps)
    # The rows are views of the copies' weights.
    for row in weight_rows(rounded):
        numbers, scale = _whole_numbers(row, bits)
        row.copy_(numbers * scale)
    return encoder, network


_Points = list[tuple[Tensor, int | None]]


def _checked_points(fit: ImageFit) -> _Points:
    """Chunks of points in random order, with the number of bands that are on; None for all."""
    generator = torch.Generator().manual_seed(0)
    width, height = fit.size
    count = width * height
    if count <= _MOST_POINTS:
        order = torch.randperm(count, generator=generator)
    else:
        order = torch.randint(count, (_MOST_POINTS,), generator=generator)
    centers = torch.stack((order % width, order // width), dim=-1) + 0.5
    between = torch.rand(_POINTS_BETWEEN, 2, generator=generator) * torch.tensor(fit.size)
    pixels = torch.cat((centers, between)).double()
    x = ((pixels - torch.tensor(fit.size) / 2) * (2 / max(fit.size))).float()
    masks: list[int | None] = [None]
    if isinstance(fit.encoder, FourierEncoder):
        masks += list(range(fit.encoder.num_bands))
    few = x[:_POINTS_PER_BAND]
    return [(few, mask) for mask in masks[1:]] + [(chunk, None) for chunk in x.split(_CHUNK)]


def _outputs(
    encoder: nn.Module, network: nn.Module, points: _Points
) -> Iterator[Float[Tensor, "_points 3"]]:
    for x, bands in points:
        if bands is None:
            yield network(encoder(x))
        else:
            assert isinstance(encoder, FourierEncoder)
            yield network(encoder(x, weight=(torch.arange(encoder.num_bands) < bands).float()))


def _difference(
    encoder: nn.Module, network: nn.Module, points: _Points, reference: Sequence[Tensor]
) -> float | None:
    """Largest difference; None as soon as it is over the tolerance."""
    largest = 0.0
    for rgb, expected in zip(_outputs(encoder, network, points), reference, strict=True):
        largest = max(largest, float((rgb - expected).abs().max()))
        # Written so that NaN exceeds the tolerance too.
        if not largest <= TOLERANCE:
            return None
    return largest
