"""Volume rendering of media given by formulas, by dense quadrature.

Media lie in [-1, 1]^3, z up.
"""

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import Rays, ray_aabb_intersect
from nerf_posenc.radiance.volume_rendering import Rendering

_CAMERA_DISTANCE = 3.4

# Transmittance below which a ray ends, a hundredth of an 8-bit step.
_DARK = 4e-5


@runtime_checkable
class Medium(Protocol):
    """Density and color as formulas of the position.

    Attributes:
        step: distance over which density and color change little.
    """

    step: float

    def clearance(self, positions: Tensor) -> Tensor:
        """Radius within which the density is 0, or a lower bound of it, ``(n,)``."""
        ...

    def density(self, positions: Tensor, clearance: Tensor) -> Tensor:
        """Density in 1 / length, ``(n,)``, at positions with their clearance."""
        ...

    def rgb(self, positions: Tensor, directions: Tensor) -> Tensor:
        """Color in [0, 1] along the viewing directions, ``(n, 3)``."""
        ...


@torch.no_grad()
def render_exactly(medium: Medium, rays: Rays, *, step: float | None = None) -> Rendering:
    """Volume rendering integral of a medium, by quadrature in float64.

    A ray skips empty space by the medium's clearance (Hart 1996, sphere tracing) and takes steps
    through the rest, each evaluated at its center, until its transmittance vanishes.

    Args:
        medium: density and color.
        rays: any number.
        step: length of a step; None for the medium's own.
    """
    step = medium.step if step is None else step
    chunks = [
        _render_chunk(medium, rays.rows(slice(i, i + (1 << 14))), step)
        for i in range(0, len(rays.origins), 1 << 14)
    ]
    return Rendering(*(torch.cat(parts) for parts in list(zip(*chunks, strict=True))[:3]))


def _render_chunk(medium: Medium, rays: Rays, step: float) -> Rendering:
    origins, directions = rays.origins.double(), F.normalize(rays.directions.double(), dim=-1)
    distance, far = ray_aabb_intersect(origins, directions)
    light = torch.ones_like(far)
    rgb, depth = torch.zeros_like(origins), torch.zeros_like(far)
    active = (far > distance).nonzero()[:, 0]
    while len(active):
        along = directions[active]
        middle = distance[active] + step / 2
        positions = origins[active] + along * middle[:, None]
        clearance = medium.clearance(positions)
        # If the whole step is clear, the ray skips ahead as far as it is clear.
        distance[active] = middle + clearance.clamp(min=step / 2)
        inside = (clearance < step / 2).nonzero()[:, 0]
        density = medium.density(positions[inside], clearance[inside])
        stopped = light[active[inside]] * -torch.expm1(-density * step)
        counts = stopped > 0
        inside, stopped = inside[counts], stopped[counts]
        rows = active[inside]
        rgb[rows] += stopped[:, None] * medium.rgb(positions[inside], along[inside])
        depth[rows] += stopped * middle[inside]
        light[rows] -= stopped
        active = active[(distance[active] < far[active]) & (light[active] > _DARK)]
    opacity = 1 - light
    rgb = rgb + light[:, None] * rays.background.double()
    return Rendering(rgb, opacity, depth / opacity.clamp(min=1e-6))


def hemisphere_poses(count: int, *, shift: float = 0.0, lowest: float = 0.05) -> Tensor:
    """Cameras evenly spread over the upper half of a sphere, looking at its middle.

    Args:
        count: number of cameras.
        shift: shift of the spiral that they lie on, in cycles.
        lowest: sine of the lowest camera's elevation.

    Returns:
        Matrices world_from_camera, ``(count, 4, 4)``.
    """
    golden = (3 - math.sqrt(5)) / 2
    poses = []
    for i in range(count):
        sine = lowest + (0.95 - lowest) * (i + 0.5) / count
        poses.append(look_at_origin(2 * math.pi * (i * golden + shift), math.asin(sine)))
    return torch.stack(poses)


def look_at_origin(azimuth: float, elevation: float, distance: float = _CAMERA_DISTANCE) -> Tensor:
    """Pose of a camera that looks at the origin, z being up.

    Args:
        azimuth: rad around z.
        elevation: rad above the horizon, in (-pi/2, pi/2).
        distance: distance from the origin.
    """
    horizontal = math.cos(elevation)
    back = torch.tensor(
        [math.cos(azimuth) * horizontal, math.sin(azimuth) * horizontal, math.sin(elevation)]
    )
    return look_at(distance * back, torch.zeros(3), torch.tensor([0.0, 0.0, 1.0]))
