"""Spokes whose frequency grows toward the middle of the image (Siemens star).

At the radius r from the middle, 48 sines around have 48 / (2 pi r) cycles per unit.
"""

import math

import torch
from torch import Tensor

from nerf_posenc.core.grids import grid_positions
from nerf_posenc.core.sinusoids import sincos

SPOKES = 48.0


def image(size: int = 512) -> Tensor:
    """Star of ``size`` pixels across [-1, 1].

    It is gray beyond the radius 1, and within the radius where the spokes reach the frequency of
    Nyquist, ``size / 4`` cycles per unit.
    """
    x, y = grid_positions((size, size), units="longer", xy=True).unbind(-1)
    radius, angle = torch.hypot(x, y), torch.atan2(y, x)
    waves = sincos(angle[..., None], torch.tensor([SPOKES], dtype=torch.float64))[..., 1]
    innermost = SPOKES / (2 * math.pi * size / 4)
    is_shown = (radius >= innermost) & (radius <= 1)
    return torch.where(is_shown, 0.5 + 0.5 * waves, 0.5)
