"""Occupancy grids and visual hulls, cell by cell."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.occupancy import OccupancyGrid, cell_centers, visual_hull
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.views import Views


def test_cells_are_numbered_with_x_outermost() -> None:
    signs = (-0.5, 0.5)
    expected = torch.tensor([[x, y, z] for x in signs for y in signs for z in signs])
    torch.testing.assert_close(cell_centers(2), expected)
    torch.testing.assert_close(cell_centers(2, torch.tensor([4, 3])), expected[[4, 3]])


def test_positions_outside_belong_to_the_nearest_cell_and_are_empty() -> None:
    grid = OccupancyGrid(4)
    edge = torch.tensor([[1.0, 0.3, -1.0], [-1.0, 1.0, 0.3]])
    beyond = torch.tensor([[1.7, 0.3, -9.0], [-2.0, 3.0, 0.3]])
    assert torch.equal(grid.cells(beyond), grid.cells(edge))
    assert grid.cells(edge).tolist() == [3 * 16 + 2 * 4, 3 * 4 + 2]
    assert grid(edge).tolist() == [True, True]
    assert grid(beyond).tolist() == [False, False]


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_cell_is_occupied_from_its_threshold_of_opacity_along_the_diagonal(factor: float) -> None:
    grid = OccupancyGrid(4, threshold=0.3)
    # A cube of edge 1/2 has a diagonal of sqrt(3)/2; a density d stops 1 - exp(-d sqrt(3)/2).
    density = -math.log(1 - 0.3) / (math.sqrt(3) / 2)
    grid.update(lambda x: torch.full((len(x),), density * factor), seed=0)
    assert bool((grid.occupied == (factor > 1)).all())


def test_each_cell_is_evaluated_at_a_random_position_all_over_it() -> None:
    grid = OccupancyGrid(16)
    seen: list[Tensor] = []

    def density_at(positions: Tensor) -> Tensor:
        seen.append(positions)
        return positions[:, 0] + 2

    grid.update(density_at, seed=0)
    positions = torch.cat(seen)
    assert torch.equal(grid.cells(positions), torch.arange(16**3))
    # Uniform in the cell: from -1 to 1 half edges of its center, with variance 1/3.
    offsets = (positions - grid.centers()) * 16
    assert float(offsets.abs().max()) <= 1 + 1e-5
    assert float(offsets.var()) == pytest.approx(1 / 3, abs=0.02)
    assert float(offsets.mean()) == pytest.approx(0, abs=0.03)
    assert torch.equal(grid.density, positions[:, 0] + 2)


def test_a_cell_keeps_the_larger_of_its_decayed_and_its_new_density() -> None:
    grid = OccupancyGrid(2, decay=0.5)
    for found, stored in ((8.0, 8.0), (5.0, 5.0), (1.0, 2.5), (0.0, 1.25)):
        grid.update(lambda x, found=found: torch.full((len(x),), found), seed=0)  # type: ignore[misc]
        assert grid.density.tolist() == [stored] * 8


def test_a_share_of_the_cells_is_evaluated_and_the_others_keep_their_density() -> None:
    grid = OccupancyGrid(16)
    grid.update(lambda x: torch.zeros(len(x)), seed=0, share=0.25)
    evaluated = ~grid.density.isinf()
    # The standard error of a share of 4096 cells is 0.007.
    assert float(evaluated.float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(grid.occupied, ~evaluated)


def test_the_surface_is_the_occupied_cells_with_an_empty_cell_around_them() -> None:
    possible = torch.rand(6**3, generator=torch.Generator().manual_seed(0)) < 0.97
    surface = OccupancyGrid(6, possible=possible).surface().view(6, 6, 6)
    inner = torch.zeros(6, 6, 6, dtype=torch.bool)
    for x, y, z in itertools.product(range(1, 5), repeat=3):
        around = tuple(slice(i - 1, i + 2) for i in (x, y, z))
        inner[x, y, z] = bool(possible.view(6, 6, 6)[around].all())
    assert bool(inner.any())
    assert torch.equal(surface, possible.view(6, 6, 6) & ~inner)


def test_a_grid_without_a_possible_cell_has_nothing_to_evaluate() -> None:
    grid = OccupancyGrid(4, possible=torch.zeros(64, dtype=torch.bool))
    grid.update(lambda x: torch.ones(len(x)), seed=0)
    assert not bool(grid.occupied.any())


def test_limits_of_its_settings() -> None:
    OccupancyGrid(1, decay=0.0)
    for wrong in ({"decay": -0.1}, {"threshold": -0.1}):
        with pytest.raises(ValueError, match="between 0 and 1"):
            OccupancyGrid(2, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape \(8,\), one value per cell; got \(9,\)"):
        OccupancyGrid(2, possible=torch.ones(9, dtype=torch.bool))


SIZE, DISTANCE, CELLS = 64, 4.0, 16


def one_view(opacity: Tensor, angle: float = 0.9, distance: float = DISTANCE) -> Views:
    """A view of the cube from the z axis."""
    up = torch.tensor([0.0, 1.0, 0.0])
    pose = look_at(torch.tensor([0.0, 0.0, distance]), torch.zeros(3), up)
    camera = Camera.from_angle(SIZE, SIZE, angle)
    pixels = torch.zeros(1, SIZE, SIZE, 4)
    pixels[0, ..., 3] = opacity
    return Views(pixels, [camera], pose[None], ["a"])


@pytest.mark.parametrize("pixel", [(32, 32), (20, 41)])
def test_a_hull_holds_the_cells_that_a_pixel_may_see_and_few_others(pixel: tuple[int, int]) -> None:
    row, column = pixel
    opacity = torch.zeros(SIZE, SIZE)
    opacity[row, column] = 1.0
    views = one_view(opacity)
    hull = visual_hull(views, CELLS)
    centers = cell_centers(CELLS)
    corners = torch.tensor([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / CELLS
    points = centers[:, None] + corners
    inverse = torch.linalg.inv(views.world_from_camera[0])
    projected = views.cameras[0].project(points @ inverse[:3, :3].T + inverse[:3, 3])
    low, high = projected.amin(1), projected.amax(1)
    at = torch.tensor([column, row])
    sees = ((low < at + 1) & (high > at)).all(-1)
    assert bool(hull[sees].all())
    # The ball about the nearest cell spans this many pixels, which is the footprint of every cell;
    # whole pixels add one on either side, and the pixel itself is one.
    half = math.sqrt(3) / CELLS
    reach = math.ceil(half * views.cameras[0].fx / (DISTANCE - (1 - 1 / CELLS) - half))
    center = projected.mean(1)
    far = ((center - (at + 0.5)).abs() > reach + 2.5).any(-1)
    assert not bool(hull[far].any())
    assert 0 < int(hull.sum()) < 0.2 * len(hull)


def test_masked_pixels_exclude_no_cell_whatever_their_opacity() -> None:
    masks = torch.ones(1, SIZE, SIZE, dtype=torch.bool)
    masks[0, 20:40, 30:50] = False
    hulls = [
        visual_hull(replace(one_view(torch.where(masks[0], 0.0, under)), masks=masks), CELLS)
        for under in (0.0, 1.0)
    ]
    # As if an object were there.
    expected = visual_hull(one_view((~masks[0]).float()), CELLS)
    assert torch.equal(hulls[0], expected)
    assert torch.equal(hulls[1], expected)
    assert 0 < int(expected.sum()) < len(expected)


def test_a_transparent_view_excludes_no_cell_whose_footprint_it_cuts_off() -> None:
    # The image is too narrow for the cube: it says nothing of the cells at its edge and beyond.
    views = one_view(torch.zeros(SIZE, SIZE), angle=0.35)
    hull = visual_hull(views, CELLS).view(CELLS, CELLS, CELLS)
    nearest = DISTANCE - (1 - 1 / CELLS)
    focal = views.cameras[0].fx
    reach = math.ceil(math.sqrt(3) / CELLS * focal / (nearest - math.sqrt(3) / CELLS))
    centers = cell_centers(CELLS).view(CELLS, CELLS, CELLS, 3)
    away = centers[..., :2].abs() * focal / (DISTANCE - centers[..., 2:])
    cut_off = (away > SIZE / 2 - reach + 1e-3).any(-1)
    assert torch.equal(hull, cut_off)
    assert 0 < int(cut_off.sum()) < CELLS**3


def test_a_camera_on_its_side_has_the_same_hull() -> None:
    opacity = torch.zeros(30, 70)
    opacity[4:25, 10:40] = 1.0
    pose = one_view(torch.zeros(SIZE, SIZE)).world_from_camera[0]
    quarter = torch.tensor([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    hulls = []
    for turned, image in ((pose, opacity), (pose @ quarter, opacity.rot90(-1))):
        height, width = image.shape
        camera = Camera(width, height, 70.0, 70.0, width / 2, height / 2)
        pixels = torch.cat([torch.zeros(1, height, width, 3), image[None, ..., None]], -1)
        hulls.append(visual_hull(Views(pixels, [camera], turned[None], ["a"]), CELLS))
    # Rounding may move the center of a cell to the next pixel.
    assert float((hulls[0] != hulls[1]).float().mean()) < 0.01
    assert 0.2 < float(hulls[0].float().mean()) < 0.9


def test_a_camera_inside_the_cube_excludes_nothing_behind_it_or_close_by() -> None:
    views = one_view(torch.zeros(SIZE, SIZE), angle=2.0, distance=0.6)
    hull = visual_hull(views, CELLS)
    depth = 0.6 - cell_centers(CELLS)[:, 2]
    # Closer than its own diagonal a cell may be all around the camera.
    assert bool(hull[depth < 2 * math.sqrt(3) / CELLS].all())
    assert not bool(hull[depth > 0.5].all())


@pytest.mark.parametrize(("alpha", "stays"), [(0.0, False), (0.4 / 255, False), (0.6 / 255, True)])
def test_what_8_bits_store_as_transparent_is_transparent(alpha: float, stays: bool) -> None:
    opacity = torch.full((SIZE, SIZE), alpha)
    opacity[0, 0] = 0.0
    middle = CELLS**3 // 2 + CELLS**2 // 2 + CELLS // 2
    assert bool(visual_hull(one_view(opacity), CELLS)[middle]) == stays
