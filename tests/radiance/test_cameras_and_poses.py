"""Lenses up to where they fold the image, poses and orbits, in closed form."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc.radiance.cameras import Camera, Distortion, distort, undistort
from nerf_posenc.radiance.poses import exp_se3, look_at, nearest_to_lines, orbit_poses
from nerf_posenc.radiance.rays import camera_rays

Z = torch.tensor([0.0, 0.0, 1.0])


def determinant(point: Tensor, lens: Distortion) -> float:
    """Of the lens's Jacobian, by automatic differentiation."""
    jacobian = torch.autograd.functional.jacobian(lambda x: distort(x, lens), point)
    assert isinstance(jacobian, Tensor)
    return float(torch.linalg.det(jacobian))


def just_inside_the_fold(lens: Distortion, angle: float) -> Tensor:
    """Point in a direction from the axis at which the determinant has fallen from 1 to 0.04."""
    direction = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
    inside, outside = 0.0, 0.05
    while determinant(outside * direction, lens) > 0.04:
        inside, outside = outside, outside + 0.05
    for _ in range(30):
        middle = (inside + outside) / 2
        if determinant(middle * direction, lens) > 0.04:
            inside = middle
        else:
            outside = middle
    return inside * direction


@pytest.mark.parametrize(
    "lens",
    [
        (-0.2, 0, 0, 0),
        (0, -0.1, 0, 0),
        (0, 0, -0.1, 0),
        (0, 0, 0, -0.1),
        (-0.1, -0.02, -0.04, -0.03),
    ],
)
@pytest.mark.parametrize("angle", [0.1, 0.8, 1.4])
def test_a_lens_is_undone_right_up_to_where_it_folds(lens: Distortion, angle: float) -> None:
    # Near the fold Newton's method converges with the exact Jacobian alone.
    point = just_inside_the_fold(lens, angle)
    found, _ = undistort(distort(point, lens), lens)
    torch.testing.assert_close(found, point, atol=1e-6, rtol=0)


def test_a_camera_s_focal_lengths_and_center_are_in_pixels() -> None:
    camera = Camera.from_angle(6, 4, 2 * math.atan(0.5))
    # Half the width, 3 pixels, is seen at tan = 0.5: the focal length is 6 pixels.
    assert (camera.fx, camera.fy, camera.cx, camera.cy) == pytest.approx((6, 6, 3, 2))
    wide = camera.resized(12, 2)
    assert (wide.fx, wide.fy, wide.cx, wide.cy) == pytest.approx((12, 3, 6, 1))
    # One unit to the right and up at distance 2 is 3 pixels right of and above the center.
    projected = camera.project(torch.tensor([1.0, 1.0, -2.0]))
    torch.testing.assert_close(projected, torch.tensor([6.0, -1.0]))


@pytest.mark.parametrize("angle", [0.0, math.pi, -1.0])
def test_a_field_of_view_out_of_its_range_is_refused(angle: float) -> None:
    with pytest.raises(ValueError, match="between 0 and pi"):
        Camera.from_angle(4, 4, angle)


@pytest.mark.parametrize("focal", [(math.inf, 1.0), (1.0, math.inf), (1.0, 0.0), (-1.0, 1.0)])
def test_focal_lengths_must_be_finite_and_positive(focal: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="fx and fy"):
        Camera(4, 4, *focal, 2.0, 2.0)


def test_points_in_the_plane_of_the_camera_are_not_seen() -> None:
    camera = Camera.from_angle(4, 4, 1.0)
    assert camera.project(torch.tensor([1.0, 0.0, 0.0])).isnan().all()


def test_the_cone_of_a_pixel_has_its_width() -> None:
    # Between directions (-1, 0, -1) and (0, 0, -1) on the sphere lies a chord of 2 sin(pi / 8).
    rays = camera_rays(Camera(3, 1, 1.0, 1.0, 1.5, 0.5), torch.eye(4))
    chords = torch.full((3,), 2 * math.sin(math.pi / 8))
    torch.testing.assert_close(rays.radii, chords * 2 / math.sqrt(12))
    # A single column has no neighbor: its pixels are rays without width.
    assert camera_rays(Camera(1, 1, 1.0, 1.0, 0.5, 0.5), torch.eye(4)).radii.tolist() == [0.0]


