"""Coordinates of a field: contraction, normalized device coordinates, and which one suits views."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import look_at, orbit_poses
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.scene_spaces import (
    BoxSpace,
    ContractedSpace,
    ForwardFacingSpace,
    make_space,
    space_for,
)
from nerf_posenc.radiance.views import Views

UP = torch.tensor([0.0, 0.0, 1.0])


def views_at(positions: Tensor, targets: Tensor, near: float | None = None) -> Views:
    camera = Camera.from_angle(6, 4, 0.8)
    poses = [look_at(p, t, UP) for p, t in zip(positions, targets, strict=True)]
    count = len(positions)
    pixels = torch.zeros(count, 4, 6, 4)
    pixels[..., 3] = 1
    names = [str(i) for i in range(count)]
    return Views(pixels, [camera] * count, torch.stack(poses), names, near)


def around(center: Tensor, radius: float) -> Views:
    angles = torch.arange(8) * 0.785
    circle = torch.stack([angles.cos(), angles.sin(), torch.full((8,), 0.3)], dim=-1)
    positions = center + radius * F.normalize(circle, dim=-1)
    return views_at(positions, center.expand(8, 3))


def forward_facing(near: float | None = 2.0) -> Views:
    generator = torch.Generator().manual_seed(0)
    positions = torch.rand(8, 3, generator=generator) * torch.tensor([0.6, 0.1, 0.6])
    return views_at(positions, positions + torch.tensor([0.05, 5.0, 0.1]), near)


def rays_of(views: Views) -> Rays:
    return Rays.cat(views.rays(view) for view in range(len(views)))


def positions_along(space: BoxSpace, rays: Rays, along: Tensor) -> Tensor:
    paths = space.paths(rays)
    return space.positions(paths.origins, paths.directions, along)


def test_contraction_keeps_the_inner_cube_and_brings_infinity_to_the_outer() -> None:
    views = around(torch.tensor([1.0, 2.0, -1.0]), 3.0)
    space, rays = ContractedSpace(views), rays_of(views)
    torch.testing.assert_close(space.center, torch.tensor([1.0, 2.0, -1.0]), atol=1e-4, rtol=0)
    torch.testing.assert_close(space.radius, torch.tensor(3.0), atol=1e-4, rtol=0)
    paths = space.paths(rays)
    for share in (0.0, 0.05, 0.3, 0.8, 1.0):
        along = paths.far * share
        distance = space.distances(rays, torch.arange(len(along)), along)
        u = (rays.origins + rays.directions * distance[:, None] - space.center) / space.radius
        size = u.abs().amax(-1, keepdim=True)
        expected = torch.where(size <= 1, u, (2 - 1 / size) * u / size) / 2
        found = positions_along(space, rays, along)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        assert bool((found.abs() <= 1).all())
        if share < 0.9:
            again = rays.origins + rays.directions * distance[:, None]
            torch.testing.assert_close(space.scene_positions(found), again, atol=1e-3, rtol=1e-3)
    assert bool((positions_along(space, rays, paths.far).abs().amax(-1) > 0.99).all())


def test_steps_along_a_ray_are_equal_in_distance_and_then_in_disparity() -> None:
    views = around(torch.zeros(3), 3.0)
    space, rays = ContractedSpace(views), rays_of(views).rows(slice(1))
    first = torch.zeros(9, dtype=torch.long)
    near, far = (
        space.distances(rays, first, along) / space.radius
        for along in (torch.linspace(0, 0.5, 9), torch.linspace(0.5, 0.95, 9))
    )
    torch.testing.assert_close(near, torch.linspace(0, 1, 9), atol=1e-5, rtol=0)
    torch.testing.assert_close(1 / far, torch.linspace(1, 0.1, 9), atol=1e-5, rtol=0)


def test_normalized_device_coordinates_are_those_of_nerf() -> None:
    views = forward_facing()
    space, rays = ForwardFacingSpace(views), rays_of(views)
    paths = space.paths(rays)
    torch.testing.assert_close(paths.directions.norm(dim=-1), torch.ones(len(paths.far)))
    for share in (0.0, 0.2, 0.6, 0.9):
        along = paths.far * share
        distance = space.distances(rays, torch.arange(len(along)), along)
        points = rays.origins + rays.directions * distance[:, None]
        local = (points - space.frame[:3, 3]) @ space.frame[:3, :3]
        depth = -local[:, 2]
        across = local[:, :2] / depth[:, None] * space.scale
        expected = torch.cat([across, (1 - 2 * space.near / depth)[:, None]], dim=-1)
        found = positions_along(space, rays, along)
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(space.scene_positions(found), points, atol=1e-3, rtol=1e-3)
        # The common frustum holds all rays from the near plane on.
        assert bool((found.abs() <= 1 + 1e-4).all())
    start, end = (positions_along(space, rays, paths.far * share)[:, 2] for share in (0, 1))
    torch.testing.assert_close(start, -torch.ones(len(start)), atol=1e-4, rtol=0)
    torch.testing.assert_close(end, torch.ones(len(end)), atol=1e-4, rtol=0)


def test_the_space_follows_the_views() -> None:
    center = torch.zeros(3)
    assert space_for(around(center, 2.0)) == "contracted"
    assert space_for(forward_facing()) == "forward-facing"
    # A walk along a street: all look the same way, but from one behind the other.
    steps = torch.linspace(-2, 2, 9)[:, None]
    street = steps * torch.tensor([0.05, 1.0, 0.0])
    assert space_for(views_at(street, street + torch.tensor([0.0, 5.0, 0.0]))) == "contracted"
    # An arc of 40 degrees to both sides, as around a facade.
    angles = torch.linspace(-0.7, 0.7, 9)
    arc = torch.stack([angles.sin(), -angles.cos(), 0 * angles], dim=-1)
    assert space_for(views_at(2 * arc, torch.zeros(9, 3))) == "contracted"
    transparent = around(center, 2.0)
    transparent.pixels[0, 0, 0, 3] = 0.5
    assert space_for(transparent) == "box"


@pytest.mark.parametrize("name", ["contracted", "forward-facing"])
def test_one_camera_far_away_does_not_set_the_scale(name: str) -> None:
    views = around(torch.zeros(3), 2.0) if name == "contracted" else forward_facing(near=None)
    one_far = views.select(torch.arange(8).remainder(8) >= 0)
    one_far.world_from_camera[3, :3, 3] += 100 * views.world_from_camera[3, :3, 2]
    others, space = views.select(torch.arange(8) != 3), space_for(views)
    assert space_for(one_far) == space == name
    assert make_space(space, one_far).as_json() == make_space(space, others).as_json()
    without = orbit_poses(views.world_from_camera[torch.arange(8) != 3], 5)
    torch.testing.assert_close(orbit_poses(one_far.world_from_camera, 5), without)


@pytest.mark.parametrize("name", ["contracted", "forward-facing"])
def test_rays_have_samples_from_where_the_scene_begins_to_far_away(name: str) -> None:
    views = around(torch.zeros(3), 2.0) if name == "contracted" else forward_facing()
    space, rays = make_space(name, views), rays_of(views)  # type: ignore[arg-type]
    paths, index = space.paths(rays), torch.arange(len(rays.origins))
    shares = torch.linspace(0, 1, 20)
    own = torch.stack([space.distances(rays, index, paths.far * share) for share in shares], dim=-1)
    assert bool((own.diff(dim=-1) > 0).all())
    assert float(own[:, -1].min()) > 50
    assert float(own[:, 0].max()) < 2.5


def test_a_capture_without_a_known_beginning_has_one_before_what_is_looked_at() -> None:
    positions = torch.tensor([[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.5]])
    views = views_at(positions, torch.tensor([0.0, 4.0, 0.2]).expand(3, 3))
    assert 0.5 < float(ForwardFacingSpace(views).near) < 3.9


@pytest.mark.parametrize("name", ["contracted", "forward-facing"])
def test_a_saved_field_of_a_capture_is_rebuilt_without_the_views(name: str) -> None:
    views = around(torch.zeros(3), 2.0) if name == "contracted" else forward_facing()
    options = FieldOptions("hash", field="proposal", space=name)  # type: ignore[arg-type]
    renderer = make_renderer(options, views)
    again = make_renderer(replace(options, resolution=max(views.size)))
    again.load_state_dict(renderer.state_dict())
    rays = rays_of(views)
    with torch.no_grad():
        first, second = renderer(rays), again(rays)
    assert torch.equal(first.rgb, second.rgb)
    assert torch.equal(first.depth, second.depth)
