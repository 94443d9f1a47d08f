"""Scenes in closed form, rendered exactly: no file, no download, any size.

Density and color are formulas; the views are their volume rendering integrals by dense quadrature
in float64, so that a fit can be compared with the truth. All lie in [-1, 1]^3, z up.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.rays import Rays, camera_rays
from nerf_posenc.radiance.views import Scene, Views
from nerf_posenc_app.data.formulas.quadrature import Medium, hemisphere_poses, render_exactly

_FIELD_OF_VIEW = math.radians(40)
LIGHT = F.normalize(torch.tensor([0.5, -0.4, 0.8], dtype=torch.float64), dim=0)

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
        lit = 0.45 + 0.55 * (normals @ LIGHT).clamp(min=0)[:, None]
        halfway = F.normalize(LIGHT - directions, dim=-1)
        highlight = (normals * halfway).sum(-1, keepdim=True).clamp(min=0) ** 24
        return (albedo * lit + gloss * highlight).clamp(0, 1)


def _normals(distance: Callable[[Tensor], Tensor], positions: Tensor) -> Tensor:
    """Gradient of a distance, by central differences."""
    step = 1e-5
    offsets = step * torch.eye(3, dtype=positions.dtype)
    slopes = [distance(positions + offset) - distance(positions - offset) for offset in offsets]
    return F.normalize(torch.stack(slopes, dim=-1), dim=-1)


def rendered_scene(
    name: str, medium: Medium, size: int, *, num_train: int = 48, num_test: int = 8
) -> Scene:
    """Render the views of a medium.

    Args:
        name: name of the scene.
        medium: its density and color.
        size: pixels per side.
        num_train: views to fit, on a spiral over the upper half of a sphere.
        num_test: views to evaluate on, between them.
    """
    camera = Camera.from_angle(size, size, _FIELD_OF_VIEW)

    def views(poses: Tensor, split: str) -> Views:
        # Rendered all at once: one by one, small views would be mostly overhead.
        rendering = render_exactly(
            medium, Rays.cat(camera_rays(camera, pose, background=0.0) for pose in poses)
        )
        rgba = torch.cat([rendering.rgb, rendering.opacity[:, None]], dim=-1)
        return Views(
            rgba.unflatten(0, (-1, size, size)).float(),
            [camera] * len(poses),
            poses,
            [f"{split} {i}" for i in range(len(poses))],
        )

    return Scene(
        name,
        views(hemisphere_poses(num_train), "train"),
        views(hemisphere_poses(num_test, shift=0.5, lowest=0.15), "test"),
        f"built-in scene {name}, rendered from its formulas",
    )
