"""Renderers: where along rays a radiance field is evaluated, and how its samples are composited."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts
from nerf_posenc.radiance.base_renderer import OPAQUE, PADDED_ROWS, Renderer
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.rays import Rays, ray_aabb_intersect
from nerf_posenc.radiance.sampling import (
    conical_frustum_to_gaussian,
    importance_samples,
    stratified_edges,
    stratified_samples,
)
from nerf_posenc.radiance.volume_rendering import Rendering, composite, weights_from_density

# Length of NeRF's last interval: it absorbs all remaining light.
_ENDLESS = 1e10

# Intervals at a time by which optical depth is accumulated from the front.
_CHUNK = 32


class GridRenderer(Renderer):
    """Render with one sample per bin, in occupied cells alone.

    Samples hidden behind opaque ones are found by density alone and then skipped, as in
    instant-NGP's early ray termination (Müller et al. 2022, appendix C).

    Args:
        field: the radiance field.
        grid: its occupancy; None evaluates the field everywhere.
        num_samples: bins from where a ray enters the cube to where it leaves.

    Raises:
        ValueError: If ``num_samples`` is below 1.
    """

    def __init__(
        self, field: RadianceField, grid: OccupancyGrid | None, *, num_samples: int = 96
    ) -> None:
        super().__init__()
        require_counts(num_samples=num_samples)
        self.field = field
        self.grid = grid
        self.num_samples = num_samples
        if grid is None:
            self.chunk_size = HierarchicalRenderer.chunk_size

    def forward(self, rays: Rays, generator: torch.Generator | None = None) -> Rendering:
        """Render rays; with a generator, jitter the samples within their bins."""
        with torch.no_grad():
            near, far = ray_aabb_intersect(rays.origins, rays.directions)
            edges = stratified_edges(near, far, self.num_samples)
            distances = stratified_samples(edges, generator)
            positions = rays.origins[:, None] + rays.directions[:, None] * distances[..., None]
            lengths = edges.diff(dim=-1)  # (rays, samples)
            occupied = lengths > 0
            if self.grid is not None:
                occupied = occupied & self.grid(positions)
        if torch.is_grad_enabled():
            with torch.no_grad():
                visible, _, _ = self._from_the_front(positions, lengths, occupied, None)
            density, rgb = self._query(positions, rays.directions, visible)
        else:
            _, density, rgb = self._from_the_front(positions, lengths, occupied, rays.directions)
        weights = weights_from_density(density, lengths)
        return composite(weights, rgb, distances, rays.background)

    def _from_the_front(
        self, positions: Tensor, lengths: Tensor, occupied: Tensor, directions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query the occupied samples that are not hidden behind opaque ones.

        Without ``directions`` only their density is queried, at a sixth of the cost of a training
        step.

        Returns:
            Visible samples ``(rays, num_samples)``, densities and colors.
        """
        # Of each ray so far, (rays,): the field is not queried for rays that are opaque.
        optical_depth = lengths.new_zeros(len(lengths))
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        chunks = (part.split(_CHUNK, dim=1) for part in (positions, lengths, occupied))
        for points, length, is_occupied in zip(*chunks, strict=True):
            queried = is_occupied & (optical_depth < OPAQUE)[:, None]
            density, rgb = self._query(points, directions, queried)
            thickness = density * length
            behind = optical_depth[:, None] + thickness.cumsum(-1)
            parts.append((queried & (behind - thickness < OPAQUE), density, rgb))
            optical_depth = behind[:, -1]
        visible, density, rgb = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        return visible, density, rgb

    def _query(
        self, positions: Tensor, directions: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Density and color of the masked samples, 0 elsewhere."""
        chosen = mask.nonzero(as_tuple=True)
        points = positions[chosen]
        # Padding makes sizes repeat, so that kernels that were chosen for a size are used again.
        num_padding = -len(points) % PADDED_ROWS
        points = F.pad(points, (0, 0, 0, num_padding))
        densities, colors = torch.zeros_like(positions[..., 0]), torch.zeros_like(positions)
        if directions is None:
            density = self.field.density(points)
        else:
            padded = F.pad(directions[chosen[0]], (0, 0, 0, num_padding))
            density, rgb = self.field(points, padded)
            colors = colors.index_put(chosen, rgb[: len(chosen[0])])
        density = density[: len(chosen[0])].to(densities)
        return densities.index_put(chosen, density), colors


class HierarchicalRenderer(Renderer):
    """Hierarchical sampling: a coarse pass, then importance samples from its weights.

    Without cones this is NeRF (Mildenhall et al. 2020, section 5.2): a coarse field at stratified
    samples, a fine field at both sets. With cones it is mip-NeRF (Barron et al. 2021): one field
    for both passes, evaluated in expectation over conical frustums.

    Args:
        coarse: field of the first pass.
        fine: field of the second; None for the same.
        num_coarse: samples of the first pass.
        num_fine: samples that the second pass adds, or has of its own with cones; 0 for no second
            pass.
        cones: give the field the mean and variance of conical frustums.

    Raises:
        ValueError: If a number of samples is out of its range.
    """

    chunk_size = 256

    def __init__(
        self,
        coarse: RadianceField,
        fine: RadianceField | None = None,
        *,
        num_coarse: int = 64,
        num_fine: int = 128,
        cones: bool = False,
    ) -> None:
        super().__init__()
        require_counts(num_coarse=num_coarse, num_fine=num_fine + 1)
        self.coarse = coarse
        self.fine = fine
        self.num_coarse = num_coarse
        self.num_fine = num_fine
        self.cones = cones
        # mip-NeRF, equation 17.
        self.coarse_weight = 0.1 if cones else 1.0

    @property
    def fields(self) -> list[RadianceField]:
        """The coarse and the fine field, or the one for both passes."""
        return [self.coarse] if self.fine is None else [self.coarse, self.fine]

    def forward(self, rays: Rays, generator: torch.Generator | None = None) -> Rendering:
        """Render rays; with a generator, jitter the samples within their bins."""
        near, far = ray_aabb_intersect(rays.origins, rays.directions)
        edges = stratified_edges(near, far, self.num_coarse)
        fine = self.coarse if self.fine is None else self.fine
        if self.cones:
            coarse, weights = self._cones(self.coarse, rays, edges)
            if self.num_fine == 0:
                return coarse
            finer = importance_samples(edges, _blurred(weights), self.num_fine + 1, generator)
            rendering, _ = self._cones(fine, rays, finer)
            return rendering._replace(coarse_rgb=coarse.rgb)
        distances = stratified_samples(edges, generator)
        coarse, weights = self._points(self.coarse, rays, distances)
        if self.num_fine == 0:
            return coarse
        # As in NeRF's code, an inner sample's weight is that of the interval around it.
        middles = (distances[..., 1:] + distances[..., :-1]) / 2
        more = importance_samples(middles, weights[..., 1:-1], self.num_fine, generator)
        both = torch.cat([distances, more], dim=-1).sort(dim=-1).values
        rendering, _ = self._points(fine, rays, both)
        return rendering._replace(coarse_rgb=coarse.rgb)

    def _points(
        self, field: RadianceField, rays: Rays, distances: Tensor
    ) -> tuple[Rendering, Tensor]:
        lengths = F.pad(distances.diff(dim=-1), (0, 1), value=_ENDLESS)
        return self._composite(field, rays, distances, lengths, None)

    def _cones(self, field: RadianceField, rays: Rays, edges: Tensor) -> tuple[Rendering, Tensor]:
        means, variance = conical_frustum_to_gaussian(edges, rays.directions, rays.radii)
        return self._composite(field, rays, means, edges.diff(dim=-1), variance)

    def _composite(
        self,
        field: RadianceField,
        rays: Rays,
        distances: Tensor,
        lengths: Tensor,
        variance: Tensor | None,
    ) -> tuple[Rendering, Tensor]:
        positions = rays.origins[:, None] + rays.directions[:, None] * distances[..., None]
        directions = rays.directions[:, None].expand_as(positions)
        density, rgb = field(
            positions.reshape(-1, 3),
            directions.reshape(-1, 3),
            None if variance is None else variance.reshape(-1, 3),
        )
        # A ray that misses the cube shows its background.
        hits = distances[..., -1:] > 0
        weights = weights_from_density(density.view_as(distances) * hits, lengths)
        return composite(weights, rgb.view_as(positions), distances, rays.background), weights


def _blurred(weights: Tensor) -> Tensor:
    """Blur and pad weights before new edges are drawn (mip-NeRF, equation 18)."""
    padded = torch.cat([weights[..., :1], weights, weights[..., -1:]], dim=-1)
    largest = torch.maximum(padded[..., :-1], padded[..., 1:])
    return (largest[..., :-1] + largest[..., 1:]) / 2 + 0.01
