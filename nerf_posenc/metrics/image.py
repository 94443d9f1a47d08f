"""Measures of how close a reconstruction is to its original."""

import functools
import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_PSNR_VALUES = 1 << 16

# Wang et al. 2004, section III-C.
_SSIM_WINDOW = 11
_SSIM_SIGMA = 1.5
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
_SSIM_TILE = 64


def psnr(prediction: Float[Tensor, "*shape"], target: Float[Tensor, "*shape"]) -> float:
    r"""Peak signal-to-noise ratio, $-10 \log_{10} \mathrm{MSE}$, in dB.

    Both are clamped to [0, 1] first; the mean runs over all values, in float64.

    Args:
        prediction: values with peak 1.
        target: values with peak 1, of the same shape.

    Returns:
        PSNR in dB; infinite where the two agree exactly.

    Raises:
        ValueError: where the shapes differ.

    Examples:
        >>> import torch
        >>> round(psnr(torch.zeros(4), torch.full((4,), 0.1)), 2)
        20.0
    """
    _require_one_shape(prediction, target)
    total = 0.0
    # On the CPU, since not every accelerator has float64, in pieces that stay in its cache.
    for x, y in zip(
        prediction.detach().cpu().flatten().split(_PSNR_VALUES),
        target.detach().cpu().flatten().split(_PSNR_VALUES),
        strict=True,
    ):
        total += float((x.clamp(0, 1).double() - y.clamp(0, 1).double()).square().sum())
    return psnr_from_mse(total / max(1, target.numel()))


def psnr_from_mse(mse: float) -> float:
    """Convert a mean squared error, peak value 1, to dB."""
    return -10 * math.log10(mse) if mse > 0 else math.inf


def ssim(
    prediction: Float[Tensor, "height width channels"],
    target: Float[Tensor, "height width channels"],
) -> float:
    r"""Structural similarity (Wang et al. 2004, equation 13), mean over pixels and channels.

    The settings are the paper's: an 11 x 11 Gaussian window of standard deviation 1.5, K1 = 0.01,
    K2 = 0.03, population covariances, data range 1, windows that lie within the image. Computed in
    float64. Other settings differ by up to 0.03, so name them beside any figure.

    Args:
        prediction: image with peak 1; clamped to [0, 1] first.
        target: the original, of the same shape.

    Returns:
        SSIM in [-1, 1]; NaN if a side is shorter than the window's 11 pixels.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> import torch
        >>> image = torch.rand(16, 16, 3)
        >>> round(ssim(image, image), 6)
        1.0
    """
    _require_one_shape(prediction, target)
    height, width, channels = target.shape
    if min(height, width) < _SSIM_WINDOW:
        return math.nan
    total = 0.0
    margin = _SSIM_WINDOW - 1
    # In tiles that stay in a CPU's cache.
    for top in range(0, height - margin, _SSIM_TILE):
        for left in range(0, width - margin, _SSIM_TILE):
            tile = (slice(top, top + _SSIM_TILE + margin), slice(left, left + _SSIM_TILE + margin))
            x, y = (
                values[tile].detach().cpu().clamp(0, 1).permute(2, 0, 1).double()
                for values in (prediction, target)
            )
            total += float(_similarity(x, y).sum())
    return total / ((height - margin) * (width - margin) * channels)


def _similarity(
    x: Float[Tensor, "channels height width"], y: Float[Tensor, "channels height width"]
) -> Float[Tensor, "channels rows columns"]:
    """SSIM of all windows that lie within the image."""
    height, width = x.shape[1:]
    # Weighted means as products with two banded matrices: faster than convolutions in float64.
    values = torch.stack([x, y, x * x, y * y, x * y])
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = (
        _window_weights(height) @ values @ _window_weights(width).mT
    ).unbind()
    square_x, square_y, product = mean_x * mean_x, mean_y * mean_y, mean_x * mean_y
    variances = mean_xx - square_x + mean_yy - square_y
    similarity = (2 * product + _SSIM_C1) * (2 * (mean_xy - product) + _SSIM_C2)
    return similarity / ((square_x + square_y + _SSIM_C1) * (variances + _SSIM_C2))


