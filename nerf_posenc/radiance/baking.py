"""A radiance field on a grid: densities, and the colors that the cameras see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers
from nerf_posenc.radiance.rays import camera_rays
from nerf_posenc.radiance.scene_spaces import BoxSpace

if TYPE_CHECKING:
    from jaxtyping import Float

# Queries of the field at once.
_CHUNK = 1 << 16
# Cameras from whose directions colors are averaged: the page shows one color for all directions.
_CAMERAS = 4
# Opacity below which a cell is empty: less than one step of 8 bits.
_VISIBLE = 0.004
# Views that decide which cells are seen, at most.
_VIEWS = 64
# Longer side of these views in pixels.
_VIEW_SIDE = 96
# Optical depth that ends a ray: less than a hundredth of the light gets through.
_OPAQUE = 5.0


class BakedField(NamedTuple):
    """A field at the centers of the cells of its cube [-1, 1]^3.

    Attributes:
        density: per unit of the cube's coordinates, x outermost; 0 where a cell is not visible, or
            the occupancy grid of the renderer is empty.
        rgb: colors in [0, 1]; 0 in cells that are not visible, except for those at the faces of a
            space other than the box, where every ray ends.
    """

    density: Float[Tensor, "n n n"]
    rgb: Float[Tensor, "n n n 3"]


@torch.no_grad()
def bake(
    renderer: Renderer,
    camera: Camera,
    world_from_camera: Float[Tensor, "views 4 4"],
    resolution: int = 128,
) -> BakedField:
    """Evaluate the field of a renderer on a grid; the result is on the CPU.

    A color is the mean over the directions in which a few training views see the cell, weighted by
    how near it is to their viewing axis. Of a scene without a box, which fills the cube, only cells
    that some view sees are kept.

    Args:
        renderer: renderer of the field.
        camera: camera of the training views.
        world_from_camera: their poses.
        resolution: cells along each axis.
    """
    device = next(renderer.parameters()).device
    field, space, grid = renderer.fields[-1], renderer.space, renderer.grid
    centers = cell_centers(resolution, device=device)
    cells = torch.arange(len(centers), device=device)
    if grid is not None:
        # Cells that are marked empty are hardly trained: the field may have any density there.
        cells = cells[grid(centers)]
    density = centers.new_zeros(len(centers))
    for part in cells.split(_CHUNK):
        density[part] = field.density(centers[part]).float()
    rgb = torch.zeros_like(centers)
    # Opacity of a whole cell below what can be seen: 1 - exp(-density * size).
    density[-torch.expm1(-density * (2 / resolution)) < _VISIBLE] = 0
    is_colored = density > 0
    if not space.is_box:
        seen = _seen_cells(density, space, camera, world_from_camera, resolution)
        density[~seen] = 0
        # The outermost cells need a color even where they are empty, since rays end in them.
        is_colored = (density > 0) | (centers.abs().amax(-1) > 1 - 2 / resolution)
    every = max(1, -(-len(world_from_camera) // _CAMERAS))
    poses = world_from_camera[::every].to(device)
    for part in is_colored.nonzero()[:, 0].split(_CHUNK):
        points = space.scene_positions(centers[part])
        total = torch.full_like(density[part], 1e-9)
        for pose in poses:
            directions = F.normalize(points - pose[:3, 3], dim=-1)  # (n, 3)
            # Views that look straight at a point count most; each counts a little.
            weight = (directions @ -pose[:3, 2]).clamp(min=1e-3) ** 2
            _, seen = field(centers[part], directions)
            rgb[part] += weight[:, None] * seen.float()
            total += weight
        rgb[part] /= total[:, None]
    shape = (resolution,) * 3
    return BakedField(density.view(shape).cpu(), rgb.view(*shape, 3).cpu())


def _seen_cells(
    density: Tensor, space: BoxSpace, camera: Camera, poses: Tensor, resolution: int
) -> Tensor:
    """Cells that rays of the views reach before little of their light is left, and neighbors."""
    small = camera.scaled(_VIEW_SIDE / max(camera.width, camera.height))
    grid, step = OccupancyGrid(resolution), 2 / resolution
    seen = torch.zeros_like(density)
    for pose in poses[:: -(-len(poses) // _VIEWS)]:
        paths = space.paths(camera_rays(small, pose.cpu()).to(density.device))
        count = int((paths.far - paths.near).max() / step) + 1
        along = paths.near[:, None] + step * torch.arange(count, device=density.device)
        inside = space.positions(paths.origins[:, None], paths.directions[:, None], along)
        cells = grid.cells(inside)
        thickness = density[cells] * step
        optical_depth = thickness.cumsum(-1) - thickness  # In front of each step.
        is_reached = (optical_depth < _OPAQUE) & (along <= paths.far[:, None])
        seen[cells[is_reached]] = 1
    spread = F.max_pool3d(seen.view(1, *[resolution] * 3), 3, stride=1, padding=1)
    return spread.flatten() > 0
