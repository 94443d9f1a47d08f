"""COLMAP models: ``sparse/0`` or ``colmap/sparse/0`` and ``images/``, read by pycolmap.

The box contains the middle 98% of the points along each axis. Where images show points, their
distances are known, which a fit may use.
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
    require_rigid,
    require_views,
    split_frames,
)
from scenes.image_files import MAX_PIXELS
from scenes.worker import read_model

_LARGEST = 1e9


def open_colmap(
    folder: Path, model: Path, *, max_pixels: int = MAX_PIXELS, size: int | None = None
) -> Scene:
    """Read a COLMAP model, text or binary, and ``images/``.

    Raises:
        SceneError: If pycolmap is not installed or the model cannot be used.
    """
    for file in model.iterdir():
        path_inside(folder, str(file.relative_to(folder)))
    values, shown = read_model(model)
    require_views(len(values["images"]), model)
    frames, missing = [], 0
    for index, image in sorted(enumerate(values["images"]), key=lambda pair: pair[1]["name"]):
        path = path_inside(folder, f"images/{image['name']}")
        if not path.is_file():
            missing += 1
            continue
        camera_from_world = np.eye(4)
        camera_from_world[:3] = np.array(image["camera_from_world"], dtype=np.float64)
        if not np.isfinite(camera_from_world).all():
            raise SceneError(f"{model}: the pose of {image['name']} is not finite")
        pose = np.asarray(np.linalg.inv(camera_from_world), dtype=np.float64)
        pose[:3, 1:3] *= -1  # From OpenCV's axes, y down and looking along +z.
        require_rigid(pose, f"{model}: {image['name']}")
        camera = _camera_from_lens(values["cameras"][image["camera"]], model)
        points = shown[shown[:, 0] == index, 1:]
        frames.append(Frame(path, camera.resized, pose, points[np.isfinite(points).all(axis=1)]))
    if values["num_points"] < 10:
        raise SceneError(
            f"{model} has {values['num_points']} points, too few to tell where the scene is"
        )
    low, high = np.array(values["box"], dtype=np.float64)
    half = float((high - low).max() / 2) * 1.1
    if not 0 < half < _LARGEST:
        raise SceneError(f"{model}: its points span {half / 1.1:.3g}, which is no scene")
    train, test = split_frames(frames)
    notes = [held_out_note(len(test))]
    if missing:
        notes.append(f"{missing} images of the model are not in {folder / 'images'}")
    if values["num_broken_points"]:
        notes.append(f"{values['num_broken_points']} points of the model are not finite: left out")
    box = Box((low + high) / 2, half)
    return load_scene(folder, train, test, box, notes, max_pixels=max_pixels, size=size)


def _camera_from_lens(lens: dict[str, Any], model: Path) -> Camera:
    values: dict[str, float] = dict(zip(lens["names"], lens["values"], strict=True))
    known = {"f", "fx", "fy", "cx", "cy", "k", "k1", "k2", "p1", "p2"}
    beyond = [n for n, value in values.items() if n not in known and value]
    if beyond or "FISHEYE" in lens["model"]:
        raise SceneError(
            f"{model}: cameras of the kind {lens['model']} are not supported; undistort the "
            "images first (colmap image_undistorter)"
        )
    focal = values.get("f", 0.0)
    bend = (values.get("k1", values.get("k", 0.0)), values.get("k2", 0.0))
    shift = (values.get("p1", 0.0), values.get("p2", 0.0))
    try:
        return Camera(
            lens["width"],
            lens["height"],
            values.get("fx", focal),
            values.get("fy", focal),
            values["cx"],
            values["cy"],
            (*bend, *shift),
        )
    except ValueError as error:
        raise SceneError(f"{model}: {error}") from None
