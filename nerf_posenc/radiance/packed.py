"""Packed samples: those of all rays in one list, in occupied cells alone.

A ray gets as many samples as the occupied cells that it crosses need, and none elsewhere; nothing
is of the size rays x samples. nerfacc (Li et al. 2023) names the layout.
"""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.base_renderer import OPAQUE, PADDED_ROWS, Renderer
from nerf_posenc.radiance.factored_field import FactoredField, GridCorners
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.ray_batches import RayBatch
from nerf_posenc.radiance.rays import Rays, ray_aabb_intersect
from nerf_posenc.radiance.sampling import Jitter, uniform
from nerf_posenc.radiance.scene_spaces import BoxSpace
from nerf_posenc.radiance.volume_rendering import Rendering, exposed

if TYPE_CHECKING:
    from jaxtyping import Float, Int

# Cells of the occupancy grid along an edge of a coarse cell.
_COARSE = 4

STRIDES = (4, 2, 1)
"""Steps between the nodes of the factored field that are in use: at first, and as it is refined."""
# Shares of the fit after which the field gets its next stride, in a box: early, since the visual
# hull carves it from the start.
_REFINE_AT_IN_BOX = (0.13, 0.27)
# The same in other spaces: late, since coarse grids must first find the surfaces.
_REFINE_AT = (0.4, 0.8)

# Samples of each ray that are queried at a time, before hidden ones behind them are skipped.
_AT_ONCE = 24

# Weight below which the color of a sample is not evaluated.
_VISIBLE = 1e-3


class PackedSamples(NamedTuple):
    """Samples along rays, those of one ray next to each other, from the front to the back.

    Attributes:
        rays: index of each sample's ray, rising.
        along: coordinate along the path of the ray; in a box, the distance from its origin.
        positions: points in [-1, 1]^3.
    """

    rays: Int[Tensor, " n"]
    along: Float[Tensor, " n"]
    positions: Float[Tensor, "n 3"]

    def rows(self, rows: Tensor) -> "PackedSamples":
        """Select some of the samples."""
        return PackedSamples(*(column[rows] for column in self))


@torch.no_grad()
def packed_samples(
    grid: OccupancyGrid,
    rays: Rays,
    step: float,
    generator: Jitter | None = None,
    *,
    space: BoxSpace | None = None,
) -> PackedSamples:
    """Samples at equal steps, in the occupied cells that rays cross.

    Bins of several steps are tested first, against a coarser grid; so the time goes with the
    occupied part of a ray.

    Args:
        grid: occupancy of the scene; its resolution is a multiple of 4.
        rays: any number.
        step: distance from sample to sample, in the coordinate along a path of the space.
        generator: random number generator to shift the samples of each ray by up to a step; None
            for half a step.
        space: space in which the cube of the grid is the scene; None for the scene's own box.

    Raises:
        ValueError: If the resolution of the grid is not a multiple of 4.
    """
    space = BoxSpace() if space is None else space
    coarse, paths = _CoarseOccupancy(grid), space.paths(rays)
    near, far = paths.near, paths.far
    if space.is_straight:
        enters, leaves = coarse.intersect(paths.origins, paths.directions)
        near, far = torch.maximum(near, enters), torch.minimum(far, leaves)
    # 1. Bins as long as a coarse cell, of whole steps, and their middles.
    per_bin = max(1, int(coarse.cell / step))
    origins, directions = paths.origins, paths.directions
    length = per_bin * step
    # A ray that misses has no bin: its middles lie behind `far`.
    num_bins = int(((far - near).clamp(min=0).amax() / length).ceil()) if len(near) else 0
    middles = near[:, None] + (torch.arange(num_bins, device=near.device) + 0.5) * length
    # 2. Bins whose middle is in or beside an occupied coarse cell.
    points = space.positions(origins[:, None], directions[:, None], middles)
    is_near = coarse(points) & (middles - length / 2 < far[:, None])
    ray, first = is_near.nonzero(as_tuple=True)
    # 3. All steps of these bins, shifted alike along a ray.
    shift = torch.full_like(near, 0.5)
    if generator is not None:
        shift = uniform(near.shape, generator, near)
    order = first[:, None] * per_bin + torch.arange(per_bin, device=near.device)
    ray = ray.repeat_interleave(per_bin)
    along = near[ray] + (order.flatten() + shift[ray]) * step
    positions = space.positions(origins[ray], directions[ray], along)
    # 4. Those in occupied cells.
    inside = (grid(positions) & (along < far[ray] + step)).nonzero()[:, 0]
    return PackedSamples(ray[inside], along[inside], positions[inside])


