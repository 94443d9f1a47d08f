"""Folders of posed pictures: transforms.json of all dialects, LLFF and COLMAP.

* ``transforms_train.json``, ``transforms_test.json`` (and ``_val``): NeRF-synthetic. The box is the
  cube of half size 1.5 that NeRF's cameras look at.
* ``transforms.json``: instant-ngp and nerfstudio, with their intrinsics, for all frames or for
  each, and OpenCV's distortion. The box is instant-ngp's unit cube times ``aabb_scale``.
* ``poses_bounds.npy`` with ``images/``: LLFF. The box holds all that the bounds say is seen.
* ``sparse/0`` or ``colmap/sparse/0`` with ``images/``: a COLMAP model, through pycolmap. The box
  holds the middle 98% of the points along each axis.

Where a folder does not part its views, every eighth is kept for testing, as in LLFF.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nerf_posenc.rays import Camera, Distortion
from nerf_posenc.views import Views
from scenes.images import rgba_from_file
from scenes.scene import Scene, SceneError

_BLENDER_HALF_SIZE = 1.5
# instant-ngp maps the file's coordinates to its unit cube by 0.33 x + 0.5.
_NGP_SCALE = 0.33
_HOLD_OUT = 8
_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".PNG", ".webp")
# Off by more, a matrix does not rotate, but stretches or mirrors.
_RIGID_TOLERANCE = 1e-3


@dataclass(frozen=True)
class _Frame:
    """A picture that is there, with its camera."""

    path: Path
    camera: Callable[[int, int], Camera]
    world_from_camera: npt.NDArray[np.float64]


def open_folder(folder: Path) -> Scene:
    """Read a folder of posed pictures.

    Raises:
        SceneError: where nothing that is known is in it, or what is there cannot be used.
    """
    if (folder / "transforms_train.json").is_file():
        return _nerf_synthetic(folder)
    if (folder / "transforms.json").is_file():
        return _single_transforms(folder)
    if (folder / "poses_bounds.npy").is_file():
        return _llff(folder)
    for place in ("sparse/0", "colmap/sparse/0", "sparse"):
        if any((folder / place / f"images.{kind}").is_file() for kind in ("bin", "txt")):
            return _colmap(folder, folder / place)
    raise SceneError(
        f"{folder} holds no posed pictures: no transforms_train.json, transforms.json, "
        "poses_bounds.npy or sparse/0 is in it"
    )


def _nerf_synthetic(folder: Path) -> Scene:
    notes: list[str] = []
    frames = _frames(folder, "transforms_train.json", notes)
    for split in ("test", "val"):
        if (folder / f"transforms_{split}.json").is_file():
            test = _frames(folder, f"transforms_{split}.json", notes)
            break
    else:
        frames, test = _parted(frames)
        notes.append(_held_out(len(test)))
    to_box = _to_box(np.zeros(3), _BLENDER_HALF_SIZE)
    return _scene(folder, frames, test, to_box, _BLENDER_HALF_SIZE, notes)


def _single_transforms(folder: Path) -> Scene:
    notes: list[str] = []
    file = folder / "transforms.json"
    meta = _read_json(file)
    frames = _frames(folder, file.name, notes)
    named = {key: meta.get(f"{key}_filenames") for key in ("train", "val", "test")}
    held = named["test"] or named["val"]
    if named["train"] and held:
        by_name = {frame.path.resolve(): frame for frame in frames}
        train, test = (
            [by_name[p] for p in (_inside(folder, n) for n in names) if p in by_name]
            for names in (named["train"], held)
        )
    else:
        train, test = _parted(frames)
        notes.append(_held_out(len(test)))
    half = 0.5 * _number(meta.get("aabb_scale", 1), "aabb_scale", file) / _NGP_SCALE
    return _scene(folder, train, test, _to_box(np.zeros(3), half), half, notes)


def _llff(folder: Path) -> Scene:
    file = folder / "poses_bounds.npy"
    try:
        rows = np.load(file, allow_pickle=False)
        rows = np.asarray(rows, dtype=np.float64).reshape(-1, 17)
    except (OSError, ValueError, EOFError) as error:
        raise SceneError(f"{file} is no table of 17 numbers a picture: {error}") from None
    images = _pictures_in(folder / "images")
    if len(images) != len(rows):
        raise SceneError(
            f"{file} poses {len(rows)} pictures and {folder / 'images'} holds {len(images)}; "
            "they must be the same, in the order of their names"
        )
    if not np.isfinite(rows).all() or not (rows[:, 15] > 0).all():
        raise SceneError(
            f"{file} holds numbers that are not finite, or bounds that are not above 0"
        )
    frames, corners = [], []
    for path, row in zip(images, rows, strict=True):
        table = row[:15].reshape(3, 5)
        height, width, focal = table[:, 4]
        # LLFF's axes are down, right, back.
        pose = np.eye(4)
        pose[:3, 0], pose[:3, 1], pose[:3, 2] = table[:, 1], -table[:, 0], table[:, 2]
        pose[:3, 3] = table[:, 3]
        _require_rigid(pose, f"{file}: picture {path.name}")
        scaled = _scaled_camera(width, height, focal, focal, width / 2, height / 2, (0, 0, 0, 0))
        frames.append(_Frame(path, scaled, pose))
        for depth in row[15:]:
            for x in (-0.5, 0.5):
                for y in (-0.5, 0.5):
                    seen = np.array([x * width / focal, y * height / focal, -1.0]) * depth
                    corners.append(pose[:3, :3] @ seen + pose[:3, 3])
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    half = float((high - low).max() / 2)
    train, test = _parted(frames)
    to_box = _to_box((low + high) / 2, half)
    return _scene(folder, train, test, to_box, half, [_held_out(len(test))])


def _colmap(folder: Path, model: Path) -> Scene:
    try:
        import pycolmap
    except ImportError:
        raise SceneError(
            f"{model} is a COLMAP model, which takes pycolmap to read: pip install pycolmap"
        ) from None
    try:
        reconstruction = pycolmap.Reconstruction(str(model))
    except Exception as error:  # pycolmap raises several types of its own.
        reason = " ".join(str(error).split())
        raise SceneError(f"cannot read {model} as a COLMAP model: {reason}") from None
    frames, missing = [], 0
    for image in sorted(reconstruction.images.values(), key=lambda image: str(image.name)):
        path = _inside(folder / "images", image.name)
        if not path.is_file():
            missing += 1
            continue
        lens = reconstruction.cameras[image.camera_id]
        camera_from_world = np.eye(4)
        camera_from_world[:3] = np.asarray(image.cam_from_world().matrix())
        pose = np.asarray(np.linalg.inv(camera_from_world), dtype=np.float64)
        pose[:3, 1:3] *= -1  # From OpenCV's axes, y down and looking along +z.
        frames.append(_Frame(path, _colmap_camera(lens, model), pose))
    points = np.array([point.xyz for point in reconstruction.points3D.values()])
    if len(points) < 10:
        raise SceneError(f"{model} has {len(points)} points, too few to tell where the scene is")
    low, high = np.quantile(points, 0.01, axis=0), np.quantile(points, 0.99, axis=0)
    half = float((high - low).max() / 2) * 1.1
    train, test = _parted(frames)
    notes = [_held_out(len(test))]
    if missing:
        notes.append(f"{missing} pictures of the model are not in {folder / 'images'}")
    return _scene(folder, train, test, _to_box((low + high) / 2, half), half, notes)


def _colmap_camera(lens: Any, model: Path) -> Callable[[int, int], Camera]:
    names = [name.strip() for name in lens.params_info.split(",")]
    values: dict[str, float] = dict(zip(names, map(float, lens.params), strict=True))
    known = {"f", "fx", "fy", "cx", "cy", "k", "k1", "k2", "p1", "p2"}
    beyond = [n for n, value in values.items() if n not in known and value]
    if beyond or "FISHEYE" in lens.model.name:
        raise SceneError(
            f"{model}: cameras of the kind {lens.model.name} are not supported; undistort the "
            "pictures first (colmap image_undistorter)"
        )
    focal = values.get("f", 0.0)
    bend = (values.get("k1", values.get("k", 0.0)), values.get("k2", 0.0))
    shift = (values.get("p1", 0.0), values.get("p2", 0.0))
    return _scaled_camera(
        lens.width,
        lens.height,
        values.get("fx", focal),
        values.get("fy", focal),
        values["cx"],
        values["cy"],
        (*bend, *shift),
    )


def _frames(folder: Path, name: str, notes: list[str]) -> list[_Frame]:
    """Frames of a transforms file whose pictures are there."""
    file = folder / name
    meta = _read_json(file)
    listed = meta.get("frames")
    if not isinstance(listed, list) or not listed:
        raise SceneError(f"{file} has no list of frames")
    frames, missing = [], 0
    for i, entry in enumerate(listed):
        where = f"{file}: frame {i}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise SceneError(f"{where} has no file_path")
        pose = _matrix(entry.get("transform_matrix"), where)
        path = _picture_at(folder, entry["file_path"])
        if path is None:
            missing += 1
            continue
        frames.append(_Frame(path, _camera_of({**meta, **entry}, where), pose))
    if not frames:
        raise SceneError(f"{file} lists {len(listed)} frames, and none of their pictures is there")
    if missing:
        notes.append(f"{missing} of the {len(listed)} frames of {name} have no picture: skipped")
    return frames


def _camera_of(meta: dict[str, Any], where: str) -> Callable[[int, int], Camera]:
    """Camera of a frame, once its picture's size is known."""
    model = str(meta.get("camera_model", "OPENCV"))
    if meta.get("is_fisheye") or model not in ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE"):
        raise SceneError(f"{where}: a camera of the kind {model} is not supported, nor a fisheye")
    if any(_number(meta.get(name, 0), name, where) for name in ("k3", "k4")):
        raise SceneError(f"{where}: k3 and k4 are not supported; undistort the pictures first")
    bend = [_number(meta.get(name, 0), name, where) for name in ("k1", "k2", "p1", "p2")]
    distortion = (bend[0], bend[1], bend[2], bend[3])
    if "fl_x" in meta:
        fx = _number(meta["fl_x"], "fl_x", where)
        fy = _number(meta.get("fl_y", fx), "fl_y", where)
        sides = [_number(meta.get(name, 0), name, where) for name in ("w", "h")]

        def from_focals(width: int, height: int) -> Camera:
            full_width, full_height = sides[0] or width, sides[1] or height
            cx = _number(meta.get("cx", full_width / 2), "cx", where)
            cy = _number(meta.get("cy", full_height / 2), "cy", where)
            make = _scaled_camera(full_width, full_height, fx, fy, cx, cy, distortion)
            return make(width, height)

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


