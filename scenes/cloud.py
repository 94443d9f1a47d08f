"""A cloud: puffs with ripples, which scatter more light forwards."""

import torch
from torch import Tensor

from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data.formulas.sdf import mix, rgb, ripples, triangle_wave
from nerf_posenc_app.data.formulas.solids import LIGHT, rendered_scene


class Cloud:
    """14 puffs of random centers and radii."""

    step = 0.004

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(4)
        drawn = torch.rand(14, 4, generator=generator, dtype=torch.float64)
        self._centers = (drawn[:, :3] - 0.5) * rgb(1.1, 1.1, 0.7)
        self._radii = 0.25 + 0.25 * drawn[:, 3]

    def clearance(self, positions: Tensor) -> Tensor:
        """Distance to the nearest puff."""
        clear: Tensor = (torch.cdist(positions, self._centers) - self._radii).amin(-1)
        return clear

    def density(self, positions: Tensor, clearance: Tensor) -> Tensor:
        """Sum of the puffs, rippled."""
        squares = (torch.cdist(positions, self._centers) / self._radii).square()
        puffs = (1 - squares).clamp(min=0).square().sum(-1)
        density: Tensor = 9.0 * puffs * (0.25 + 1.5 * ripples(positions))
        return density

    def rgb(self, positions: Tensor, directions: Tensor) -> Tensor:
        """Blue below to orange above, in thin layers, brighter against the light."""
        height = ((positions[:, 2:] + 0.7) / 1.4).clamp(0, 1)
        base = mix(height, rgb(0.15, 0.3, 0.75), rgb(1.0, 0.6, 0.25))
        layers = 0.55 + 0.45 * triangle_wave(positions[:, 2:] * 9 + positions[:, :1] * 3)
        forward = 0.75 + 0.25 * (directions @ LIGHT)[:, None]
        return (base * layers * forward).clamp(0, 1)


def medium() -> Cloud:
    """The cloud."""
    return Cloud()


def scene(size: int = 100) -> Scene:
    """48 views to fit and 8 to test, ``size`` pixels per side."""
    return rendered_scene("cloud", medium(), size)
