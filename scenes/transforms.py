"""Folders of posed images: ``transforms.json`` of NeRF-synthetic, instant-ngp and nerfstudio.

* ``transforms_train.json``, ``transforms_test.json`` (and ``_val``): NeRF-synthetic. The box is the
  cube of half size 1.5 that NeRF's cameras look at.
* ``transforms.json``: instant-ngp and nerfstudio, with their intrinsics, for all frames or for
  each, and OpenCV's distortion. The box is instant-ngp's unit cube times ``aabb_scale``.
If a folder does not split its views, every eighth is held out for testing, as in LLFF.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene
from scenes.errors import SceneError
from scenes.frames import (
    Box,
    Frame,
    held_out_note,
    load_scene,
    path_inside,
    require_rigid,
    require_views,
    split_frames,
)
from scenes.image_files import MAX_PIXELS

_BLENDER_HALF_SIZE = 1.5
# instant-ngp maps the file's coordinates to its unit cube by 0.33 x + 0.5.
_NGP_SCALE = 0.33
_LARGEST = 1e12
_MOST_BYTES = 1 << 25
_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".PNG", ".webp")


def open_nerf_synthetic(
    folder: Path, *, max_pixels: int = MAX_PIXELS, size: int | None = None
) -> Scene:
    """Read ``transforms_train.json`` and its siblings.

    Raises:
        SceneError: If a file is damaged, or there are no views to fit or to test.
    """
    notes: list[str] = []
    frames = _frames(folder, "transforms_train.json", notes)
    for split in ("test", "val"):
        if (folder / f"transforms_{split}.json").is_file():
            test = _frames(folder, f"transforms_{split}.json", notes)
            break
    else:
        frames, test = split_frames(frames)
        notes.append(held_out_note(len(test)))
    box = Box(np.zeros(3), _BLENDER_HALF_SIZE)
    return load_scene(folder, frames, test, box, notes, max_pixels=max_pixels, size=size)


def open_transforms(
    folder: Path, *, max_pixels: int = MAX_PIXELS, size: int | None = None
) -> Scene:
    """Read ``transforms.json``.

    Raises:
        SceneError: If the file is damaged, or there are no views to fit or to test.
    """
    notes: list[str] = []
    file = path_inside(folder, "transforms.json")
    meta = read_json(file)
    frames = _frames(folder, file.name, notes)
    named = {key: _names(meta, f"{key}_filenames", file) for key in ("train", "val", "test")}
    held = named["test"] or named["val"]
    if named["train"] and held:
        by_name = {frame.path.resolve(): frame for frame in frames}
        train, test = (
            [by_name[p] for p in (path_inside(folder, n) for n in names) if p in by_name]
            for names in (named["train"], held)
        )
    else:
        train, test = split_frames(frames)
        notes.append(held_out_note(len(test)))
    half = 0.5 * _number(meta.get("aabb_scale", 1), "aabb_scale", file) / _NGP_SCALE
    box = Box(np.zeros(3), half)
    return load_scene(folder, train, test, box, notes, max_pixels=max_pixels, size=size)


def _names(meta: dict[str, Any], key: str, file: Path) -> list[str]:
    """A list of file names; empty if there is none."""
    names = meta.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SceneError(f"{file}: {key} must be a list of file names")
    return names


def _frames(folder: Path, name: str, notes: list[str]) -> list[Frame]:
    """Frames of a transforms file whose images exist."""
    file = path_inside(folder, name)
    meta = read_json(file)
    listed = meta.get("frames")
    if not isinstance(listed, list):
        raise SceneError(f"{file} has no list of frames")
    if not listed:
        raise SceneError(f"{file} has an empty list of frames; each posed image needs an entry")
    require_views(len(listed), file)
    frames, missing = [], 0
    for i, entry in enumerate(listed):
        where = f"{file}: frame {i}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise SceneError(f"{where} has no file_path")
        pose = rigid_matrix(entry.get("transform_matrix"), where)
        path = _image_at(folder, entry["file_path"])
        if path is None:
            missing += 1
            continue
        frames.append(Frame(path, camera_from_meta({**meta, **entry}, where), pose))
    if not frames:
        raise SceneError(f"{file} lists {len(listed)} frames, and none of their images exists")
    if missing:
        notes.append(f"{missing} of the {len(listed)} frames of {name} have no image: skipped")
    return frames


def camera_from_meta(meta: dict[str, Any], where: str) -> Callable[[int, int], Camera]:
    """Make the camera of a frame, given the size of its image."""
    model = str(meta.get("camera_model", "OPENCV"))
    if meta.get("is_fisheye") or model not in ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE"):
        raise SceneError(f"{where}: a camera of the kind {model} is not supported, nor a fisheye")
    if any(_number(meta.get(name, 0), name, where) for name in ("k3", "k4")):
        raise SceneError(f"{where}: k3 and k4 are not supported; undistort the images first")
    bend = [_number(meta.get(name, 0), name, where) for name in ("k1", "k2", "p1", "p2")]
    distortion = (bend[0], bend[1], bend[2], bend[3])
    if "fl_x" in meta:
        fx = _number(meta["fl_x"], "fl_x", where)
        fy = _number(meta.get("fl_y", fx), "fl_y", where)
        sides = [_number(meta.get(name, 0), name, where) for name in ("w", "h")]

        def from_focals(width: int, height: int) -> Camera:
            full_width, full_height = round(sides[0]) or width, round(sides[1]) or height
            cx = _number(meta.get("cx", full_width / 2), "cx", where)
            cy = _number(meta.get("cy", full_height / 2), "cy", where)
            full = Camera(full_width, full_height, fx, fy, cx, cy, distortion)
            return full.resized(width, height)

        return from_focals
    if "camera_angle_x" not in meta:
        raise SceneError(f"{where} has neither fl_x nor camera_angle_x")
    angle_x = _number(meta["camera_angle_x"], "camera_angle_x", where)

    def from_angle(width: int, height: int) -> Camera:
        square = Camera.from_angle(width, height, angle_x)
        fy = square.fx
        if "camera_angle_y" in meta:
            angle_y = _number(meta["camera_angle_y"], "camera_angle_y", where)
            fy = Camera.from_angle(height, width, angle_y).fx
        cx = _number(meta.get("cx", width / 2), "cx", where)
        cy = _number(meta.get("cy", height / 2), "cy", where)
        return Camera(width, height, square.fx, fy, cx, cy, distortion)

    return from_angle


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object.

    Raises:
        SceneError: If it cannot be read or contains something else.
    """
    try:
        if not file.is_file():
            raise ValueError("it is not a regular file")
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        meta = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SceneError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not isinstance(meta, dict):
        raise SceneError(
            f"{file} must contain an object with frames; it contains {type(meta).__name__}"
        )
    return meta


