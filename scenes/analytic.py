"""Scenes in closed form, rendered exactly: no file, no download, any size.

Density and colour are formulas; the views are their volume rendering integrals by dense quadrature
in float64, so that a fit can be measured against the truth. All lie in [-1, 1]^3, z up.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.rays import Camera, Rays
from nerf_posenc.radiance.views import Views, camera_rays
from scenes.quadrature import Medium, hemisphere_poses, render_exactly
from scenes.scene import Scene, SceneError

_FIELD_OF_VIEW = math.radians(40)
_LIGHT = F.normalize(torch.tensor([0.5, -0.4, 0.8], dtype=torch.float64), dim=0)

# Density rises from nothing to this over a shell about each surface, so that light fades within
# a few hundredths of a unit and its integral is smooth.
_SOLID_DENSITY = 400.0
_SHELL = 0.008


@dataclass(frozen=True)
class Solid:
    """A body with a surface.

    Attributes:
        distance: from positions to signed distances, or to a bound nearer to 0.
        albedo: from positions to colours.
        gloss: strength of the highlight, 0 to 1.
    """

    distance: Callable[[Tensor], Tensor]
    albedo: Callable[[Tensor], Tensor]
    gloss: float = 0.0


class Solids:
    """Bodies under one light, with diffuse shading and highlights (Blinn 1977)."""

    step = 0.002

    def __init__(self, solids: Sequence[Solid]) -> None:
        self.solids = solids

    def clearance(self, positions: Tensor) -> Tensor:
        """Distance to the nearest shell, below 0 within it."""
        return torch.stack([solid.distance(positions) for solid in self.solids]).amin(0) - _SHELL

    def density(self, positions: Tensor, clearance: Tensor) -> Tensor:
        """That of the solid, a cubic step over the shell."""
        inside = (-clearance / (2 * _SHELL)).clamp(0, 1)
        return _SOLID_DENSITY * inside.square() * (3 - 2 * inside)

    def colour(self, positions: Tensor, directions: Tensor) -> Tensor:
        """Albedo of the nearest body, lit, with its highlight."""
        nearest = torch.stack([solid.distance(positions) for solid in self.solids]).argmin(0)
        albedo, normals = torch.empty_like(positions), torch.empty_like(positions)
        gloss = torch.empty_like(positions[:, :1])
        for i in nearest.unique().tolist():
            solid, mine = self.solids[i], (nearest == i).nonzero()[:, 0]
            albedo[mine] = solid.albedo(positions[mine])
            normals[mine] = _normals(solid.distance, positions[mine])
            gloss[mine] = solid.gloss
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
    """Puffs with ripples, that scatter more light forwards."""

    step = 0.004

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(4)
        drawn = torch.rand(14, 4, generator=generator, dtype=torch.float64)
        self._centres = (drawn[:, :3] - 0.5) * _rgb(1.1, 1.1, 0.7)
        self._radii = 0.25 + 0.25 * drawn[:, 3]

    def clearance(self, positions: Tensor) -> Tensor:
        """Distance to the nearest puff."""
        clear: Tensor = (torch.cdist(positions, self._centres) - self._radii).amin(-1)
        return clear

    def density(self, positions: Tensor, clearance: Tensor) -> Tensor:
        """Sum of the puffs, rippled."""
        squares = (torch.cdist(positions, self._centres) / self._radii).square()
        puffs = (1 - squares).clamp(min=0).square().sum(-1)
        density: Tensor = 9.0 * puffs * (0.25 + 1.5 * _ripples(positions))
        return density

    def colour(self, positions: Tensor, directions: Tensor) -> Tensor:
        """From blue below to orange above, in thin layers, brighter against the light."""
        height = ((positions[:, 2:] + 0.7) / 1.4).clamp(0, 1)
        low, high = _rgb(0.15, 0.3, 0.75), _rgb(1.0, 0.6, 0.25)
        base = low + (high - low) * height
        layers = 0.55 + 0.45 * _triangle(positions[:, 2:] * 9 + positions[:, :1] * 3)
        forward = 0.75 + 0.25 * (directions @ _LIGHT)[:, None]
        return (base * layers * forward).clamp(0, 1)


def _rgb(red: int | float, green: int | float, blue: int | float) -> Tensor:
    return torch.tensor([red, green, blue], dtype=torch.float64)


def _triangle(x: Tensor) -> Tensor:
    """Wave of period 1 between 0 and 1."""
    return 2 * (x - (x + 0.5).floor()).abs()


def _ripples(positions: Tensor) -> Tensor:
    """Waves in three slanting directions, mean 1/8, between 0 and 1."""
    slants = torch.tensor(
        [[5.0, 2.0, -1.0], [-2.0, 4.5, 2.0], [1.0, -2.5, 5.5]], dtype=positions.dtype
    )
    return _triangle(positions @ slants.T).prod(-1)


def _checks(*coordinates: Tensor) -> Tensor:
    """0 and 1 in turn from one unit cell to the next, with edges an eighth wide, ``(n, 1)``."""
    waves = [(8 * (2 * _triangle((c + 0.5) / 2) - 1)).clamp(-1, 1) for c in coordinates]
    return (0.5 + 0.5 * torch.stack(waves).prod(0))[:, None]


def _mixed(pattern: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    return zero + (one - zero) * pattern


def _ball(centre: Tensor, radius: float) -> Callable[[Tensor], Tensor]:
    return lambda x: (x - centre).norm(dim=-1) - radius


def _box(centre: Tensor, half: Tensor, rounding: float = 0.0) -> Callable[[Tensor], Tensor]:
    def distance(x: Tensor) -> Tensor:
        q = (x - centre).abs() - (half - rounding)
        outside: Tensor = q.clamp(min=0).norm(dim=-1)
        return outside + q.amax(-1).clamp(max=0) - rounding

    return distance


def _capsule(start: Tensor, end: Tensor, radius: float) -> Callable[[Tensor], Tensor]:
    axis = end - start

    def distance(x: Tensor) -> Tensor:
        along = ((x - start) @ axis / (axis @ axis)).clamp(0, 1)
        apart: Tensor = (x - start - along[:, None] * axis).norm(dim=-1)
        return apart - radius

    return distance


def _plain(colour: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: colour.expand_as(x)


def _longitude(x: Tensor) -> Tensor:
    """Angle around z in turns, in [-0.5, 0.5]."""
    return torch.atan2(x[:, 1], x[:, 0]) / (2 * math.pi)


def _spheres() -> Medium:
    """A checkered ball and three striped ones on a textured floor."""
    ink, paper = _rgb(0.05, 0.08, 0.25), _rgb(0.95, 0.93, 0.85)

    def floor(x: Tensor) -> Tensor:
        fine = _checks(x[:, 0] * 14, x[:, 1] * 14)
        rings = _checks(x[:, :2].norm(dim=-1) * 9)
        return _mixed(fine, _mixed(rings, _rgb(0.2, 0.45, 0.3), _rgb(0.75, 0.25, 0.15)), paper)

    centre = _rgb(0.0, 0.0, -0.08)

    def checkered(x: Tensor) -> Tensor:
        local = F.normalize(x - centre, dim=-1)
        latitude = torch.asin(local[:, 2].clamp(-1, 1)) / math.pi
        return _mixed(_checks(_longitude(local) * 24, latitude * 12), ink, paper)

    def striped(middle: Tensor, colour: Tensor) -> Callable[[Tensor], Tensor]:
        def albedo(x: Tensor) -> Tensor:
            local = x - middle
            return _mixed(_checks(local[:, 2] * 30 + local[:, 0] * 12), colour, paper)

        return albedo

    balls = [
        (_rgb(0.55, 0.42, -0.35), _rgb(0.8, 0.15, 0.1)),
        (_rgb(-0.58, 0.38, -0.35), _rgb(0.1, 0.35, 0.8)),
        (_rgb(-0.05, -0.66, -0.35), _rgb(0.9, 0.6, 0.05)),
    ]
    return Solids(
        [
            Solid(_box(_rgb(0, 0, -0.59), _rgb(0.85, 0.85, 0.05), 0.02), floor),
            Solid(_ball(centre, 0.46), checkered, gloss=0.5),
            *(Solid(_ball(c, 0.19), striped(c, colour), gloss=0.6) for c, colour in balls),
        ]
    )


def _struts() -> Medium:
    """An icosahedron of thin struts, banded, around a small checkered ball."""
    golden = (1 + math.sqrt(5)) / 2
    corners = [
        torch.tensor(corner[i:] + corner[:i], dtype=torch.float64)
        for a in (-1.0, 1.0)
        for b in (-1.0, 1.0)
        for corner in [(0.0, a, b * golden)]
        for i in range(3)
    ]
    points = [0.85 * F.normalize(corner, dim=0) for corner in corners]
    edge = min((points[0] - p).norm() for p in points[1:])
    edges = [
        _capsule(p, q, 0.022)
        for i, p in enumerate(points)
        for q in points[:i]
        if (p - q).norm() < 1.01 * edge
    ]
    spokes = [_capsule(0.28 * p, p, 0.012) for p in points]

    def banded(x: Tensor) -> Tensor:
        return _mixed(_checks(x.sum(-1) * 14), _rgb(0.85, 0.2, 0.1), _rgb(0.98, 0.9, 0.7))

    def ball(x: Tensor) -> Tensor:
        pattern = _checks(*(x * 14).unbind(-1))
        return _mixed(pattern, _rgb(0.1, 0.15, 0.5), _rgb(0.95, 0.95, 0.9))

    green = _plain(_rgb(0.15, 0.4, 0.35))
    return Solids(
        [
            *(Solid(strut, banded, gloss=0.3) for strut in edges),
            *(Solid(strut, green, gloss=0.3) for strut in spokes),
            Solid(_ball(_rgb(0, 0, 0), 0.3), ball, gloss=0.4),
        ]
    )


def _brick(
    corner: tuple[float, float, float], studs: tuple[int, int], hollow: bool
) -> Callable[[Tensor], Tensor]:
    """A toy brick by constructive geometry: a box and its studs, less a bore through it."""
    pitch, height, radius = 0.16, 0.19, 0.048
    size = torch.tensor([studs[0] * pitch, studs[1] * pitch, height], dtype=torch.float64)
    low = torch.tensor(corner, dtype=torch.float64)
    body = _box(low + size / 2, size / 2 - 0.004, 0.012)
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


def _blocks() -> Medium:
    """A heap of toy bricks with studs and bores, on a plate of studs."""
    red, yellow = _rgb(0.8, 0.1, 0.08), _rgb(0.95, 0.75, 0.1)
    blue, white, green = _rgb(0.1, 0.25, 0.7), _rgb(0.92, 0.92, 0.9), _rgb(0.15, 0.5, 0.2)
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

    def lined(colour: Tensor) -> Callable[[Tensor], Tensor]:
        def albedo(x: Tensor) -> Tensor:
            line = (8 * (_triangle(x[:, 2:] * 16) - 0.8)).clamp(0, 1)
            return _mixed(line, colour, colour * 0.3)

        return albedo

    return Solids(
        [
            Solid(_brick(corner, studs, hollow), lined(colour), gloss=0.4)
            for corner, studs, colour, hollow in bricks
        ]
    )


BUILT_IN: Mapping[str, Callable[[], Medium]] = MappingProxyType(
    {"blocks": _blocks, "cloud": Cloud, "spheres": _spheres, "struts": _struts}
)
"""Scenes by name."""


def analytic_scene(name: str, *, size: int = 100, num_train: int = 48, num_test: int = 8) -> Scene:
    """Render a built-in scene.

    Args:
        name: one of ``BUILT_IN``.
        size: pixels a side.
        num_train: views to fit, on a spiral over the upper half of a sphere.
        num_test: views to measure by, between them.

    Raises:
        SceneError: where the name is unknown.
    """
    if name not in BUILT_IN:
        raise SceneError(f"no built-in scene {name!r}; there are {', '.join(sorted(BUILT_IN))}")
    medium = BUILT_IN[name]()
    camera = Camera.from_angle(size, size, _FIELD_OF_VIEW)

    def views(poses: Tensor, kind: str) -> Views:
        # All at once: small views one by one would be mostly calls.
        seen = render_exactly(
            medium, Rays.join(camera_rays(camera, pose, background=0.0) for pose in poses)
        )
        return Views(
            seen.colour.view(-1, size, size, 3).float(),
            seen.opacity.view(-1, size, size).float(),
            [camera] * len(poses),
            poses,
            [f"{kind} {i}" for i in range(len(poses))],
        )

    return Scene(
        name,
        views(hemisphere_poses(num_train), "train"),
        views(hemisphere_poses(num_test, turn=0.5, lowest=0.15), "test"),
        f"built-in scene {name}, rendered from its formulas",
    )
