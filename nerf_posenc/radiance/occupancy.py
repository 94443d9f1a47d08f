"""Occupancy grids: where space is empty, from the density of a field or the views' opacity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Views

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# A pixel that 8 bits store as transparent.
_TRANSPARENT = 0.5 / 255


class OccupancyGrid(nn.Module):
    """Occupied cells of [-1, 1]^3 (Müller et al. 2022, appendix C).

    All possible cells count as occupied until `update` finds them empty.

    Args:
        resolution: cells per axis.
        threshold: opacity along a cell's diagonal below which it counts as empty.
        decay: factor of a cell's stored density at each update.
        possible: cells that may be occupied at all, such as the visual hull; None for all.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> grid = OccupancyGrid(2)
        >>> grid.update(lambda x: torch.where(x[:, 0] > 0, 100.0, 0.0), seed=0)
        >>> grid(torch.tensor([[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]))
        tensor([False,  True])
    """

    occupied: Tensor
    density: Tensor
    possible: Tensor

    def __init__(
        self,
        resolution: int = 128,
        *,
        threshold: float = 0.01,
        decay: float = 0.8,
        possible: Bool[Tensor, " cells"] | None = None,
    ) -> None:
        super().__init__()
        require_counts(resolution=resolution)
        if not (0 < threshold < 1 and 0 <= decay < 1):
            raise ValueError(
                f"threshold must be between 0 and 1 and decay in [0, 1); got {threshold}, {decay}"
            )
        self.resolution = resolution
        self.threshold = threshold
        self.decay = decay
        num_cells = resolution**3
        if possible is None:
            possible = torch.ones(num_cells, dtype=torch.bool)
        if possible.shape != (num_cells,):
            raise ValueError(
                f"possible must have shape ({num_cells},), one value per cell; got "
                f"{tuple(possible.shape)}"
            )
        # Infinite until a cell is evaluated, so that it counts as occupied until then.
        self.register_buffer("density", torch.full((num_cells,), torch.inf))
        self.register_buffer("possible", possible.clone())
        self.register_buffer("occupied", possible.clone())

    def cells(self, positions: Float[Tensor, "*batch 3"]) -> Tensor:
        """Index of each position's cell; positions outside are moved to the edge."""
        index = ((positions + 1) * (self.resolution / 2)).long().clamp_(0, self.resolution - 1)
        x, y, z = index.unbind(-1)
        return (x * self.resolution + y) * self.resolution + z

    def forward(self, positions: Float[Tensor, "*batch 3"]) -> Bool[Tensor, "*batch"]:
        """Whether positions lie in occupied cells; those outside the cube do not."""
        inside = (positions.abs() <= 1).all(-1)
        return self.occupied[self.cells(positions)] & inside

    def centers(self, cells: Int[Tensor, " n"] | None = None) -> Float[Tensor, "n 3"]:
        """Centers of cells.

        Args:
            cells: indices; None for all cells.
        """
        return cell_centers(self.resolution, cells, device=self.density.device)

    def surface(self) -> Bool[Tensor, " cells"]:
        """Occupied cells that have an empty neighbor, or lie at the edge of the cube."""
        empty = ~self.occupied.view(1, *[self.resolution] * 3)
        outside = F.pad(empty.float(), (1,) * 6, value=1.0)
        return self.occupied & (F.max_pool3d(outside, 3, stride=1) > 0).flatten()

    def occupied_box(self) -> Float[Tensor, "2 3"]:
        """Lower and upper corner of the box around all occupied cells; the cube if none is."""
        centers = self.centers(self.occupied.nonzero()[:, 0])
        if not len(centers):
            centers = self.centers()
        half = 1 / self.resolution
        return torch.stack([centers.amin(0) - half, centers.amax(0) + half])

    @torch.no_grad()
    def update(
        self, density_at: Callable[[Tensor], Tensor], *, seed: int, share: float = 1.0
    ) -> None:
        """Evaluate the density at a random position in each possible cell, or in a share of them.

        A cell keeps the larger of its decayed and its new density; cells that are not evaluated
        keep theirs.

        Args:
            density_at: function from positions ``(n, 3)`` to densities ``(n,)``.
            seed: random seed of the positions and the share.
            share: share of the cells to evaluate, above 0 and up to 1.
        """
        device = self.density.device
        generator = torch.Generator(device).manual_seed(seed)
        cells = self.possible.nonzero()[:, 0]
        if share < 1:
            drawn = torch.rand(len(cells), generator=generator, device=device) < share
            cells = cells[drawn]
        offsets = torch.rand(len(cells), 3, generator=generator, device=device)
        # A random point of each cell: over several updates they cover the cell.
        positions = self.centers(cells) + (2 * offsets - 1) / self.resolution
        chunks = positions.split(1 << 15) if len(cells) else ()
        densities = [density_at(chunk).float().view(-1) for chunk in chunks]
        queried = torch.cat(densities) if densities else self.density.new_zeros(0)
        # Instant-NGP's running maximum: it falls slowly, and rises at once.
        stored = torch.nan_to_num(self.density[cells] * self.decay, posinf=0.0)
        self.density[cells] = torch.maximum(stored, queried)
        # Opacity along the longest way through a cell: one threshold for all resolutions.
        diagonal = 2 * 3**0.5 / self.resolution
        opacity = -torch.expm1(-self.density * diagonal)
        self.occupied.copy_((opacity > self.threshold) & self.possible)


def cell_centers(
    resolution: int, cells: Int[Tensor, " n"] | None = None, *, device: torch.device | str = "cpu"
) -> Float[Tensor, "n 3"]:
    """Centers of the cells of [-1, 1]^3, x outermost.

    Args:
        resolution: cells per axis.
        cells: indices; None for all cells.
        device: device to compute on.
    """
    if cells is None:
        cells = torch.arange(resolution**3, device=device)
    indices = [cells // resolution**2, cells // resolution % resolution, cells % resolution]
    return (torch.stack(indices, dim=-1) + 0.5) * (2 / resolution) - 1


@torch.no_grad()
def visual_hull(views: Views, resolution: int = 128) -> Bool[Tensor, " cells"]:
    """Cells of [-1, 1]^3 that no view sees through (Laurentini 1994).

    A cell is outside the hull if its whole footprint in some view is transparent. Views without an
    opacity exclude nothing, nor does a view whose image does not contain the whole footprint.

    Args:
        views: views with their opacity.
        resolution: cells per axis.

    Returns:
        Whether each cell is in the hull.
    """
    centers = cell_centers(resolution)
    # Radius of the ball around a cell of [-1, 1]^3.
    half_diagonal = 3**0.5 / resolution
    left = torch.arange(len(centers))
    for view, camera in enumerate(views.cameras):
        opacity = views.opacity(view)
        if views.masks is not None:
            # Masked pixels are unknown and remove nothing from the hull.
            opacity = opacity.where(views.masks[view].to(opacity.device), 1.0)
        if not len(left) or bool((opacity > _TRANSPARENT).all()):
            continue
        pose = views.world_from_camera[view]
        # In the camera's axes, of which -z looks forward; a rotation's inverse is its transpose.
        points = (centers[left] - pose[:3, 3]) @ pose[:3, :3]
        depth = -points[:, 2]
        in_front = depth > 2 * half_diagonal
        reach = footprint_reach(points[in_front], camera, half_diagonal)
        if reach is None:
            continue
        # After this, the pixel of a cell's center has the largest opacity in its footprint.
        opacity = largest_within(opacity, reach + 1)
        column, row = camera.project(points).unbind(-1)
        contained = (column > reach) & (column < camera.width - reach)
        contained &= (row > reach) & (row < camera.height - reach) & in_front
        inside = contained.nonzero()[:, 0]
        footprint = opacity[row[inside].long(), column[inside].long()]
        stays = torch.ones_like(contained)
        stays[inside[footprint <= _TRANSPARENT]] = False
        left = left[stays]
    hull = torch.zeros(len(centers), dtype=torch.bool)
    hull[left] = True
    return hull


def largest_within(
    image: Float[Tensor, "height width"], reach: int
) -> Float[Tensor, "height width"]:
    """Largest value in the square of so many pixels to each side, of every pixel."""
    # One axis after the other gives the same maximum in far less time.
    columns = F.max_pool2d(image[None], (2 * reach + 1, 1), stride=1, padding=(reach, 0))
    return F.max_pool2d(columns, (1, 2 * reach + 1), stride=1, padding=(0, reach))[0]


def footprint_reach(
    points: Float[Tensor, "n 3"], camera: Camera, half_diagonal: float
) -> int | None:
    """Largest half-width of a cell's footprint in whole pixels, at the nearest cell.

    Args:
        points: centers of cells in camera axes.
        camera: the camera.
        half_diagonal: half the diagonal of a cell.

    Returns:
        None if there are no points, or one is too near for a footprint.
    """
    nearest = float(-points[:, 2].max()) if len(points) else 0.0
    if nearest <= 2 * half_diagonal:
        return None
    return math.ceil(half_diagonal * max(camera.fx, camera.fy) / (nearest - half_diagonal))
