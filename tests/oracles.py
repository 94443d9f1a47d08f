"""Values that the tests compare with, from other arithmetic than the library's."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import torch
from torch import Tensor

_SINES: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {"sin": mpmath.sin, "cos": mpmath.cos}


def sine_of_octave(x: Tensor, octave: int, phase: str) -> Tensor:
    """Sine or cosine of ``pi 2^octave x`` in float64.

    ``fmod`` is exact, so that only the last product and the sine round.
    """
    turns = np.fmod(np.ldexp(x.double().numpy(), octave), 2.0)
    return torch.from_numpy(getattr(np, phase)(math.pi * turns))


def sine_of_band(x: Tensor, band: float, phase: str) -> Tensor:
    """Sine or cosine of ``band x`` with 80 digits, rounded to float64."""
    with mpmath.workdps(80):
        values = [float(_SINES[phase](mpmath.mpf(v) * mpmath.mpf(band))) for v in x.tolist()]
    return torch.tensor(values, dtype=torch.float64)