class _CoarseOccupancy:
    """Cells of 4 x 4 x 4 occupied cells, each grown by one to all sides.

    A bin no longer than a coarse cell is empty if its middle is not in one.
    """

    def __init__(self, grid: OccupancyGrid) -> None:
        if grid.resolution % _COARSE:
            raise ValueError(
                f"the grid's resolution must be a multiple of {_COARSE}; got {grid.resolution}"
            )
        size = grid.resolution // _COARSE
        # Four neighbors along z at once, as one number.
        fours = grid.occupied.view(torch.int32).view(size, _COARSE, size, _COARSE, size)
        any_occupied = (fours != 0).any(3).any(1).float()
        grown = F.max_pool3d(any_occupied[None, None], 3, stride=1, padding=1)[0, 0]
        self.grown = grown.flatten() > 0
        self.size, self.cell = size, 2 / size
        # First and last slab of each axis that has an occupied cell: a list of the occupied cells
        # would make the host wait for its length.
        has_any = torch.stack([any_occupied.amax(axes) > 0 for axes in ((1, 2), (0, 2), (0, 1))])
        index = torch.arange(size, device=has_any.device)
        low = torch.where(has_any, index, size).amin(1)
        high = torch.where(has_any, index + 1, 0).amax(1)
        self.center = (low + high) * (self.cell / 2) - 1
        self.half = (high - low) * (self.cell / 2)

    def intersect(self, origins: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        """Distances at which rays enter and leave the box around all occupied cells."""
        # Without an occupied cell half the edges are negative: no ray hits.
        half = self.half.abs()
        near, far = ray_aabb_intersect((origins - self.center) / half, directions / half)
        return near, torch.where(self.half[0] > 0, far, near)

    def __call__(self, points: Tensor) -> Tensor:
        index = ((points + 1) / self.cell).long().clamp_(0, self.size - 1)
        x, y, z = index.unbind(-1)
        return self.grown[(x * self.size + y) * self.size + z]


def packed_weights(
    density: Float[Tensor, " n"], step: float, rays: Int[Tensor, " n"], num_rays: int
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Rendering weight of each packed sample (Mildenhall et al. 2020, equation 3).

    Args:
        density: 0 or more, in 1 / length.
        step: distance between samples.
        rays: index of each sample's ray, rising.
        num_rays: number of rays.

    Returns:
        Weights, and the optical depth in front of each sample.
    """
    if not len(rays):
        return density, density
    thickness = density * step
    # One sum over the samples of all rays, minus its value at the first sample of each ray. In
    # float64, which MPS lacks, since the difference cancels.
    wide = thickness if thickness.device.type == "mps" else thickness.double()
    before = wide.cumsum(0) - thickness
    first = _first_of_rays(rays, num_rays).clamp(max=len(rays) - 1)
    optical_depth = (before - before[first][rays]).to(density.dtype)
    return torch.exp(-optical_depth) * -torch.expm1(-thickness), optical_depth


class PackedRenderer(Renderer):
    """Render with packed samples: density first, then color where it is seen.

    The step is a cell of the field's grids, and shrinks with it as the field is refined.

    Args:
        field: the radiance field.
        grid: its occupancy; its resolution is a multiple of 4.
        space: space in which the cube of the field is the scene; None for the scene's own box.
        num_exposures: views whose exposures are learned: a gain for each color channel, as in
            photographs with automatic exposure and white balance; 0 for none.
    """

    grid: OccupancyGrid
    grid_update = (16, 0.125)

    def __init__(
        self,
        field: FactoredField,
        grid: OccupancyGrid,
        space: BoxSpace | None = None,
        *,
        num_exposures: int = 0,
    ) -> None:
        super().__init__(space, num_exposures=num_exposures)
        self.field = field
        self.grid = grid

    def render_batch(self, batch: RayBatch) -> Rendering:
        """Forward pass of a training step, with the exposures of the batch's views."""
        return self.forward(batch.rays, batch.generator, views=batch.views)

    def refine(self, progress: float) -> None:
        """Make the grids of the field finer after fixed shares of the fit."""
        shares = _REFINE_AT_IN_BOX if self.space.is_box else _REFINE_AT
        stride = STRIDES[bisect(shares, progress)]
        if stride < self.field.stride:
            self.field.refine(stride)

    def forward(
        self, rays: Rays, generator: Jitter | None = None, *, views: Int[Tensor, " n"] | None = None
    ) -> Rendering:
        """Render rays.

        Args:
            rays: any number.
            generator: random number generator to shift the samples of each ray; None for samples in
                the middle of their steps.
            views: training view of each ray, to render it with the exposure of that view; None for
                the mean exposure.
        """
        step, num_rays = self.field.cell, len(rays.origins)
        samples = packed_samples(self.grid, rays, step, generator, space=self.space)
        with torch.no_grad():
            samples, corners, density = self._visible(samples, step, num_rays)
        if torch.is_grad_enabled():
            density = self.field.density_at(corners)
        # Colors of the visible samples, whose number is padded.
        weights, _ = packed_weights(density, step, samples.rays, num_rays)
        visible = (weights.detach() > _VISIBLE).nonzero()[:, 0]
        ray = samples.rays[visible]
        padded = F.pad(visible, (0, -len(visible) % PADDED_ROWS))
        directions = rays.directions[samples.rays[padded]]
        rgb = self.field.color_at(corners.points(padded), directions)[: len(visible)]
        total = rgb.new_zeros(num_rays, 3).index_add(0, ray, weights[visible, None] * rgb)
        total = exposed(total, self.log_gains, views)
        opacity = weights.new_zeros(num_rays).index_add(0, samples.rays, weights)
        distances = self.space.distances(rays, samples.rays, samples.along)
        distance = weights.new_zeros(num_rays).index_add(
            0, samples.rays, weights.detach() * distances
        )
        return Rendering(
            total + (1 - opacity)[:, None] * rays.background,
            opacity,
            distance / opacity.detach().clamp(min=1e-6),
        )

    def _visible(
        self, samples: PackedSamples, step: float, num_rays: int
    ) -> tuple[PackedSamples, GridCorners, Tensor]:
        """Samples that are not hidden behind opaque ones, their corners and densities.

        On a CPU they are queried from the front, some of each ray at a time, so that those behind
        are skipped. Elsewhere all are queried at once: the host would wait for the device after
        each part.
        """
        if not samples.along.is_cpu:
            corners = self.field.corners(samples.positions)
            density = self.field.density_at(corners)
            _, before = packed_weights(density, step, samples.rays, num_rays)
            kept = (before < OPAQUE).nonzero()[:, 0]
            return samples.rows(kept), corners.points(kept), density[kept]
        parts: list[tuple[Tensor, GridCorners, Tensor]] = []
        optical_depth = samples.along.new_zeros(num_rays)
        order = _order_in_ray(samples.rays, num_rays)
        for first in range(0, int(order.max()) + 1 if len(order) else 1, _AT_ONCE):
            is_next = (order >= first) & (order < first + _AT_ONCE)
            # The next samples of rays that are not opaque so far.
            rows = (is_next & (optical_depth < OPAQUE)[samples.rays]).nonzero()[:, 0]
            part = samples.rows(rows)
            corners = self.field.corners(part.positions)
            density = self.field.density_at(corners)
            _, before = packed_weights(density, step, part.rays, num_rays)
            # Keep those that are not hidden by this part and those before it.
            kept = (before + optical_depth[part.rays] < OPAQUE).nonzero()[:, 0]
            optical_depth = optical_depth.index_add(0, part.rays, density * step)
            parts.append((rows[kept], corners.points(kept), density[kept]))
        # A part has samples of all rays: sort all parts by ray again.
        rows, order = torch.cat([part[0] for part in parts]).sort()
        return (
            samples.rows(rows),
            GridCorners.cat([part[1] for part in parts]).points(order),
            torch.cat([part[2] for part in parts])[order],
        )


def _order_in_ray(rays: Tensor, num_rays: int) -> Tensor:
    """Number of samples before each one in its ray."""
    return torch.arange(len(rays), device=rays.device) - _first_of_rays(rays, num_rays)[rays]


def _first_of_rays(rays: Tensor, num_rays: int) -> Tensor:
    """Number of the first sample of each ray; of the next one's for a ray without samples."""
    # Without a count, which the host would wait for.
    return torch.searchsorted(rays, torch.arange(num_rays, device=rays.device))
