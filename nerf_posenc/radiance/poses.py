"""Camera poses: looking at a point, orbits, small motions, and what two sets of poses differ by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

# Views from all sides have a short mean direction. One-sided captures, as of a wall, get a small
# circle before the scene instead of an orbit around it.
_ONE_SIDED = 0.85
_CIRCLE_RADIUS = 0.15
# The point that views from beside one another look at is as far ahead as their axes say, if that is
# between these multiples of the cameras' mean distance from their middle: nearer, the axes cross
# among the cameras, and farther, they are parallel but for noise.
_LEAST_AHEAD = 1.0
_MOST_AHEAD = 30.0
# Otherwise it is this multiple ahead.
_USUALLY_AHEAD = 8.0
# A camera farther from what the views look at than this multiple of the median lies far out. Whole
# captures of objects and rooms have a farthest camera at 1.0 to 1.4 medians.
_FAR_OUT = 3.0


def look_at(
    position: Float[Tensor, " 3"], target: Float[Tensor, " 3"], up: Float[Tensor, " 3"]
) -> Float[Tensor, "4 4"]:
    """Pose ``world_from_camera`` of a camera that looks at a point.

    Args:
        position: position of the camera.
        target: the point.
        up: direction that is up in the image, not along the viewing direction.

    Examples:
        >>> z = torch.tensor([0.0, 0.0, 1.0])
        >>> look_at(torch.tensor([2.0, 0.0, 0.0]), torch.zeros(3), z)[:3, 3]
        tensor([2., 0., 0.])
    """
    back = F.normalize(position - target, dim=0)
    right = F.normalize(torch.linalg.cross(up, back), dim=0)
    pose = torch.eye(4, dtype=position.dtype)
    pose[:3, 0], pose[:3, 1], pose[:3, 2] = right, torch.linalg.cross(back, right), back
    pose[:3, 3] = position
    return pose


class Orbit(NamedTuple):
    """A closed path about the point that views look at: ``origin + cos(a) first + sin(a) second``.

    Attributes:
        center: the point.
        up: unit vector that is up in the images.
        origin: middle of the path.
        first: vector from there to the start of the path.
        second: vector from there to a quarter of it.
        is_around: whether the path goes around the point; otherwise it is a small circle before it.
    """

    center: Float[Tensor, " 3"]
    up: Float[Tensor, " 3"]
    origin: Float[Tensor, " 3"]
    first: Float[Tensor, " 3"]
    second: Float[Tensor, " 3"]
    is_around: bool


def find_orbit(world_from_camera: Float[Tensor, "views 4 4"]) -> Orbit:
    """Find the path of [orbit_poses][nerf_posenc.radiance.poses.orbit_poses].

    Args:
        world_from_camera: poses of the views.
    """
    world_from_camera = world_from_camera[~find_focus(world_from_camera).is_far]
    positions = world_from_camera[:, :3, 3].double()
    backs = F.normalize(world_from_camera[:, :3, 2].double(), dim=-1)
    up = F.normalize(world_from_camera[:, :3, 1].double().mean(0), dim=0)
    center = nearest_to_lines(positions, backs)
    # Cylindrical coordinates about the vertical through the center.
    offsets = positions - center
    heights = offsets @ up
    across = offsets - heights[:, None] * up
    # Seen from above: from all sides these directions cancel, however steep the views are.
    from_above = backs - (backs @ up)[:, None] * up
    one_sided = F.normalize(from_above, dim=-1).mean(0).norm()
    is_around = bool(one_sided < _ONE_SIDED) and float(across.norm(dim=-1).mean()) > 0
    if is_around:
        origin = center + heights.mean() * up
        first = across.norm(dim=-1).mean() * F.normalize(across[0], dim=0)
        second = torch.linalg.cross(up, first)
    else:
        back = F.normalize(backs.mean(0), dim=0)
        right = F.normalize(torch.linalg.cross(up, back), dim=0)
        origin = positions.mean(0)
        first = _CIRCLE_RADIUS * offsets.norm(dim=-1).mean() * right
        second = 0.5 * torch.linalg.cross(back, first)
    return Orbit(center, up, origin, first, second, is_around)


def orbit_poses(
    world_from_camera: Float[Tensor, "views 4 4"], count: int
) -> Float[Tensor, "count 4 4"]:
    """Poses on a closed path about the point that views look at.

    If the views look from all sides, the path goes around the point at their mean height and
    distance; otherwise it is a small circle at their mean position.

    Args:
        world_from_camera: poses of the views.
        count: number of poses, 1 or more.
    """
    orbit = find_orbit(world_from_camera)
    angles = [2 * math.pi * i / count for i in range(count)]
    path = [orbit.origin + math.cos(a) * orbit.first + math.sin(a) * orbit.second for a in angles]
    return torch.stack([look_at(position, orbit.center, orbit.up) for position in path]).float()


def nearest_to_lines(
    positions: Float[Tensor, "n 3"], directions: Float[Tensor, "n 3"]
) -> Float[Tensor, " 3"]:
    """Point nearest to all lines, or one ahead of the positions if the lines do not meet there.

    Args:
        positions: one on each line.
        directions: unit vectors from what the cameras look at to them.
    """
    # Sum of squared distances to the lines: (p - o)^T (I - d d^T) (p - o), whose gradient is 0 at
    # the solution of a 3 x 3 system.
    across = torch.eye(3, dtype=positions.dtype) - directions[:, :, None] * directions[:, None, :]
    matrix = across.sum(0)
    right_side = (across @ positions[:, :, None]).sum(0)[:, 0]
    middle, mean = positions.mean(0), directions.mean(0)
    offsets, back = positions - middle, F.normalize(mean, dim=0)
    spread = float(offsets.norm(dim=-1).mean())
    # Parallel lines leave the system singular along their direction.
    if float(torch.linalg.eigvalsh(matrix)[0]) >= 1e-6 * len(positions):
        nearest: Tensor = torch.linalg.solve(matrix, right_side)
        along = offsets @ back
        # Views from beside one another are nearly parallel: small errors of their poses move the
        # point far, or behind them.
        is_beside = mean.norm() > _ONE_SIDED and along.square().sum() <= offsets.square().sum() / 2
        ahead = float((middle - nearest) @ back)
        if not is_beside or _LEAST_AHEAD * spread < ahead < _MOST_AHEAD * spread:
            return nearest
    return middle - back * (_USUALLY_AHEAD * spread or 1.0)


class Focus(NamedTuple):
    """What views look at.

    Attributes:
        center: the point that they look at.
        distances: distance of each camera to it, as a multiple of the median.
        radius: distance of the farthest camera that does not lie far out.
        is_far: whether each camera lies far out; such cameras do not affect the other values.
    """

    center: Float[Tensor, " 3"]
    distances: Float[Tensor, " views"]
    radius: Float[Tensor, ""]
    is_far: Bool[Tensor, " views"]


def find_focus(world_from_camera: Float[Tensor, "views 4 4"]) -> Focus:
    """The point that views look at, and the distances of their cameras.

    One wrong pose far away would otherwise set the scale of the whole scene.
    """
    positions = world_from_camera[:, :3, 3]
    backs = F.normalize(world_from_camera[:, :3, 2], dim=-1)
    # The center that the first round begins with is that of the cameras near their median position.
    offsets = (positions - positions.median(0).values).norm(dim=-1)
    is_far = offsets > _FAR_OUT * offsets.median()
    for _ in range(2):
        near = positions[~is_far].double(), backs[~is_far].double()
        center = nearest_to_lines(*near).to(positions)
        distances = (positions - center).norm(dim=-1)
        median = distances[~is_far].median()
        is_far = distances > _FAR_OUT * median
    return Focus(center, distances / median.clamp(min=1e-12), distances[~is_far].max(), is_far)


def exp_se3(twists: Float[Tensor, "*batch 6"]) -> Float[Tensor, "*batch 4 4"]:
    """Rigid transforms of twists: rotations in radians about the origin, then translations.

    Args:
        twists: axis times angle, and the velocity of the translation, which goes on while the
            axes rotate.

    Examples:
        >>> exp_se3(torch.tensor([0.0, 0.0, math.pi / 2, 0.0, 0.0, 1.0]))[:3].round(decimals=3)
        tensor([[ 0., -1.,  0.,  0.],
                [ 1.,  0.,  0.,  0.],
                [ 0.,  0.,  1.,  1.]])
    """
    x, y, z, *velocity = twists.unbind(-1)
    zero = torch.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    rows = [[*row, v] for row, v in zip(rows, velocity, strict=True)] + [[zero] * 4]
    exponential: Tensor = torch.matrix_exp(torch.stack([torch.stack(row, -1) for row in rows], -2))
    return exponential


class PoseDifference(NamedTuple):
    """Difference of two sets of poses of the same views after alignment by a similarity.

    Attributes:
        degrees: angle between the two orientations of each view.
        distances: distance between its two positions, as a share of the mean distance of the
            cameras from their middle.
    """

    degrees: Float[Tensor, " views"]
    distances: Float[Tensor, " views"]


def align_poses(
    poses: Float[Tensor, "views 4 4"], target: Float[Tensor, "views 4 4"]
) -> Callable[[Float[Tensor, "n 4 4"]], Float[Tensor, "n 4 4"]]:
    """Find the similarity that brings poses nearest to others: positions and axes of cameras.

    Umeyama 1991, of each camera's position, in units of their spread, and of its three axes. By
    positions alone the rotation would be arbitrary where they lie on a line, and uncertain where
    they are close together.

    Args:
        poses: poses in one coordinate system.
        target: poses of the same views in another.

    Returns:
        Function from poses in the first system to poses in the second.
    """
    source, goal = poses[:, :3, 3].double(), target[:, :3, 3].double()
    middle, goal_middle = source.mean(0), goal.mean(0)
    source, goal = source - middle, goal - goal_middle
    spreads = (source.norm() * goal.norm()).clamp(min=1e-12)
    axes, goal_axes = poses[:, :3, :3].double(), target[:, :3, :3].double()
    # Every camera's three axes weigh as much as its position at the mean distance.
    moments = goal.T @ source / spreads + (goal_axes @ axes.mT).mean(0) / 3
    u, _, vh = torch.linalg.svd(moments)
    # A rotation, not a mirror image.
    signs = torch.ones(3, dtype=torch.float64, device=u.device)
    signs[2] = torch.linalg.det(u @ vh).sign()
    rotation = u @ torch.diag(signs) @ vh
    # Positions that disagree with the axes are not mirrored through the middle; a single one has no
    # scale.
    size = source.square().sum()
    scale = ((source @ rotation.T) * goal).sum().clamp(min=0) / size if size > 0 else 1.0

    def aligned(others: Tensor) -> Tensor:
        moved = others.double().clone()
        moved[:, :3, :3] = rotation @ moved[:, :3, :3]
        moved[:, :3, 3] = scale * (moved[:, :3, 3] - middle) @ rotation.T + goal_middle
        return moved.to(others)

    return aligned


def pose_difference(
    poses: Float[Tensor, "views 4 4"], target: Float[Tensor, "views 4 4"]
) -> PoseDifference:
    """Compare poses with others of the same views, after `align_poses`.

    Args:
        poses: poses in any coordinate system.
        target: poses that they are compared with.
    """
    moved, target = align_poses(poses, target)(poses.double()), target.double()
    # Rotations that differ by an angle a differ by 8 sin(a / 2)^2 in squared entries.
    apart = (moved[:, :3, :3] - target[:, :3, :3]).square().sum((1, 2))
    angles = 2 * torch.asin((apart / 8).sqrt().clamp(max=1))
    positions = target[:, :3, 3]
    size = (positions - positions.mean(0)).norm(dim=-1).mean().clamp(min=1e-12)
    distances = (moved[:, :3, 3] - positions).norm(dim=-1) / size
    return PoseDifference(torch.rad2deg(angles), distances)
