"""Proposal sampling: its losses against their sums, and rendering against closed forms."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers
from nerf_posenc.radiance.proposals import (
    ProposalRenderer,
    distance_loss,
    distortion_loss,
    interlevel_loss,
)
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.scene_spaces import ContractedSpace
from nerf_posenc.radiance.views import Views


class Slab(nn.Module):
    """Density of a slab around z = 0, or everywhere, in one color."""

    def __init__(self, density: float, reach: float = 10.0) -> None:
        super().__init__()
        self.inside, self.reach = density, reach
        self.rgb = nn.Parameter(torch.tensor([0.2, 0.5, 0.9]))

    def forward(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        density = self.inside * (positions[..., 2].abs() <= self.reach).to(positions.dtype)
        return density, self.rgb.expand_as(positions)


class Recorded(Slab):
    """A slab that records where it is evaluated."""

    def forward(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        self.positions = positions
        return super().forward(positions, directions)


def edges_of(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    inner = torch.rand(5, count - 1, generator=generator).sort(dim=-1).values
    return torch.cat([torch.zeros(5, 1), inner, torch.ones(5, 1)], dim=1)


def weights_of(count: int, seed: int) -> Tensor:
    weights = torch.rand(5, count, generator=torch.Generator().manual_seed(seed))
    return weights / weights.sum(-1, keepdim=True)


def downwards(count: int) -> Rays:
    """Rays along -z that enter the cube at a distance of 1."""
    across = torch.linspace(-0.8, 0.8, count)
    origins = torch.stack([across, across, torch.full((count,), 2.0)], dim=-1)
    directions = torch.tensor([[0.0, 0.0, -1.0]]).expand(count, 3)
    return Rays(origins, directions, torch.full((count,), 1e-3), torch.zeros(count, 3))


@pytest.mark.parametrize(("fine", "coarse"), [(4, 7), (9, 3), (1, 1)])
def test_the_interlevel_loss_is_the_excess_over_all_overlapping_intervals(
    fine: int, coarse: int
) -> None:
    edges, weights = edges_of(fine, 0), weights_of(fine, 1)
    proposal_edges, proposed = edges_of(coarse, 2), 0.7 * weights_of(coarse, 3)
    total = 0.0
    for ray in range(5):
        for i in range(fine):
            overlaps = (proposal_edges[ray, :-1] < edges[ray, i + 1]) & (
                proposal_edges[ray, 1:] > edges[ray, i]
            )
            excess = max(0.0, float(weights[ray, i] - proposed[ray][overlaps].sum()))
            total += excess**2 / float(weights[ray, i] + 1e-7) / 5
    found = interlevel_loss(edges, weights, proposal_edges, proposed)
    assert float(found) == pytest.approx(total, rel=1e-5, abs=1e-7)


def test_a_proposal_that_bounds_the_weights_costs_nothing_and_alone_has_a_gradient() -> None:
    edges, weights = edges_of(8, 0), weights_of(8, 1).requires_grad_()
    # Every second edge: each interval has the weight of the two within it.
    merged = weights.detach().view(5, 4, 2).sum(-1).requires_grad_()
    assert float(interlevel_loss(edges, weights, edges[:, ::2], merged).detach()) < 1e-10
    interlevel_loss(edges, weights, edges[:, ::2], 0.5 * merged).backward()
    assert weights.grad is None
    assert merged.grad is not None


@pytest.mark.parametrize("count", [1, 2, 13])
def test_the_distortion_loss_is_the_sum_over_all_pairs(count: int) -> None:
    edges, weights = edges_of(count, 0).double(), weights_of(count, 1).double()
    middles, lengths = (edges[:, 1:] + edges[:, :-1]) / 2, edges.diff(dim=-1)
    apart = (middles[:, :, None] - middles[:, None]).abs()
    pairs = (weights[:, :, None] * weights[:, None] * apart).sum((1, 2))
    expected = (pairs + (weights.square() * lengths).sum(-1) / 3).mean()
    torch.testing.assert_close(distortion_loss(edges, weights), expected)


def test_the_penalty_of_a_rendering_makes_fog_of_the_same_opacity_compact() -> None:
    class Fog(nn.Module):
        """Density by the distance along z, which sums to the same for all shapes."""

        def __init__(self) -> None:
            super().__init__()
            self.sharpness = nn.Parameter(torch.tensor(1.0))

        def forward(self, positions: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
            z = positions[..., 2]
            shape = torch.exp(-0.5 * (self.sharpness * z).square())
            return 2 * shape / shape.sum(-1, keepdim=True) * z.shape[-1], torch.ones_like(positions)

    renderer = ProposalRenderer(Fog(), num_samples=32)
    penalty = renderer(downwards(4)).penalty
    assert penalty is not None
    penalty.backward()
    gradient = renderer.field.sharpness.grad
    assert isinstance(gradient, Tensor)
    assert float(gradient) < 0


def test_light_from_elsewhere_than_the_surface_costs_what_its_disparity_is_off_by() -> None:
    distances, known = torch.tensor([[1.0, 2.0, 4.0]]).expand(5, 3), torch.full((5,), 2.0)
    # All light from one sample, half of each of two, none at all; the last is not known.
    weights = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5], [0, 0, 0]])
    expected = torch.tensor([1.0, 0.0, 0.5, 0.25, 1.0])
    for ray in range(5):
        known_here = torch.where(torch.arange(5) == ray, known, torch.zeros(()))
        found = distance_loss(distances, weights, known_here)
        assert float(found) == pytest.approx(float(expected[ray]) / 5)


def test_a_surface_that_is_not_where_it_is_known_to_be_is_penalized() -> None:
    renderer, rays = ProposalRenderer(Slab(1e4), num_samples=64), downwards(8)
    # An opaque slab from the face of the cube on, at a distance of 1.
    known = torch.tensor([0.0, 0, 1, 1, 1, 1, 1, 1])
    penalties = [renderer(rays, known=each).penalty for each in (None, known, 2 * known)]
    plain, right, wrong = (float(penalty.detach()) for penalty in penalties if penalty is not None)
    assert right == pytest.approx(plain, abs=0.005)
    assert wrong > right + 0.05


@pytest.mark.parametrize("seed", [None, 0])
def test_constant_density_renders_as_its_closed_form(seed: int | None) -> None:
    renderer, rays = ProposalRenderer(Slab(0.7)), downwards(6)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    rendering = renderer(rays, generator)
    expected = 1 - torch.exp(torch.tensor(-0.7 * 2))
    torch.testing.assert_close(rendering.opacity, expected.expand(6))
    torch.testing.assert_close(
        rendering.rgb, expected * torch.tensor([[0.2, 0.5, 0.9]]).expand(6, 3)
    )


def test_rays_end_where_space_has_no_end_and_miss_outside_of_a_box() -> None:
    rays = downwards(4)
    endless = ProposalRenderer(Slab(1e-6), ContractedSpace())
    torch.testing.assert_close(endless(rays).opacity, torch.ones(4))
    beside = rays._replace(origins=rays.origins + torch.tensor([3.0, 0.0, 0.0]))
    missed = ProposalRenderer(Slab(1.0))(beside)
    assert float(missed.opacity.abs().max()) == 0


def test_a_trained_proposal_puts_the_samples_where_the_field_is() -> None:
    torch.manual_seed(0)
    renderer = ProposalRenderer(Slab(200.0, 0.05), num_samples=8)
    rays = downwards(64)

    def error() -> float:
        with torch.no_grad():
            # Seen from 2 above: the surface is at a distance of 1.95.
            return float((renderer(rays).depth - 1.95).abs().mean())

    before = error()
    optimizer = torch.optim.Adam(renderer.proposal.parameters(), lr=0.05)
    for step in range(60):
        optimizer.zero_grad()
        penalty = renderer(rays, torch.Generator().manual_seed(step)).penalty
        assert penalty is not None
        penalty.backward()
        optimizer.step()
    assert error() < 0.3 * before
    assert error() < 0.03


def test_the_intervals_of_an_object_fill_the_box_around_its_cells() -> None:
    # Cells of z in [-1, -0.5] alone, where half of the slab lies.
    grid = OccupancyGrid(8, possible=cell_centers(8)[:, 2] < -0.5)
    field = Recorded(0.7)
    renderer, rays = ProposalRenderer(field, grid=grid), downwards(6)
    rendering = renderer(rays)
    expected = 1 - torch.exp(torch.tensor(-0.7 * 0.5))
    torch.testing.assert_close(rendering.opacity, expected.expand(6))
    assert field.positions[..., 2].amin() > -1
    assert field.positions[..., 2].amax() < -0.5
    beside = rays._replace(directions=torch.tensor([[1.0, 0.0, 0.0]]).expand(6, 3))
    assert float(renderer(beside).opacity.abs().max()) == 0
    # The box is saved: cells that become empty later do not move it.
    grid.occupied.fill_(False)
    again = ProposalRenderer(Recorded(0.7), grid=OccupancyGrid(8))
    again.load_state_dict(renderer.state_dict())
    assert torch.equal(again(rays).opacity, rendering.opacity)


def views_of_a_square(*, opaque: bool = False) -> Views:
    """A view of a square of 3 pixels, left of the middle of the cube."""
    pixels = torch.zeros(1, 24, 24, 4)
    pixels[:, 11:14, 8:11] = 1
    if opaque:
        pixels[..., 3] = 1
    pose = torch.eye(4)
    pose[2, 3] = 4.0
    return Views(pixels, [Camera.from_angle(24, 24, 1.2)], pose[None], ["a"])


def test_rays_of_an_object_meet_its_visual_hull_and_others_are_of_all_pixels() -> None:
    options = FieldOptions("none", field="proposal", width=8, depth=1)
    views = views_of_a_square()
    renderer = make_renderer(options, views)
    live = renderer.live_pixels(views)
    assert live is not None
    (pixels,) = live
    assert bool(pixels[11:14, 8:11].all())
    assert not bool(pixels[:, 16:].any())
    assert renderer.has_fixed_shapes
    opaque = views_of_a_square(opaque=True)
    everywhere = make_renderer(replace(options, space="contracted"), opaque)
    assert everywhere.live_pixels(opaque) is None
    # The hull of poses that are not exact would be wrong.
    refined = make_renderer(replace(options, num_poses=1), views)
    assert refined.grid is None
    assert not refined.has_fixed_shapes
    (around,) = refined.live_pixels(views) or ()
    assert bool(around[0, 0])
    assert everywhere.grid is None


def test_a_new_proposal_is_nearly_transparent_and_its_density_is_a_softplus() -> None:
    renderer = ProposalRenderer(Slab(1.0))
    positions = torch.rand(3, 4, 3) * 2 - 1
    new = renderer._proposed_density(positions)
    renderer.proposal.table.data.fill_(0.7)
    trained = renderer._proposed_density(positions)
    # TensoRF's code: softplus(features - shift) times a scale.
    expected = [torch.full((3, 4), 25 * math.log1p(math.exp(x - 5))) for x in (0, 7)]
    torch.testing.assert_close(new, expected[0], rtol=2e-3, atol=0)
    torch.testing.assert_close(trained, expected[1])


def test_views_show_the_colors_with_their_own_gains() -> None:
    renderer = ProposalRenderer(Slab(1e4), num_exposures=2)
    assert renderer.log_gains is not None
    # Relative to the mean of all views, which the field itself has.
    renderer.log_gains.data.copy_(torch.tensor([[0.5, 0.2, 0.0], [-0.1, 0.2, 0.0]]))
    rays = downwards(2)
    mean, own = renderer(rays).rgb, renderer(rays, views=torch.tensor([0, 1])).rgb
    gains = torch.exp(torch.tensor([[0.3, 0.0, 0.0], [-0.3, 0.0, 0.0]]))
    torch.testing.assert_close(own, mean * gains)


def test_exposures_of_photographs_are_recovered_by_a_fit() -> None:
    renderer, rays = ProposalRenderer(Slab(1e4), num_exposures=2), downwards(20)
    views = torch.arange(20) % 2
    assert renderer.log_gains is not None
    with torch.no_grad():
        target = renderer(rays).rgb * torch.tensor([1.25, 0.8])[views, None]
    optimizer = torch.optim.Adam([renderer.log_gains], lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        (renderer(rays, views=views).rgb - target).square().mean().backward()
        optimizer.step()
    gains = (renderer.log_gains - renderer.log_gains.mean(0)).detach().exp()
    expected = torch.tensor([1.25, 0.8])[:, None].expand(2, 3)
    torch.testing.assert_close(gains, expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("encoding", ["none", "fourier", "hash"])
def test_every_encoding_of_the_proposal_field_has_a_gradient_everywhere(encoding: str) -> None:
    camera = Camera.from_angle(8, 8, 0.7)
    views = Views(torch.ones(1, 8, 8, 3), [camera], torch.eye(4)[None], ["a"])
    renderer = make_renderer(FieldOptions(encoding, field="proposal", width=16, depth=2), views)
    rendering = renderer(views.rays(0), torch.Generator().manual_seed(0))
    assert rendering.penalty is not None
    (rendering.rgb.square().mean() + rendering.penalty).backward()
    for name, parameter in renderer.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
