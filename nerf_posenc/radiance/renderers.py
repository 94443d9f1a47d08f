"""Pictures of radiance fields: which places along a ray a field is asked at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts
from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.rays import (
    Rays,
    box_interval,
    cone_gaussians,
    importance_samples,
    stratified_edges,
    stratified_samples,
)
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import (
    OccupancyGrid,
    Rendering,
    composite,
    weights_from_density,
)

# A CPU's matrix library plans anew for each number of rows that it has not met, which takes longer
# than the product itself; rows are filled up to a multiple of this.
_ROWS = 512

# Length of NeRF's last interval: what is there stops all light that is left.
_ENDLESS = 1e10

# What lies behind this much optical depth is not asked: less than a thousandth of its light gets
# through. It is found in so many intervals at a time, from the front.
_OPAQUE = 7.0
_STRETCH = 32


class GridRenderer(nn.Module):
    """One sample in each of equal intervals through the cube, where the grid is occupied.

    What is hidden behind opaque places is found by their density alone and then left out, as
    in instant-NGP's early stop of rays (Müller et al. 2022, appendix C).

    Args:
        field: what is seen.
        grid: where it may be; None asks the field everywhere.
        num_samples: intervals from where a ray enters the cube to where it leaves.

    Raises:
        ValueError: where ``num_samples`` is below 1.
    """

    def __init__(
        self, field: RadianceField, grid: OccupancyGrid | None, *, num_samples: int = 96
    ) -> None:
        super().__init__()
        require_counts(num_samples=num_samples)
        self.field = field
        self.grid = grid
        self.num_samples = num_samples

    def forward(self, rays: Rays) -> Rendering:
        """See what rays see; with their seed, at random places within the intervals."""
        with torch.no_grad():
            edges = stratified_edges(*box_interval(*rays[:2]), self.num_samples)
            distances = stratified_samples(edges, _generator(rays))
            positions = rays.origins[:, None] + rays.directions[:, None] * distances[..., None]
            widths = edges.diff(dim=-1)
            occupied = widths > 0
            if self.grid is not None:
                occupied = occupied & self.grid(positions)
        if torch.is_grad_enabled():
            with torch.no_grad():
                asked, _, _ = self._from_the_front(positions, widths, occupied, None)
            densities, colours = self._ask(positions, rays.directions, asked)
        else:
            _, densities, colours = self._from_the_front(
                positions, widths, occupied, rays.directions
            )
        weights = weights_from_density(densities, widths)
        return composite(weights, colours, distances, rays.background)

    def _from_the_front(
        self, positions: Tensor, widths: Tensor, occupied: Tensor, directions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Ask the occupied places that are not hidden by those before them.

        Without ``directions`` their densities alone are asked, at a sixth of what a training
        step would take there.

        Returns:
            Which places ``(rays, num_samples)`` those are, the densities and the colours.
        """
        depth = widths.new_zeros(len(widths))
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for places, width, is_occupied in zip(
            *(part.split(_STRETCH, dim=1) for part in (positions, widths, occupied)), strict=True
        ):
            asked = is_occupied & (depth < _OPAQUE)[:, None]
            densities, colours = self._ask(places, directions, asked)
            reached = depth[:, None] + (densities * width).cumsum(-1)
            parts.append((asked & (reached - densities * width < _OPAQUE), densities, colours))
            depth = reached[:, -1]
        visible, densities, colours = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        return visible, densities, colours

    def _ask(
        self, positions: Tensor, directions: Tensor | None, asked: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Densities and colours at the places that are asked, 0 elsewhere."""
        places = asked.nonzero(as_tuple=True)
        wanted = positions[places]
        num_spare = -len(wanted) % _ROWS
        wanted = F.pad(wanted, (0, 0, 0, num_spare))
        densities, colours = torch.zeros_like(positions[..., 0]), torch.zeros_like(positions)
        if directions is None:
            density = self.field.density(wanted)
        else:
            along = F.pad(directions[places[0]], (0, 0, 0, num_spare))
            density, colour = self.field(wanted, along)
            colours = colours.index_put(places, colour[: len(places[0])])
        density = density[: len(places[0])].to(densities)
        return densities.index_put(places, density), colours


class HierarchicalRenderer(nn.Module):
    """NeRF's two passes: even samples first, then more where those found something.

    Without cones this is NeRF (Mildenhall et al. 2020, section 5.2): a coarse field at the
    even samples, a fine field at all. With cones it is mip-NeRF (Barron et al. 2021): one
    field for both passes, asked for its mean over each frustum.

    Args:
        coarse: field of the first pass.
        fine: field of the second; None for the same.
        num_coarse: samples of the first pass.
        num_fine: samples that the second adds, or has of its own with cones; 0 for no
            second pass.
        cones: give the field the frustums' means and variances.

    Raises:
        ValueError: where a number of samples is out of its range.
    """

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

    def forward(self, rays: Rays) -> Rendering:
        """See what rays see; with their seed, at random places."""
        generator = _generator(rays)
        edges = stratified_edges(*box_interval(*rays[:2]), self.num_coarse)
        fine = self.coarse if self.fine is None else self.fine
        if self.cones:
            coarse, weights = self._cones(self.coarse, rays, edges)
            if self.num_fine == 0:
                return coarse
            finer = importance_samples(edges, _widened(weights), self.num_fine + 1, generator)
            rendering, _ = self._cones(fine, rays, finer)
            return rendering._replace(coarse_colour=coarse.colour)
        distances = stratified_samples(edges, generator)
        coarse, weights = self._points(self.coarse, rays, distances)
        if self.num_fine == 0:
            return coarse
        # As in NeRF, the weights stand for the spaces between the samples.
        middles = (distances[..., 1:] + distances[..., :-1]) / 2
        more = importance_samples(middles, weights[..., 1:-1], self.num_fine, generator)
        both = torch.cat([distances, more], dim=-1).sort(dim=-1).values
        rendering, _ = self._points(fine, rays, both)
        return rendering._replace(coarse_colour=coarse.colour)

    def _points(
        self, field: RadianceField, rays: Rays, distances: Tensor
    ) -> tuple[Rendering, Tensor]:
        lengths = F.pad(distances.diff(dim=-1), (0, 1), value=_ENDLESS)
        return self._composite(field, rays, distances, lengths, None)

    def _cones(self, field: RadianceField, rays: Rays, edges: Tensor) -> tuple[Rendering, Tensor]:
        means, variance = cone_gaussians(edges, rays.directions, rays.radii)
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
        density, colour = field(
            positions.reshape(-1, 3),
            directions.reshape(-1, 3),
            None if variance is None else variance.reshape(-1, 3),
        )
        # A ray that misses the cube sees its background.
        hits = distances[..., -1:] > 0
        weights = weights_from_density(density.view_as(distances) * hits, lengths)
        return composite(weights, colour.view_as(positions), distances, rays.background), weights


def _widened(weights: Tensor) -> Tensor:
    """Blur and pad weights before new edges are drawn (mip-NeRF, equation 18)."""
    padded = torch.cat([weights[..., :1], weights, weights[..., -1:]], dim=-1)
    largest = torch.maximum(padded[..., :-1], padded[..., 1:])
    return (largest[..., :-1] + largest[..., 1:]) / 2 + 0.01


def _generator(rays: Rays) -> torch.Generator | None:
    if rays.seed is None:
        return None
    return torch.Generator(rays.origins.device).manual_seed(rays.seed)


def photometric_loss(
    rendering: Rendering, target: Float[Tensor, "n 3"], *, coarse_weight: float = 1.0
) -> Float[Tensor, ""]:
    """Mean squared error of the colours, with that of the coarse pass where there is one.

    Args:
        rendering: what was seen.
        target: what should be.
        coarse_weight: of the coarse pass: 1 in NeRF (equation 6), 0.1 in mip-NeRF.
    """
    loss = (rendering.colour - target).square().mean()
    if rendering.coarse_colour is not None:
        loss = loss + coarse_weight * (rendering.coarse_colour - target).square().mean()
    return loss


@torch.no_grad()
def render(model: Any, rays: Rays, *, rows: int = 4096) -> Rendering:
    """See what all rays see, in pieces.

    Args:
        model: a renderer.
        rays: any number of them.
        rows: rays in a piece.
    """
    pieces = [
        model(rays.rows(slice(i, i + rows))) for i in range(0, max(1, len(rays.origins)), rows)
    ]
    return Rendering(*(torch.cat(parts) for parts in list(zip(*pieces, strict=True))[:3]))


def rows_at_once(renderer: nn.Module) -> int:
    """Rays to render at once: on a CPU few enough for its cache."""
    sparse = isinstance(renderer, GridRenderer) and renderer.grid is not None
    rows = 4096 if sparse else 256
    return rows if next(renderer.parameters()).device.type == "cpu" else 16 * rows


@dataclass(frozen=True)
class ViewScore:
    """A view that was not fitted, as the field shows it.

    Attributes:
        name: of the view.
        psnr: in dB.
        ssim: structural similarity.
        rendering: of all pixels, ``(height, width, ...)``.
    """

    name: str
    psnr: float
    ssim: float
    rendering: Rendering


def score_views(
    renderer: nn.Module,
    views: Views,
    *,
    background: float = 1.0,
    rows: int | None = None,
    on_view: Callable[[], object] = lambda: None,
) -> list[ViewScore]:
    """Render views and compare them with their pictures.

    Args:
        renderer: the fitted field.
        views: to compare with.
        background: grey behind.
        rows: rays at once; None for as many as suit the device.
        on_view: called after each view.
    """
    device = next(renderer.parameters()).device
    rows = rows_at_once(renderer) if rows is None else rows
    truth = views.over(background)
    scores = []
    for view, name in enumerate(views.names):
        rays = views.rays(view, background=background).to(device)
        shown = render(renderer, rays, rows=rows)
        shape = truth[view].shape[:2]
        shown = Rendering(
            shown.colour.view(*shape, 3).cpu(), *(p.view(shape).cpu() for p in shown[1:3])
        )
        scores.append(
            ViewScore(name, psnr(shown.colour, truth[view]), ssim(shown.colour, truth[view]), shown)
        )
        on_view()
    return scores
