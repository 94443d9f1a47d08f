"""Batches of rays of several cameras, views, and the pixels that are worth drawing."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from nerf_posenc.images import evenly_spaced
from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.ray_batches import RayBatches, object_pixels, occupied_pixels
from nerf_posenc.radiance.rays import ray_aabb_intersect
from nerf_posenc.radiance.views import Background, Scene, SurfacePoints, Views, background_gray

UP = torch.tensor([0.0, 0.0, 1.0])


def mixed_views(size: int = 5) -> Views:
    """Three views of two cameras, each pixel with a color of its own."""
    narrow, wide = Camera.from_angle(size, size, 0.3), Camera.from_angle(size, size, 0.9)
    origins = torch.tensor([[3.0, 0.0, 0.5], [0.0, 3.0, 0.5], [-3.0, 0.5, 0.5]])
    poses = torch.stack([look_at(origin, torch.zeros(3), UP) for origin in origins])
    rgb = torch.arange(3 * size * size).view(3, size, size, 1).expand(-1, -1, -1, 3) / 1000
    opacity = torch.linspace(0.1, 1.0, 3 * size * size).view(3, size, size, 1)
    pixels = torch.cat([rgb, opacity], dim=-1)
    return Views(pixels, [narrow, wide, narrow], poses, ["a", "b", "c"])


@pytest.mark.parametrize(("background", "gray"), [("white", 1.0), ("black", 0.0)])
def test_each_ray_is_that_of_its_pixel_in_its_own_camera(
    background: Background, gray: float
) -> None:
    views = mixed_views()
    batch, rgb = RayBatches(views, 200, seed=1, background=background)(7)
    every = [views.rays(i, background=gray) for i in range(3)]
    truth = torch.cat([views.over(i, gray).view(-1, 3) for i in range(3)])
    # The color tells which pixel was drawn.
    number = ((rgb[:, None] - truth).abs().sum(-1)).argmin(-1)
    torch.testing.assert_close(rgb, truth[number])
    for column, stacked in zip(batch.rays, zip(*every, strict=True), strict=True):
        torch.testing.assert_close(column, torch.cat(stacked)[number])
    # Of 75 pixels, 200 draws with replacement find about 70.
    assert len(number.unique()) > 60
    assert background_gray(background) == gray


def test_only_live_pixels_are_drawn_and_all_of_them() -> None:
    views = mixed_views()
    live = torch.zeros(3, 5, 5, dtype=torch.bool)
    live[0, 1, 2] = live[2, 4, 4] = live[1, 0, 0] = True
    _, rgb = RayBatches(views, 100, seed=0, live=live)(0)
    found = {round(value, 5) for value in rgb[:, 0].tolist()}
    truth = torch.stack([views.over(i, 1.0) for i in range(3)])
    assert found == {round(value, 5) for value in truth[live][:, 0].tolist()}


@pytest.mark.parametrize("size", [(9, 5), (4, 11)])
def test_rays_of_known_points_pass_them_and_have_the_colors_of_their_pixels(
    size: tuple[int, int],
) -> None:
    width, height = size
    camera = Camera.from_angle(width, height, 0.9)
    origins = torch.tensor([[3.0, 0.0, 0.5], [0.0, 3.0, 0.5]])
    poses = torch.stack([look_at(origin, torch.zeros(3), UP) for origin in origins])
    pixels = torch.rand(2, height, width, 3, generator=torch.Generator().manual_seed(0))
    views = Views(pixels, [camera] * 2, poses, ["a", "b"])
    # Points on the rays of pixels of both views, not in their middles.
    view, row, column = torch.tensor([[0, 0, 1, 1], [1, height - 1, 0, 2], [3, 0, 2, width - 1]])
    distance = torch.tensor([2.0, 2.5, 3.0, 3.5])
    rays = torch.stack([views.rays(int(v)).directions for v in view])
    directions = rays.view(4, height, width, 3)[torch.arange(4), row, column]
    position = origins[view] + distance[:, None] * directions
    place = torch.stack([(column + 0.7) / width, (row + 0.2) / height], -1)
    views = replace(views, points=SurfacePoints(view, place, position))
    batch, rgb = RayBatches(views, 60, seed=0, known_share=0.5)(0)
    assert batch.distances is not None
    found = batch.rays.origins[:30] + batch.distances[:30, None] * batch.rays.directions[:30]
    apart = (found[:, None] - position).norm(dim=-1)
    number = apart.argmin(1)
    assert float(apart.amin(1).max()) < 1e-5
    assert torch.equal(batch.views[:30], view[number])
    assert torch.equal(rgb[:30], pixels[view, row, column][number])
    assert len(number.unique()) == 4
    assert not bool(batch.distances[30:].any())


def test_batches_of_two_seeds_have_no_step_in_common() -> None:
    first, second = (RayBatches(mixed_views(), 20, seed=seed) for seed in (1, 2))
    drawn = [batches(step)[1] for batches in (first, second) for step in range(4)]
    for i, rows in enumerate(drawn):
        assert not any(torch.equal(rows, other) for other in drawn[:i])


def test_all_pixels_whose_ray_meets_an_occupied_cell_are_live() -> None:
    camera = Camera.from_angle(100, 100, 1.2)
    pose = look_at(torch.tensor([3.0, 0.4, 0.5]), torch.zeros(3), UP)
    views = Views(torch.zeros(2, 100, 100, 4), [camera] * 2, torch.stack([pose, pose]), ["a", "b"])
    grid = OccupancyGrid(32, possible=(cell_centers(32).abs() < 0.5).all(-1))
    live = torch.stack(list(occupied_pixels(grid, views)))
    near, far = ray_aabb_intersect(*views.rays(0)[:2], half_size=0.5)
    meets = (far > near).view(1, 100, 100).expand(2, -1, -1)
    assert bool(live[meets].all())
    # A cell's footprint is some pixels wide.
    assert float(live.float().mean()) < 1.5 * float(meets.float().mean())


def test_a_camera_on_its_side_has_the_same_live_pixels() -> None:
    # The object leaves the image at its upper right and its lower left.
    centers = cell_centers(32)
    grid = OccupancyGrid(32, possible=(centers[:, 1] - centers[:, 2]).abs() < 0.2)
    pose = look_at(torch.tensor([3.0, 0.0, 0.0]), torch.zeros(3), UP)
    quarter = torch.tensor([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    live: list[torch.Tensor] = []
    for turned, (width, height) in ((pose, (60, 24)), (pose @ quarter, (24, 60))):
        camera = Camera(width, height, 60.0, 60.0, width / 2, height / 2)
        views = Views(torch.zeros(1, height, width, 4), [camera], turned[None], ["a"])
        live += occupied_pixels(grid, views)
    # Rounding may move the projection of a cell to the next pixel.
    differing = live[0].rot90(-1) != live[1]
    assert float(differing.float().mean()) < 0.03
    assert 0.2 < float(live[0].float().mean()) < 0.9


def test_all_pixels_are_live_of_a_camera_among_occupied_cells() -> None:
    camera = Camera.from_angle(10, 10, 1.0)
    views = Views(torch.zeros(1, 10, 10, 4), [camera], torch.eye(4)[None], ["a"])
    (live,) = occupied_pixels(OccupancyGrid(8), views)
    assert bool(live.all())


def test_pixels_are_live_by_the_samples_along_their_rays() -> None:
    # Looking along x, a pixel sees the half of the cube on its own side.
    grid = OccupancyGrid(64, possible=cell_centers(64)[:, 1] > 0)
    camera = Camera.from_angle(100, 100, 0.4)
    pose = look_at(torch.tensor([4.0, 0.0, 0.0]), torch.zeros(3), UP)
    views = Views(torch.zeros(1, 100, 100, 4), [camera], pose[None], ["a"])
    (live,) = occupied_pixels(grid, views)
    # From +x with z up, y runs to the right.
    assert bool(live[:, 50:].all())
    assert not bool(live[:, :40].any())


def test_a_proposal_draws_objects_their_surroundings_and_a_lattice() -> None:
    opacity = torch.zeros(2, 60, 60, 1)
    opacity[0, 30:36, 30:36] = 0.5
    camera = Camera.from_angle(60, 60, 0.4)
    poses = look_at(torch.tensor([4.0, 0.0, 0.0]), torch.zeros(3), UP).expand(2, 4, 4)
    views = Views(
        torch.cat([torch.zeros(2, 60, 60, 3), opacity], -1), [camera] * 2, poses, ["a", "b"]
    )
    live, nothing = object_pixels(views)
    # 3 pixels are a twentieth of 60.
    assert bool(live[27:39, 27:39].all())
    live[27:39, 27:39] = nothing[27:39, 27:39]
    assert torch.equal(live, nothing)
    # Whatever is drawn of a transparent view is spread over all of it.
    assert bool((nothing.float().unfold(0, 3, 3).unfold(1, 3, 3).sum((-1, -2)) == 1).all())
    # Of poses that are refined no hull is known.
    renderer = make_renderer(FieldOptions("hash", field="proposal", num_poses=2), views)
    _, rgb = RayBatches(views, 4000, seed=0, live=renderer.live_pixels(views))(0)
    # 36 pixels of 144 + 384 in one view and 400 in the other.
    assert abs(float((rgb < 1).all(-1).float().mean()) - 36 / 928) < 0.015


def test_transparent_pixels_show_the_background_by_their_share() -> None:
    views = mixed_views(2)
    rgb, opacity = views.pixels[1].split([3, 1], dim=-1)
    torch.testing.assert_close(views.over(1, 0.5), rgb + (1 - opacity) * 0.5)


def test_views_are_resized_with_their_cameras_and_never_enlarged() -> None:
    views = mixed_views(8)
    small = views.resized(4)
    blocks = views.pixels.unflatten(1, (4, 2)).unflatten(3, (4, 2)).mean((2, 4))
    torch.testing.assert_close(small.pixels, blocks)
    assert (small.size, small.cameras[1].width, small.cameras[1].height) == ((4, 4), 4, 4)
    assert views.resized(8) is views
    assert views.resized(9) is views
    scene = Scene("s", views, views.subset(1), "here").resized(4)
    assert (scene.train.size, scene.test.size, len(scene.test)) == ((4, 4), (4, 4), 1)


@pytest.mark.parametrize(
    ("count", "total", "expected"), [(2, 7, [0, 3]), (3, 9, [0, 3, 6]), (5, 3, [0, 1, 2])]
)
def test_a_subset_is_evenly_spread(count: int, total: int, expected: list[int]) -> None:
    assert evenly_spaced(count, total) == expected


def test_a_subset_keeps_what_belongs_together() -> None:
    views = mixed_views()
    two = views.subset(2)
    assert two.names == ["a", "b"]
    assert two.cameras == list(views.cameras[:2])
    assert torch.equal(two.pixels, views.pixels[:2])
    assert torch.equal(two.world_from_camera, views.world_from_camera[:2])


def test_selected_views_keep_the_points_that_they_show() -> None:
    views = mixed_views()
    view = torch.tensor([2, 0, 1, 2])
    points = SurfacePoints(view, torch.rand(4, 2), torch.rand(4, 3))
    chosen = replace(views, points=points).select(torch.tensor([False, True, True]))
    assert chosen.points is not None
    assert [chosen.names[i] for i in chosen.points.view] == ["c", "b", "c"]
    assert torch.equal(chosen.points.place, points.place[[0, 2, 3]])
    assert torch.equal(chosen.points.position, points.position[[0, 2, 3]])


@pytest.mark.usefixtures("unchecked")
def test_each_view_needs_an_image_a_camera_a_pose_and_a_name() -> None:
    views = mixed_views()
    parts: list[Any] = [views.pixels, views.cameras, views.world_from_camera, views.names]
    for i in range(4):
        short = [part[:-1] if i == j else part for j, part in enumerate(parts)]
        with pytest.raises(ValueError, match="each of the views"):
            Views(*short)
    for channels in (1, 5):
        wrong = torch.zeros(3, 5, 5, channels)
        with pytest.raises(ValueError, match="3 or 4"):
            Views(wrong, *parts[1:])
    with pytest.raises(
        TypeError, match=r"uint16 or floating-point values in \[0, 1\]; got torch.int"
    ):
        Views(torch.zeros_like(views.pixels, dtype=torch.int32), *parts[1:])
    with pytest.raises(ValueError, match="1 or more"):
        Views(*(part[:0] for part in parts))
