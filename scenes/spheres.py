"""A checkered ball and three striped ones on a textured floor."""

import math
from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data.formulas.sdf import ball, box, checks, longitude, mix, rgb
from nerf_posenc_app.data.formulas.solids import Solid, Solids, rendered_scene

INK, PAPER = rgb(0.05, 0.08, 0.25), rgb(0.95, 0.93, 0.85)
CENTER = rgb(0.0, 0.0, -0.08)
SMALL_BALLS = [
    (rgb(0.55, 0.42, -0.35), rgb(0.8, 0.15, 0.1)),
    (rgb(-0.58, 0.38, -0.35), rgb(0.1, 0.35, 0.8)),
    (rgb(-0.05, -0.66, -0.35), rgb(0.9, 0.6, 0.05)),
]


def floor(x: Tensor) -> Tensor:
    """Rings and small checks."""
    fine = checks(x[:, 0] * 14, x[:, 1] * 14)
    rings = checks(x[:, :2].norm(dim=-1) * 9)
    return mix(fine, mix(rings, rgb(0.2, 0.45, 0.3), rgb(0.75, 0.25, 0.15)), PAPER)


def checkered(x: Tensor) -> Tensor:
    """24 by 12 checks in longitude and latitude."""
    local = F.normalize(x - CENTER, dim=-1)
    latitude = local[:, 2].clamp(-1, 1).asin() / math.pi
    return mix(checks(longitude(local) * 24, latitude * 12), INK, PAPER)


def striped(center: Tensor, color: Tensor) -> Callable[[Tensor], Tensor]:
    """Slanted stripes."""

    def albedo(x: Tensor) -> Tensor:
        local = x - center
        return mix(checks(local[:, 2] * 30 + local[:, 0] * 12), color, PAPER)

    return albedo


def medium() -> Solids:
    """The balls and the floor."""
    return Solids(
        [
            Solid(box(rgb(0, 0, -0.59), rgb(0.85, 0.85, 0.05), 0.02), floor),
            Solid(ball(CENTER, 0.46), checkered, gloss=0.5),
            *(Solid(ball(c, 0.19), striped(c, color), gloss=0.6) for c, color in SMALL_BALLS),
        ]
    )


def scene(size: int = 100) -> Scene:
    """48 views to fit and 8 to test, ``size`` pixels per side."""
    return rendered_scene("spheres", medium(), size)
