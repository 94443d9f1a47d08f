"""Folders whose cameras were reconstructed from the pictures: LLFF and COLMAP."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nerf_posenc.radiance.rays import Camera
from scenes.frames import (
    Frame,
    held_out_note,
    parted,
    path_inside,
    require_rigid,
    scaled_camera,
    scene_of,
    to_box_of,
)
from scenes.scene import Scene, SceneError

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


def llff_folder(folder: Path) -> Scene:
    """Read ``poses_bounds.npy`` and ``images/`` (Mildenhall et al. 2019).

    Raises:
        SceneError: where the table is damaged or does not go with the pictures.
    """
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
        require_rigid(pose, f"{file}: picture {path.name}")
        scaled = scaled_camera(width, height, focal, focal, width / 2, height / 2, (0, 0, 0, 0))
        frames.append(Frame(path, scaled, pose))
        for depth in row[15:]:
            for x in (-0.5, 0.5):
                for y in (-0.5, 0.5):
                    seen = np.array([x * width / focal, y * height / focal, -1.0]) * depth
                    corners.append(pose[:3, :3] @ seen + pose[:3, 3])
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    half = float((high - low).max() / 2)
    train, test = parted(frames)
    to_box = to_box_of((low + high) / 2, half)
    return scene_of(folder, train, test, to_box, half, [held_out_note(len(test))])


def colmap_folder(folder: Path, model: Path) -> Scene:
    """Read a COLMAP model, text or binary, and ``images/``.

    Raises:
        SceneError: where pycolmap is not installed or the model cannot be used.
    """
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
        path = path_inside(folder / "images", image.name)
        if not path.is_file():
            missing += 1
            continue
        lens = reconstruction.cameras[image.camera_id]
        camera_from_world = np.eye(4)
        camera_from_world[:3] = np.asarray(image.cam_from_world().matrix())
        pose = np.asarray(np.linalg.inv(camera_from_world), dtype=np.float64)
        pose[:3, 1:3] *= -1  # From OpenCV's axes, y down and looking along +z.
        frames.append(Frame(path, _colmap_camera(lens, model), pose))
    points = np.array([point.xyz for point in reconstruction.points3D.values()])
    if len(points) < 10:
        raise SceneError(f"{model} has {len(points)} points, too few to tell where the scene is")
    low, high = np.quantile(points, 0.01, axis=0), np.quantile(points, 0.99, axis=0)
    half = float((high - low).max() / 2) * 1.1
    train, test = parted(frames)
    notes = [held_out_note(len(test))]
    if missing:
        notes.append(f"{missing} pictures of the model are not in {folder / 'images'}")
    return scene_of(folder, train, test, to_box_of((low + high) / 2, half), half, notes)


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
    return scaled_camera(
        lens.width,
        lens.height,
        values.get("fx", focal),
        values.get("fy", focal),
        values["cx"],
        values["cy"],
        (*bend, *shift),
    )


def _pictures_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SceneError(f"there is no folder {folder} with the pictures")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
