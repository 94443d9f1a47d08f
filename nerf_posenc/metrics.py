"""Measures of how close a reconstruction is to its original."""

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


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
    # On the CPU, since not every accelerator has float64.
    difference = prediction.detach().cpu().clamp(0, 1).double()
    difference = difference - target.detach().cpu().clamp(0, 1).double()
    return psnr_from_mse(float(difference.square().mean()))


def psnr_from_mse(mse: float) -> float:
    """Convert a mean squared error, peak value 1, to dB."""
    return -10 * math.log10(mse) if mse > 0 else math.inf


def ssim(
    prediction: Float[Tensor, "height width channels"],
    target: Float[Tensor, "height width channels"],
) -> float:
    """Structural similarity (Wang et al. 2004, equation 13), mean over pixels and channels.

    Made by scikit-image (the extra ``app``) with the paper's settings: an 11 x 11 Gaussian
    window of standard deviation 1.5, K1 = 0.01, K2 = 0.03, population covariances, data
    range 1. Other settings differ by up to 0.03, so name them beside any figure.

    Args:
        prediction: picture with peak 1; clamped to [0, 1] first.
        target: the original, of the same shape.

    Returns:
        A number in [-1, 1]; NaN where a side is shorter than the window's 11 pixels.

    Raises:
        ValueError: where the shapes differ.

    Examples:
        >>> import torch
        >>> picture = torch.rand(16, 16, 3)
        >>> ssim(picture, picture)
        1.0
    """
    _require_one_shape(prediction, target)
    if min(target.shape[:2]) < 11:
        return math.nan
    # Here, because a user of the encoders alone has no scikit-image.
    from skimage.metrics import structural_similarity

    score = structural_similarity(
        target.detach().cpu().double().clamp(0, 1).numpy(),
        prediction.detach().cpu().double().clamp(0, 1).numpy(),
        channel_axis=-1,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    return float(score)


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
    powers = [
        torch.fft.fft2(values, dim=(0, 1)).abs().square().mean(-1) / (height * width) ** 2
        for values in (error, original)
    ]
    highest = float(frequencies.max()) / math.pi
    num_octaves = max(0, math.floor(math.log2(highest) + 0.5) + 1) if highest > 0 else 0
    edges = [0.0, *(2 ** (k - 0.5) * math.pi for k in range(num_octaves + 1))]
    if num_octaves == 0:
        edges = [0.0, math.inf]
    scores = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        ring = (frequencies >= low) & (frequencies < high)
        lost, energy = (float(power[ring].sum()) for power in powers)
        recovered = 1 - lost / energy if energy > 0 else math.nan
        scores.append(
            BandScore(i - 1 if i else None, low, high, psnr_from_mse(lost), energy, recovered)
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
    power = torch.fft.fft2(values, dim=(0, 1)).abs().square().mean(-1) / (height * width) ** 2
    # One cycle across the longer side is pi rad per unit.
    rings = (_angular_frequencies(height, width) / math.pi).round().long().flatten()
    num_rings = max(height, width) // 2 + 1
    inside = rings < num_rings
    total = torch.zeros(num_rings, dtype=torch.float64)
    total.index_add_(0, rings[inside], power.flatten()[inside])
    counts = torch.bincount(rings[inside], minlength=num_rings)
    chosen = (torch.arange(num_rings) > 0) & (counts > 0)
    return torch.arange(num_rings)[chosen] * math.pi, total[chosen] / counts[chosen]


def _angular_frequencies(height: int, width: int) -> Tensor:
    """Magnitude of each frequency of the discrete Fourier transform, in rad per unit."""
    vertical, horizontal = (torch.fft.fftfreq(n, dtype=torch.float64) for n in (height, width))
    cycles_a_pixel = torch.hypot(vertical[:, None], horizontal[None, :])
    return cycles_a_pixel * math.pi * max(height, width)