def _scaled_camera(
    full_width: int | float,
    full_height: int | float,
    fx: int | float,
    fy: int | float,
    cx: int | float,
    cy: int | float,
    distortion: Distortion,
) -> Callable[[int, int], Camera]:
    """Camera given for one size of picture, for that of the file."""

    def make(width: int, height: int) -> Camera:
        x, y = width / full_width, height / full_height
        return Camera(width, height, fx * x, fy * y, cx * x, cy * y, distortion)

    return make


def _scene(
    folder: Path,
    train: Sequence[_Frame],
    test: Sequence[_Frame],
    to_box: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    scale: float,
    notes: list[str],
) -> Scene:
    if not train or not test:
        raise SceneError(
            f"{folder} has {len(train)} views to fit and {len(test)} to test; it needs 1 of each"
        )
    return Scene(
        folder.resolve().name,
        _views(train, to_box),
        _views(test, to_box),
        str(folder),
        scale,
        tuple(notes),
    )


def _views(
    frames: Sequence[_Frame], to_box: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
) -> Views:
    pictures = [rgba_from_file(frame.path) for frame in frames]
    shapes = {tuple(picture.shape[:2]) for picture in pictures}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width} x {height}" for height, width in sorted(shapes))
        raise SceneError(
            f"the pictures beside {frames[0].path} have several sizes ({sizes}); bring them to one"
        )
    height, width = shapes.pop()
    try:
        cameras = [frame.camera(width, height) for frame in frames]
        # Asked once here, a lens that cannot be undone is found before anything is fitted.
        for camera in dict.fromkeys(cameras):
            camera.directions()
    except ValueError as error:
        raise SceneError(f"the cameras of {frames[0].path.parent}: {error}") from None
    rgba = torch.stack(pictures)
    poses = np.stack([to_box(frame.world_from_camera) for frame in frames])
    return Views(
        rgba[..., :3] * rgba[..., 3:],
        rgba[..., 3].contiguous(),
        cameras,
        torch.from_numpy(poses).float(),
        [frame.path.name for frame in frames],
    )


