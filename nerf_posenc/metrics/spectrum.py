"""PSNR by octave of spatial frequency, and power spectra."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from nerf_posenc.images import unit_range
from nerf_posenc.metrics.image import psnr_from_mse, require_equal_shapes


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
            the original has none.
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
    require_equal_shapes(prediction, target)
    original = unit_range(target.detach().cpu()).double().clamp(0, 1)
    error = unit_range(prediction.detach().cpu()).double().clamp(0, 1) - original
    height, width, _ = original.shape
    edges = octave_edges(height, width)
    lost, energies = energy_by_octave(error), energy_by_octave(original)
    return band_scores(edges, lost, energies)


def octave_rings(frequencies: Tensor, edges: Sequence[float]) -> Tensor:
    """Ring of each frequency in rad per unit."""
    upper = torch.tensor(edges[1:], dtype=torch.float64)
    return torch.bucketize(frequencies, upper, right=True)


def band_scores(
    edges: Sequence[float], lost: Sequence[float], energies: Sequence[float]
) -> list[BandScore]:
    """Scores of all rings.

    Args:
        edges: of the rings.
        lost: mean squared error within each.
        energies: mean square of the original within each.
    """
    scores = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        error, energy = lost[i], energies[i]
        recovered = 1 - error / energy if energy > 0 else math.nan
        scores.append(
            BandScore(i - 1 if i else None, low, high, psnr_from_mse(error), energy, recovered)
        )
    return scores


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
    num_octaves = max(0, math.floor(math.log2(highest) + 0.5) + 1)
    return [0.0, *(2 ** (k - 0.5) * math.pi for k in range(num_octaves + 1))]


def energy_by_octave(values: Float[Tensor, "height width channels"]) -> list[float]:
    """Mean square of an image, or of an error, within each ring of `octave_edges`.

    Args:
        values: any; their mean square is the sum over the rings, by Parseval's theorem.

    Returns:
        One number per ring, the lowest first, which holds the mean.
    """
    height, width, _ = values.shape
    edges = octave_edges(height, width)
    frequencies = _angular_frequencies(height, width)
    rings = octave_rings(frequencies, edges)
    power = _power(values.detach().cpu().double())
    return torch.bincount(rings.flatten(), power.flatten(), len(edges) - 1).tolist()


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
        Angular frequencies in rad per unit, one per whole cycle across the longer side up to
        Nyquist, and at each the mean power of the discrete Fourier transform's nearest values,
        over all channels.
    """
    values = unit_range(image.detach().cpu()).double()
    height, width, _ = values.shape
    # One cycle across the longer side is pi rad per unit.
    rings = (_angular_frequencies(height, width) / math.pi).round().long().flatten()
    num_rings = max(height, width) // 2 + 1
    total = torch.bincount(rings, _power(values).flatten(), num_rings)[:num_rings]
    counts = torch.bincount(rings, _multiplicity(height, width).flatten(), num_rings)[:num_rings]
    chosen = (torch.arange(num_rings) > 0) & (counts > 0)
    return torch.arange(num_rings)[chosen] * math.pi, total[chosen] / counts[chosen]


def _power(values: Tensor) -> Tensor:
    """Power at each frequency of the half plane, with that of its negative, mean over channels.

    The sum is the mean square of the values, by Parseval's theorem.
    """
    height, width, channels = values.shape
    power = torch.zeros(height, width // 2 + 1, dtype=torch.float64)
    for channel in values.unbind(-1):
        transformed = torch.fft.rfft2(channel)
        power += transformed.real.square() + transformed.imag.square()
    return power * (_multiplicity(height, width) / (channels * (height * width) ** 2))


def _multiplicity(height: int, width: int) -> Tensor:
    """Number of frequencies of the whole plane that each one of the half plane stands for."""
    column = torch.full((width // 2 + 1,), 2.0, dtype=torch.float64)
    column[0] = 1.0
    if width % 2 == 0:
        column[-1] = 1.0
    return column.expand(height, -1)


def _angular_frequencies(height: int, width: int) -> Tensor:
    """Magnitude of each frequency of the real Fourier transform, in rad per unit."""
    vertical = torch.fft.fftfreq(height, dtype=torch.float64)
    horizontal = torch.fft.rfftfreq(width, dtype=torch.float64)
    cycles_per_pixel = torch.hypot(vertical[:, None], horizontal[None, :])
    return cycles_per_pixel * math.pi * max(height, width)
