"""The law that forecasts rest on: how much of each octave is recovered after so many steps."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nerf_posenc.analysis.texture import Detail

# Error in dB for each octave between the size of an image and that of the calibration.
_SIZE_ERROR = 4.0
# Likewise for each octave between the steps of a fit and the nearest calibrated length.
_STEPS_ERROR = 6.0
# Where the traits of an image are 0, and what counts as 1.
_ENERGY, _COHERENCE, _ALIGNMENT = (28.0, 5.0), (0.6, 0.1), (0.4, 0.15)


@dataclass(frozen=True, kw_only=True)
class TransferLaw:
    """Energy over error of each octave, in dB, as a fit with one encoding leaves it.

    It is nearly the same for all photographs. What differs is told by the energy of the octave and
    by the `Detail` of the image.

    Attributes:
        resolution: pixels along the longer side of the images that it was calibrated on.
        follows_nyquist: whether octaves count from the Nyquist frequency of the image, as the
            levels of a hash grid do, instead of from pi rad per unit.
        steps: lengths of the fits that it was calibrated on, rising.
        recovery: recovery by length and octave, dB, for the traits at which the weights are 0.
        weights: weights by length, dB for each trait of an image (see `traits`).
        settings: bands of ``"fourier"``, log2 of the sigma of ``"gaussian"``, or log2 of nodes per
            pixel of the finest level of ``"hash"``, rising; empty if none were calibrated.
        offsets: offsets by setting and octave: dB beside that of the default.
        errors: errors by length, error of the PSNR in total, dB.
        size_gain: dB more in every octave of an image half as long, each of whose pixels is drawn
            four times as often.
    """

    resolution: int
    follows_nyquist: bool
    steps: tuple[int, ...]
    recovery: tuple[tuple[float, ...], ...]
    weights: tuple[tuple[float, float, float], ...]
    settings: tuple[float, ...] = ()
    offsets: tuple[tuple[float, ...], ...] = ()
    errors: tuple[float, ...]
    size_gain: float = 0.0

    def recovered(
        self,
        energy: Sequence[float],
        detail: Detail,
        *,
        resolution: int,
        steps: int,
        setting: float | None = None,
    ) -> list[float]:
        """Energy over error of each octave after a fit, dB, 0 or more.

        Args:
            energy: energy of the image, by octave from 0 on.
            detail: energy of the detail of the image.
            resolution: pixels along its longer side.
            steps: number of steps of the fit, 1 or more; beyond the calibrated lengths the law goes
                on as a line in the logarithm of the steps.
            setting: setting of the fit, as ``settings`` has it; None for that of the calibration.
        """
        halvings = math.log2(self.resolution / resolution)
        shift = halvings if self.follows_nyquist else 0.0
        at = math.log2(steps)
        lengths = [math.log2(length) for length in self.steps]
        found = []
        for octave, part in enumerate(energy):
            by_length = [
                _interpolated(range(len(row)), row, octave + shift)
                + sum(w * t for w, t in zip(weights, traits(part, detail), strict=True))
                for row, weights in zip(self.recovery, self.weights, strict=True)
            ]
            value = _interpolated(lengths, by_length, at, extrapolate=True)
            if setting is not None and self.settings:
                rows = [_interpolated(range(len(r)), r, octave + shift) for r in self.offsets]
                value += _interpolated(self.settings, rows, setting)
            found.append(max(0.0, value + self.size_gain * halvings))
        return found

    def error(self, steps: int, resolution: int) -> float:
        """Error of the PSNR in total, dB.

        Beyond the calibrated lengths it grows by 6 dB per octave of steps, and beyond the
        calibrated size by 4 dB per octave of pixels along the longer side.

        Args:
            steps: number of steps of the fit.
            resolution: pixels along the longer side of the image.
        """
        lengths = [math.log2(length) for length in self.steps]
        at = math.log2(steps)
        beyond = max(0.0, lengths[0] - at, at - lengths[-1])
        away = abs(math.log2(self.resolution / resolution))
        return _interpolated(lengths, self.errors, at) + _STEPS_ERROR * beyond + _SIZE_ERROR * away


def traits(energy: float, detail: Detail) -> tuple[float, float, float]:
    """What tells one image from another: energy of an octave, coherence and alignment, about 0.

    Args:
        energy: mean square within the octave.
        detail: energy of the detail of the image.
    """
    level = -10 * math.log10(max(energy, 1e-12))
    values = (level, detail.coherence, detail.alignment)
    scales = (_ENERGY, _COHERENCE, _ALIGNMENT)
    first, second, third = (
        (value - zero) / one for value, (zero, one) in zip(values, scales, strict=True)
    )
    return first, second, third


def _interpolated(
    xs: Sequence[int | float], ys: Sequence[float], x: float, *, extrapolate: bool = False
) -> float:
    """Value at x of the lines between points; outside the nearest point's, or the line goes on."""
    if len(xs) == 1:
        return ys[0]
    if not extrapolate:
        x = min(max(x, xs[0]), xs[-1])
    pairs = list(itertools.pairwise(zip(xs, ys, strict=True)))
    inside = next((pair for pair in pairs if x <= pair[1][0]), pairs[-1])
    (x0, y0), (x1, y1) = inside
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
