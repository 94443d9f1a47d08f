"""A heap of toy bricks with studs and bores, on a plate of studs."""

from collections.abc import Callable

from torch import Tensor

from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data.formulas.sdf import brick, mix, rgb, triangle_wave
from nerf_posenc_app.data.formulas.solids import Solid, Solids, rendered_scene

RED, YELLOW = rgb(0.8, 0.1, 0.08), rgb(0.95, 0.75, 0.1)
BLUE, WHITE, GREEN = rgb(0.1, 0.25, 0.7), rgb(0.92, 0.92, 0.9), rgb(0.15, 0.5, 0.2)

# Lowest corner, studs along x and y, color, whether a bore goes through it.
BRICKS = [
    ((-0.8, -0.8, -0.79), (10, 10), GREEN, False),
    ((-0.64, -0.48, -0.60), (4, 2), RED, True),
    ((0.00, -0.48, -0.60), (4, 2), YELLOW, False),
    ((-0.48, 0.00, -0.60), (2, 4), BLUE, False),
    ((0.00, 0.00, -0.60), (4, 2), WHITE, True),
    ((-0.32, -0.48, -0.41), (4, 2), BLUE, True),
    ((-0.48, 0.00, -0.41), (4, 2), YELLOW, False),
    ((-0.32, -0.32, -0.22), (2, 4), WHITE, False),
    ((0.00, -0.16, -0.22), (2, 2), RED, True),
    ((-0.16, -0.16, -0.03), (2, 2), YELLOW, True),
    ((-0.16, -0.16, 0.16), (1, 2), RED, False),
]


def lined(color: Tensor) -> Callable[[Tensor], Tensor]:
    """Thin dark lines, level."""

    def albedo(x: Tensor) -> Tensor:
        line = (8 * (triangle_wave(x[:, 2:] * 16) - 0.8)).clamp(0, 1)
        return mix(line, color, color * 0.3)

    return albedo


def medium() -> Solids:
    """The bricks."""
    return Solids(
        [
            Solid(brick(corner, studs, hollow), lined(color), gloss=0.4)
            for corner, studs, color, hollow in BRICKS
        ]
    )


def scene(size: int = 100) -> Scene:
    """48 views to fit and 8 to test, ``size`` pixels per side."""
    return rendered_scene("blocks", medium(), size)
