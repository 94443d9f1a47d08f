"""COLMAP models: the largest of ``sparse/`` or ``colmap/sparse/``, and ``images/``, by pycolmap.

The box contains the middle 98% of the points along each axis, or the middle 80% if outliers lie far
away. Where images show points, their
distances are known, which a fit may use.
"""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.posed.boxes import Box
from nerf_posenc_app.data.posed.folders import ImageFinder
from nerf_posenc_app.data.posed.frames import (
    Frame,
    PosedImages,
    held_out_note,
    require_rigid,
    require_views,
    split_frames,
)
from nerf_posenc_app.data.reading.worker import read_model

_LARGEST = 1e9
_MODELS = ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV")


def find_models(folder: Path) -> list[Path]:
    """Folders of a scene that contain COLMAP models."""
    candidates: Iterable[Path] = (
        model
        for parent in (folder / "sparse", folder / "colmap/sparse")
        if parent.is_dir()
        for model in (*sorted(parent.iterdir()), parent)
    )
    candidates = itertools.chain(candidates, [folder])
    return [
        m for m in candidates if any((m / f"images.{kind}").is_file() for kind in ("bin", "txt"))
    ]


def read_colmap(folder: Path, models: Sequence[Path]) -> PosedImages:
    """Read the COLMAP model that has the most images, text or binary, and ``images/``.

    Raises:
        SceneError: If pycolmap is not installed or the model cannot be used.
    """
    model, values, shown, notes = _largest(folder, models)
    require_views(len(values["images"]), model)
    finder, frames = ImageFinder(folder), []
    for index, image in sorted(enumerate(values["images"]), key=lambda pair: pair[1]["name"]):
        path = finder.find(image["name"]) if (folder / image["name"]).is_file() else None
        path = path or finder.find(f"images/{image['name']}")
        if path is None:
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
        points = points[np.isfinite(points).all(axis=1)]
        where = f"{model}: camera {image['camera']}"
        full = camera.width, camera.height
        frames.append(Frame(path, camera.resized, pose, points, full, where))
    if not frames:
        raise SceneError(
            f"{model} has {len(values['images'])} images, and none of them is there: "
            f"{finder.nothing_found() if finder.missing else 'it is empty'}"
        )
    if values["num_points"] < 10:
        raise SceneError(
            f"{model} has {values['num_points']} points, too few to tell where the scene is"
        )
    low, high = np.array(values["box"], dtype=np.float64)
    half = float((high - low).max() / 2) * 1.1
    if not 0 < half < _LARGEST:
        raise SceneError(
            f"{model}: its points span {half / 1.1:.3g}, too little or too much for a scene"
        )
    train, test = split_frames(frames)
    notes += [held_out_note(len(test)), *finder.notes(str(model))]
    if values["is_trimmed"]:
        notes.append("some points lie far from most others; the box encloses the middle 80%")
    if values["num_broken_points"]:
        notes.append(f"{values['num_broken_points']} points of the model are not finite: left out")
    return PosedImages(
        train, test, Box((low + high) / 2, half, source="the points of the model"), notes
    )


def _largest(
    folder: Path, models: Sequence[Path]
) -> tuple[Path, dict[str, Any], npt.NDArray[np.float64], list[str]]:
    """The model with the most images, what is in it, and a remark on the others."""
    read = {}
    problem = None
    for model in models:
        try:
            read[model] = read_model(model)
        except SceneError as error:
            problem = problem or error
    if problem is not None and not read:
        raise problem
    model = max(read, key=lambda each: len(read[each][0]["images"]))
    counts = {m: f"{len(read[m][0]['images'])} images" if m in read else "damaged" for m in models}
    others = [f"{m.relative_to(folder)} ({counts[m]})" for m in models if m != model]
    notes = [f"the model with {counts[model]} is read, not {', '.join(others)}"] if others else []
    return model, *read[model], notes


def _camera_from_lens(lens: dict[str, Any], model: Path) -> Camera:
    values: dict[str, float] = dict(zip(lens["names"], lens["values"], strict=True))
    # Models name their parameters alike and mean different things: these are OpenCV's.
    beyond = any(values.get(name, 0) for name in ("k3", "k4", "k5", "k6"))
    if beyond or lens["model"] not in _MODELS:
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
