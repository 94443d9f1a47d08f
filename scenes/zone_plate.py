"""Rings cos(c r^2) whose frequency grows with the radius r (zone plate).

At the radius r they have c r / pi cycles per unit, and at r = 1 the frequency of Nyquist.
"""

import math

import torch
from torch import Tensor

from nerf_posenc.core.grids import grid_positions
from nerf_posenc.core.sinusoids import sincos


def image(size: int = 512) -> Tensor:
    """Rings of ``size`` pixels across [-1, 1], gray beyond the radius 1."""
    x, y = grid_positions((size, size), units="longer", xy=True).unbind(-1)
    radius = torch.hypot(x, y)
    # Nyquist's frequency is size / 4 cycles per unit.
    band = torch.tensor([math.pi * size / 4], dtype=torch.float64)
    rings = sincos(radius.square()[..., None], band)[..., 1]
    return torch.where(radius <= 1, 0.5 + 0.5 * rings, 0.5)
