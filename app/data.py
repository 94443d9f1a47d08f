"""Opening of what a run fits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.options import Options
from app.parsing import UsageError
from app.task import Openers
from app.terminal import printable
from nerf_posenc.images import Image
from nerf_posenc.radiance.views import Scene, Views


def open_data(openers: Openers, opener: Callable[[], Any]) -> Any:
    """Open data.

    Raises:
        UsageError: If it cannot be opened.
    """
    try:
        return opener()
    except openers.errors as error:
        raise UsageError(str(error)) from None


def open_image_data(options: Options, openers: Openers) -> tuple[Image, Image]:
    """Open the image of a run, reduced as the options say.

    Returns:
        The whole image; and its fitted pixels with those held out.

    Raises:
        UsageError: If it cannot be opened, or has no pixels to hold out.
    """
    name = "cat" if options.image is None else options.image
    whole = open_data(openers, lambda: openers.image(name, max_pixels=options.max_pixels))
    whole = replace(whole, name=printable(whole.name), source=printable(whole.source))
    if options.size is not None:
        whole = whole.resized(options.size)
    try:
        return whole, whole.split_held_out() if options.held_out else whole
    except ValueError as error:
        raise UsageError(f"--held-out: {whole.source}: {error}") from None


def open_scene_data(options: Options, openers: Openers) -> Scene:
    """Open the scene of a run, with as many test views as the options say.

    Raises:
        UsageError: If it cannot be opened.
    """
    name = options.scene or ""
    if name in openers.built_in and not Path(name).is_dir() and not options.quiet:
        print(f"rendering the built-in scene {name} ...")
    scene = open_data(
        openers, lambda: openers.scene(name, size=options.size, max_pixels=options.max_pixels)
    )
    return _printable_scene(replace(scene, test=scene.test.subset(options.test_views)))


def _printable_scene(scene: Scene) -> Scene:
    def views(part: Views) -> Views:
        return replace(part, names=[printable(name) for name in part.names])

    return replace(
        scene,
        name=printable(scene.name),
        source=printable(scene.source),
        notes=tuple(printable(note) for note in scene.notes),
        train=views(scene.train),
        test=views(scene.test),
    )
