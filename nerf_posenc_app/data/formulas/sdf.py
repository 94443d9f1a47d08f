"""Signed distances, colors and patterns that the built-in scenes are made of."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def rgb(red: int | float, green: int | float, blue: int | float) -> Tensor:
    """Color, or a vector, in float64."""
    return torch.tensor([red, green, blue], dtype=torch.float64)


def triangle_wave(x: Tensor) -> Tensor:
    """Wave of period 1 between 0 and 1."""
    return 2 * (x - (x + 0.5).floor()).abs()


def ripples(positions: Tensor) -> Tensor:
    """Waves in three slanting directions, mean 1/8, between 0 and 1."""
    slants = torch.tensor(
        [[5.0, 2.0, -1.0], [-2.0, 4.5, 2.0], [1.0, -2.5, 5.5]], dtype=positions.dtype
    )
    return triangle_wave(positions @ slants.T).prod(-1)


def checks(*coordinates: Tensor) -> Tensor:
    """Checkerboard of unit cells with soft edges, in [0, 1], ``(n, 1)``."""
    waves = [(8 * (2 * triangle_wave((c + 0.5) / 2) - 1)).clamp(-1, 1) for c in coordinates]
    return (0.5 + 0.5 * torch.stack(waves).prod(0))[:, None]


def mix(pattern: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    """Blend two colors by a pattern in [0, 1]."""
    return zero + (one - zero) * pattern


def ball(center: Tensor, radius: float) -> Callable[[Tensor], Tensor]:
    """Signed distance of a ball."""
    return lambda x: (x - center).norm(dim=-1) - radius


def box(center: Tensor, half: Tensor, rounding: float = 0.0) -> Callable[[Tensor], Tensor]:
    """Signed distance of a box with rounded edges."""

    def distance(x: Tensor) -> Tensor:
        q = (x - center).abs() - (half - rounding)
        outside: Tensor = q.clamp(min=0).norm(dim=-1)
        return outside + q.amax(-1).clamp(max=0) - rounding

    return distance


def longitude(x: Tensor) -> Tensor:
    """Angle around z in cycles, in [-0.5, 0.5]."""
    return torch.atan2(x[:, 1], x[:, 0]) / (2 * math.pi)


def brick(
    corner: tuple[float, float, float], studs: tuple[int, int], hollow: bool
) -> Callable[[Tensor], Tensor]:
    """Signed distance of a toy brick: a box and its studs, less a bore through it."""
    pitch, height, radius = 0.16, 0.19, 0.048
    size = torch.tensor([studs[0] * pitch, studs[1] * pitch, height], dtype=torch.float64)
    low = torch.tensor(corner, dtype=torch.float64)
    body = box(low + size / 2, size / 2 - 0.004, 0.012)
    limit = torch.tensor([studs[0] - 1, studs[1] - 1], dtype=torch.float64)

    def distance(x: Tensor) -> Tensor:
        local = x - low
        # The nearest stud: the grid of them is folded onto one.
        cell = (local[:, :2] / pitch - 0.5).round()
        cell = torch.minimum(cell.clamp(min=0), limit)
        flat = (local[:, :2] - (cell + 0.5) * pitch).norm(dim=-1) - radius
        tall = (local[:, 2] - height).abs() - 0.045
        both = torch.stack([flat, tall], dim=-1)
        stud = both.clamp(min=0).norm(dim=-1) + both.amax(-1).clamp(max=0)
        whole = torch.minimum(body(x), stud)
        if not hollow:
            return whole
        bore = 0.06 - (local[:, [0, 2]] - size[[0, 2]] / 2).norm(dim=-1)
        return torch.maximum(whole, bore)

    return distance
