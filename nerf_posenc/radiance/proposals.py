"""Proposal sampling: a small density decides where along each ray the field is evaluated.

mip-NeRF 360 (Barron et al. 2022, section 3 and 4): the proposal is not trained to render, but to
bound the weights of the field from above. Every ray has the same number of samples, and no empty
space has to be found first: that suits rooms, whose views do not say which space is empty. The
visual hull of an object says where its rays begin and end, and which pixels show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts
from nerf_posenc.encoders.hash_grid import DenseGridEncoder
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.fields import at_least_float32
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.ray_batches import RayBatch, object_pixels
from nerf_posenc.radiance.rays import Rays, ray_aabb_intersect
from nerf_posenc.radiance.refinement import SEARCH, SEARCH_IN_BOX, SEARCH_IN_SPACE, PoseRefinement
from nerf_posenc.radiance.sampling import importance_samples, stratified_edges, uniform
from nerf_posenc.radiance.scene_spaces import BoxSpace, Paths
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import (
    Rendering,
    composite,
    exposed,
    weights_from_density,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# Nodes along each axis of the proposal's grid: coarse, so that it is cheap to query 48 times a ray.
_NODES = 65
# Change of the activation's input per unit of the grid's features: they move by the learning rate
# in a step, and a new surface should take tens of steps.
_GAIN = 10.0
# Density of 1 / length per unit of the activation, and what is subtracted from its input, so that a
# new proposal is nearly transparent: both as in TensoRF's code (Chen et al. 2022).
_DENSITY_SCALE = 25.0
_DENSITY_SHIFT = 5.0

# Added to the proposal's weights before intervals are drawn, so that any may be drawn.
_LEAST_WEIGHT = 0.01

# Length of the last interval in an endless space: it absorbs all remaining light.
_ENDLESS = 1e10

# Weight of the distortion loss, relative to the squared error of the colors.
_DISTORTION = 1e-3

# Weight of the loss of known distances, relative to the squared error of the colors.
_KNOWN = 0.16


class ProposalRenderer(Renderer):
    """Render with intervals that a proposal chooses along each ray.

    Args:
        field: the radiance field, from positions ``(rays, samples, 3)`` and directions
            ``(rays, 1, 3)`` to density and color.
        space: space in which the cube of the field is the scene; None for the scene's own box. In
            other spaces every ray ends: its last interval is endless.
        grid: occupancy of a scene in its own box: intervals lie in the box around the cells that
            are occupied at first, and rays are drawn that meet one; None for the whole cube.
        num_proposals: intervals of the proposal along a ray.
        num_samples: intervals of the field along a ray.
        num_exposures: views whose exposures are learned, a gain for each color channel; 0 for none.
        num_poses: views whose poses are refined; 0 for none. The field then is a `RadianceField`,
            whose encoding opens from coarse to fine.
        generator: random number generator of the proposal's initial features.

    Raises:
        ValueError: If a number of samples is below 1.
    """

    known_share = 1 / 8

    box: Tensor

    def __init__(
        self,
        field: nn.Module,
        space: BoxSpace | None = None,
        *,
        grid: OccupancyGrid | None = None,
        num_proposals: int = 48,
        num_samples: int = 16,
        num_exposures: int = 0,
        num_poses: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(space, num_exposures=num_exposures)
        require_counts(num_proposals=num_proposals, num_samples=num_samples)
        self.field = field
        self.grid = grid
        box = torch.tensor([[-1.0] * 3, [1.0] * 3]) if grid is None else grid.occupied_box()
        self.register_buffer("box", box)
        self.proposal = DenseGridEncoder(
            3, features_per_level=1, base_resolution=_NODES, generator=generator
        )
        self.num_proposals = num_proposals
        self.num_samples = num_samples
        search = SEARCH_IN_BOX if self.space.is_box else SEARCH_IN_SPACE
        self.poses = PoseRefinement(num_poses, search) if num_poses else None

    @property
    def has_fixed_shapes(self) -> bool:
        """Whether every training step does the same operations; the grid leaves no samples out."""
        return self.poses is None

    def live_pixels(self, views: Views) -> Iterable[Bool[Tensor, "height width"]] | None:
        """Pixels of each view to draw rays from: all of opaque views.

        Of others, those that meet an occupied cell, or without a grid those of `object_pixels`.
        """
        if self.grid is not None or views.is_opaque:
            return super().live_pixels(views)
        return object_pixels(views)

    def render_batch(self, batch: RayBatch) -> Rendering:
        """Forward pass of a training step, with the batch's views and known distances."""
        return self.forward(batch.rays, batch.generator, views=batch.views, known=batch.distances)

    def forward(
        self,
        rays: Rays,
        generator: torch.Generator | None = None,
        *,
        views: Int[Tensor, " n"] | None = None,
        known: Float[Tensor, " n"] | None = None,
    ) -> Rendering:
        """Render rays; with gradients, the rendering has the penalty of the proposal.

        Args:
            rays: any number.
            generator: random number generator to shift the intervals of each ray.
            views: training view of each ray, to render it from that view's refined pose and with
                its exposure; None for rays as they are and the mean exposure.
            known: distance at which each ray meets a surface, 0 where it is not known; None for no
                penalty of light that comes from elsewhere.
        """
        if self.poses is not None and views is not None:
            rays = self.poses(rays, views)
        paths = self.space.paths(rays)
        near, far = self._ends(paths)

        def middles(edges: Tensor) -> tuple[Tensor, Tensor]:
            along = (edges[:, 1:] + edges[:, :-1]) / 2
            origins, directions = paths.origins[:, None], paths.directions[:, None]
            return along, self.space.positions(origins, directions, along)

        # The proposal's weights in equal intervals, whose inner edges are shifted together:
        # (rays, num_proposals + 1) edges.
        coarse = stratified_edges(near, far, self.num_proposals)
        if generator is not None:
            shift = uniform(torch.Size((len(near), 1)), generator, near) - 0.5
            width = (far - near)[:, None] / self.num_proposals
            coarse = torch.cat([coarse[:, :1], coarse[:, 1:-1] + shift * width, coarse[:, -1:]], 1)
        _, positions = middles(coarse)
        density = self._proposed_density(positions.detach())
        proposed = weights_from_density(density, self._lengths(coarse))
        # The field's intervals are drawn from those weights, and reach from near to far:
        # (rays, num_samples + 1) edges.
        drawn = importance_samples(
            coarse, proposed + _LEAST_WEIGHT, self.num_samples + 1, generator
        )
        edges = torch.cat([near[:, None], drawn[:, 1:-1], far[:, None]], dim=1)
        along, positions = middles(edges)  # (rays, samples), (rays, samples, 3)
        opened = {}
        if self.poses is not None and self.poses.stage == SEARCH:
            opened["progress"] = self.poses.progress
        density, rgb = self.field(positions, rays.directions[:, None], **opened)
        weights = weights_from_density(density, self._lengths(edges))
        index = torch.arange(len(along), device=along.device).repeat_interleave(along.shape[1])
        distances = self.space.distances(rays, index, along.flatten()).view_as(along)
        # An exposure applies to the colors of the scene, and not to the background.
        colors = exposed(rgb, self.log_gains, views)
        rendering = composite(weights, colors, distances, rays.background)
        if self.poses is not None:
            self.poses.watch(rendering.rgb)
        if not torch.is_grad_enabled():
            return rendering
        penalty = interlevel_loss(edges, weights, coarse, proposed)
        penalty = penalty + _DISTORTION * distortion_loss(edges, weights)
        if known is not None:
            penalty = penalty + _KNOWN * distance_loss(distances.detach(), weights, known)
        return rendering._replace(penalty=penalty)

    @torch.no_grad()
    def _ends(self, paths: Paths) -> tuple[Tensor, Tensor]:
        """Where each ray begins and ends; constants, so that poses learn by positions alone."""
        if not self.space.is_box:
            return paths.near, paths.far
        center, half = self.box.mean(0), (self.box[1] - self.box[0]) / 2
        return ray_aabb_intersect(paths.origins - center, paths.directions, half_size=half)

    def _proposed_density(self, positions: Tensor) -> Tensor:
        value = _GAIN * at_least_float32(self.proposal(positions)[..., 0])
        return _DENSITY_SCALE * F.softplus(value - _DENSITY_SHIFT)

    def _lengths(self, edges: Tensor) -> Tensor:
        lengths = edges.diff(dim=-1)
        if self.space.is_box:
            return lengths
        return F.pad(lengths[:, :-1], (0, 1), value=_ENDLESS)


