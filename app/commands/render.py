"""``train_fit.py render RUN``: a saved fit at any resolution, from any camera."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
import tyro
from torch import Tensor

from app.commands.png import write_png
from app.commands.saved import note_of_choice, open_saved_fit, refuse_existing
from app.parsing import UsageError, read_options
from app.progress import progress_bar, sum_up
from app.report.eight_bit import eight_bit
from app.report.page import WEBP_SIDE
from app.report.video import has_ffmpeg, write_frames
from app.task import Openers
from app.terminal import printable
from nerf_posenc.fits import ImageFit, SceneFit
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import orbit_poses

_IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
_VIDEOS = (".mp4", ".webp")
_FRAMES_PER_SECOND = 24
_TURNTABLE = 60
_MOST_SIDE = 1 << 15
# A PNG of more pixels is written as it is rendered.
_MOST_HELD = 1 << 24


@dataclass(frozen=True)
class RenderOptions:
    """Render a saved fit: an image at any resolution, a scene from any camera."""

    run: tyro.conf.Positional[Path]
    """Run folder, or the file of a fit: RUN/fits/NAME.safetensors."""

    encoding: str | None = None
    """Which fit; None is that of the highest PSNR."""

    size: int | None = None
    """Pixels along the longer side of the result; None is one per fitted pixel."""

    crop: tuple[float, float, float, float] | None = None
    """Part of an image: left, top, width and height in its pixels."""

    cameras: Path | None = None
    """Cameras of a scene: a JSON file as transforms.json, one frame each."""

    turntable: int | None = None
    """Frames around a scene, if no --cameras are given; None is 60."""

    out: Path | None = None
    """File to write: .png, .jpg, .tif or .webp; for several frames .mp4, .webp or a folder of PNGs.
    None is a new one in the run folder."""

    overwrite: bool = False
    """Let --out exist already."""

    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N or mps."""

    quiet: bool = False
    """Print errors only."""


def render(arguments: Sequence[str], openers: Openers) -> None:
    """Render a saved fit to a file.

    Raises:
        UsageError: If there is no such fit, or an option does not suit it.
    """
    options = read_options(RenderOptions, arguments, command="render")
    if options.size is not None and not 1 <= options.size <= _MOST_SIDE:
        raise UsageError(f"--size must be 1 to {_MOST_SIDE}; got {options.size}")
    if options.turntable is not None and options.turntable < 1:
        raise UsageError(f"--turntable must be 1 or more; got {options.turntable}")
    if options.out is not None:
        refuse_existing(options.out, overwrite=options.overwrite)
    name, fit, folder = open_saved_fit(options.run, options.encoding, options.device)
    try:
        if isinstance(fit, ImageFit):
            written = _render_image(fit, name, folder, options)
        else:
            written = _render_scene(fit, name, folder, options, openers)
    except OSError as error:
        reason = f"{error.filename or options.out or folder}: {error.strerror or error}"
        raise UsageError(f"cannot write {reason}") from None
    if not options.quiet:
        note = note_of_choice(options.run, options.encoding, name)
        if note is not None:
            print(printable(note))
        if fit.step < fit.num_steps:
            print(f"note: {name} is at step {fit.step} of {fit.num_steps}")
        print(printable(f"rendered {name}: wrote {written}{'/' if written.is_dir() else ''}"))


def _render_image(fit: ImageFit, name: str, folder: Path, options: RenderOptions) -> Path:
    for option in ("cameras", "turntable"):
        if getattr(options, option) is not None:
            raise UsageError(f"--{option} is for a scene; this is the fit of an image")
    if options.out is not None:
        _require_format(options.out, 1)
    try:
        width, height = fit.rendered_size(options.size, window=options.crop)
    except ValueError as error:
        raise UsageError(f"--crop: {error}") from None
    out = options.out or _new(folder / "renders", f"{name}-{width}x{height}", ".png")
    with progress_bar(name, height, "row", quiet=options.quiet) as bar:

        def strips() -> Iterator[npt.NDArray[np.uint8]]:
            for strip in fit.strips(options.size, window=options.crop):
                yield eight_bit(strip)
                bar.update(len(strip))

        if out.suffix.lower() == ".png" and width * height > _MOST_HELD:
            write_png(out, strips(), width, height)
        else:
            _write_image(out, np.concatenate(list(strips())))
        sum_up(bar)
    return out


