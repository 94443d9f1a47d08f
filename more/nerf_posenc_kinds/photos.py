"""Photographs without poses: their cameras are found first, and then they are a scene."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never, Self

from filelock import FileLock

from nerf_posenc.radiance.build import get_field
from nerf_posenc.radiance.views import Scene
from nerf_posenc_app.data.scene_files import open_scene
from nerf_posenc_app.kinds.scene.options import FieldOption, ViewsOptions
from nerf_posenc_app.kinds.scene.scene import ViewsKind
from nerf_posenc_app.options import Open, UsageError
from nerf_posenc_app.terminal import say
from nerf_posenc_kinds.data.captures import (
    capture_folder,
    import_pycolmap,
    reconstruct,
    video_photos,
)
from nerf_posenc_kinds.data.room import room_poses, take_photographs

ROOM = "room"
"""Built-in photographs, where no folder has that name."""
_RUNS = Path("runs")
_SIZE = 400
_NUM_PHOTOGRAPHS = 40
# Spread of the brightness from which gains are learned: at 0.03 (fox) the test views, which have
# exposures of their own, lose 1 dB by them; at 0.06 (the room) they gain 0.3.
_VARIED = 0.05


@dataclass(frozen=True, kw_only=True)
class PhotosOptions(ViewsOptions[Open]):
    """Fit a radiance field to photographs without poses.

    Encodings: the same as for --scene.

      train_fit.py --photos FOLDER --seconds 300
    """

    photos: str = ""
    """Folder of photographs, or a video, of something that does not move; room renders 40
    photographs of a room. The cameras are saved beside the run in a folder capture-..., which
    --scene takes."""

    size: int | None = _SIZE
    """Longer side of the fitted views in pixels; the cameras are computed at 1600."""

    field: FieldOption[Open] = "auto"
    """Radiance field, as for --scene; auto is the one that gives the best images."""


PhotosConfig = PhotosOptions[Never]


class PhotosKind(ViewsKind[PhotosConfig]):
    """A folder of photographs whose cameras are not known."""

    name = "photos"
    Options = PhotosOptions

    @classmethod
    def open(cls, options: PhotosOptions) -> Self:
        """Open views whose cameras COLMAP has found, now or before."""
        photos = Path(options.photos)
        # Stored beside the run, so that it is found from any folder.
        runs = _RUNS if options.out is None else options.out.parent
        folder = runs
        try:
            if options.photos == ROOM and not photos.exists():
                photos = _room()
            if photos.is_file():
                _RUNS.mkdir(exist_ok=True)
                with FileLock(_RUNS / ".photos-frames.lock"):
                    photos = video_photos(photos, _RUNS, log=options.log)
            folder = capture_folder(photos, runs)
            folder.mkdir(parents=True, exist_ok=True)
            # Several processes, or two runs at once, wait for the first of them.
            with FileLock(folder / ".lock"):
                capture = reconstruct(
                    photos, folder, max_pixels=options.max_pixels, log=options.log
                )
        except KeyboardInterrupt:
            if folder != runs:
                say("", f"{folder} is kept; the same command continues from there")
            raise
        except OSError as error:
            raise UsageError(
                f"cannot write {error.filename or folder}: {error.strerror or error}"
            ) from None
        scene = open_scene(str(folder), size=options.size)
        notes = (*capture.notes, f"cameras in {folder}, for --scene", *scene.notes)
        scene = replace(scene, name=photos.resolve().name, source=options.photos, notes=notes)
        return cls(options, scene, capture.brightness_spread)

    def __init__(self, options: PhotosOptions, scene: Scene, brightness_spread: float) -> None:
        super().__init__(options, scene)
        self._brightness_spread = brightness_spread

    def resolve(self, options: ViewsOptions) -> PhotosConfig:
        """Choose as for a scene, and exposures where the photographs vary in brightness."""
        config = super().resolve(options)
        varies = get_field(config.field).takes_exposures and self._brightness_spread >= _VARIED
        if config.exposure or not varies:
            return config
        config.log(
            f"exposure the same points differ by {self._brightness_spread:.0%} in brightness "
            "between photographs; one gain per photograph is learned"
        )
        return replace(config, exposure=True)


def _room() -> Path:
    """Folder of the photographs of the room, which one process renders and all others wait for."""
    photos, partial = _RUNS / f"photos-{ROOM}", _RUNS / f"photos-{ROOM}.partial"
    _RUNS.mkdir(exist_ok=True)
    with FileLock(_RUNS / f".photos-{ROOM}.lock"):
        if not photos.exists():
            import_pycolmap()  # Before what takes a while and would be in vain.
            take_photographs(partial, room_poses(_NUM_PHOTOGRAPHS))
            partial.rename(photos)
    return photos
