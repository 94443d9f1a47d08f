"""A way for a camera to go round what a set of views looks at."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

# Where the views look from all sides their mean direction is short; one-sided captures, as of a
# wall, are swayed before instead.
_ONE_SIDED = 0.85
_SWAY = 0.15


def orbit_poses(
    world_from_camera: Float[Tensor, "views 4 4"], count: int
) -> Float[Tensor, "count 4 4"]:
    """Poses on a closed way about the point that the views look at.

    Round it, at their mean height and distance, where they look from all sides; else on a small
    circle before it.

    Args:
        world_from_camera: poses of the views.
        count: how many poses to give, 1 or more.
    """
    places = world_from_camera[:, :3, 3].double()
    backs = F.normalize(world_from_camera[:, :3, 2].double(), dim=-1)
    up = F.normalize(world_from_camera[:, :3, 1].double().mean(0), dim=0)
    centre = _nearest_to_lines(places, backs)
    offsets = places - centre
    heights = offsets @ up
    across = offsets - heights[:, None] * up
    mean_back = backs.mean(0)
    poses = []
    turns = [2 * math.pi * i / count for i in range(count)]
    if mean_back.norm() < _ONE_SIDED and float(across.norm(dim=-1).mean()) > 0:
        first = F.normalize(across[0], dim=0)
        second = torch.linalg.cross(up, first)
        radius, height = across.norm(dim=-1).mean(), heights.mean()
        for turn in turns:
            place = centre + height * up
            place = place + radius * (math.cos(turn) * first + math.sin(turn) * second)
            poses.append(_look_at(place, centre, up))
    else:
        back = F.normalize(mean_back, dim=0)
        right = F.normalize(torch.linalg.cross(up, back), dim=0)
        distance = offsets.norm(dim=-1).mean()
        for turn in turns:
            aside = math.cos(turn) * right + 0.5 * math.sin(turn) * torch.linalg.cross(back, right)
            poses.append(_look_at(places.mean(0) + _SWAY * distance * aside, centre, up))
    return torch.stack(poses).float()


def _nearest_to_lines(places: Tensor, directions: Tensor) -> Tensor:
    """Point nearest to all lines, or one ahead of the places where the lines are parallel."""
    across = torch.eye(3, dtype=places.dtype) - directions[:, :, None] * directions[:, None, :]
    matrix = across.sum(0)
    right_side = (across @ places[:, :, None]).sum(0)[:, 0]
    if float(torch.linalg.eigvalsh(matrix)[0]) < 1e-6 * len(places):
        return places.mean(0) - directions.mean(0)
    nearest: Tensor = torch.linalg.solve(matrix, right_side)
    return nearest


def _look_at(place: Tensor, centre: Tensor, up: Tensor) -> Tensor:
    back = F.normalize(place - centre, dim=0)
    right = F.normalize(torch.linalg.cross(up, back), dim=0)
    pose = torch.eye(4, dtype=place.dtype)
    pose[:3, 0], pose[:3, 1], pose[:3, 2] = right, torch.linalg.cross(back, right), back
    pose[:3, 3] = place
    return pose