def _render_scene(
    fit: SceneFit, name: str, folder: Path, options: RenderOptions, openers: Openers
) -> Path:
    if options.crop is not None:
        raise UsageError("--crop is for an image; this is the fit of a scene")
    in_file_units = options.cameras is not None
    cameras: Sequence[tuple[Camera, Tensor]]
    if options.cameras is not None:
        try:
            cameras = openers.cameras(options.cameras, fit.camera)
        except openers.errors as error:
            raise UsageError(str(error)) from None
    else:
        poses = orbit_poses(fit.world_from_camera, options.turntable or _TURNTABLE)
        cameras = [(fit.camera, pose) for pose in poses]
    cameras = [(_sized(camera, options.size), pose) for camera, pose in cameras]
    suffix = ".png" if len(cameras) == 1 else ".mp4"
    stem = "view" if len(cameras) == 1 else "path" if in_file_units else "turntable"
    if suffix == ".mp4" and not has_ffmpeg():
        suffix = ".webp"
    out = options.out or _new(folder / "renders", f"{name}-{stem}", suffix)
    _require_format(out, len(cameras))
    frames = []
    with progress_bar(name, len(cameras), "frame", quiet=options.quiet) as bar:
        for camera, pose in cameras:
            frames.append(eight_bit(fit.render(camera, pose, in_file_units=in_file_units).rgb))
            bar.update()
        sum_up(bar)
    return _write_frames(out, frames)


def _sized(camera: Camera, size: int | None) -> Camera:
    if size is None:
        return camera
    scale = size / max(camera.width, camera.height)
    return camera.resized(max(1, round(camera.width * scale)), max(1, round(camera.height * scale)))


def _new(folder: Path, stem: str, suffix: str) -> Path:
    """A name that does not exist yet, with whatever suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = {file.stem for file in folder.iterdir()}
    number = 1
    while (label := stem if number == 1 else f"{stem}-{number}") in taken:
        number += 1
    return folder / f"{label}{suffix}"


def _require_format(out: Path, num_frames: int) -> None:
    """Refuse a file name that so many frames cannot be written to.

    Raises:
        UsageError: Saying which suffixes there are.
    """
    suffix = out.suffix.lower()
    if num_frames == 1:
        if suffix not in _IMAGES:
            raise UsageError(f"--out {out}: an image is written as {', '.join(_IMAGES)}")
    elif suffix not in ("", *_VIDEOS):
        raise UsageError(
            f"--out {out}: {num_frames} frames are written as {', '.join(_VIDEOS)} or to a folder"
        )
    elif suffix == ".mp4" and not has_ffmpeg():
        raise UsageError(f"--out {out}: MP4 needs imageio-ffmpeg: pip install 'nerf_posenc[video]'")


def _write_image(out: Path, pixels: npt.NDArray[np.uint8]) -> None:
    if out.suffix.lower() == ".webp" and max(pixels.shape) > WEBP_SIDE:
        raise UsageError(f"--out {out}: WebP takes no side over {WEBP_SIDE} pixels; use .png")
    out.parent.mkdir(parents=True, exist_ok=True)
    iio.imwrite(out, pixels)


def _write_frames(out: Path, frames: Sequence[npt.NDArray[np.uint8]]) -> Path:
    if len(frames) == 1:
        _write_image(out, frames[0])
        return out
    if out.suffix == "":
        out.mkdir(parents=True, exist_ok=True)
        for i, frame in enumerate(frames):
            iio.imwrite(out / f"{i:04}.png", frame)
        return out
    if len({frame.shape for frame in frames}) > 1:
        raise UsageError(f"--out {out}: the frames differ in size; write them to a folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_frames(out, np.stack(frames), rate=_FRAMES_PER_SECOND)
    return out