def _to_box(
    centre: npt.NDArray[np.float64], half_size: float
) -> Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """Move poses so that the cube of this centre and half size becomes [-1, 1]^3."""

    def move(pose: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        moved = pose.copy()
        moved[:3, 3] = (pose[:3, 3] - centre) / half_size
        return moved

    return move


def _parted(frames: Sequence[_Frame]) -> tuple[list[_Frame], list[_Frame]]:
    train = [frame for i, frame in enumerate(frames) if i % _HOLD_OUT]
    return train, [frame for i, frame in enumerate(frames) if i % _HOLD_OUT == 0]


def _held_out(count: int) -> str:
    return f"every {_HOLD_OUT}th view is held out for testing, {count} in all"


def _read_json(file: Path) -> dict[str, Any]:
    try:
        meta = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SceneError(f"cannot read {file}: {error}") from None
    if not isinstance(meta, dict):
        raise SceneError(f"{file} must hold an object with frames; it holds {type(meta).__name__}")
    return meta


def _number(value: Any, name: str, where: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SceneError(f"{where}: {name} must be a finite number; got {value!r}")
    return float(value)


def _matrix(value: Any, where: str) -> npt.NDArray[np.float64]:
    try:
        matrix = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape == (3, 4):
        matrix = np.vstack([matrix, [0, 0, 0, 1]])
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise SceneError(f"{where}: transform_matrix must be 4 x 4 finite numbers")
    _require_rigid(matrix, where)
    return matrix


def _require_rigid(pose: npt.NDArray[np.float64], where: str) -> None:
    rotation = pose[:3, :3]
    off = np.abs(rotation @ rotation.T - np.eye(3)).max()
    if off > _RIGID_TOLERANCE or np.linalg.det(rotation) < 0:
        raise SceneError(
            f"{where}: the camera's matrix is not rigid: its axes must be perpendicular, of length "
            f"1 and right-handed; they are off by {off:.2g}, determinant "
            f"{np.linalg.det(rotation):.3g}"
        )


def _inside(folder: Path, name: str) -> Path:
    """Path of a file that must lie in the folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise SceneError(f"{folder} names a picture outside itself, which is refused: {name}")
    return path


def _picture_at(folder: Path, name: str) -> Path | None:
    """Picture of a name with its suffix or without, None where there is none."""
    for suffix in _SUFFIXES:
        path = _inside(folder, name + suffix)
        if path.is_file():
            return path
    return None


def _pictures_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SceneError(f"there is no folder {folder} with the pictures")
    suffixes = {suffix.lower() for suffix in _SUFFIXES if suffix}
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)
