"""Renderers against sums over their own samples, and the loss of two passes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nerf_posenc.radiance.base_renderer import render
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import default_chunk_size, evaluate_views, render_camera
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import Rays, camera_rays, ray_aabb_intersect
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer, _blurred
from nerf_posenc.radiance.views import Views
from nerf_posenc.radiance.volume_rendering import Rendering, visible_depth
from tests.radiance.formula_field import FormulaField

ORIGIN = torch.tensor([3.0, 0.5, 0.2])
CAMERA = Camera.from_angle(4, 3, 0.4)
POSE = look_at(ORIGIN, torch.zeros(3), torch.tensor([0.0, 0.0, 1.0]))


class Cloud(FormulaField):
    """Density and color that vary from place to place."""

    def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
        return 2 * torch.sin(3 * positions[:, 0]).square()


def composited(distances: Tensor, lengths: Tensor, ray: tuple[Tensor, Tensor]) -> list[float]:
    """Color over white and opacity of one ray through the cloud, one sample after the other."""
    passed, color = 1.0, [0.0, 0.0, 0.0]
    for distance, length in zip(distances.tolist(), lengths.tolist(), strict=True):
        position = (ray[0] + ray[1] * distance).tolist()
        stopped = 1 - math.exp(-2 * math.sin(3 * position[0]) ** 2 * length)
        color = [c + passed * stopped * (p + 1) / 2 for c, p in zip(color, position, strict=True)]
        passed *= 1 - stopped
    return [*(c + passed for c in color), 1 - passed]


def all_values(rendering: Rendering) -> Tensor:
    return torch.cat([rendering.rgb, rendering.opacity[:, None]], dim=-1)


def test_nerf_s_coarse_pass_has_one_sample_per_bin_and_an_endless_last_interval() -> None:
    rays = camera_rays(CAMERA, POSE)
    rendering = HierarchicalRenderer(Cloud(), num_coarse=6, num_fine=0)(rays)
    near, far = ray_aabb_intersect(rays.origins, rays.directions)
    expected = []
    for i in range(12):
        distances = near[i] + (far[i] - near[i]) * (torch.arange(6) + 0.5) / 6
        lengths = torch.full((6,), float(far[i] - near[i]) / 6)
        lengths[-1] = 1e10
        expected.append(composited(distances, lengths, (rays.origins[i], rays.directions[i])))
    torch.testing.assert_close(all_values(rendering), torch.tensor(expected), atol=1e-5, rtol=0)
    assert rendering.coarse_rgb is None


def test_nerf_s_fine_pass_sums_both_sets_of_samples_in_order() -> None:
    rays, coarse, fine = camera_rays(CAMERA, POSE), Cloud(), Cloud()
    rendering = HierarchicalRenderer(coarse, fine, num_coarse=6, num_fine=10)(rays)
    (few,), (many,) = coarse.queried, fine.queried
    assert (few.shape, many.shape) == ((12 * 6, 3), (12 * 16, 3))
    expected = []
    for i, positions in enumerate(many.view(12, 16, 3)):
        distances = (positions - rays.origins[i]) @ rays.directions[i]
        assert bool((distances.diff() >= 0).all())
        first = (few.view(12, 6, 3)[i] - rays.origins[i]) @ rays.directions[i]
        assert bool(((distances[:, None] - first).abs().amin(0) < 1e-5).all())
        lengths = torch.cat([distances.diff(), torch.tensor([1e10])])
        expected.append(composited(distances, lengths, (rays.origins[i], rays.directions[i])))
    torch.testing.assert_close(all_values(rendering), torch.tensor(expected), atol=1e-4, rtol=0)


def test_nerf_s_new_samples_follow_the_weights_of_the_inner_samples() -> None:
    # A weight stands for the space between the middles to the neighboring samples (section 5.2 and
    # the authors' code).
    class Wall(Cloud):
        def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
            return torch.where((positions[:, 0] - 0.375).abs() < 0.125, 1e4, 0.0)

    ahead = torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([[-1.0, 0.0, 0.0]])
    fine = Wall()
    renderer = HierarchicalRenderer(Wall(), fine, num_coarse=8, num_fine=5)
    renderer(Rays(*ahead, torch.zeros(1), torch.ones(1, 3)))
    drawn = fine.queried[0][:, 0].sort().values
    # One of the 8 samples, at 0.375, is in the wall; the middles lie at 0.25 and 0.5. Five new
    # samples divide what is between them into equal shares, and stand at the shares' centers.
    inside = drawn[(drawn > 0.25) & (drawn < 0.5)]
    expected = torch.tensor([0.275, 0.325, 0.375, 0.375, 0.425, 0.475])
    torch.testing.assert_close(inside, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_fine", [0, 9])
def test_mip_nerf_has_one_gaussian_per_interval_in_each_pass(num_fine: int) -> None:
    rays, field = camera_rays(CAMERA, POSE), Cloud()
    rendering = HierarchicalRenderer(field, num_coarse=6, num_fine=num_fine, cones=True)(rays)
    counts = [len(positions) // 12 for positions in field.queried]
    assert counts == ([6, 9] if num_fine else [6])
    assert [len(variance) // 12 for variance in field.variances] == counts
    assert (rendering.coarse_rgb is None) == (num_fine == 0)
    positions = field.queried[0].view(12, 6, 3)
    near, far = ray_aabb_intersect(rays.origins, rays.directions)
    expected = []
    for i in range(12):
        distances = (positions[i] - rays.origins[i]) @ rays.directions[i]
        lengths = torch.full((6,), float(far[i] - near[i]) / 6)
        expected.append(composited(distances, lengths, (rays.origins[i], rays.directions[i])))
    first = rendering.rgb if rendering.coarse_rgb is None else rendering.coarse_rgb
    torch.testing.assert_close(first, torch.tensor(expected)[:, :3], atol=1e-5, rtol=0)


def test_the_weights_of_cones_are_blurred_as_in_equation_18() -> None:
    # 1/2 (max(w[k-1], w[k]) + max(w[k], w[k+1])) + 0.01, the ends repeated.
    weights = torch.tensor([[0.0, 0.4, 0.2, 0.0, 0.0]])
    expected = torch.tensor([[0.2, 0.4, 0.3, 0.1, 0.0]]) + 0.01
    torch.testing.assert_close(_blurred(weights), expected)
    torch.testing.assert_close(_blurred(weights.flip(-1)), expected.flip(-1))
    torch.testing.assert_close(_blurred(torch.tensor([[0.5, 0.0]])), torch.tensor([[0.51, 0.26]]))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("num_samples", [7, 70])
def test_the_grid_renderer_sums_one_sample_per_bin(training: bool, num_samples: int) -> None:
    rays = camera_rays(CAMERA, POSE)
    with torch.set_grad_enabled(training):
        rendering = GridRenderer(Cloud(), OccupancyGrid(4), num_samples=num_samples)(rays)
    near, far = ray_aabb_intersect(rays.origins, rays.directions)
    expected = []
    for i in range(12):
        step = float(far[i] - near[i]) / num_samples
        distances = near[i] + step * (torch.arange(num_samples) + 0.5)
        lengths = torch.full((num_samples,), step)
        expected.append(composited(distances, lengths, (rays.origins[i], rays.directions[i])))
    torch.testing.assert_close(all_values(rendering), torch.tensor(expected), atol=1e-4, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_the_grid_renderer_skips_empty_cells(training: bool) -> None:
    grid = OccupancyGrid(4, possible=cell_centers(4)[:, 0] < 0)
    ahead = torch.tensor([3.0, 0.3, 0.2]), torch.tensor([-1.0, 0.0, 0.0])
    rays = Rays(ahead[0][None], ahead[1][None], torch.zeros(1), torch.ones(1, 3))
    with torch.set_grad_enabled(training):
        rendering = GridRenderer(Cloud(), grid, num_samples=20)(rays)
    # The farther half of the way from 2 to 4 lies in occupied cells.
    distances = 3 + (torch.arange(10) + 0.5) / 10
    expected = composited(distances, torch.full((10,), 0.1), ahead)
    torch.testing.assert_close(all_values(rendering)[0], torch.tensor(expected))


@pytest.mark.parametrize("training", [True, False])
def test_samples_that_less_than_a_thousandth_of_the_light_reaches_are_skipped(
    training: bool,
) -> None:
    class Fog(Cloud):
        def density(self, positions: Tensor, variance: Tensor | None = None) -> Tensor:
            return torch.full_like(positions[:, 0], 10.0)

    field = Fog()
    ahead = torch.tensor([[3.0, 0.3, 0.2]]), torch.tensor([[-1.0, 0.0, 0.0]])
    with torch.set_grad_enabled(training):
        renderer = GridRenderer(field, None, num_samples=128)
        renderer(Rays(*ahead, torch.zeros(1), torch.ones(1, 3)))
    # Each of the 128 bins across the cube has optical depth 10 / 64: 45 have less than 7 before
    # them. Rows that fill a block lie at 0; without gradients whole chunks are queried.
    queried = int((torch.cat(field.queried)[:, 1] > 0).sum())
    assert queried == 45 if training else 45 <= queried <= 45 + 32


def test_the_number_of_samples_must_be_positive() -> None:
    with pytest.raises(ValueError, match="num_samples must be 1 or more"):
        GridRenderer(Cloud(), None, num_samples=0)
    with pytest.raises(ValueError, match="num_coarse must be 1 or more"):
        HierarchicalRenderer(Cloud(), num_coarse=0)
    with pytest.raises(ValueError, match="num_fine must be"):
        HierarchicalRenderer(Cloud(), num_fine=-1)


@pytest.mark.parametrize("coarse_weight", [1.0, 0.1])
def test_the_loss_is_the_mean_square_of_both_passes(coarse_weight: float) -> None:
    target = torch.tensor([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]])
    none = torch.zeros(2)
    fine, coarse = target + 0.1, target - 0.3
    renderer = HierarchicalRenderer(Cloud(), cones=coarse_weight < 1)
    one = renderer.loss(Rendering(fine, none, none), target).loss
    both = renderer.loss(Rendering(fine, none, none, coarse), target).loss
    assert float(one) == pytest.approx(0.01)
    assert float(both) == pytest.approx(0.01 + coarse_weight * 0.09)


def test_depth_is_displayed_unless_a_pixel_is_more_than_half_empty() -> None:
    opacity = torch.tensor([0.0, 0.49, 0.5, 1.0])
    shown = visible_depth(Rendering(torch.zeros(4, 3), opacity, torch.arange(4.0)))
    assert shown.isnan().tolist() == [True, True, False, False]
    assert shown[2:].tolist() == [2.0, 3.0]


@pytest.mark.parametrize("chunk_size", [1, 5, 12, 100])
def test_rendering_in_chunks_is_rendering_at_once(chunk_size: int) -> None:
    rays, renderer = camera_rays(CAMERA, POSE), GridRenderer(Cloud(), None, num_samples=5)
    sizes: list[int] = []

    def counted(rows: Rays) -> Rendering:
        sizes.append(len(rows.origins))
        return renderer(rows)  # type: ignore[no-any-return]

    whole = renderer(rays)
    chunked = render(counted, rays, chunk_size=chunk_size)
    torch.testing.assert_close(all_values(chunked), all_values(whole))
    torch.testing.assert_close(chunked.depth, whole.depth)
    assert sum(sizes) == 12
    assert max(sizes) == min(chunk_size, 12)
    assert render(renderer, rays.rows(slice(0, 0))).rgb.shape == (0, 3)


def test_a_camera_s_rendering_has_the_shape_of_its_image_and_the_background() -> None:
    renderer = GridRenderer(Cloud(), None, num_samples=5)
    rendering = render_camera(renderer, CAMERA, POSE, background=0.25)
    expected = renderer(camera_rays(CAMERA, POSE, background=0.25))
    torch.testing.assert_close(rendering.rgb, expected.rgb.view(3, 4, 3))
    torch.testing.assert_close(rendering.opacity, expected.opacity.view(3, 4))
    torch.testing.assert_close(rendering.depth, expected.depth.view(3, 4))


def test_views_are_scored_over_the_background_they_are_rendered_on() -> None:
    renderer = GridRenderer(Cloud(), None, num_samples=5)
    rendered = render_camera(renderer, CAMERA, POSE, background=0.0)
    pixels = torch.cat([rendered.rgb, rendered.opacity[..., None]], dim=-1)[None]
    views = Views(pixels, [CAMERA], POSE[None], ["the only one"])
    assert views.size == (CAMERA.width, CAMERA.height)
    seen: list[None] = []
    for background in (0.0, 1.0):
        (score,) = evaluate_views(
            renderer, views, background=background, on_view=lambda: seen.append(None)
        )
        assert score.name == "the only one"
        assert score.psnr > 100
    # White unless told otherwise, as views and cameras have it.
    (white,) = evaluate_views(renderer, views)
    for default in (render_camera(renderer, CAMERA, POSE), render(renderer, views.rays(0))):
        torch.testing.assert_close(white.rendering.rgb.view(-1, 3), default.rgb.view(-1, 3))
    torch.testing.assert_close(white.rendering.rgb, views.over(0, 1.0))
    black = pixels * torch.tensor([0.0, 0.0, 0.0, 1.0])
    (wrong,) = evaluate_views(renderer, replace(views, pixels=black))
    assert wrong.psnr < 30
    assert len(seen) == 2


def test_masked_pixels_of_views_are_not_scored() -> None:
    renderer, camera = GridRenderer(Cloud(), None, num_samples=5), CAMERA.resized(24, 20)
    views = Views(torch.rand(1, 20, 24, 3), [camera], POSE[None], ["the only one"])
    masks = torch.ones(1, 20, 24, dtype=torch.bool)
    masks[:, :, 15:] = False
    (plain,) = evaluate_views(renderer, views)
    scores = []
    for under in (0.0, 1.0):
        pixels = torch.where(masks[..., None], views.pixels, under)
        (score,) = evaluate_views(renderer, replace(views, pixels=pixels, masks=masks))
        scores.append((score.psnr, score.ssim))
    assert scores[0] == scores[1]
    assert all(a != b for a, b in zip(scores[0], (plain.psnr, plain.ssim), strict=True))


def test_a_cpu_renders_fewer_rays_at_once_without_a_grid() -> None:
    with_grid = GridRenderer(Cloud(), OccupancyGrid(2))
    for renderer in (GridRenderer(Cloud(), None), HierarchicalRenderer(Cloud())):
        assert 0 < default_chunk_size(renderer) < default_chunk_size(with_grid)
