"""Camera and window of a browser that watches, within sane limits whatever it sends."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera

Vector = tuple[float, float, float]

FIELD_OF_VIEW = math.radians(45)
"""Vertical, at the start."""

_MOST_ASPECT = 8.0
_MOST_SIDE = 4096
_MOST_DISTANCE = 1e4
_FIELDS_OF_VIEW = math.radians(1), math.radians(170)
# Longer side of an image that is sent, in pixels.
_LONGEST = 1600
_SHORTEST = 64


def camera_from_client(client: Any, pixels: int) -> tuple[Camera, Tensor] | None:
    """Camera and pose of a browser's view, in our conventions.

    Args:
        client: camera of a viser client.
        pixels: approximate number in a rendering.

    Returns:
        A camera and its ``world_from_camera``; None if what was sent is no view.
    """
    from viser.transforms import SO3

    try:
        field_of_view = float(client.fov)
        wxyz, position = (np.array(v, dtype=float) for v in (client.wxyz, client.position))
    except (ArithmeticError, TypeError, ValueError):
        return None
    norm = float(np.linalg.norm(wxyz))
    has_shape = wxyz.shape == (4,) and position.shape == (3,)
    if not has_shape or not np.isfinite([field_of_view, norm, *position]).all() or norm == 0:
        return None
    aspect = aspect_from_client(client)
    field_of_view = min(max(field_of_view, _FIELDS_OF_VIEW[0]), _FIELDS_OF_VIEW[1])
    height = min(max(8, round(math.sqrt(pixels / aspect))), _MOST_SIDE)
    width = min(max(8, round(height * aspect)), _MOST_SIDE)
    focal = height / 2 / math.tan(field_of_view / 2)
    rotation = torch.from_numpy(SO3(wxyz / norm).as_matrix()).float()
    pose = torch.eye(4)
    # From OpenCV's axes, y down and looking along +z.
    pose[:3, :3] = rotation * torch.tensor([1.0, -1.0, -1.0])
    pose[:3, 3] = torch.from_numpy(position.clip(-_MOST_DISTANCE, _MOST_DISTANCE))
    return Camera(width, height, focal, focal, width / 2, height / 2), pose


def aspect_from_client(client: Any) -> float:
    """Width over height of a browser's window."""
    try:
        aspect = float(client.aspect)
    except (ArithmeticError, TypeError, ValueError):
        return 1.0
    return min(max(aspect, 1 / _MOST_ASPECT), _MOST_ASPECT) if math.isfinite(aspect) else 1.0


def window_from_client(client: Any) -> tuple[int, int]:
    """Width and height in pixels of what fills a browser's window, reduced if that is large."""
    aspect = aspect_from_client(client)
    try:
        width = min(float(client.image_width), _LONGEST, _LONGEST * aspect)
    except (ArithmeticError, TypeError, ValueError):
        width = math.nan
    if not width >= 1:
        width = 960.0
    return max(_SHORTEST, round(width)), max(_SHORTEST, round(width / aspect))


def first_view(poses: Tensor) -> tuple[Vector, Vector, Vector]:
    """Position, point to look at and up direction of the first of a field's views.

    Args:
        poses: ``(views, 4, 4)``, from camera to world.
    """
    up = F.normalize(poses[:, :3, 1].double().mean(0), dim=0)
    position, back = poses[0, :3, 3].double(), poses[0, :3, 2].double()
    return _vector(position), _vector(position - back * position.norm()), _vector(up)


def _vector(values: Tensor) -> Vector:
    x, y, z = values.tolist()
    return x, y, z
