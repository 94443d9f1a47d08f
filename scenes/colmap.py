"""COLMAP models: ``sparse/0`` or ``colmap/sparse/0`` and ``images/``, read by pycolmap.

The box contains the middle 98% of the points along each axis.
"""

from pathlib import Path
from typing import Any

import numpy as np

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene
from scenes.errors import SceneError
from scenes.frames import (
    Box,
    Frame,
    held_out_note,
    load_scene,
    path_inside,
    split_frames,
)
from scenes.image_files import MAX_PIXELS


def open_colmap(folder: Path, model: Path, *, max_pixels: int = MAX_PIXELS) -> Scene:
    """Read a COLMAP model, text or binary, and ``images/``.

    Raises:
        SceneError: If pycolmap is not installed or the model cannot be used.
    """
    try:
        import pycolmap
    except ImportError:
        raise SceneError(
            f"{model} is a COLMAP model, which needs pycolmap: pip install 'nerf_posenc[photos]'"
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
        frames.append(Frame(path, _camera_from_lens(lens, model).resized, pose))
    points = np.array([point.xyz for point in reconstruction.points3D.values()])
    if len(points) < 10:
        raise SceneError(f"{model} has {len(points)} points, too few to tell where the scene is")
    low, high = np.quantile(points, 0.01, axis=0), np.quantile(points, 0.99, axis=0)
    half = float((high - low).max() / 2) * 1.1
    train, test = split_frames(frames)
    notes = [held_out_note(len(test))]
    if missing:
        notes.append(f"{missing} images of the model are not in {folder / 'images'}")
    box = Box((low + high) / 2, half)
    return load_scene(folder, train, test, box, notes, max_pixels=max_pixels)


def _camera_from_lens(lens: Any, model: Path) -> Camera:
    names = [name.strip() for name in lens.params_info.split(",")]
    values: dict[str, float] = dict(zip(names, map(float, lens.params), strict=True))
    known = {"f", "fx", "fy", "cx", "cy", "k", "k1", "k2", "p1", "p2"}
    beyond = [n for n, value in values.items() if n not in known and value]
    if beyond or "FISHEYE" in lens.model.name:
        raise SceneError(
            f"{model}: cameras of the kind {lens.model.name} are not supported; undistort the "
            "images first (colmap image_undistorter)"
        )
    focal = values.get("f", 0.0)
    bend = (values.get("k1", values.get("k", 0.0)), values.get("k2", 0.0))
    shift = (values.get("p1", 0.0), values.get("p2", 0.0))
    return Camera(
        lens.width,
        lens.height,
        values.get("fx", focal),
        values.get("fy", focal),
        values["cx"],
        values["cy"],
        (*bend, *shift),
    )
