"""Radiance fields and how they are rendered and fitted."""

import functools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc import FourierEncoder, HashGridEncoder, SphericalHarmonicsEncoder
from nerf_posenc.core.encoder import Identity
from nerf_posenc.radiance.base_renderer import Renderer, render
from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.fields import RadianceField, hash_field, nerf_field
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers, visual_hull
from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.rays import Rays, camera_rays, ray_aabb_intersect
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer
from nerf_posenc.radiance.views import Views
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc_app.data.formulas.quadrature import look_at_origin
from nerf_posenc_app.data.formulas.solids import rendered_scene
from nerf_posenc_app.data.shipped import module_of, shipped
from tests.radiance.formula_field import FormulaField


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_nerf_field_has_the_paper_s_parameters_and_shapes() -> None:
    field = nerf_field()
    # mip-NeRF's table 1: 1,191k for NeRF's two networks, 612k for mip-NeRF's one.
    assert 2 * count(field) == 1_191_688
    assert count(nerf_field(16, cones=True)) == 612_740
    shapes = [tuple(matrix.shape) for matrix in field.hidden_matrices()]
    assert shapes == [
        (256, 63),
        *([(256, 256)] * 4),
        (256, 319),
        (256, 256),
        (256, 256),
        (256, 256),
        (128, 256 + 27),
    ]
    assert field.rgb_output.weight.shape == (3, 128)


def test_the_hash_field_is_instant_ngp_s() -> None:
    field = hash_field(HashGridEncoder(3, log2_table_size=10))
    shapes = [tuple(matrix.shape) for matrix in field.hidden_matrices()]
    # 16 levels of 2 features, one hidden layer to the density, two to the color.
    assert shapes == [(64, 32), (15, 64), (64, 15 + 16), (64, 64)]


def test_the_nerf_field_is_the_function_of_the_paper() -> None:
    field = nerf_field().double()
    position, direction = torch.rand(2, 7, 3, dtype=torch.float64) * 2 - 1

    def encode(x: Tensor, num: int) -> Tensor:
        parts = [x]
        for k in range(num):
            angle = 2**k * math.pi * x
            parts += [angle]
        raw, angles = parts[0], torch.stack(parts[1:], -1)
        pairs = torch.stack([torch.sin(angles), torch.cos(angles)], -1)
        return torch.cat([raw, pairs.flatten(1)], -1)

    encoded, viewed = encode(position, 10), encode(direction, 4)
    h = encoded
    for i, layer in enumerate(field.trunk):
        h = torch.relu(layer(torch.cat([encoded, h], -1) if i == 5 else h))
    density = torch.relu(field.density_output(h)[:, 0])
    z = torch.relu(field.head[0](torch.cat([field.feature(h), viewed], -1)))
    color = torch.sigmoid(field.rgb_output(z))
    found_density, found_color = field(position, direction)
    torch.testing.assert_close(found_density, density)
    torch.testing.assert_close(found_color, color)
    torch.testing.assert_close(field.density(position), found_density)


def test_density_does_not_depend_on_the_direction() -> None:
    field = RadianceField(FourierEncoder(3, 4), SphericalHarmonicsEncoder(4), width=16)
    position = torch.rand(5, 3)
    first, second = (field(position, F.normalize(torch.randn(5, 3), dim=-1)) for _ in range(2))
    assert bool((first[0] == second[0]).all())
    assert not bool((first[1] == second[1]).all())


def test_variance_damps_what_the_mip_field_sees() -> None:
    field = nerf_field(4, 2, width=16, depth=2, cones=True)
    position, direction = torch.rand(5, 3), F.normalize(torch.randn(5, 3), dim=-1)
    wide = torch.full((5, 3), 1e4)
    moved = position + 0.37
    torch.testing.assert_close(field(position, direction, wide), field(moved, direction, wide))
    near, far = field(position, direction, wide * 0)[1], field(moved, direction, wide * 0)[1]
    assert not torch.allclose(near, far)


