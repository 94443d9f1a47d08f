"""Cameras, rays, and samples along rays."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nerf_posenc.radiance.cameras import Camera, Distortion, distort
from nerf_posenc.radiance.rays import PixelDirections, Rays, camera_rays, ray_aabb_intersect
from nerf_posenc.radiance.sampling import (
    conical_frustum_to_gaussian,
    importance_samples,
    stratified_edges,
    stratified_samples,
)

LENS = (-0.12, 0.03, 0.002, -0.001)


@pytest.mark.parametrize("distortion", [(0.0, 0.0, 0.0, 0.0), LENS])
def test_projection_takes_each_pixel_s_ray_back_to_its_center(
    distortion: tuple[float, float, float, float],
) -> None:
    camera = Camera(20, 10, 18.0, 15.0, 9.3, 5.4, distortion)
    directions, _ = PixelDirections([camera])(torch.zeros(200, dtype=torch.long), torch.arange(200))
    pixels = camera.project(directions.view(10, 20, 3).double() * 3.0)
    columns, rows = torch.meshgrid(torch.arange(20) + 0.5, torch.arange(10) + 0.5, indexing="xy")
    torch.testing.assert_close(pixels, torch.stack([columns, rows], -1).double(), atol=1e-5, rtol=0)


def test_what_lies_behind_a_camera_is_not_seen() -> None:
    assert Camera.from_angle(4, 4, 1.0).project(torch.tensor([[0.0, 0.0, 1.0]])).isnan().all()


def test_the_lens_is_opencv_s() -> None:
    # k1 = 0.1 alone moves a point at radius 1 outward by a tenth; p1 shifts it by p1 (r^2 + 2 y^2).
    point = torch.tensor([0.0, 1.0])
    torch.testing.assert_close(distort(point, (0.1, 0, 0, 0)), torch.tensor([0.0, 1.1]))
    torch.testing.assert_close(distort(point, (0, 0, 0.01, 0)), torch.tensor([0.0, 1.03]))
    torch.testing.assert_close(distort(point, (0, 0, 0, 0.01)), torch.tensor([0.01, 1.0]))


def test_a_resized_camera_sees_the_same_view() -> None:
    camera = Camera(20, 10, 18.0, 15.0, 9.3, 5.4, LENS)
    point = torch.tensor([[0.3, -0.2, -2.0]])
    half = camera.resized(10, 5)
    torch.testing.assert_close(half.project(point) * 2, camera.project(point))


def test_rays_enter_and_leave_the_cube_where_geometry_says() -> None:
    origins = torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 5.0, 3.0], [3.0, 0.0, 0.0]])
    ahead = torch.tensor([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    near, far = ray_aabb_intersect(origins, ahead)
    assert near.tolist() == [2.0, 0.0, 0.0, 0.0]
    assert far.tolist() == [4.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_ray_along_a_face_is_inside(side: float) -> None:
    near, far = ray_aabb_intersect(
        torch.tensor([[side, 0.0, 3.0]]), torch.tensor([[0.0, 0.0, -1.0]])
    )
    assert (near.tolist(), far.tolist()) == ([2.0], [4.0])


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_rays_of_any_batch_meet_a_cube_of_any_size(batch: tuple[int, ...]) -> None:
    origins = torch.tensor([3.0, 0.1, 0.2]).expand(*batch, 3)
    directions = torch.tensor([-2.0, 0.0, 0.0]).expand(*batch, 3)
    near, far = ray_aabb_intersect(origins, directions, half_size=0.5)
    # From 3 to the faces at 0.5 and -0.5, in steps of 2.
    torch.testing.assert_close(near, torch.full(batch, 1.25))
    torch.testing.assert_close(far, torch.full(batch, 1.75))


def test_stratified_samples_stay_in_their_intervals_and_are_uniform_there() -> None:
    edges = stratified_edges(torch.full((20_000,), 2.0), torch.full((20_000,), 6.0), 4)
    samples = stratified_samples(edges, torch.Generator().manual_seed(0))
    assert bool(((samples >= edges[:, :-1]) & (samples <= edges[:, 1:])).all())
    # Uniform on an interval of length 1: mean 1/2 (standard error 0.002), variance 1/12.
    torch.testing.assert_close(
        samples.mean(0), torch.tensor([2.5, 3.5, 4.5, 5.5]), atol=0.012, rtol=0
    )
    torch.testing.assert_close(samples.var(0), torch.full((4,), 1 / 12), atol=0.003, rtol=0)
    assert stratified_samples(edges)[0].tolist() == [2.5, 3.5, 4.5, 5.5]


def test_importance_samples_follow_the_weights() -> None:
    edges = torch.tensor([0.0, 1.0, 3.0, 4.0]).expand(2000, 4)
    weights = torch.tensor([1.0, 2.0, 5.0]).expand(2000, 3)
    samples = importance_samples(edges, weights, 16, torch.Generator().manual_seed(0)).flatten()
    shares = torch.histc(samples, 4, 0, 4) / len(samples)
    torch.testing.assert_close(shares, torch.tensor([1.0, 1.0, 1.0, 5.0]) / 8, atol=0.01, rtol=0)


def test_importance_samples_without_weight_are_even() -> None:
    edges = torch.tensor([[0.0, 1.0, 4.0]])
    samples = importance_samples(edges, torch.zeros(1, 2), 4)
    torch.testing.assert_close(samples, torch.tensor([[0.5, 1.5, 2.5, 3.5]]))


@settings(deadline=None, max_examples=20)
@given(st.floats(0.5, 4.0), st.floats(0.01, 1.0), st.floats(0.01, 0.3))
def test_cone_gaussians_have_the_moments_of_the_frustum(
    start: float, length: float, radius: float
) -> None:
    # The frustum by quadrature: the density of t is t^2, and across, a disk of radius r t.
    t = torch.linspace(start, start + length, 20_001, dtype=torch.float64)
    density = t**2 / (t**2).sum()
    mean = (density * t).sum()
    variance = (density * (t - mean) ** 2).sum()
    disk = (density * (radius * t) ** 2 / 4).sum()
    edges = torch.tensor([start, start + length], dtype=torch.float64)
    found_mean, found = conical_frustum_to_gaussian(
        edges, torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64), torch.tensor(radius).double()
    )
    torch.testing.assert_close(found_mean[0], mean, rtol=1e-4, atol=0)
    expected = torch.stack([disk, disk, variance])
    torch.testing.assert_close(found[0], expected, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("length", [0.01, 0.2, 3.0])
def test_a_cone_from_its_apex_has_the_moments_of_the_whole_cone(length: float) -> None:
    # The density of t is 3 t^2 / L^3: mean 3 L / 4, variance 3 L^2 / 80, mean square 3 L^2 / 5, of
    # which a disk of radius r t has r^2 / 4 along each axis across.
    edges = torch.tensor([0.0, length], dtype=torch.float64)
    direction = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    mean, variance = conical_frustum_to_gaussian(edges, direction, torch.tensor(0.5).double())
    across = 0.5**2 * (3 * length**2 / 5) / 4
    assert mean.tolist() == pytest.approx([3 * length / 4])
    assert variance[0].tolist() == pytest.approx([3 * length**2 / 80, across, across])


def test_pixel_radii_give_a_disk_the_variance_of_the_pixel() -> None:
    radii = camera_rays(Camera.from_angle(101, 101, 0.2), torch.eye(4)).radii
    width = 2 * math.tan(0.1) / 101
    # A disk of radius r has variance r^2 / 4 an axis, a square of side w has w^2 / 12.
    expected = torch.tensor(width**2 / 12)
    torch.testing.assert_close(radii[50 * 101 + 50] ** 2 / 4, expected, rtol=1e-3, atol=0)


def test_rays_are_selected_and_concatenated_by_row() -> None:
    rays = Rays(torch.arange(9.0).view(3, 3), torch.ones(3, 3), torch.ones(3), torch.ones(3, 3))
    assert torch.equal(rays.rows(slice(1, 3)).origins, rays.origins[1:])
    assert torch.equal(Rays.cat([rays.rows(slice(2, 3)), rays]).origins[1:], rays.origins)


@pytest.mark.parametrize("distortion", [(0.0, 0.0, 0.0, 0.0), LENS])
@pytest.mark.parametrize("size", [(1, 5), (7, 4)])
def test_directions_of_single_pixels_pass_through_their_centers(
    size: tuple[int, int], distortion: Distortion
) -> None:
    cameras = [
        Camera(*size, 30.0, 31.0, size[0] / 2, 2.5),
        Camera(*size, 40.0 / 3, 17.0, 3.0, 1.0, distortion),
    ]
    every = torch.arange(size[0] * size[1])
    directions = PixelDirections(cameras)
    if size[0] == 1:
        # The column beside it could not be undone.
        cameras[1] = Camera(1, 5, 1.0, 1.0, 0.5, 2.5, (-0.02, 0.0, 0.0, 0.0))
        directions = PixelDirections(cameras)
    for i, camera in enumerate(cameras):
        order = torch.randperm(len(every), generator=torch.Generator().manual_seed(i))
        found, radii = directions(torch.full_like(every, i), every[order])
        ahead = camera.project(found.double())
        at = torch.stack([every % size[0], every // size[0]], -1)[order] + 0.5
        torch.testing.assert_close(ahead, at.double(), atol=1e-5, rtol=0)
        assert torch.equal(radii, camera_rays(camera, torch.eye(4)).radii[order])


def test_a_lens_that_cannot_be_inverted_is_refused_before_any_batch() -> None:
    with pytest.raises(ValueError, match="cannot be undone over the whole image"):
        PixelDirections([Camera(9, 9, 4.0, 4.0, 4.5, 4.5, (-0.9, 0.0, 0.0, 0.0))])