@functools.cache
def _window_weights(length: int) -> Float[Tensor, "windows length"]:
    """Gaussian weights of the values in each window along one axis."""
    offsets = torch.arange(_SSIM_WINDOW, dtype=torch.float64) - _SSIM_WINDOW // 2
    kernel = torch.exp(-0.5 * (offsets / _SSIM_SIGMA) ** 2)
    weights = torch.zeros(length - _SSIM_WINDOW + 1, length, dtype=torch.float64)
    for offset, weight in enumerate(kernel / kernel.sum()):
        weights.diagonal(offset).fill_(float(weight))
    return weights


def _require_one_shape(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ValueError(
            f"prediction and target must have one shape; got {tuple(prediction.shape)} and "
            f"{tuple(target.shape)}"
        )


@dataclass(frozen=True)
class BandScore:
    """What a reconstruction recovers of one octave of spatial frequency.

    Attributes:
        octave: k of the band around 2^k pi rad per unit; None for all below the octave 0, the
            mean included.
        low: lower bound in rad per unit, included.
        high: upper bound in rad per unit, excluded.
        psnr: -10 log10 of the mean squared error within the band, in dB. The errors of all
            bands add up to the mean squared error of the picture.
        energy: mean square of the original within the band.
        recovered: 1 - error / energy: 1 for all of the detail, 0 or less for none; NaN where
            the original has none.
    """

    octave: int | None
    low: float
    high: float
    psnr: float
    energy: float
    recovered: float


def psnr_by_band(
    prediction: Float[Tensor, "height width channels"],
    target: Float[Tensor, "height width channels"],
) -> list[BandScore]:
    r"""PSNR within each octave of spatial frequency.

    By Parseval's theorem the mean squared error is the sum of $|E(f)|^2 / N^2$ over all
    frequencies of the error's discrete Fourier transform $E$; here it is summed over rings, ring
    $k$ reaching from $2^{k-1/2} \pi$ to $2^{k+1/2} \pi$ rad per unit, around the octave $k$ of an
    encoding, where the longer side of the picture spans two units. Channels are averaged. There is
    no window, so that the parts add up; a picture whose opposite edges differ has the step between
    them in all its rings, as its error has not.

    Args:
        prediction: picture with peak 1; clamped to [0, 1] first.
        target: the original, of the same shape.

    Returns:
        All bands that the pixels can hold, the lowest first.

    Raises:
        ValueError: where the shapes differ.

    Examples:
        >>> import torch
        >>> grey = torch.full((12, 12, 3), 0.5)
        >>> [band.octave for band in psnr_by_band(grey, grey)]
        [None, 0, 1, 2, 3]
    """
    _require_one_shape(prediction, target)
    original = target.detach().cpu().double().clamp(0, 1)
    error = prediction.detach().cpu().double().clamp(0, 1) - original
    height, width, _ = original.shape
    frequencies = _angular_frequencies(height, width)
    highest = float(frequencies.max()) / math.pi
    num_octaves = max(0, math.floor(math.log2(highest) + 0.5) + 1) if highest > 0 else 0
    edges = [0.0, *(2 ** (k - 0.5) * math.pi for k in range(num_octaves + 1))]
    if num_octaves == 0:
        edges = [0.0, math.inf]
    rings = torch.bucketize(frequencies, torch.tensor(edges[1:], dtype=torch.float64), right=True)
    lost, energies = (
        torch.bincount(rings.flatten(), _power(values).flatten(), len(edges) - 1).tolist()
        for values in (error, original)
    )
    scores = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        energy = energies[i]
        recovered = 1 - lost[i] / energy if energy > 0 else math.nan
        scores.append(
            BandScore(i - 1 if i else None, low, high, psnr_from_mse(lost[i]), energy, recovered)
        )
    return scores


def power_spectrum(
    picture: Float[Tensor, "height width channels"],
) -> tuple[Float[Tensor, " rings"], Float[Tensor, " rings"]]:
    """Radially averaged power spectrum.

    Args:
        picture: values with peak 1.

    Returns:
        Angular frequencies in rad per unit, one for each whole cycle across the longer side up
        to Nyquist, and the mean power of the discrete Fourier transform's values nearest to each,
        over all channels.
    """
    values = picture.detach().cpu().double()
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