def interlevel_loss(
    edges: Float[Tensor, "rays fine_edges"],
    weights: Float[Tensor, "rays fine"],
    proposal_edges: Float[Tensor, "rays coarse_edges"],
    proposal_weights: Float[Tensor, "rays coarse"],
) -> Float[Tensor, ""]:
    """How far the field's weights exceed what the proposal allows (mip-NeRF 360, equation 13).

    An interval may weigh as much as all intervals of the proposal that it overlaps, also in part.
    The gradient goes to the proposal alone.

    Args:
        edges: edges of the field's intervals, rising.
        weights: their weights.
        proposal_edges: edges of the proposal's intervals, rising, over the same range.
        proposal_weights: their weights.
    """
    weights, edges = weights.detach(), edges.detach()
    proposal_edges = proposal_edges.detach().contiguous()
    # Weight of the proposal up to each of its edges, (rays, coarse_edges).
    total = F.pad(proposal_weights.cumsum(-1), (1, 0))
    last = proposal_edges.shape[-1] - 1
    starts, ends = edges[:, :-1].contiguous(), edges[:, 1:].contiguous()
    # The last edge of the proposal before the interval, and the first one behind it: intervals that
    # overlap in part are within, and count with their whole weight. The bound is never too low.
    first = torch.searchsorted(proposal_edges, starts, right=True) - 1
    behind = torch.searchsorted(proposal_edges, ends)
    low, high = (torch.gather(total, -1, i.clamp(0, last)) for i in (first, behind))
    excess = (weights - (high - low)).clamp(min=0)
    return (excess.square() / (weights + 1e-7)).sum(-1).mean()


