"""How close a fitted sound is to its original: signal-to-noise ratio, whole and by octave."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.metrics.spectrum import LEAST_SHARE

_LOWEST_HZ = 20.0


def snr(
    fit: Float[Tensor, "samples channels"], original: Float[Tensor, "samples channels"]
) -> float:
    """Signal-to-noise ratio in dB: 10 log10 of the energy of the original over that of the error.

    Args:
        fit: the reconstruction.
        original: the samples that were fitted, in the same unit.

    Returns:
        inf for a perfect fit, NaN for silence that is not fitted.
    """
    return _decibels(float(original.double().square().sum()), _energy(fit, original))


def _energy(fit: Tensor, original: Tensor) -> float:
    return float((fit.double() - original.double()).square().sum())


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else math.nan


def octaves(rate: int) -> list[tuple[float, float]]:
    """Bands of one octave in Hz, from 20 Hz or below to half the sampling rate.

    Examples:
        >>> octaves(160)
        [(20.0, 40.0), (40.0, 80.0)]
    """
    high, found = rate / 2, list[tuple[float, float]]()
    while high > _LOWEST_HZ:
        found.insert(0, (high / 2, high))
        high /= 2
    return found


def snr_by_octave(
    fit: Float[Tensor, "samples channels"], original: Float[Tensor, "samples channels"], rate: int
) -> list[tuple[float, float]]:
    """Signal-to-noise ratio within each octave.

    Args:
        fit: the reconstruction.
        original: the samples that were fitted.
        rate: samples per second.

    Returns:
        Middle of each octave in Hz, on a logarithmic axis, and the ratio in dB, NaN if the original
        has nothing there, less than 1e-10 of its energy.
    """
    # By Parseval, energies of bands are sums over the squared magnitudes of the spectrum.
    signal = torch.fft.rfft(original.double(), dim=0).abs().square().sum(-1)
    noise = torch.fft.rfft(fit.double() - original.double(), dim=0).abs().square().sum(-1)
    hertz = torch.fft.rfftfreq(len(original), 1 / rate, dtype=torch.float64)
    rows, least = [], LEAST_SHARE * float(signal.sum())
    for low, high in octaves(rate):
        inside = (hertz > low) & (hertz <= high)
        energy = float(signal[inside].sum())
        # An octave that the original is silent in has no ratio.
        ratio = _decibels(energy, float(noise[inside].sum())) if energy > least else math.nan
        # The geometric mean is the middle on a logarithmic axis.
        rows.append((math.sqrt(low * high), ratio))
    return rows


def spectrogram(
    samples: Float[Tensor, "samples channels"],
    rate: int,
    *,
    width: int = 600,
    height: int = 160,
    floor: float = -90.0,
) -> Float[Tensor, "height width"]:
    """Power over time and frequency on a logarithmic axis, for a person to look at.

    Short-time Fourier transform of the mean channel with a Hann window of about 46 ms. A row is the
    largest value of its band, so that no partial is lost between two rows.

    Args:
        samples: values in [-1, 1].
        rate: samples per second.
        width: columns.
        height: rows; the lowest frequency, 40 Hz, is at the bottom.
        floor: level in dB below a full-scale sine that becomes 0.

    Returns:
        Values in [0, 1]; 1 is a full-scale sine.
    """
    mono = samples.float().mean(-1)
    window = min(1 << max(6, round(math.log2(0.046 * rate))), 1 << 14)
    window_values = torch.hann_window(window, device=mono.device)
    frames = torch.linspace(0, max(len(mono) - 1, 0), width, device=mono.device).long()
    padded = torch.nn.functional.pad(mono, (window // 2, window))
    # Windows centered on as many moments as there are columns.
    pieces = padded.unfold(0, window, 1)[frames]
    # A full-scale sine has the amplitude sum(window) / 2 in its bin.
    magnitude = torch.fft.rfft(pieces * window_values).abs() / (window_values.sum() / 2)
    edges = torch.logspace(math.log10(40), math.log10(rate / 2), height + 1, dtype=torch.float64)
    bins = (edges * (window / rate)).clamp(1, window // 2)
    rows = []
    for low, high in zip(bins[:-1].tolist(), bins[1:].tolist(), strict=True):
        first = math.floor(low)
        rows.append(magnitude[:, first : max(first + 1, math.ceil(high))].amax(-1))
    power = 20 * torch.stack(rows[::-1]).clamp(min=1e-9).log10()
    return ((power - floor) / -floor).clamp(0, 1)
