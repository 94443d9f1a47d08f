"""Packed samples, their weights, and the factored field that is rendered from them."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.factored_field import FactoredField
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers
from nerf_posenc.radiance.packed import PackedRenderer, packed_samples, packed_weights
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.scene_spaces import SpaceName
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import weights_from_density
from nerf_posenc.training.loop import FitState


def random_rays(count: int) -> Rays:
    """Rays from a sphere of radius 3 to points in the cube."""
    generator = torch.Generator().manual_seed(0)
    origins = torch.nn.functional.normalize(torch.randn(count, 3, generator=generator), dim=-1) * 3
    targets = torch.rand(count, 3, generator=generator) * 2 - 1
    directions = torch.nn.functional.normalize(targets - origins, dim=-1)
    return Rays(origins, directions, torch.zeros(count), torch.ones(count, 3))


def shell(resolution: int = 32) -> OccupancyGrid:
    """A grid that is occupied near a sphere."""
    radius = cell_centers(resolution).norm(dim=-1)
    return OccupancyGrid(resolution, possible=(radius - 0.6).abs() < 0.1)


@pytest.mark.parametrize("step", [0.004, 0.03, 0.11])
@pytest.mark.parametrize("is_shifted", [False, True])
def test_every_occupied_point_of_a_ray_has_a_sample_within_half_a_step(
    step: float, is_shifted: bool
) -> None:
    grid, rays = shell(), random_rays(60)
    generator = torch.Generator().manual_seed(1) if is_shifted else None
    samples = packed_samples(grid, rays, step, generator)
    distances = torch.linspace(0, 6, 3001)
    points = rays.origins[:, None] + rays.directions[:, None] * distances[:, None]
    occupied = grid(points)
    # The sample next to an occupied point may itself lie in an empty cell.
    inner = occupied.clone()
    reach = math.ceil(step / float(distances[1])) + 1
    for shift in range(-reach, reach + 1):
        inner &= occupied.roll(shift, dims=1)
    for ray in range(60):
        found = samples.along[samples.rays == ray]
        missing = distances[inner[ray]]
        if len(missing):
            gaps = (found - missing[:, None]).abs().amin(-1)
            assert float(gaps.max()) <= step / 2 + 1e-4


def test_samples_are_in_order_occupied_and_a_step_apart() -> None:
    grid, rays = shell(), random_rays(60)
    rays_of, distances, positions = packed_samples(grid, rays, 0.02)
    assert bool((rays_of.diff() >= 0).all())
    assert bool(grid(positions).all())
    expected = rays.origins[rays_of] + rays.directions[rays_of] * distances[:, None]
    torch.testing.assert_close(positions, expected)
    steps = distances.diff()[rays_of.diff() == 0] / 0.02
    torch.testing.assert_close(steps, steps.round(), atol=1e-3, rtol=0)
    assert bool((steps.round() >= 1).all())


def test_an_empty_grid_and_rays_that_miss_have_no_samples() -> None:
    empty = OccupancyGrid(8, possible=torch.zeros(512, dtype=torch.bool))
    assert len(packed_samples(empty, random_rays(5), 0.1).rays) == 0
    away = random_rays(5)._replace(directions=-random_rays(5).directions)
    assert len(packed_samples(OccupancyGrid(8), away, 0.1).rays) == 0


def test_a_grid_that_cannot_be_coarsened_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a multiple of 4; got 6"):
        packed_samples(OccupancyGrid(6), random_rays(2), 0.1)


def test_packed_weights_are_those_of_each_ray_on_its_own() -> None:
    generator = torch.Generator().manual_seed(3)
    counts = [4, 0, 1, 7]
    rays = torch.tensor([ray for ray, count in enumerate(counts) for _ in range(count)])
    density = torch.rand(12, generator=generator, dtype=torch.float64) * 5
    density.requires_grad_()
    weights, depth = packed_weights(density, 0.3, rays, 4)
    for ray in (0, 2, 3):
        own = density[rays == ray]
        expected = weights_from_density(own, torch.full_like(own, 0.3))
        torch.testing.assert_close(weights[rays == ray], expected)
        before = (own * 0.3).cumsum(0) - own * 0.3
        torch.testing.assert_close(depth[rays == ray], before)
    assert torch.autograd.gradcheck(
        lambda values: packed_weights(values, 0.3, rays, 4)[0], (density,)
    )


def field() -> FactoredField:
    generator = torch.Generator().manual_seed(4)
    made = FactoredField(resolution=17, width=16, generator=generator)
    with torch.no_grad():
        made.density_encoder.planes.mul_(30)
    return made


def dense_rendering(made: FactoredField, rays: Rays, step: float) -> tuple[Tensor, Tensor]:
    """Color and opacity with all samples in float64, none skipped."""
    samples = packed_samples(OccupancyGrid(8), rays, step)
    density, rgb = made(samples.positions, rays.directions[samples.rays])
    total, opacity = torch.zeros(len(rays.origins), 3), torch.zeros(len(rays.origins))
    for ray in range(len(rays.origins)):
        own = samples.rays == ray
        lengths = torch.full_like(density[own], step)
        weights = weights_from_density(density[own], lengths)
        total[ray] = weights @ rgb[own] + (1 - weights.sum()) * rays.background[ray]
        opacity[ray] = weights.sum()
    return total, opacity


@torch.no_grad()
def test_skipping_hidden_and_faint_samples_changes_little() -> None:
    made, rays = field(), random_rays(40)
    renderer = PackedRenderer(made, OccupancyGrid(8))
    rendering = renderer(rays)
    rgb, opacity = dense_rendering(made, rays, made.cell)
    # Faint samples weigh up to a thousandth each.
    torch.testing.assert_close(rendering.rgb, rgb, atol=0.03, rtol=0)
    torch.testing.assert_close(rendering.opacity, opacity, atol=1e-3, rtol=0)
    assert 0.2 < float(opacity.mean()) < 1


def test_training_and_evaluation_render_alike() -> None:
    renderer, rays = PackedRenderer(field(), OccupancyGrid(8)), random_rays(40)
    trained = renderer(rays)
    with torch.no_grad():
        evaluated = renderer(rays)
    torch.testing.assert_close(trained.rgb.detach(), evaluated.rgb)
    trained.rgb.sum().backward()
    grads = [parameter.grad for parameter in renderer.parameters()]
    assert all(grad is not None and bool(grad.isfinite().all()) for grad in grads)


def test_a_ray_through_nothing_shows_its_background() -> None:
    empty = OccupancyGrid(8, possible=torch.zeros(512, dtype=torch.bool))
    rays = random_rays(3)._replace(background=torch.rand(3, 3))
    rendering = PackedRenderer(field(), empty)(rays)
    assert torch.equal(rendering.rgb, rays.background)
    assert not bool(rendering.opacity.any() or rendering.depth.any())


def test_a_field_covers_its_box_alone() -> None:
    box = torch.tensor([[-0.5, -0.25, 0.0], [0.5, 0.25, 0.5]])
    made = FactoredField(resolution=5, box=box)
    whole = FactoredField(resolution=5)
    whole.load_state_dict({**made.state_dict(), "box": whole.box})
    x = torch.rand(20, 3) * 2 - 1
    inside = (x + 1) / 2 * (box[1] - box[0]) + box[0]
    torch.testing.assert_close(made.density(inside), whole.density(x))
    with pytest.raises(ValueError, match="box must be a lower and an upper corner"):
        FactoredField(resolution=5, box=box.flip(0))


def views() -> Views:
    camera = Camera.from_angle(8, 8, 0.7)
    pose = torch.eye(4)
    pose[2, 3] = 3.0
    return Views(torch.ones(1, 8, 8, 3), [camera], pose[None], ["a"])


@pytest.mark.parametrize(("space", "first"), [("box", 13), ("contracted", 40)])
def test_a_fit_refines_its_field_and_ends_on_all_nodes(space: SpaceName, first: int) -> None:
    renderer = make_renderer(FieldOptions("vector-matrix", field="factored", space=space), views())
    assert isinstance(renderer, PackedRenderer)
    update = renderer.after_step()
    state = FitState(renderer, renderer.make_optimizer("muon"), num_steps=100)
    strides = []
    for step in range(100):
        state.step = step
        update(state)
        strides.append(renderer.field.stride)
    assert strides[:first] == [4] * first
    assert strides[first] == 2
    assert strides[-1] == 1
    assert strides == sorted(strides, reverse=True)
    assert set(strides) == {4, 2, 1}


def test_a_saved_field_is_rebuilt_without_the_views() -> None:
    hull = torch.zeros(128**3, dtype=torch.bool)
    hull[500_000:900_000] = True
    options = FieldOptions("vector-matrix", field="factored", resolution=50, seed=3)
    renderer = make_renderer(options, hull=hull)
    assert isinstance(renderer, PackedRenderer)
    renderer.field.refine(2)
    again = make_renderer(options)
    again.load_state_dict(renderer.state_dict())
    rays = random_rays(20)
    assert torch.equal(again(rays).rgb, renderer(rays).rgb)


def test_exposures_are_gains_relative_to_their_mean() -> None:
    renderer = PackedRenderer(field(), OccupancyGrid(8), num_exposures=2)
    rays = random_rays(30)._replace(background=torch.zeros(30, 3))
    views_of = torch.arange(30) % 2
    mean = renderer(rays).rgb
    torch.testing.assert_close(renderer(rays, views=views_of).rgb, mean)
    assert renderer.log_gains is not None
    with torch.no_grad():
        renderer.log_gains.copy_(torch.tensor([[1.3, 1.0, 1.0], [0.7, 1.0, 1.0]]))
    exposed = renderer(rays, views=views_of).rgb
    factors = torch.tensor([0.3, -0.3]).exp()[views_of]
    torch.testing.assert_close(exposed[:, 0], mean[:, 0] * factors)
    torch.testing.assert_close(exposed[:, 1:], mean[:, 1:])
    # Without views there is nothing to expose by, as in an evaluation.
    torch.testing.assert_close(renderer(rays).rgb, mean)


def test_exposures_of_photographs_are_recovered_by_a_fit() -> None:
    renderer = PackedRenderer(field(), OccupancyGrid(8), num_exposures=2)
    rays, views_of = random_rays(200), torch.arange(200) % 2
    rays = rays._replace(background=torch.zeros(200, 3))
    with torch.no_grad():
        target = renderer(rays).rgb * torch.tensor([1.25, 0.8])[views_of, None]
    optimizer = torch.optim.Adam([renderer.log_gains], lr=0.03)  # type: ignore[arg-type]
    for _ in range(60):
        optimizer.zero_grad()
        (renderer(rays, views=views_of).rgb - target).square().mean().backward()
        optimizer.step()
    assert renderer.log_gains is not None
    gains = (renderer.log_gains - renderer.log_gains.mean(0)).detach().exp()
    expected = torch.tensor([1.25, 0.8])[:, None].expand(2, 3)
    torch.testing.assert_close(gains, expected, atol=0.02, rtol=0)