def distortion_loss(
    edges: Float[Tensor, "rays edges"], weights: Float[Tensor, "rays samples"]
) -> Float[Tensor, ""]:
    r"""How far the weights of a ray lie apart (mip-NeRF 360, equation 15): fog has a large one.

    $\sum_{i,j} w_i w_j |m_i - m_j| + \tfrac13 \sum_i w_i^2 \delta_i$ for intervals with the middles
    $m$ and lengths $\delta$, in time linear in their number.

    Args:
        edges: edges of the intervals, rising.
        weights: their weights.
    """
    middles, lengths = (edges[:, 1:] + edges[:, :-1]) / 2, edges.diff(dim=-1)
    # Middles rise, so |m_i - m_j| is m_i - m_j for the samples j before i: two running sums.
    moment = weights * middles
    before, moment_before = weights.cumsum(-1) - weights, moment.cumsum(-1) - moment
    between = (moment * before - weights * moment_before).sum(-1)
    return (2 * between + (weights.square() * lengths).sum(-1) / 3).mean()


def distance_loss(
    distances: Float[Tensor, "rays samples"],
    weights: Float[Tensor, "rays samples"],
    known: Float[Tensor, " rays"],
) -> Float[Tensor, ""]:
    r"""How far a ray's weights lie from the surface that it meets, where that is known.

    $\sum_i w_i \min(|D / t_i - 1|, 1)$ for samples at the distances $t_i$ and a surface at $D$:
    the error of the disparity, relative to the surface's. Points of structure from motion locate
    surfaces that few views show (Deng et al. 2022, DS-NeRF). The bound limits the effect of wrong
    points.

    Args:
        distances: distances of the samples from the origins of the rays.
        weights: their weights.
        known: distance of the surface that each ray meets, 0 where it is not known.
    """
    off = (known[:, None] / distances.clamp(min=1e-6) - 1).abs().clamp(max=1)
    # Light that no sample absorbs has the largest error.
    loss = (weights * off).sum(-1) + (1 - weights.sum(-1)).clamp(min=0)
    return (loss * (known > 0)).mean()
