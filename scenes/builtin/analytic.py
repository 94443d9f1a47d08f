"""Scenes in closed form, rendered exactly: no file, no download, any size.

Density and color are formulas; the views are their volume rendering integrals by dense quadrature
in float64, so that a fit can be compared with the truth. All lie in [-1, 1]^3, z up.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.rays import Rays, camera_rays
from nerf_posenc.radiance.views import Scene, Views
from scenes.builtin.quadrature import Medium, hemisphere_poses, poses_beside, render_exactly
from scenes.builtin.sdf import ball, box, brick, checks, longitude, mix, rgb, ripples, triangle_wave
from scenes.errors import SceneError

_FIELD_OF_VIEW = math.radians(40)
_LIGHT = F.normalize(torch.tensor([0.5, -0.4, 0.8], dtype=torch.float64), dim=0)

# Density rises from nothing to this over a shell about each surface, so that light fades within
# a few hundredths of a unit and its integral is smooth.
_SOLID_DENSITY = 400.0
_SHELL = 0.008


@dataclass(frozen=True)
class Solid:
    """An opaque body.

    Attributes:
        distance: function from positions to signed distances, or to lower bounds of their
            magnitude.
        albedo: function from positions to colors.
        gloss: strength of the highlight, 0 to 1.
    """

    distance: Callable[[Tensor], Tensor]
    albedo: Callable[[Tensor], Tensor]
    gloss: float = 0.0


class Solids:
    """Opaque bodies under one light, with diffuse shading and highlights (Blinn 1977)."""

    step = 0.002

    def __init__(self, solids: Sequence[Solid]) -> None:
        self.solids = solids

    def clearance(self, positions: Tensor) -> Tensor:
        """Distance to the nearest shell, below 0 within it."""
        return torch.stack([solid.distance(positions) for solid in self.solids]).amin(0) - _SHELL

    def density(self, positions: Tensor, clearance: Tensor) -> Tensor:
        """Constant inside, with a cubic step over the shell."""
        inside = (-clearance / (2 * _SHELL)).clamp(0, 1)
        return _SOLID_DENSITY * inside.square() * (3 - 2 * inside)

    def rgb(self, positions: Tensor, directions: Tensor) -> Tensor:
        """Albedo of the nearest body with diffuse shading and its highlight."""
        nearest = torch.stack([solid.distance(positions) for solid in self.solids]).argmin(0)
        albedo, normals = torch.empty_like(positions), torch.empty_like(positions)
        gloss = torch.empty_like(positions[:, :1])
        for i in nearest.unique().tolist():
            solid, own = self.solids[i], (nearest == i).nonzero()[:, 0]
            albedo[own] = solid.albedo(positions[own])
            normals[own] = _normals(solid.distance, positions[own])
            gloss[own] = solid.gloss
        lit = 0.45 + 0.55 * (normals @ _LIGHT).clamp(min=0)[:, None]
        halfway = F.normalize(_LIGHT - directions, dim=-1)
        highlight = (normals * halfway).sum(-1, keepdim=True).clamp(min=0) ** 24
        return (albedo * lit + gloss * highlight).clamp(0, 1)


def _normals(distance: Callable[[Tensor], Tensor], positions: Tensor) -> Tensor:
    """Gradient of a distance, by central differences."""
    step = 1e-5
    offsets = step * torch.eye(3, dtype=positions.dtype)
    slopes = [distance(positions + offset) - distance(positions - offset) for offset in offsets]
    return F.normalize(torch.stack(slopes, dim=-1), dim=-1)


class Cloud:
    """Puffs with ripples, which scatter more light forwards."""

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
        low, high = rgb(0.15, 0.3, 0.75), rgb(1.0, 0.6, 0.25)
        base = low + (high - low) * height
        layers = 0.55 + 0.45 * triangle_wave(positions[:, 2:] * 9 + positions[:, :1] * 3)
        forward = 0.75 + 0.25 * (directions @ _LIGHT)[:, None]
        return (base * layers * forward).clamp(0, 1)


def _spheres() -> Solids:
    """A checkered ball and three striped ones on a textured floor."""
    ink, paper = rgb(0.05, 0.08, 0.25), rgb(0.95, 0.93, 0.85)

    def floor(x: Tensor) -> Tensor:
        fine = checks(x[:, 0] * 14, x[:, 1] * 14)
        rings = checks(x[:, :2].norm(dim=-1) * 9)
        return mix(fine, mix(rings, rgb(0.2, 0.45, 0.3), rgb(0.75, 0.25, 0.15)), paper)

    center = rgb(0.0, 0.0, -0.08)

    def checkered(x: Tensor) -> Tensor:
        local = F.normalize(x - center, dim=-1)
        latitude = torch.asin(local[:, 2].clamp(-1, 1)) / math.pi
        return mix(checks(longitude(local) * 24, latitude * 12), ink, paper)

    def striped(middle: Tensor, color: Tensor) -> Callable[[Tensor], Tensor]:
        def albedo(x: Tensor) -> Tensor:
            local = x - middle
            return mix(checks(local[:, 2] * 30 + local[:, 0] * 12), color, paper)

        return albedo

    balls = [
        (rgb(0.55, 0.42, -0.35), rgb(0.8, 0.15, 0.1)),
        (rgb(-0.58, 0.38, -0.35), rgb(0.1, 0.35, 0.8)),
        (rgb(-0.05, -0.66, -0.35), rgb(0.9, 0.6, 0.05)),
    ]
    return Solids(
        [
            Solid(box(rgb(0, 0, -0.59), rgb(0.85, 0.85, 0.05), 0.02), floor),
            Solid(ball(center, 0.46), checkered, gloss=0.5),
            *(Solid(ball(c, 0.19), striped(c, color), gloss=0.6) for c, color in balls),
        ]
    )


def _wall() -> Medium:
    """The spheres before a checkered wall."""

    def tiles(x: Tensor) -> Tensor:
        large = mix(checks(x[:, 0] * 5, x[:, 2] * 5), rgb(0.3, 0.5, 0.6), rgb(0.85, 0.8, 0.6))
        small = checks(x[:, 0] * 16 + x[:, 2] * 4, x[:, 2] * 12)
        return large * (0.7 + 0.3 * small)

    return Solids(
        [*_spheres().solids, Solid(box(rgb(0, 0.96, 0), rgb(1.0, 0.03, 1.0), 0.01), tiles)]
    )


def _blocks() -> Medium:
    """A heap of toy bricks with studs and bores, on a plate of studs."""
    red, yellow = rgb(0.8, 0.1, 0.08), rgb(0.95, 0.75, 0.1)
    blue, white, green = rgb(0.1, 0.25, 0.7), rgb(0.92, 0.92, 0.9), rgb(0.15, 0.5, 0.2)
    bricks = [
        ((-0.8, -0.8, -0.79), (10, 10), green, False),
        ((-0.64, -0.48, -0.60), (4, 2), red, True),
        ((0.00, -0.48, -0.60), (4, 2), yellow, False),
        ((-0.48, 0.00, -0.60), (2, 4), blue, False),
        ((0.00, 0.00, -0.60), (4, 2), white, True),
        ((-0.32, -0.48, -0.41), (4, 2), blue, True),
        ((-0.48, 0.00, -0.41), (4, 2), yellow, False),
        ((-0.32, -0.32, -0.22), (2, 4), white, False),
        ((0.00, -0.16, -0.22), (2, 2), red, True),
        ((-0.16, -0.16, -0.03), (2, 2), yellow, True),
        ((-0.16, -0.16, 0.16), (1, 2), red, False),
    ]

    def lined(color: Tensor) -> Callable[[Tensor], Tensor]:
        def albedo(x: Tensor) -> Tensor:
            line = (8 * (triangle_wave(x[:, 2:] * 16) - 0.8)).clamp(0, 1)
            return mix(line, color, color * 0.3)

        return albedo

    return Solids(
        [
            Solid(brick(corner, studs, hollow), lined(color), gloss=0.4)
            for corner, studs, color, hollow in bricks
        ]
    )


BUILT_IN: Mapping[str, Callable[[], Medium]] = MappingProxyType(
    {"blocks": _blocks, "cloud": Cloud, "spheres": _spheres, "wall": _wall}
)
"""Scenes by name."""

# Behind the wall, whose views are opaque, as photographs are.
_GRAY = 0.6


def analytic_scene(name: str, *, size: int = 100, num_train: int = 48, num_test: int = 8) -> Scene:
    """Render a built-in scene.

    Args:
        name: one of ``BUILT_IN``.
        size: pixels per side.
        num_train: views to fit, on a spiral over the upper half of a sphere; before the wall five
            eighths of them.
        num_test: views to evaluate on, between them.

    Raises:
        SceneError: If the name is unknown.
    """
    if name not in BUILT_IN:
        raise SceneError(f"no built-in scene {name!r}; there are {', '.join(sorted(BUILT_IN))}")
    medium = BUILT_IN[name]()
    camera = Camera.from_angle(size, size, _FIELD_OF_VIEW)
    is_opaque = name == "wall"

    def views(poses: Tensor, kind: str) -> Views:
        # Rendered all at once: one by one, small views would be mostly overhead.
        background = _GRAY if is_opaque else 0.0
        rendering = render_exactly(
            medium, Rays.cat(camera_rays(camera, pose, background=background) for pose in poses)
        )
        channels = [rendering.rgb] if is_opaque else [rendering.rgb, rendering.opacity[:, None]]
        return Views(
            torch.cat(channels, dim=-1).unflatten(0, (-1, size, size)).float(),
            [camera] * len(poses),
            poses,
            [f"{kind} {i}" for i in range(len(poses))],
        )

    if is_opaque:
        # Fewer views are enough, since they see less.
        train, test = poses_beside(5 * num_train // 8), poses_beside(num_test, shift=0.5)
    else:
        train = hemisphere_poses(num_train)
        test = hemisphere_poses(num_test, shift=0.5, lowest=0.15)
    return Scene(
        name,
        views(train, "train"),
        views(test, "test"),
        f"built-in scene {name}, rendered from its formulas",
    )
