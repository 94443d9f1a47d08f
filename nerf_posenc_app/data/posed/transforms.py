"""Folders of posed images: ``transforms.json`` of NeRF-synthetic, instant-ngp and nerfstudio.

* ``transforms_train.json``, ``transforms_test.json`` (and ``_val``): NeRF-synthetic. The box is the
  cube of half size 1.5 that NeRF's cameras look at.
* ``transforms.json``: instant-ngp and nerfstudio, with their intrinsics, for all frames or for
  each, and OpenCV's distortion. The box is instant-ngp's unit cube times ``aabb_scale``.
If a folder does not split its views, every eighth is held out for testing, as in LLFF.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.posed.boxes import Box
from nerf_posenc_app.data.posed.folders import ImageFinder, listed, not_read
from nerf_posenc_app.data.posed.frames import (
    Frame,
    PosedImages,
    held_out_note,
    require_rigid,
    require_views,
    split_frames,
)
from nerf_posenc_app.data.posed.masks import Mask

_BLENDER_HALF_SIZE = 1.5
# instant-ngp maps the file's coordinates to its unit cube by 0.33 x + 0.5.
_NGP_SCALE = 0.33
_LARGEST = 1e12
_MOST_BYTES = 1 << 25
# Coefficients of a lens beyond k1, k2, p1, p2.
_LENS_BEYOND = ("k3", "k4", "k5", "k6")
# Lenses of instant-ngp other than pinholes.
_OTHER_LENSES = ("latlong", "equirectangular", "orthographic", "ftheta_p0")
# Keys that place instant-ngp's cube.
_OF_BOX = ("aabb_scale", "scale", "offset")
_MODELS = ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "PERSPECTIVE")
_INTRINSICS = ("fl_x", "fl_y", "cx", "cy", "w", "h", "camera_angle_x", "camera_angle_y")
_OF_ANGLE = ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y")
_OF_CAMERA = frozenset(
    (
        *_INTRINSICS,
        *_LENS_BEYOND,
        *_OTHER_LENSES,
        "k1",
        "k2",
        "p1",
        "p2",
        "camera_model",
        "is_fisheye",
        "K",
    )
)
_READ = _OF_CAMERA.union(
    ("aabb_scale", "scale", "offset", "frames", "test_frames", "file_path", "transform_matrix"),
    ("mask_path", "camera_convention"),
    ("train_filenames", "val_filenames", "test_filenames"),
)
# Tolerance between two statements of the same field of view.
_ANGLE_TOLERANCE = 0.02
# A string, which is kept, or a comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def read_transforms(folder: Path, name: str) -> PosedImages:
    """Read ``transforms.json``, or ``transforms_train.json`` and its siblings.

    Raises:
        SceneError: If a file is damaged, or none of its images exists.
    """
    others = [f"transforms_{split}.json" for split in ("test", "val")] * (name != "transforms.json")
    names = [name, *(other for other in others if (folder / other).is_file())]
    finder = ImageFinder(folder)
    meta, *held = (read_json(folder / each) for each in names[:2])
    frames = _frames(finder, name, meta, meta.get("frames"))
    notes: list[str] = []
    if held:
        train, test = frames, _frames(finder, names[1], held[0], held[0].get("frames"))
    else:
        train, test, notes = _split(meta, frames, finder, name)
    if names[2:]:
        notes.append(f"{names[2]} is not read: the test views are those of {names[1]}")
    notes += _angle_notes(meta, name)
    entries = [entry for each in (meta, *held) for entry in (each, *_entries(each))]
    notes += not_read(entries, _READ) + finder.notes(" and ".join(names[:2]))
    # NeRF's own scenes have no cube of instant-ngp's.
    has_box = name == "transforms.json" or not meta.keys().isdisjoint(_OF_BOX)
    box = _box(meta, name) if has_box else Box(np.zeros(3), _BLENDER_HALF_SIZE)
    source = f"aabb_scale, scale and offset of {name} place it"
    return PosedImages(train, test, replace(box, source=source), notes)


def _angle_notes(meta: dict[str, Any], name: str) -> list[str]:
    """A remark if a file gives two different fields of view."""
    keys = ("camera_angle_x", "w", "fl_x")
    if any(meta.get(key) is None for key in keys):
        return []
    stated, width, focal = (_number(meta[key], key, name) for key in keys)
    angle = 2 * math.atan2(width / 2, focal)
    if abs(stated - angle) <= _ANGLE_TOLERANCE * abs(angle):
        return []
    return [
        f"camera_angle_x is {math.degrees(stated):.4g} degrees and fl_x means "
        f"{math.degrees(angle):.4g}; fl_x is used"
    ]


def _entries(meta: dict[str, Any]) -> list[dict[str, Any]]:
    """All frames of a file that `_frames` has checked."""
    return [*meta["frames"], *meta.get("test_frames", [])]


def _split(
    meta: dict[str, Any], frames: list[Frame], finder: ImageFinder, name: str
) -> tuple[list[Frame], list[Frame], list[str]]:
    """Frames to fit and to test, and how they were told apart."""
    if "test_frames" in meta:  # ScanNet++.
        return frames, _frames(finder, name, meta, meta["test_frames"]), []
    named, notes = {}, []
    by_path = {frame.path: frame for frame in frames}
    paths = ImageFinder(finder.folder)
    for split in ("train", "val", "test"):
        key = f"{split}_filenames"
        names = meta.get(key) or []
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise SceneError(f"{finder.folder / name}: {key} must be a list of file names")
        require_views(len(names), f"{key} of {finder.folder / name}")
        path_by_name = {each: paths.find(each) for each in names}
        named[split] = [by_path[path] for path in map(path_by_name.get, names) if path in by_path]
        if unknown := [each for each, path in path_by_name.items() if path not in by_path]:
            notes.append(f"{len(unknown)} names of {key} have no frame: {listed(unknown)}")
    train, held = named["train"], named["test"] or named["val"]
    if named["test"] and named["val"]:
        notes.append(
            f"the {len(named['val'])} views of val_filenames are neither fitted nor tested"
        )
    if train or held:
        if not held or not train:
            chosen = {frame.path for frame in train or held}
            rest = [frame for frame in frames if frame.path not in chosen]
            use, train, held = ("tested", train, rest) if train else ("fitted", rest, held)
            notes.append(f"{name} lists one part of its split: all others, {len(rest)}, are {use}")
        if held:
            return train, held, notes
        frames = train
    train, test = split_frames(frames)
    return train, test, [*notes, held_out_note(len(test))]


def _box(meta: dict[str, Any], name: str) -> Box:
    """The unit cube of instant-ngp, times ``aabb_scale``, in the units of the file."""
    scale = _number(meta.get("scale", _NGP_SCALE), "scale", name)
    size = _number(meta.get("aabb_scale", 1), "aabb_scale", name)
    if not (scale > 0 and size > 0):
        raise SceneError(f"{name}: scale and aabb_scale must be above 0; got {scale:g}, {size:g}")
    offset = meta.get("offset", 0.5)
    values = offset if isinstance(offset, list) and len(offset) == 3 else [offset] * 3
    # A position p becomes scale p + offset, and the cube has its middle at 0.5.
    center = np.array([(0.5 - _number(value, "offset", name)) / scale for value in values])
    return Box(center, 0.5 * size / scale)


def _frames(finder: ImageFinder, name: str, meta: dict[str, Any], entries: Any) -> list[Frame]:
    """Frames of a transforms file whose images exist."""
    file = finder.folder / name
    if not isinstance(entries, list):
        raise SceneError(f"{file} has no list of frames")
    if not entries:
        raise SceneError(f"{file} has an empty list of frames; each posed image needs an entry")
    require_views(len(entries), file)
    frames = []
    shared = keys_of_camera(meta, str(file))
    for i, entry in enumerate(entries):
        where = f"{file}: frame {i}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise SceneError(f"{where} has no file_path that is the name of an image")
        pose = pose_of({**meta, **entry}, where)
        path = finder.find(entry["file_path"])
        if path is not None:
            camera_values = keys_of_camera(entry, where)
            # A frame's field of view replaces the common one, in whichever form it is given.
            is_own = not camera_values.keys().isdisjoint(("fl_x", "camera_angle_x"))
            others = {k: v for k, v in shared.items() if not (is_own and k in _OF_ANGLE)}
            camera, size = camera_from_meta({**others, **camera_values}, where)
            mask = _named_mask(finder, {**meta, **entry}.get("mask_path"), where)
            frames.append(Frame(path, camera, pose, camera_size=size, where=where, mask=mask))
    if not frames:
        raise SceneError(
            f"{file} lists {len(entries)} frames, and none of their images exists: "
            f"{finder.nothing_found()}"
        )
    return frames


def keys_of_camera(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Values that describe a camera, of all of a frame or a file.

    Those of OpenCV's camera matrix ``K`` stand in for ``fl_x``, ``fl_y``, ``cx`` and ``cy``.

    Raises:
        SceneError: If K is no such matrix.
    """
    found = {key: values[key] for key in _OF_CAMERA if values.get(key) is not None}
    if (matrix := found.pop("K", None)) is None:
        return found
    try:
        (fx, skew, cx), (zero, fy, cy) = (row[:3] for row in matrix[:2])
    except (TypeError, ValueError):
        raise SceneError(f"{where}: K must be a matrix of 3 x 3 numbers; got {matrix!r}") from None
    if skew or zero:
        raise SceneError(f"{where}: a K with skew is not supported; got {matrix[:2]!r}")
    return {"fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy, **found}


def _named_mask(finder: ImageFinder, name: Any, where: str) -> Mask | None:
    """Mask that a frame names, or the file for all frames (nerfstudio)."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise SceneError(f"{where}: mask_path must be the path of an image; got {name!r}")
    path = finder.locate(name)
    if path is None:
        raise SceneError(f"{where}: there is no mask {name}; add it, or remove mask_path")
    return Mask(path)


def camera_from_meta(
    meta: dict[str, Any], where: str
) -> tuple[Callable[[int, int], Camera], tuple[int, int] | None]:
    """Make the camera of a frame, given the size of its image; and the size that it is stated for.

    Raises:
        SceneError: If a value is no number, or the camera is none of a pinhole with OpenCV's lens.
    """
    model = str(meta.get("camera_model", "OPENCV")).upper()
    if meta.get("is_fisheye") or model not in _MODELS:
        raise SceneError(
            f"{where}: a camera of the kind {model if model not in _MODELS else 'fisheye'} is not "
            "supported; undistort the images first"
        )
    if other := [key for key in _OTHER_LENSES if meta.get(key)]:
        raise SceneError(f"{where}: {other[0]} is not supported; undistort the images first")
    if beyond := [k for k in _LENS_BEYOND if _number(meta.get(k, 0), k, where)]:
        raise SceneError(
            f"{where}: a lens with {' and '.join(beyond)} is not supported; undistort the images "
            "first"
        )
    bend = [_number(meta.get(name, 0), name, where) for name in ("k1", "k2", "p1", "p2")]
    distortion = (bend[0], bend[1], bend[2], bend[3])
    if "fl_x" not in meta and "camera_angle_x" not in meta:
        raise SceneError(f"{where} has neither fl_x nor camera_angle_x nor K")
    numbers = {k: _number(meta[k], k, where) for k in _INTRINSICS if k in meta}
    for name in ("camera_angle_x", "camera_angle_y"):
        if not 0 < numbers.get(name, 1.0) < math.pi:
            raise SceneError(
                f"{where}: {name} must be between 0 and pi rad; got {numbers[name]:g}"
                + (", which may be degrees" if 7 < numbers[name] < 180 else "")
            )
    stated = round(numbers.get("w", 0)), round(numbers.get("h", 0))

    def camera(width: int, height: int) -> Camera:
        # One side of two is enough: the other has the image's ratio to it.
        full_width = stated[0] or round(stated[1] * width / height) or width
        full_height = stated[1] or round(stated[0] * height / width) or height
        if "fl_x" in numbers:
            fx = numbers["fl_x"]
            fy = numbers.get("fl_y", fx)
        else:
            fx = fy = Camera.from_angle(full_width, full_height, numbers["camera_angle_x"]).fx
            if "fl_y" in numbers:
                fy = numbers["fl_y"]
            elif "camera_angle_y" in numbers:
                fy = Camera.from_angle(full_height, full_width, numbers["camera_angle_y"]).fx
        cx, cy = numbers.get("cx", full_width / 2), numbers.get("cy", full_height / 2)
        return Camera(full_width, full_height, fx, fy, cx, cy, distortion).resized(width, height)

    return camera, stated if all(stated) else None


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
        data = file.read_bytes()
        # UTF-8 with or without a byte order mark, UTF-16 or UTF-32.
        text = data.decode(json.detect_encoding(data))
        try:
            meta = json.loads(text)
        except ValueError:  # instant-ngp allows comments.
            meta = json.loads(_COMMENT.sub(lambda match: match[1] or "", text))
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


def pose_of(values: dict[str, Any], where: str) -> npt.NDArray[np.float64]:
    """Pose of a frame, ``(4, 4)``, with axes that are turned to OpenGL's.

    Args:
        values: keys of the frame and of its file. ``camera_convention`` is that of MapAnything.
        where: file and frame, for messages.

    Raises:
        SceneError: If the matrix is not rigid, or the convention is none of OpenGL and OpenCV.
    """
    pose = _rigid_matrix(values.get("transform_matrix"), where)
    convention = values.get("camera_convention", "opengl")
    if convention not in ("opengl", "opencv"):
        raise SceneError(
            f"{where}: camera_convention must be opengl (y up, looking down -z) or opencv (y down, "
            f"looking along z); got {convention!r}"
        )
    if convention == "opencv":
        pose[:3, 1:3] *= -1
    return pose


def _rigid_matrix(value: Any, where: str) -> npt.NDArray[np.float64]:
    """Check a pose, 3 x 4 or 4 x 4 numbers, and return it as ``(4, 4)``.

    Raises:
        SceneError: If it is not finite, stretches, mirrors, or is transposed.
    """
    try:
        found = np.array(value)
        # NumPy would also read numbers from strings.
        matrix = found.astype(np.float64) if found.dtype.kind in "iuf" else np.empty(0)
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