def test_a_variance_that_the_encoder_does_not_take_is_refused() -> None:
    position, direction = torch.rand(5, 3), F.normalize(torch.randn(5, 3), dim=-1)
    grid = RadianceField(HashGridEncoder(3, 2), Identity(3), width=8, depth=1)
    with pytest.raises(ValueError, match="HashGridEncoder takes no variance"):
        grid(position, direction, torch.ones(5, 3))
    # The expectation of a raw coordinate is its mean.
    raw = RadianceField(Identity(3), Identity(3), width=8, depth=1)
    assert torch.equal(raw(position, direction)[0], raw(position, direction, torch.ones(5, 3))[0])


@pytest.mark.parametrize(
    "arguments", [{"width": 0}, {"depth": 0}, {"skip": 4}, {"skip": 0}, {"head_depth": -1}]
)
def test_bad_fields_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RadianceField(Identity(3), Identity(3), **{"depth": 4, **arguments})  # type: ignore[arg-type]


def test_places_must_be_three_numbers(unchecked: None) -> None:
    with pytest.raises(ValueError, match="positions must have shape"):
        nerf_field(2, 2, width=8, depth=2)(torch.rand(4, 2), torch.rand(4, 3))


class Fog(FormulaField):
    """Constant density and color, to be rendered against Beer and Lambert."""

    def __init__(self, thickness: float) -> None:
        super().__init__()
        self.thickness = thickness

    def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
        return torch.full_like(positions[:, 0], self.thickness)

    def color(self, positions: Tensor) -> Tensor:
        return positions * 0 + 0.25


@pytest.mark.parametrize(
    "renderer",
    [
        GridRenderer(Fog(0.7), None, num_samples=32),
        GridRenderer(Fog(0.7), OccupancyGrid(8), num_samples=32),
        HierarchicalRenderer(Fog(0.7), num_coarse=32, num_fine=0, cones=True),
    ],
)
def test_fog_is_rendered_as_beer_and_lambert_have_it(renderer: Renderer) -> None:
    rays = camera_rays(Camera.from_angle(8, 8, 0.3), look_at_origin(0.4, 0.5))
    near, far = ray_aabb_intersect(rays.origins, rays.directions)
    opacity = 1 - torch.exp(-0.7 * (far - near))
    for generator in (None, torch.Generator().manual_seed(3)):
        rendering = renderer(rays, generator)
        torch.testing.assert_close(rendering.opacity, opacity, atol=1e-4, rtol=0)
        expected = (opacity * 0.25 + (1 - opacity))[:, None].expand(-1, 3)
        torch.testing.assert_close(rendering.rgb, expected, atol=1e-4, rtol=0)


class Wall(FormulaField):
    """An opaque slab across the first axis before a thinner medium."""

    def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
        inside = (positions[:, 0] - 0.2).abs() < 0.1
        return torch.where(inside, 500.0, 2.0)


