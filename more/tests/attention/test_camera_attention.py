"""Attention between tokens of several cameras."""

import pytest
import torch
from torch import Tensor

from more.tools.library_numbers import arrays, given
from nerf_posenc.encoders import plucker_rays
from nerf_posenc_attention import PRoPEEncoder, RotaryEncoder, transformed_by_camera


def random_poses(*batch: int) -> Tensor:
    """Rigid transforms in float64."""
    rotation, _ = torch.linalg.qr(torch.randn(*batch, 3, 3, dtype=torch.float64))
    rotation = rotation * torch.linalg.det(rotation)[..., None, None]
    pose = torch.eye(4, dtype=torch.float64).repeat(*batch, 1, 1)
    pose[..., :3, :3] = rotation
    pose[..., :3, 3] = torch.randn(*batch, 3, dtype=torch.float64)
    return pose


INTRINSICS = torch.tensor([[500.0, 0, 310], [0, 520, 250], [0, 0, 1]], dtype=torch.float64)


@pytest.mark.parametrize("with_intrinsics", [True, False])
def test_attention_does_not_depend_on_the_frame_of_the_world(with_intrinsics: bool) -> None:
    prope = PRoPEEncoder(16, patches=(2, 3))
    poses = random_poses(2, 3)
    tokens = torch.randn(3, 2, 4, 18, 16, dtype=torch.float64)
    seen = dict(intrinsics=INTRINSICS.expand(2, 3, 3, 3), image_size=(480, 640))
    camera = seen if with_intrinsics else {}

    def attend(poses: Tensor) -> Tensor:
        queries, keys, values = tokens
        transforms = prope.transforms(poses, **camera)  # type: ignore[arg-type]
        return prope.attend(queries, keys, values, transforms)

    moved = attend(random_poses() @ poses)
    torch.testing.assert_close(moved, attend(poses), atol=1e-10, rtol=0)
    assert (attend(random_poses(2, 3)) - moved).abs().max() > 1e-3


def test_scores_hold_the_relative_projection_of_the_cameras() -> None:
    prope = PRoPEEncoder(8, patches=(1, 1))
    poses = random_poses(1, 2)
    intrinsics = INTRINSICS.expand(1, 2, 3, 3)
    transforms = prope.transforms(poses, intrinsics, image_size=(480, 640))
    x = torch.randn(2, 1, 1, 2, 8, dtype=torch.float64)
    scores = prope.queries(x[0], transforms) @ prope.keys(x[1], transforms).mT
    # Projections to images from -0.5 to 0.5, P_1 P_2^-1 between query and key.
    lifted = torch.eye(4, dtype=torch.float64)
    lifted[0, 0], lifted[0, 2] = 500 / 640, 310 / 640 - 0.5
    lifted[1, 1], lifted[1, 2] = 520 / 480, 250 / 480 - 0.5
    projections = lifted @ torch.linalg.inv(poses[0])
    relative = projections[0] @ torch.linalg.inv(projections[1])
    query, key = x[0, 0, 0, 0], x[1, 0, 0, 1]
    expected = query[:4] @ relative @ key[:4] + query[4:] @ key[4:]
    torch.testing.assert_close(scores[0, 0, 0, 1], expected, atol=1e-10, rtol=0)


def test_columns_and_rows_rotate_a_quarter_each_backwards() -> None:
    prope = PRoPEEncoder(16, patches=(2, 3), base=100.0)
    identity = prope.transforms(torch.eye(4).expand(1, 1, 4, 4))
    x = torch.randn(1, 1, 6, 16)
    rotated = prope.queries(x, identity)
    columns, rows = torch.arange(3).repeat(2), torch.arange(2).repeat_interleave(3)
    for start, positions in ((8, columns), (12, rows)):
        part = slice(start, start + 4)
        alone = RotaryEncoder(4, base=100.0, pairing="half").rotate(x[..., part], -positions)
        torch.testing.assert_close(rotated[..., part], alone)
    torch.testing.assert_close(prope.outputs(rotated, identity), x, atol=1e-6, rtol=0)


def test_gtas_part_of_rigid_transforms_is_this_without_intrinsics() -> None:
    stored = arrays()
    tokens = given("rotary/gta/after")["q"][None, None, :, :32]
    poses = torch.linalg.inv(stored["gta/extrinsics"])[None]
    transforms = PRoPEEncoder(64, patches=(3, 4)).transforms(poses, translation_scale=0.01)
    for matrices, name in (
        (transforms.queries, "after"),
        (transforms.keys, "after_key"),
        (transforms.outputs, "output"),
    ):
        moved = transformed_by_camera(tokens, matrices)[0, 0]
        torch.testing.assert_close(moved, stored[f"gta/{name}"][:, :32], atol=1e-6, rtol=0)


def test_plucker_coordinates_are_the_same_along_a_ray() -> None:
    origins, directions = torch.randn(2, 5, 3, dtype=torch.float64)
    along = origins + torch.rand(5, 1) * 7 * directions
    rays = plucker_rays(origins, directions)
    torch.testing.assert_close(plucker_rays(along, 3 * directions), rays, atol=1e-12, rtol=0)
    swapped = plucker_rays(origins, directions, moment_first=True)
    assert torch.equal(swapped, torch.cat([rays[:, 3:], rays[:, :3]], -1))
    distance = rays[:, 3:].norm(dim=-1)
    unit = directions / directions.norm(dim=-1, keepdim=True)
    nearest = origins - (origins * unit).sum(-1, keepdim=True) * unit
    torch.testing.assert_close(distance, nearest.norm(dim=-1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["cameractrl", "diffusers"])
def test_plucker_images_of_other_libraries(name: str) -> None:
    stored = arrays()
    poses = stored[f"plucker-{name}/input_poses"]
    focal, center = stored[f"plucker-{name}/input_intrinsics"].split(2, dim=-1)
    # CameraCtrl looks through the centers of pixels, diffusers' through their corners.
    shift = 0.5 if name == "cameractrl" else 0.0
    rows, columns = torch.meshgrid(torch.arange(3.0), torch.arange(4.0), indexing="ij")
    pixels = torch.stack([columns, rows], -1).double() + shift
    local = (pixels - center[:, None, None]) / focal[:, None, None]
    local = torch.cat([local, torch.ones_like(local[..., :1])], -1)
    directions = local @ poses[:, None, :3, :3].mT
    origins = poses[:, None, None, :3, 3].expand_as(directions)
    rays = plucker_rays(origins, directions, moment_first=name == "cameractrl")
    expected = stored[f"plucker-{name}/output_rays"]
    torch.testing.assert_close(rays, expected, atol=1e-6, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    prope = PRoPEEncoder(8, patches=(2, 2))
    poses = torch.eye(4).expand(1, 2, 4, 4)
    for call, message in (
        (lambda: PRoPEEncoder(12, patches=(2, 2)), "multiple of 8"),
        (lambda: PRoPEEncoder(8, patches=(2, 0)), r"patches must be \(rows, columns\)"),
        (lambda: prope.transforms(torch.eye(4)), "world_from_camera must have shape"),
        (lambda: prope.transforms(poses, INTRINSICS), "both intrinsics and image_size"),
        (
            lambda: prope.transforms(poses, INTRINSICS, image_size=(4, 4)),
            "intrinsics must have shape",
        ),
        (lambda: prope.queries(torch.zeros(1, 1, 7, 8), prope.transforms(poses)), "2 cameras"),
        (lambda: transformed_by_camera(torch.zeros(1, 1, 3, 8), poses), "2 cameras divide"),
        (lambda: plucker_rays(torch.zeros(2, 3), torch.zeros(3, 3)), "must both have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
