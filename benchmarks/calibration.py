"""Calibrate the law of forecasts on measured fits; `benchmarks.forecast` calls it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc.analysis.law import TransferLaw, traits
from nerf_posenc.analysis.texture import Detail

Values = npt.NDArray[np.float64]

RESOLUTION = 768
# Which of energy, coherence and alignment the law of an encoding uses. Bands along the axes fit
# what lies along them; Gaussian frequencies have no axes; a hash grid stores what it is given.
_USED = {"fourier": (0, 1, 1), "gaussian": (0, 1, 0), "hash": (1, 0, 0)}
# dB for an image half as long, by kodim03 and kodim09 at 384 and 128 pixels; that of gaussian is
# taken from fourier.
SIZE_GAINS = {"fourier": 6.0, "gaussian": 6.0, "hash": 14.0}
_RIDGE, _LEAST_WEIGHT = 0.5, 0.02


@dataclass(frozen=True)
class Fit:
    """A measured fit, by octave from 0 on.

    Attributes:
        energy: mean square of the image.
        recovered: energy over error, dB.
        detail: of the image.
    """

    energy: Values
    recovered: Values
    detail: Detail

    @classmethod
    def from_record(cls, record: Mapping[str, Any], detail: Detail) -> "Fit":
        """Take what a record of `benchmarks.forecast.measured` has."""
        bands = [band for band in record["bands"] if band["octave"] is not None]
        energy = np.array([band["energy"] for band in bands])
        lost = np.array([10 ** (-band["psnr"] / 10) for band in bands])
        return cls(energy, 10 * np.log10(energy / lost), detail)


def calibrated_length(
    fits: Sequence[Fit], encoding: str, known: tuple[float, float, float] | None = None
) -> tuple[tuple[float, ...], tuple[float, float, float]]:
    """Recovery by octave and weights of the traits, by ridge regression over images and octaves.

    An octave counts by its share of the error, which is what the PSNR is made of.

    Args:
        fits: fits of one length.
        encoding: encoding of all of them.
        known: weights of another length, for a length of too few fits to tell.
    """
    num_octaves = len(fits[0].energy)
    rows, values, weights = [], [], []
    for fit in fits:
        lost = fit.energy * 10 ** (-fit.recovered / 10)
        for k in range(num_octaves):
            one = np.eye(num_octaves)[k]
            of_image = np.array(traits(float(fit.energy[k]), fit.detail)) * _USED[encoding]
            rows.append(np.concatenate([one, of_image]))
            if known is not None:
                values.append(fit.recovered[k] - of_image @ known)
            else:
                values.append(fit.recovered[k])
            weights.append(lost[k] / lost.sum() + _LEAST_WEIGHT)
    x, y, w = np.array(rows), np.array(values), np.array(weights)
    ridge = _RIDGE if known is None else 1e6
    penalty = np.diag([1e-6] * num_octaves + [ridge] * 3)
    solution = np.linalg.solve(x.T @ (x * w[:, None]) + penalty, x.T @ (w * y))
    a, b, c = (round(float(value), 2) + 0.0 for value in solution[num_octaves:])
    return _rounded(solution[:num_octaves]), (a, b, c) if known is None else known


def offsets(
    sweeps: Sequence[tuple[Fit, Mapping[float, Fit]]],
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Settings, and for each the recovery by octave beside that of the default.

    Args:
        sweeps: for each image the fit with the default, and those by setting, the default among
            them.
    """
    settings = sorted(sweeps[0][1])
    rows = [
        _rounded(np.mean([fits[s].recovered - default.recovered for default, fits in sweeps], 0))
        for s in settings
    ]
    return tuple(round(setting, 3) for setting in settings), tuple(rows)


def psnr(fit: Fit, law: TransferLaw, steps: int, *, resolution: int = RESOLUTION) -> float:
    """Forecast of a fit with default settings on an image so many pixels long, dB."""
    energy = fit.energy.tolist()
    recovered = law.recovered(energy, fit.detail, resolution=resolution, steps=steps)
    lost = [e * 10 ** (-r / 10) for e, r in zip(energy, recovered, strict=True)]
    return -10 * math.log10(math.fsum(lost))


def measured_psnr(fit: Fit) -> float:
    """PSNR of a fit over all octaves, dB."""
    return -10 * math.log10(float((fit.energy * 10 ** (-fit.recovered / 10)).sum()))


def write(path: Path, laws: Mapping[str, TransferLaw]) -> None:
    """Write the laws as a module."""
    lines = [
        '"""Calibration of forecasts, written by ``python -m benchmarks.forecast``."""',
        "",
        "from nerf_posenc.analysis.law import TransferLaw",
        "",
        "LAWS = {",
    ]
    for encoding, law in laws.items():
        lines.append(f'    "{encoding}": TransferLaw(')
        lines += [f"        {each.name}={getattr(law, each.name)!r}," for each in fields(law)]
        lines.append("    ),")
    lines += ["}", '"""Law of each encoding that can be forecast."""', ""]
    path.write_text("\n".join(lines))


def _rounded(values: Values) -> tuple[float, ...]:
    return tuple(round(float(value), 2) + 0.0 for value in values)