def test_rays_leave_the_camera_row_by_row_along_its_axes() -> None:
    pose = torch.eye(4)
    # Turned by a quarter about the vertical: ahead, -z, becomes -x.
    pose[:3, :3] = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    pose[:3, 3] = torch.tensor([5.0, 6.0, 7.0])
    rays = camera_rays(Camera(2, 2, 1.0, 1.0, 0.5, 0.5), pose, background=0.25)
    corner = torch.tensor([-1.0, -1.0, -1.0]) / math.sqrt(3)
    torch.testing.assert_close(rays.directions[0], torch.tensor([-1.0, 0.0, 0.0]))
    torch.testing.assert_close(rays.directions[3], corner)
    assert rays.origins.tolist() == [[5.0, 6.0, 7.0]] * 4
    assert rays.background.tolist() == [[0.25] * 3] * 4


def test_a_camera_that_looks_at_a_point_has_it_on_its_axis_and_up_above() -> None:
    pose = look_at(torch.tensor([3.0, 1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0]), Z)
    right, up, back = [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]
    expected = torch.tensor([right, up, back, [3.0, 1.0, 0.0]]).T
    torch.testing.assert_close(pose[:3], expected)
    assert pose[3].tolist() == [0.0, 0.0, 0.0, 1.0]


def around(center: Tensor, offsets: Tensor) -> Tensor:
    """Poses at offsets from a center, looking at it."""
    return torch.stack([look_at(center + offset, center, Z) for offset in offsets])


def assert_on_path(poses: Tensor, positions: Tensor, center: Tensor) -> None:
    torch.testing.assert_close(poses[:, :3, 3], positions, atol=1e-5, rtol=0)
    backs = torch.nn.functional.normalize(positions - center, dim=-1)
    torch.testing.assert_close(poses[:, :3, 2], backs, atol=1e-5, rtol=0)


def test_views_from_all_sides_are_orbited_on_their_own_circle() -> None:
    center = torch.tensor([0.1, -0.2, 0.3])
    angles = 0.4 + torch.arange(6) * (2 * math.pi / 6)
    ring = torch.stack([2 * angles.cos(), 2 * angles.sin(), torch.ones(6)], dim=-1)
    rotated = 0.4 + torch.arange(4) * (math.pi / 2)
    expected = torch.stack([2 * rotated.cos(), 2 * rotated.sin(), torch.ones(4)], dim=-1)
    assert_on_path(orbit_poses(around(center, ring), 4), center + expected, center)


@pytest.mark.parametrize("spread", [0.84, 0.86])
def test_one_sided_views_are_those_whose_mean_direction_is_longer_than_0_85(spread: float) -> None:
    # Two views at distance 2 on either side of the x axis; their mean direction has this length.
    aside = math.sqrt(1 - spread**2)
    pair = 2 * torch.tensor([[spread, aside, 0.0], [spread, -aside, 0.0]])
    poses = orbit_poses(around(torch.zeros(3), pair), 4)
    if spread < 0.85:
        quarter = torch.tensor([-pair[0, 1], pair[0, 0], 0.0])
        expected = torch.stack([pair[0], quarter, -pair[0], -quarter])
    else:
        # 0.15 of the distance to the right, half of that upward.
        sway = torch.tensor([[0, 0.3, 0], [0, 0, 0.15], [0, -0.3, 0], [0, 0, -0.15]])
        expected = torch.tensor([2 * spread, 0.0, 0.0]) + sway
    assert_on_path(poses, expected, torch.zeros(3))


