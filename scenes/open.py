"""From a folder or a name to a scene of posed views."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nerf_posenc.radiance.views import Scene
from scenes.builtin.analytic import BUILT_IN, analytic_scene
from scenes.errors import SceneError
from scenes.image_files import MAX_PIXELS
from scenes.posed.colmap import find_models, read_colmap
from scenes.posed.frames import PosedImages, load_scene
from scenes.posed.llff import read_llff
from scenes.posed.transforms import read_transforms

_ANALYTIC_SIZE = 100


def open_scene(
    name_or_path: str, *, size: int | None = None, max_pixels: int = MAX_PIXELS
) -> Scene:
    """Open a folder of posed images, or render a built-in scene by its name.

    An existing folder is always preferred.

    Args:
        name_or_path: folder, or one of ``BUILT_IN``.
        size: longer side of the views in pixels. Files are averaged down to it, never enlarged;
            built-in scenes are rendered at it, at 100 if it is None.
        max_pixels: most pixels of an image file; a larger one is refused before it is decoded.

    Raises:
        SceneError: If there is no such folder or scene, or the folder cannot be used.
    """
    path = Path(name_or_path)
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise SceneError(f"no scene at {path}: {error.strerror}") from None
    if is_folder:
        return open_folder(path, max_pixels=max_pixels, size=size)
    if name_or_path in BUILT_IN:
        return analytic_scene(name_or_path, size=_ANALYTIC_SIZE if size is None else size)
    if path.is_file():
        raise SceneError(f"{path} is a file; give the folder of the scene: {path.parent}")
    raise SceneError(
        f"no scene at {path}; give a folder of posed images or a built-in scene: "
        f"{', '.join(sorted(BUILT_IN))}"
    )


def open_folder(folder: Path, *, max_pixels: int = MAX_PIXELS, size: int | None = None) -> Scene:
    """Read a folder of posed images, in the format of the files in it.

    Raises:
        SceneError: If the format is unknown, or the files cannot be used.
    """
    models = find_models(folder)
    readers: dict[str, Callable[[], PosedImages]] = {
        "transforms_train.json": lambda: read_transforms(folder, "transforms_train.json"),
        "transforms.json": lambda: read_transforms(folder, "transforms.json"),
        "poses_bounds.npy": lambda: read_llff(folder),
    }
    present = [name for name in readers if (folder / name).is_file()]
    if not present and not models:
        more = "; a COLMAP model is in dense: give that folder" * (folder / "dense/sparse").is_dir()
        raise SceneError(
            f"{folder} contains no posed images: no {', '.join(readers)} or sparse/0 is in it{more}"
        )
    posed_images = readers[present[0]]() if present else read_colmap(folder, models)
    others = [*present[1:], *(str(model.relative_to(folder)) for model in models)]
    if present and others:
        note = f"poses are those of {present[0]}; not read: {', '.join(others)}"
        posed_images = replace(posed_images, notes=[*posed_images.notes, note])
    return load_scene(folder, posed_images, max_pixels=max_pixels, size=size)
