"""A radiance field on a grid: densities, and the colors that the cameras see."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.radiance.occupancy import cell_centers
from nerf_posenc.radiance.recipes import Renderer, fields_of
from nerf_posenc.radiance.scene_spaces import BoxSpace

# Queries of the field at once.
_CHUNK = 1 << 16
# Cameras whose directions the colors are means over, and the opacity below which a cell is empty.
_CAMERAS, _VISIBLE = 6, 0.004


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
    renderer: Renderer, world_from_camera: Float[Tensor, "views 4 4"], resolution: int = 128
) -> BakedField:
    """Evaluate the field of a renderer on a grid; the result is on the CPU.

    Args:
        renderer: renderer of the field.
        world_from_camera: poses of training views. A color is the mean over the directions in
            which a few of them see the cell, weighted by how near it is to their viewing axis.
        resolution: cells along each axis.
    """
    device = next(renderer.parameters()).device
    field, space = fields_of(renderer)[-1], getattr(renderer, "space", BoxSpace())
    centers = cell_centers(resolution, device=device)
    grid: nn.Module | None = getattr(renderer, "grid", None)
    cells = torch.arange(len(centers), device=device)
    if grid is not None:
        cells = cells[grid(centers)]
    density = centers.new_zeros(len(centers))
    for part in cells.split(_CHUNK):
        density[part] = field.density(centers[part]).float()
    rgb = torch.zeros_like(centers)
    density[-torch.expm1(-density * (2 / resolution)) < _VISIBLE] = 0
    is_colored = density > 0
    if not space.is_box:
        is_colored |= centers.abs().amax(-1) > 1 - 2 / resolution
    every = max(1, -(-len(world_from_camera) // _CAMERAS))
    poses = world_from_camera[::every].to(device)
    for part in is_colored.nonzero()[:, 0].split(_CHUNK):
        points = space.scene_positions(centers[part])
        total = torch.full_like(density[part], 1e-9)
        for pose in poses:
            along = F.normalize(points - pose[:3, 3], dim=-1)
            weight = (along @ -pose[:3, 2]).clamp(min=1e-3) ** 2
            _, seen = field(centers[part], along)
            rgb[part] += weight[:, None] * seen.float()
            total += weight
        rgb[part] /= total[:, None]
    shape = (resolution,) * 3
    return BakedField(density.view(shape).cpu(), rgb.view(*shape, 3).cpu())
