"""Power spectra and octaves of an image and its reconstructions, also of many megapixels."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS, unit_range
from nerf_posenc.metrics.image import require_equal_shapes
from nerf_posenc.metrics.spectrum import (
    BandScore,
    band_scores,
    octave_edges,
    octave_rings,
    power_spectrum,
    psnr_by_band,
)

_STRIP_ROWS = 64
_BLOCK_COLUMNS = 256


@dataclass(frozen=True)
class Spectra:
    """Frequency content of an image and its reconstructions.

    Attributes:
        frequencies: in rad per unit.
        original: mean power of the image at each frequency.
        power: mean power of each reconstruction at each frequency.
        bands: PSNR of each reconstruction by octave.
    """

    frequencies: Float[Tensor, " rings"]
    original: Float[Tensor, " rings"]
    power: Mapping[str, Float[Tensor, " rings"]]
    bands: Mapping[str, Sequence[BandScore]]


def spectra(
    original: Shaped[Tensor, "height width channels"],
    fits: Mapping[str, Shaped[Tensor, "height width channels"]],
    *,
    most_whole: int = LARGE_PIXELS,
) -> Spectra:
    """Power spectrum and PSNR by octave of each reconstruction.

    See `power_spectrum` and `psnr_by_band`, which transform the whole image in float64. An image
    of more pixels is transformed in float32, one channel at a time and each channel in strips of
    rows, then in blocks of columns: 4 bytes per pixel for the image, and as many for a
    reconstruction. Its values are clamped to [0, 1].

    Args:
        original: image with peak 1, or of 8 or 16 bits without a sign.
        fits: reconstructions of the same shape, likewise.
        most_whole: pixels of an image that is transformed as a whole.

    Raises:
        ValueError: If the shapes differ.
    """
    for fit in fits.values():
        require_equal_shapes(fit, original)
    if original.shape[0] * original.shape[1] > most_whole:
        return _spectra_in_blocks(original, fits)
    frequencies, power = power_spectrum(original)
    return Spectra(
        frequencies,
        power,
        {name: power_spectrum(fit)[1] for name, fit in fits.items()},
        {name: psnr_by_band(fit, original) for name, fit in fits.items()},
    )


def _spectra_in_blocks(original: Tensor, fits: Mapping[str, Tensor]) -> Spectra:
    height, width, channels = original.shape
    edges = octave_edges(height, width)
    num_octaves, num_radial = len(edges) - 1, max(height, width) // 2 + 1
    radial = {name: torch.zeros(num_radial, dtype=torch.float64) for name in ("", *fits)}
    lost = {name: torch.zeros(num_octaves, dtype=torch.float64) for name in fits}
    energies = torch.zeros(num_octaves, dtype=torch.float64)
    counts = torch.zeros(num_radial, dtype=torch.float64)
    for channel in range(channels):

        def plane(rows: slice, channel: int = channel) -> Tensor:
            return _plane(original, rows, channel)

        half = _rows_transformed(plane, height, width)
        for block in _blocks(height, width):
            half[:, block.columns] = torch.fft.fft(half[:, block.columns], dim=0)
            power = block.power(half[:, block.columns])
            energies += torch.bincount(block.octaves(edges), power, num_octaves)
            radial[""] += torch.bincount(block.rings, power, num_radial)[:num_radial]
            if channel == 0:
                counts += torch.bincount(block.rings, block.weights, num_radial)[:num_radial]
        for name, fit in fits.items():

            def error(rows: slice, channel: int = channel, fit: Tensor = fit) -> Tensor:
                return _plane(fit, rows, channel) - _plane(original, rows, channel)

            error_half = _rows_transformed(error, height, width)
            for block in _blocks(height, width):
                transformed = torch.fft.fft(error_half[:, block.columns], dim=0)
                octaves = block.octaves(edges)
                lost[name] += torch.bincount(octaves, block.power(transformed), num_octaves)
                # The transform is linear.
                power = block.power(transformed + half[:, block.columns])
                radial[name] += torch.bincount(block.rings, power, num_radial)[:num_radial]
            del error_half
    scale = channels * (height * width) ** 2
    chosen = (torch.arange(num_radial) > 0) & (counts > 0)
    mean = {name: total[chosen] / counts[chosen] / scale for name, total in radial.items()}
    return Spectra(
        torch.arange(num_radial)[chosen] * math.pi,
        mean.pop(""),
        mean,
        {
            name: band_scores(edges, (lost[name] / scale).tolist(), (energies / scale).tolist())
            for name in fits
        },
    )


def _plane(image: Tensor, rows: slice, channel: int) -> Tensor:
    """Values of one channel in some rows."""
    return unit_range(image[rows, :, channel].cpu()).float().clamp(0, 1)


def _rows_transformed(values: Callable[[slice], Tensor], height: int, width: int) -> Tensor:
    """Real Fourier transform of every row."""
    half = torch.empty(height, width // 2 + 1, dtype=torch.complex64)
    for top in range(0, height, _STRIP_ROWS):
        rows = slice(top, top + _STRIP_ROWS)
        half[rows] = torch.fft.rfft(values(rows))
    return half


@dataclass(frozen=True)
class _Block:
    """Some columns of a real Fourier transform.

    Attributes:
        columns: of the half plane.
        frequencies: of their values, in rad per unit, flat.
        weights: frequencies of the whole plane that each one of the half plane stands for, flat.
        shape: rows and columns.
    """

    columns: slice
    frequencies: Tensor
    weights: Tensor

    @property
    def rings(self) -> Tensor:
        """Whole cycles across the longer side, rounded."""
        return (self.frequencies / math.pi).round().long()

    def octaves(self, edges: Sequence[float]) -> Tensor:
        """Ring of each octave."""
        return octave_rings(self.frequencies, edges)

    def power(self, transformed: Tensor) -> Tensor:
        """Power of each frequency and its negative."""
        power = transformed.real.double().square() + transformed.imag.double().square()
        return power.flatten() * self.weights


def _blocks(height: int, width: int) -> Iterator[_Block]:
    """All columns of the half plane."""
    vertical = torch.fft.fftfreq(height, dtype=torch.float64)
    horizontal = torch.fft.rfftfreq(width, dtype=torch.float64)
    weights = torch.full((width // 2 + 1,), 2.0, dtype=torch.float64)
    weights[0] = 1.0
    if width % 2 == 0:
        weights[-1] = 1.0
    for left in range(0, width // 2 + 1, _BLOCK_COLUMNS):
        columns = slice(left, left + _BLOCK_COLUMNS)
        cycles = torch.hypot(vertical[:, None], horizontal[columns][None])
        frequencies = (cycles * math.pi * max(height, width)).flatten()
        yield _Block(columns, frequencies, weights[columns].expand(height, -1).flatten())
