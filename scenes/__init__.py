"""What there is to fit: pictures and posed views, from files or built in."""

from pathlib import Path

from scenes.analytic import BUILT_IN as BUILT_IN
from scenes.analytic import analytic_scene as analytic_scene
from scenes.image_files import SAMPLES as SAMPLES
from scenes.image_files import Picture as Picture
from scenes.image_files import open_picture as open_picture
from scenes.scene import Scene as Scene
from scenes.scene import SceneError as SceneError
from scenes.transforms import open_folder as open_folder

_ANALYTIC_SIZE = 100


def open_scene(name_or_path: str, *, size: int | None = None) -> Scene:
    """Open a folder of posed pictures, or render a built-in scene by its name.

    A folder that exists is always preferred.

    Args:
        name_or_path: folder, or one of ``BUILT_IN``.
        size: longer side of the views in pixels. Files are averaged down to it, never enlarged;
            built-in scenes are rendered at it, at 100 where it is None.

    Raises:
        SceneError: where there is no such folder or scene, or the folder cannot be used.
    """
    path = Path(name_or_path)
    if path.is_dir():
        scene = open_folder(path)
        return scene if size is None else scene.resized(size)
    if name_or_path in BUILT_IN:
        return analytic_scene(name_or_path, size=size or _ANALYTIC_SIZE)
    raise SceneError(
        f"no scene at {path}; give a folder of posed pictures or a built-in scene: "
        f"{', '.join(sorted(BUILT_IN))}"
    )
