"""Cameras in a JSON file, to render a fitted scene from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.posed.boxes import coarse
from nerf_posenc_app.data.posed.transforms import (
    camera_from_meta,
    keys_of_camera,
    pose_of,
    read_json,
)

if TYPE_CHECKING:
    from jaxtyping import Float

# Maximum pixels of a frame, 7,680 x 4,320. Each pixel's ray takes about 200 bytes.
_MAX_PIXELS = 1 << 25
_MOST_PIXELS = 1 << 32
_MOST_FRAMES = 10_000


def open_cameras(file: Path, default: Camera) -> list[tuple[Camera, Float[Tensor, "4 4"]]]:
    """Read cameras from a file like ``transforms.json``, whose frames need no images.

    Args:
        file: file with ``frames``, each with a ``transform_matrix`` in the axes and units of the
            scene's own file; intrinsics (``fl_x``, ``w``, ``h``, ... or ``camera_angle_x``) are
            optional, for all frames or for each.
        default: camera of frames without intrinsics.

    Returns:
        Each camera and its pose ``world_from_camera``.

    Raises:
        SceneError: If the file cannot be read or a value is out of its range.
    """
    meta = read_json(file)
    listed = meta.get("frames")
    if not isinstance(listed, list) or not listed:
        raise SceneError(f"{file} has no list of frames")
    if len(listed) > _MOST_FRAMES:
        raise SceneError(f"{file} has {len(listed):,} frames, more than {_MOST_FRAMES:,}")
    cameras, lenses = [], set[Camera]()
    for i, entry in enumerate(listed):
        where = f"{file}: frame {i}"
        if not isinstance(entry, dict):
            raise SceneError(f"{where} is no object with a transform_matrix")
        values = {**meta, **entry}
        pose = pose_of(values, where)
        values = keys_of_camera(values, where)
        camera = default
        if "fl_x" in values or "camera_angle_x" in values:
            width, height = (
                _side(values.get(name, getattr(default, side)), name, where)
                for name, side in (("w", "width"), ("h", "height"))
            )
            try:
                camera_of, _ = camera_from_meta(values, where)
                if width * height > _MAX_PIXELS:
                    raise ValueError(f"{width} x {height} pixels, more than {_MAX_PIXELS:,}")
                camera = camera_of(width, height)
                if any(camera.distortion) and camera not in lenses:
                    coarse(camera).lens_steps()
                    lenses.add(camera)
            except ValueError as error:
                raise SceneError(f"{where}: {error}") from None
        cameras.append((camera, torch.from_numpy(pose).float()))
    count = sum(camera.width * camera.height for camera, _ in cameras)
    if count > _MOST_PIXELS:
        raise SceneError(
            f"the {len(cameras)} frames of {file} have {count:,} pixels in all, more than "
            f"{_MOST_PIXELS:,}; give smaller w and h, or fewer frames"
        )
    return cameras


def _side(value: Any, name: str, where: str) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= 1 << 15:
        raise SceneError(f"{where}: {name} must be 1 to 32768 pixels; got {value!r}")
    return round(float(value))
