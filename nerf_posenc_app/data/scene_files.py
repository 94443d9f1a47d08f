"""Scenes of posed views, from a folder, by a name, or of values that Python holds."""

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.images import unit_range
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene, SurfacePoints, Views
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import MAX_PIXELS, images_in
from nerf_posenc_app.data.posed.boxes import pose_notes, sight_notes
from nerf_posenc_app.data.posed.colmap import find_models, read_colmap
from nerf_posenc_app.data.posed.frames import HOLD_OUT, PosedImages, held_out_note, load_scene
from nerf_posenc_app.data.posed.llff import read_llff
from nerf_posenc_app.data.posed.transforms import read_transforms
from nerf_posenc_app.data.shipped import made_by, shipped, shipped_file

# Rounding error of means of values in [0, 1].
_ROUNDING = 1e-4


def open_scene(
    name_or_path: str, *, size: int | None = None, max_pixels: int = MAX_PIXELS
) -> Scene:
    """Open a folder of posed images, or render a built-in scene by its name.

    An existing folder is always preferred.

    Args:
        name_or_path: folder, a file of poses in it, or the name of a scene that ships with the
            program.
        size: longer side of the views in pixels. Files are averaged down to it, never enlarged;
            built-in scenes are rendered at it, at 100 if it is None.
        max_pixels: most pixels of an image file; a larger one is refused before it is decoded.

    Raises:
        SceneError: If there is no such folder or scene, or the folder cannot be used.
    """
    path = Path(name_or_path).expanduser()
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise SceneError(f"no scene at {path}: {error.strerror}") from None
    if is_folder:
        return open_folder(path, max_pixels=max_pixels, size=size)
    file = shipped_file("scene", name_or_path)
    if file is not None and not path.exists():
        scene: Scene = made_by(file, "scene", size)
        return scene
    if path.is_file():
        return open_folder(path.parent, path.name, max_pixels=max_pixels, size=size)
    is_image = shipped_file("image", name_or_path) is not None
    raise SceneError(
        f"no scene at {path}; "
        + (f"{path} is an image: --image {path}, or " if is_image else "")
        + f"give a folder of posed images or a built-in scene: {', '.join(shipped('scene'))}"
    )


def open_folder(
    folder: Path, file: str | None = None, *, max_pixels: int = MAX_PIXELS, size: int | None = None
) -> Scene:
    """Read a folder of posed images, in the format of the files in it.

    Args:
        folder: the folder.
        file: the file of poses in it that is read; None for the first that is there.
        max_pixels: most pixels of an image file.
        size: longer side of the views in pixels; None for theirs.

    Raises:
        SceneError: If the format is unknown, or the files cannot be used.
    """
    models = find_models(folder)
    readers: dict[str, Callable[[], PosedImages]] = {
        "transforms_train.json": lambda: read_transforms(folder, "transforms_train.json"),
        "transforms.json": lambda: read_transforms(folder, "transforms.json"),
        "poses_bounds.npy": lambda: read_llff(folder),
    }
    if file is not None and file not in readers:
        known = ", ".join(readers)
        raise SceneError(f"{folder / file} has no poses: give a folder, or one of {known}")
    present = sorted(
        (name for name in readers if (folder / name).is_file()), key=lambda name: name != file
    )
    if not present and not models:
        parent, more = folder.absolute().parent, ""
        if (folder / "dense/sparse").is_dir():
            more = "; a COLMAP model is in dense: give that folder"
        elif find_models(parent) or any((parent / name).is_file() for name in readers):
            more = f"; they are those of {parent}: give that folder"
        elif images := images_in(folder):
            more = (
                f"; of its {len(images)} images the cameras must be found first, by COLMAP or by "
                f"--photos {shlex.quote(str(folder))} of nerf-posenc-more"
            )
        raise SceneError(
            f"{folder} contains no posed images: no {', '.join(readers)} or sparse/0 is in it{more}"
        )
    others = [*present[1:], *(str(model.relative_to(folder)) for model in models)]
    try:
        posed_images = readers[present[0]]() if present else read_colmap(folder, models)
    except SceneError as error:
        if not (present and others):
            raise
        instead = f"to read {', '.join(others)} instead, remove {present[0]}"
        raise SceneError(f"{error}; {instead}") from None
    if present and others:
        note = f"poses are those of {present[0]}; not read: {', '.join(others)}"
        posed_images = replace(posed_images, notes=[*posed_images.notes, note])
    return load_scene(folder, posed_images, max_pixels=max_pixels, size=size)


def scene_in_memory(views: Any, *, size: int | None = None) -> Scene:
    """Make a scene of posed images, of which every eighth is held out for testing.

    Args:
        views: `nerf_posenc.radiance.Views`, or a `nerf_posenc.radiance.Scene`, which has its own
            test views; or what the ``as_plain`` of one returned.
        size: longer side of the views in pixels, which are averaged down to it; None for theirs.

    Raises:
        SceneError: If it is something else, or has fewer than 2 views, or most of them do not see
            the box [-1, 1]^3.
    """
    if isinstance(views, Mapping):
        views = (Scene if "train" in views else Views).from_plain(views)
    if isinstance(views, Scene):
        _require_usable(views.train)
        _require_usable(views.test)
        return views if size is None else views.resized(size)
    if not isinstance(views, Views):
        raise SceneError(
            "a scene must be a path, a name or nerf_posenc.radiance.Views; got "
            f"{type(views).__name__}"
        )
    _require_usable(views)
    views = replace(
        views,
        pixels=views.pixels.detach(),
        world_from_camera=views.world_from_camera.detach().float(),
    )
    if len(views) < 2:
        raise SceneError("a scene needs 2 views or more: one to fit, and one to test")
    number = torch.arange(len(views))
    train, test = views.select(number % HOLD_OUT > 0), views.select(number % HOLD_OUT == 0)
    notes = [held_out_note(len(test)), *pose_notes(train, "the scene in memory")]
    notes += sight_notes(train, "the scene in memory", "the box [-1, 1]^3")
    scene = Scene("scene", train, test, f"{len(views)} views in memory", notes=tuple(notes))
    return scene if size is None else scene.resized(size)


def _require_usable(views: Views) -> None:
    """Check what type annotations alone do not.

    Raises:
        SceneError: Naming the field of the views.
    """
    width, height = views.size
    poses, masks, points = views.world_from_camera, views.masks, views.points
    is_finite = isinstance(poses, torch.Tensor) and bool(poses.isfinite().all())
    for is_right, expected in (
        (is_finite and poses.shape[1:] == (4, 4), "poses must be finite matrices (views, 4, 4)"),
        (
            all(isinstance(c, Camera) and (c.width, c.height) == views.size for c in views.cameras),
            f"cameras must be Camera objects for {width} x {height} pixels",
        ),
        (all(isinstance(name, str) for name in views.names), "names must be texts"),
        (masks is None or masks.dtype == torch.bool, "masks must be booleans"),
        (views.near is None or 0 < views.near < math.inf, "near must be a number above 0"),
        (points is None or isinstance(points, SurfacePoints), "points must be SurfacePoints"),
        (_are_shares(views.pixels), "pixels must be finite values in [0, 1], or 8 or 16 bits"),
    ):
        if not is_right:
            raise SceneError(f"a scene in memory: {expected}")


def _are_shares(pixels: Tensor) -> bool:
    values = unit_range(pixels)
    return bool(((values >= 0) & (values <= 1 + _ROUNDING)).all())