def _number(value: Any, name: str, where: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < _LARGEST:
        raise SceneError(f"{where}: {name} must be a finite number; got {value!r}")
    return float(value)


def rigid_matrix(value: Any, where: str) -> npt.NDArray[np.float64]:
    """Check a pose, 3 x 4 or 4 x 4 numbers, and return it as ``(4, 4)``.

    Raises:
        SceneError: If it is not finite, stretches, mirrors, or is transposed.
    """
    try:
        matrix = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.empty(0)
    if matrix.shape == (3, 4):
        matrix = np.vstack([matrix, [0, 0, 0, 1]])
    if matrix.shape != (4, 4) or not (np.abs(matrix) < _LARGEST).all():
        raise SceneError(f"{where}: transform_matrix must be 4 x 4 finite numbers")
    require_rigid(matrix, where)
    if not np.allclose(matrix[3], [0, 0, 0, 1]):
        raise SceneError(
            f"{where}: the last row of transform_matrix must be 0, 0, 0, 1; got "
            f"{matrix[3].tolist()}; a position there means that it is transposed"
        )
    return matrix


def _image_at(folder: Path, name: str) -> Path | None:
    """Find an image by its name with or without suffix; None if there is none."""
    for suffix in _SUFFIXES:
        path = path_inside(folder, name + suffix)
        if path.is_file():
            return path
    return None