@pytest.mark.parametrize("training", [True, False])
def test_what_an_opaque_wall_hides_is_not_queried_and_not_missed(
    training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sideways = torch.linspace(-0.8, 0.8, 7)
    origins = torch.stack([torch.full((7,), 3.0), sideways, sideways.flip(0)], -1)
    directions = torch.tensor([-1.0, 0.0, 0.0]).expand(7, 3)
    rays = Rays(origins, directions, torch.zeros(7), torch.ones(7, 3))
    field = Wall()
    renderer = GridRenderer(field, None, num_samples=256)
    with torch.set_grad_enabled(training):
        rendering = renderer(rays)
        queried = torch.cat(field.queried)
        # Rows that fill a block lie at 0. Without gradients positions are queried in chunks.
        behind = queried[queried.any(-1), 0].min()
        assert float(behind) > (0.05 if training else 0.1 - 32 * 2 / 256)
        monkeypatch.setattr("nerf_posenc.radiance.renderers.OPAQUE", math.inf)
        field.queried.clear()
        everything = renderer(rays)
    assert float(torch.cat(field.queried)[:, 0].min()) < -0.9
    torch.testing.assert_close(rendering.rgb, everything.rgb, atol=1e-3, rtol=0)
    torch.testing.assert_close(rendering.opacity, everything.opacity, atol=1e-3, rtol=0)


def test_rays_that_miss_the_cube_see_their_background() -> None:
    rays = camera_rays(Camera.from_angle(4, 4, 0.3), look_at_origin(0.4, 0.5), background=0.5)
    away = rays._replace(directions=-rays.directions)
    for renderer in (
        GridRenderer(Fog(5.0), OccupancyGrid(4)),
        HierarchicalRenderer(Fog(5.0), num_coarse=8, num_fine=8),
        HierarchicalRenderer(Fog(5.0), num_coarse=8, num_fine=8, cones=True),
    ):
        rendering = renderer(away)
        assert bool((rendering.rgb == 0.5).all())
        assert bool((rendering.opacity == 0).all())


def test_padding_the_places_changes_no_gradient() -> None:
    # A field queried at positions that fill no whole block must get the gradient of those alone.
    torch.manual_seed(0)
    field = RadianceField(FourierEncoder(3, 2), Identity(3), width=8, depth=1).double()
    rays = camera_rays(Camera.from_angle(3, 3, 0.3), look_at_origin(0.4, 0.5))
    rays = Rays(
        rays.origins.double(), rays.directions.double(), rays.radii, rays.background.double()
    )
    grid = OccupancyGrid(4, possible=cell_centers(4)[:, 0] <= 0)

    def total(scale: Tensor) -> Tensor:
        with torch.no_grad():
            field.density_output.bias.copy_(scale)
        rendering = GridRenderer(field, grid.double(), num_samples=8)(rays)
        opacity: Tensor = rendering.opacity.sum()
        return opacity

    step = 1e-4
    at = torch.zeros(1).double()
    expected = (total(at + step) - total(at - step)) / (2 * step)
    field.zero_grad()
    total(at).backward()
    assert field.density_output.bias.grad is not None
    torch.testing.assert_close(
        field.density_output.bias.grad[0], expected.double(), rtol=1e-3, atol=1e-5
    )


@functools.cache
def small_views(num_views: int = 6, size: int = 16) -> Views:
    spheres = module_of(shipped("scene")["spheres"]).medium()
    return rendered_scene("spheres", spheres, size, num_train=num_views, num_test=1).train


def test_samples_along_rays_are_independent_of_the_pixels_drawn() -> None:
    batches = RayBatches(small_views(), 64, seed=0, background="random")
    # Backgrounds were drawn after the pixels from the same generator: a second one with the same
    # seed would give the jitter the numbers that chose the pixels.
    total = 6 * 16 * 16
    batch, _ = batches(3)
    fresh = torch.Generator().manual_seed(3)
    chosen = torch.randint(total, (64,), generator=fresh)
    background = torch.rand(64, 3, generator=fresh)
    assert torch.equal(batch.rays.background, background)
    assert isinstance(batch.generator, torch.Generator)
    jitter = torch.rand(64, generator=batch.generator)
    assert torch.equal(jitter, torch.rand(64, generator=fresh))
    assert abs(torch.corrcoef(torch.stack([jitter, chosen / total]))[0, 1]) < 0.5


def test_batches_are_pixels_of_the_views_and_depend_on_the_step_alone() -> None:
    views = small_views()
    batches = RayBatches(views, 32, seed=0)
    (first, rgb), (again, _) = batches(5), batches(5)
    assert torch.equal(first.rays.directions, again.rays.directions)
    assert isinstance(first.generator, torch.Generator)
    assert isinstance(again.generator, torch.Generator)
    assert torch.equal(
        torch.rand(9, generator=first.generator), torch.rand(9, generator=again.generator)
    )
    assert not torch.equal(first.rays.directions, batches(6)[0].rays.directions)
    every = [views.rays(i) for i in range(len(views))]
    truth = torch.stack([views.over(i, 1.0).flatten(0, 1) for i in range(len(views))])
    for row in range(32):
        found = [
            (i, int(pixel))
            for i, rays in enumerate(every)
            for pixel in (
                (rays.directions - first.rays.directions[row]).abs().sum(-1) < 1e-6
            ).nonzero()
            if torch.equal(rays.origins[0], first.rays.origins[row])
        ]
        assert len(found) == 1
        torch.testing.assert_close(rgb[row], truth[found[0]])


def test_views_without_opacity_exclude_nothing() -> None:
    views = small_views()
    solid = replace(views, pixels=views.pixels[..., :3])
    assert bool(visual_hull(solid, 8).all())


def test_no_pixel_to_draw_from_is_an_error() -> None:
    views = small_views()
    with pytest.raises(ValueError, match="transparent or masked all over"):
        RayBatches(views, 4, seed=0, live=torch.zeros(6, 16, 16, dtype=torch.bool))


@pytest.mark.parametrize(
    ("field", "encoding"),
    [
        pytest.param(
            field,
            encoding,
            marks=() if (field, encoding) == ("mlp", "fourier") else pytest.mark.slow,
        )
        for field in ("mlp", "nerf", "mip")
        for encoding in ("none", "fourier")
    ],
)
def test_every_field_is_fitted_and_beats_a_blank_view(field: str, encoding: str) -> None:
    views = small_views()
    options = FieldOptions(encoding, field=field, num_bands=4, width=32, depth=2, num_samples=16)
    renderer = make_renderer(options, views)
    batches = renderer.batches(views, 128, seed=0)
    state = FitState(renderer, renderer.make_optimizer("muon"), 60)
    fit(
        state,
        batches,
        renderer.loss,
        forward=renderer.render_batch,
        after_step=renderer.after_step(),
    )
    scores = evaluate_views(renderer, views.subset(2))
    truth = torch.stack([views.subset(2).over(i, 1.0) for i in range(2)])
    blank = -10 * math.log10(float((1 - truth).square().mean()))
    assert sum(score.psnr for score in scores) / 2 > blank + 1
    assert scores[0].rendering.rgb.shape == (16, 16, 3)


@pytest.mark.parametrize("encoding", ["gaussian", "hash"])
def test_the_mlp_field_takes_every_encoding_and_the_others_say_that_they_do_not(
    encoding: str,
) -> None:
    views = small_views(2, 8)
    renderer = make_renderer(FieldOptions(encoding, field="mlp", width=8, depth=1), views)
    assert render(renderer, views.rays(0)).rgb.shape == (64, 3)
    with pytest.raises(ValueError, match="use the mlp field"):
        make_renderer(FieldOptions(encoding, field="nerf"), views)


@pytest.mark.slow
def test_a_fit_that_is_resumed_goes_on_to_the_bit(tmp_path: Path) -> None:
    views = small_views()
    options = FieldOptions(num_bands=3, width=16, depth=1, num_samples=8)

    hull = visual_hull(views)

    def fresh() -> FitState:
        renderer = make_renderer(options, views, hull=hull)
        return FitState(renderer, renderer.make_optimizer("muon"), 140)

    def go_on(state: FitState, until: int) -> FitState:
        # A resumed run draws its batches before it loads the occupied cells.
        new, renderer = fresh().model, state.model
        assert isinstance(new, Renderer)
        assert isinstance(renderer, Renderer)
        batches = new.batches(views, 64, seed=0)
        upkeep = renderer.after_step()
        return fit(
            state,
            batches,
            renderer.loss,
            forward=renderer.render_batch,
            after_step=upkeep,
            should_stop=lambda: state.step >= until,
        )

    whole = go_on(fresh(), 140)
    half = go_on(fresh(), 130)
    torch.save(half.state_dict(), tmp_path / "half.pt")
    resumed = fresh()
    resumed.load_state_dict(torch.load(tmp_path / "half.pt"))
    go_on(resumed, 140)
    for a, b in zip(
        whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_pruning_hides_nothing_that_the_field_shows() -> None:
    views = small_views(8, 24)
    options = FieldOptions(num_bands=5, width=32, depth=2, num_samples=48)
    renderer = make_renderer(options, views)
    assert isinstance(renderer, GridRenderer)
    batches = renderer.batches(views, 256, seed=0)
    state = FitState(renderer, renderer.make_optimizer("muon"), 180)
    fit(
        state,
        batches,
        renderer.loss,
        forward=renderer.render_batch,
        after_step=renderer.after_step(),
    )
    with_grid = evaluate_views(renderer, views.subset(2))
    assert renderer.grid is not None
    hull = OccupancyGrid(renderer.grid.resolution, possible=renderer.grid.possible)
    unpruned = GridRenderer(renderer.field, hull, num_samples=renderer.num_samples)
    without = evaluate_views(unpruned, views.subset(2))
    mean = [sum(s.psnr for s in scores) / 2 for scores in (with_grid, without)]
    assert float(renderer.grid.occupied.sum()) < 0.9 * float(renderer.grid.possible.sum())
    assert mean[0] == pytest.approx(mean[1], abs=0.05)
