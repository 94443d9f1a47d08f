"""Surfaces of signed distances: their meshes, and shaded views of them."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import camera_rays, ray_aabb_intersect

Distance = Callable[[Tensor], Tensor]
"""From points ``(n, 3)`` to signed distances ``(n, 1)``, negative inside."""

_CHUNK = 1 << 16
_FIELD_OF_VIEW = 0.78
_NUM_STEPS = 64
_HIT = 2e-3
_LIGHT = (0.4, 0.5, 0.77)


def surface_mesh(
    distance: Distance, nodes: int, *, half: float = 1.0
) -> tuple[Float[Tensor, "vertices 3"], Int[Tensor, "faces 3"]]:
    """Mesh of the surface of a signed distance: marching cubes on a grid.

    Args:
        distance: function from points to signed distances.
        nodes: nodes along each axis; the first and the last lie at the ends of the cube.
        half: the cube spans from minus this to this along each axis.

    Returns:
        Vertices and faces, counterclockwise as seen from outside; none if there is no surface.
    """
    from skimage.measure import marching_cubes

    axis = torch.linspace(-half, half, nodes)
    values = []
    for x in axis:
        y, z = torch.meshgrid(axis, axis, indexing="ij")
        points = torch.stack([x.expand_as(y), y, z], dim=-1).view(-1, 3)
        values.append(torch.cat([distance(part).cpu() for part in points.split(_CHUNK)]))
    volume = torch.cat(values).view(nodes, nodes, nodes)
    if not bool((volume < 0).any() and (volume > 0).any()):
        return torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.long)
    vertices, faces, _, _ = marching_cubes(volume.numpy(), 0.0, gradient_direction="descent")
    # Indices of nodes, of which number 0 lies at -half.
    points = torch.from_numpy(vertices.copy()) * (2 * half / (nodes - 1)) - half
    return points.float(), torch.from_numpy(faces.copy()).long()


@torch.no_grad()
def shaded_view(
    distance: Distance, azimuth: float, *, side: int, device: torch.device | str = "cpu"
) -> Float[Tensor, "side side 3"]:
    """View of the surface by sphere tracing (Hart 1996), shaded by its normals.

    Args:
        distance: function from points to signed distances, whose magnitude may be a lower bound.
        azimuth: angle of the camera around the y axis, which points up, in radians.
        side: pixels along each side.
        device: device of the points.

    Returns:
        Values in [0, 1]; white where there is no surface.
    """
    camera = Camera.from_angle(side, side, angle_x=_FIELD_OF_VIEW)
    eye = torch.tensor([math.sin(azimuth), 0.35, math.cos(azimuth)])
    eye = 3.6 * F.normalize(eye, dim=0)
    pose = look_at(eye, torch.zeros(3), torch.tensor([0.0, 1.0, 0.0]))
    rays = camera_rays(camera, pose)
    origins = rays.origins.reshape(-1, 3).to(device)
    directions = F.normalize(rays.directions.reshape(-1, 3), dim=-1).to(device)
    # From where a ray enters the cube to where it leaves it.
    near, far = ray_aabb_intersect(origins, directions)
    depths, last_step = near.clone(), torch.zeros_like(near)
    active = (near < far).nonzero()[:, 0]
    hit = torch.zeros(len(origins), dtype=torch.bool, device=device)
    for _ in range(_NUM_STEPS):
        points = origins[active] + depths[active, None] * directions[active]
        values = distance(points).to(device)[:, 0]
        # A fit's slope may be above 1: a step then leads through the surface, which is found
        # between its two ends by their values, of which the first was the step itself.
        through = values < 0
        steps = last_step[active[through]]
        depths[active[through]] -= steps * values[through] / (values[through] - steps)
        arrived = through | (values < _HIT)
        hit[active[arrived]] = True
        active, values = active[~arrived], values[~arrived]
        depths[active], last_step[active] = depths[active] + values, values
        active = active[depths[active] < far[active]]
        if not len(active):
            break
    surface = origins[hit] + depths[hit, None] * directions[hit]
    normals = _normals(distance, surface)
    light = F.normalize(torch.tensor(_LIGHT), dim=0).to(device)
    shade = 0.15 + 0.75 * (0.5 + 0.5 * normals @ light)
    image = torch.ones(side * side, device=device)
    image[hit] = shade.clamp(0, 1)
    return image.view(side, side, 1).expand(-1, -1, 3).cpu()


def _normals(distance: Distance, points: Tensor, reach: float = 4e-3) -> Tensor:
    """Gradients by differences over a tetrahedron, which takes four values for three slopes."""
    corners = torch.tensor(
        [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, 1.0, 1.0]],
        device=points.device,
    )
    values = [distance(points + reach * corner).to(points.device) * corner for corner in corners]
    return F.normalize(torch.stack(values).sum(0), dim=-1)
