"""PSNR by octave of spatial frequency, and power spectra, also of many megapixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS, unit_range
from nerf_posenc.metrics.image import psnr_from_mse, require_equal_shapes

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

# Rows that are transformed at once, then columns.
_STRIP_ROWS = 64
_BLOCK_COLUMNS = 256
LEAST_SHARE = 1e-10
"""Bands with a smaller share of the energy hold rounding errors alone."""


@dataclass(frozen=True)
class BandScore:
    """PSNR of a reconstruction within one octave of spatial frequency.

    Attributes:
        octave: k of the ring around 2^k pi rad per unit; None for all frequencies below
            octave 0, including the mean.
        low: lower bound in rad per unit, included.
        high: upper bound in rad per unit, excluded.
        psnr: -10 log10 of the mean squared error within the ring, in dB. The errors of all
            rings add up to the mean squared error of the image.
        energy: mean square of the original within the ring.
        recovered: 1 - error / energy: 1 for all of the detail, 0 or less for none; NaN if
            the original has none, less than 1e-10 of its energy.
    """

    octave: int | None
    low: float
    high: float
    psnr: float
    energy: float
    recovered: float


def psnr_by_band(
    prediction: Shaped[Tensor, "height width channels"],
    target: Shaped[Tensor, "height width channels"],
) -> list[BandScore]:
    r"""PSNR within each octave of spatial frequency.

    By Parseval's theorem the mean squared error is the sum of $|E(f)|^2 / N^2$ over all
    frequencies of the error's discrete Fourier transform $E$; here it is summed over rings, ring
    $k$ from $2^{k-1/2} \pi$ to $2^{k+1/2} \pi$ rad per unit, around band $k$ of an encoding, where
    the longer side of the image spans two units. Channels are averaged. No window is applied, so
    that the parts add up; if opposite edges of the original differ, the step between them
    contributes to the energy of all rings.

    Args:
        prediction: image with peak 1, clamped to [0, 1] first, or of 8 or 16 bits without a sign.
        target: the original, of the same shape, likewise.

    Returns:
        All rings up to the highest frequency of the pixels, the lowest first.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> import torch
        >>> gray = torch.full((12, 12, 3), 0.5)
        >>> [band.octave for band in psnr_by_band(gray, gray)]
        [None, 0, 1, 2, 3]
    """
    return spectra(target, {"": prediction}).bands[""]


def octave_edges(height: int, width: int) -> list[float]:
    r"""Bounds of the octave rings of a pixel grid, in rad per unit.

    Args:
        height: rows.
        width: columns; the longer side spans two units.

    Returns:
        0, then $2^{k-1/2} \pi$ for each octave k up to the highest frequency of the grid, the last
        one included; ``[0, inf]`` for a grid of one pixel.
    """
    cycles = [size // 2 / size for size in (height, width)]
    highest = math.hypot(*cycles) * max(height, width)
    if highest == 0:
        return [0.0, math.inf]
    # The corners of 3 x 3 and 5 x 5 pixels lie on a bound, of which rounding must not fall short.
    num_octaves = max(0, math.floor(math.log2(highest) + 0.5 + 1e-9) + 1)
    return [0.0, *(2 ** (k - 0.5) * math.pi for k in range(num_octaves + 1))]


def nyquist_frequency(height: int, width: int) -> float:
    """Highest angular frequency of a pixel grid in rad per unit: half a cycle per pixel.

    Args:
        height: rows.
        width: columns; the longer side spans two units.

    Examples:
        >>> nyquist_frequency(16, 64) / math.pi
        32.0
    """
    return math.pi * max(height, width) / 2


def power_spectrum(
    image: Shaped[Tensor, "height width channels"],
) -> tuple[Float[Tensor, " rings"], Float[Tensor, " rings"]]:
    """Radially averaged power spectrum.

    Args:
        image: values with peak 1, or 8 or 16 bits without a sign.

    Returns:
        Angular frequencies in rad per unit, one per integer number of cycles across the longer
        side up to Nyquist, and at each the mean power of the nearest values of the discrete
        Fourier transform, over all channels.
    """
    num_rings = max(image.shape[:2]) // 2 + 1
    power, counts = torch.zeros(2, num_rings, dtype=torch.float64)
    for block in _blocks(lambda rows, channel: _plane(image, rows, channel), image.shape):
        ring = block.cycles.round().long()
        power += torch.bincount(ring, block.power, num_rings)[:num_rings]
        counts += torch.bincount(ring, block.weight, num_rings)[:num_rings]
    chosen = (torch.arange(num_rings) > 0) & (counts > 0)
    # One cycle across the longer side is pi rad per unit. The sum over channels counts each
    # frequency once for every channel.
    mean = power[chosen] / counts[chosen] * image.shape[2]
    return torch.arange(num_rings)[chosen] * math.pi, mean


@dataclass(frozen=True)
class Spectra:
    """Frequency content of an image and its reconstructions.

    Attributes:
        frequencies: angular frequencies in rad per unit.
        original: mean power of the image at each frequency.
        power: mean power of each reconstruction at each frequency.
        bands: PSNR of each reconstruction by octave.
    """

    frequencies: Float[Tensor, " rings"]
    original: Float[Tensor, " rings"]
    power: Mapping[str, Float[Tensor, " rings"]]
    bands: Mapping[str, list[BandScore]]


def spectra(
    original: Shaped[Tensor, "height width channels"],
    fits: Mapping[str, Shaped[Tensor, "height width channels"]],
) -> Spectra:
    """Power spectrum (`power_spectrum`) and PSNR by octave (`psnr_by_band`) of reconstructions.

    Args:
        original: image with peak 1, or of 8 or 16 bits without a sign.
        fits: reconstructions of the same shape, likewise, by name.

    Raises:
        ValueError: If the shapes differ.
    """
    for fit in fits.values():
        require_equal_shapes(fit, original)
    frequencies, power = power_spectrum(original)
    energies = _energy_by_octave(partial(_clamped, original), original.shape)
    return Spectra(
        frequencies,
        power,
        {name: power_spectrum(fit)[1] for name, fit in fits.items()},
        {name: _scores(fit, original, energies) for name, fit in fits.items()},
    )


def _scores(fit: Tensor, original: Tensor, energies: Sequence[float]) -> list[BandScore]:
    """Scores of a reconstruction by octave, of an image with so much energy in each."""

    def difference(rows: slice, channel: int) -> Tensor:
        return _clamped(fit, rows, channel) - _clamped(original, rows, channel)

    shape = original.shape
    octaves = itertools.pairwise(octave_edges(shape[0], shape[1]))
    rings = zip(octaves, _energy_by_octave(difference, shape), energies, strict=True)
    least = LEAST_SHARE * sum(energies)
    return [
        BandScore(
            octave=k - 1 if k else None,
            low=low,
            high=high,
            psnr=psnr_from_mse(lost),
            energy=energy,
            # 1 is the original, 0 is as good as nothing there.
            recovered=1 - lost / energy if energy > least else math.nan,
        )
        for k, ((low, high), lost, energy) in enumerate(rings)
    ]


# Values of one channel in some rows of an image.
_Values = Callable[[slice, int], Tensor]


def _plane(image: Tensor, rows: slice, channel: int) -> Tensor:
    return unit_range(image[rows, :, channel].detach().cpu()).double()


def _clamped(image: Tensor, rows: slice, channel: int) -> Tensor:
    return _plane(image, rows, channel).clamp(0, 1)


def _energy_by_octave(values: _Values, shape: torch.Size) -> list[float]:
    edges = octave_edges(shape[0], shape[1])
    upper = torch.tensor(edges[1:], dtype=torch.float64)
    energy = torch.zeros(len(upper), dtype=torch.float64)
    for block in _blocks(values, shape):
        ring = torch.bucketize(block.cycles * math.pi, upper, right=True)
        energy += torch.bincount(ring, block.power, len(upper))
    return energy.tolist()


class _Block(NamedTuple):
    """Some columns of the half plane of frequencies that a real Fourier transform has, flat.

    Attributes:
        cycles: magnitude of each frequency, in cycles across the longer side.
        power: power of each frequency and its negative; the sum over all blocks is the mean square
            of the values, by Parseval's theorem.
        weight: number of frequencies of the whole plane that each one stands for: 2, or 1 in the
            columns of frequency 0 and Nyquist, which hold their own negatives.
    """

    cycles: Tensor
    power: Tensor
    weight: Tensor


def _blocks(values: _Values, shape: torch.Size) -> Iterator[_Block]:
    """Transform an image one channel at a time: all rows, then blocks of columns.

    In float64, or in float32 for an image of many megapixels; besides the image, memory is needed
    for half a channel of complex numbers.
    """
    height, width, channels = shape
    real = torch.float32 if height * width > LARGE_PIXELS else torch.float64
    vertical = torch.fft.fftfreq(height, dtype=torch.float64)
    horizontal = torch.fft.rfftfreq(width, dtype=torch.float64)
    # A real transform leaves out the conjugates: each column stands for two, but for frequency 0
    # and the Nyquist frequency of an even width.
    weight = torch.full((width // 2 + 1,), 2.0, dtype=torch.float64)
    weight[0] = 1.0
    if width % 2 == 0:
        weight[-1] = 1.0
    half = torch.empty(height, width // 2 + 1, dtype=real.to_complex())
    for channel in range(channels):
        for top in range(0, height, _STRIP_ROWS):
            rows = slice(top, top + _STRIP_ROWS)
            half[rows] = torch.fft.rfft(values(rows, channel).to(real))
        for left in range(0, width // 2 + 1, _BLOCK_COLUMNS):
            columns = slice(left, left + _BLOCK_COLUMNS)
            transformed = torch.fft.fft(half[:, columns], dim=0)
            power = transformed.real.double().square() + transformed.imag.double().square()
            # From cycles per pixel to cycles across the longer side.
            cycles = torch.hypot(vertical[:, None], horizontal[columns]) * max(height, width)
            stands_for = weight[columns].expand(height, -1)
            scale = stands_for / (channels * (height * width) ** 2)
            yield _Block(cycles.flatten(), (power * scale).flatten(), stands_for.flatten())