def test_views_along_a_street_look_at_a_point_among_them() -> None:
    generator = torch.Generator().manual_seed(0)
    views = torch.eye(4).repeat(20, 1, 1)
    views[:, 2, 3] = -torch.arange(20.0)
    views[:, :3, :3] = exp_se3(0.05 * torch.randn(20, 6, generator=generator))[:, :3, :3]
    positions, backs = views[:, :3, 3].double(), views[:, :3, 2].double()
    center = nearest_to_lines(positions, backs)
    assert -19 < float(center[2]) < 0

    # Nearest: to move away in any direction adds to the squared distances.
    def squares(point: Tensor) -> float:
        return float(torch.linalg.cross(point - positions, backs).square().sum())

    assert all(
        squares(center) < squares(center + d)
        for d in 0.1 * torch.cat([torch.eye(3), -torch.eye(3)])
    )


@pytest.mark.parametrize("spread", ["parallel", "apart", "one place"])
def test_views_whose_axes_do_not_meet_ahead_look_at_a_point_there(spread: str) -> None:
    views = torch.eye(4).repeat(3, 1, 1)
    if spread != "one place":
        views[:, 0, 3] = torch.tensor([-0.75, 0.0, 0.75])
    if spread == "apart":
        # The outer axes meet 15 units behind the views.
        for view, side in ((0, 0.05), (2, -0.05)):
            views[view, :3, :3] = exp_se3(torch.tensor([0.0, side, 0.0, 0.0, 0.0, 0.0]))[:3, :3]
    # Eight times as far ahead as the views are from their middle on average, or one unit.
    ahead = 1.0 if spread == "one place" else 8 * 0.5
    aside = views[:, 0, 3].abs()
    radius = 0.15 * float((aside.square() + ahead**2).sqrt().mean())
    sway = torch.tensor([[1.0, 0, 0], [0, 0.5, 0], [-1.0, 0, 0], [0, -0.5, 0]]) * radius
    assert_on_path(orbit_poses(views, 4), sway, torch.tensor([0.0, 0.0, -ahead]))


@pytest.mark.parametrize("elevation", [10.0, 60.0, 80.0])
def test_a_ring_of_views_is_gone_around_however_steep_it_is(elevation: float) -> None:
    angle = math.radians(elevation)
    positions = [
        torch.tensor(
            [math.cos(a) * math.cos(angle), math.sin(a) * math.cos(angle), math.sin(angle)]
        ).double()
        for a in (2 * math.pi * i / 12 for i in range(12))
    ]
    up = torch.tensor([0.0, 0.0, 1.0]).double()
    views = torch.stack([look_at(p, torch.zeros(3).double(), up) for p in positions])
    path = orbit_poses(views, 16)
    height, radius = path[:, 2, 3], path[:, :2, 3].norm(dim=-1)
    torch.testing.assert_close(height, torch.full((16,), math.sin(angle)), atol=1e-4, rtol=0)
    torch.testing.assert_close(radius, torch.full((16,), math.cos(angle)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("distortion", [(-0.3, 0.0, 0, 0), (-0.3, 0.02, 0, 0), (0.1, -0.2, 0, 0)])
def test_a_lens_shows_nothing_beyond_its_fold(distortion: tuple[float, float, int, int]) -> None:
    camera = Camera(64, 48, 60.0, 60.0, 32.0, 24.0, distortion)
    aside = torch.linspace(0, 4, 2001, dtype=torch.float64)
    points = torch.stack([aside, torch.zeros_like(aside), -torch.ones_like(aside)], dim=-1)
    column = camera.project(points)[:, 0]
    seen = column.isfinite()
    # From the axis outwards to the fold, and no further.
    assert torch.equal(seen, torch.arange(len(aside)) < seen.sum())
    assert bool((column[seen].diff() > 0).all())
    k1, k2 = distortion[:2]
    radius = aside * (1 + k1 * aside**2 + k2 * aside**4)
    assert abs(int(seen.sum()) - int((radius.diff() < 0).nonzero()[0])) <= 1
