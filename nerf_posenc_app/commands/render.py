"""``train_fit.py render RUN``: a saved fit at any resolution, from any camera."""

import contextlib
import importlib.util
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
import torch

from nerf_posenc.fits import load_fit
from nerf_posenc.images import MuLaw
from nerf_posenc.training.checkpoints import CheckpointError, replacing
from nerf_posenc.training.recipes import own_encodings
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.hdr import SUFFIXES as HDR_SUFFIXES
from nerf_posenc_app.data.reading.hdr import write_hdr
from nerf_posenc_app.kinds import KINDS
from nerf_posenc_app.kinds.kind import Kind, Rendered, RenderedFile
from nerf_posenc_app.options import POSITIONAL, Range, UsageError
from nerf_posenc_app.own_encodings import imported
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.report.images import WEBP_SIDE, eight_bit
from nerf_posenc_app.report.video import has_ffmpeg, write_frames
from nerf_posenc_app.runs.opening import resolve_device
from nerf_posenc_app.runs.saved_fits import find_fit, kind_of_fit, notes_on_fit, require_new
from nerf_posenc_app.terminal import progress_bar, say, sum_up

_IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
_VIDEOS = (".mp4", ".webp")
# Limits: the side, as for --size, and the pixels of all frames together.
_LONGEST = 1 << 15
_MOST_PIXELS = 1 << 32


def render(
    run: Annotated[Path, POSITIONAL],
    *,
    encoding: str | None = None,
    size: Annotated[int | None, Range(1, 1 << 15)] = None,
    scale: Annotated[float | None, Range(0, 64, is_open=True)] = None,
    crop: tuple[float, float, float, float] | None = None,
    cameras: Path | None = None,
    turntable: Annotated[int | None, Range(1, 10_000)] = None,
    rate: Annotated[int | None, Range(1, 1_000_000)] = None,
    out: Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Render a saved fit: images, clips and scans at any size, scenes from any camera, sounds.

    Args:
        run: Run folder, or the file of a saved fit.
        encoding: Encoding of the fit, or FILE.py:CLASS for your own (default: the best fit).
        size: Pixels along the longer side (default: the size of the fitted data).
        scale: Factor of the size of the fitted data, instead of --size.
        crop: Part of an image to render: left, top, width, height in pixels of the fitted image.
        cameras: JSON file of cameras of a scene, as transforms.json; each gives one frame.
        turntable: Number of frames around a scene without --cameras (default: 60).
        rate: Samples per second of a sound, or frames per second of a clip or volume (default:
            those of the fitted data).
        out: File to write (default: a new one in the run folder): .wav for a sound; .png, .jpg,
            .tif or .webp for an image, .exr or .hdr for linear light; .mp4, .webp or a folder of
            PNGs for frames.
        overwrite: Allow --out to exist.
        device: Device to compute on: auto, cpu, cuda, cuda:N or mps.
        quiet: Print errors only.

    Raises:
        UsageError: If there is no such fit, or an option does not suit it.
    """
    if size is not None and scale is not None:
        raise UsageError("--size and --scale both set the size; give one of them")
    if cameras is not None and turntable is not None:
        raise UsageError("--cameras and --turntable both set the cameras; give one of them")
    if out is not None:
        require_new(out, overwrite=overwrite)
    encoding = None if encoding is None else imported(encoding)
    on = resolve_device(device)
    name, file, folder = find_fit(run, encoding)
    kind = kind_of_fit(file)
    given = {
        "size": size,
        "scale": scale,
        "crop": crop,
        "cameras": cameras,
        "turntable": turntable,
        "rate": rate,
    }
    _require_suiting(file, kind, given)
    try:
        fit = load_fit(file, device=on, encodings=own_encodings([encoding]))
        rendered = kind.render(fit, file, on, given)
        _require_size(rendered)
        suffix = rendered.suffix if isinstance(rendered, RenderedFile) else _usual_suffix(rendered)
        with contextlib.ExitStack() as stack:
            if out is None:
                claimed = _claimed(folder / "renders", rendered.name, suffix)
                out = stack.enter_context(claimed)
            written = _write(rendered, out, label=name, quiet=quiet)
    except CheckpointError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        reason = f"{error.filename or out or folder}: {error.strerror or error}"
        raise UsageError(f"cannot write {reason}") from None
    if not quiet:
        notes = notes_on_fit(run, encoding, name, file)
        notes += [] if rendered.note is None else [rendered.note]
        say(*notes, f"rendered {name}: wrote {written}{'/' if written.is_dir() else ''}")


def _require_size(rendered: Rendered | RenderedFile) -> None:
    """Raise if what a fit or its cameras ask for is beyond any screen and disk.

    Raises:
        UsageError: Naming the count and the option that lowers it.
    """
    if isinstance(rendered, Rendered):
        width, height = rendered.size
        count = width * height * rendered.num_frames
        if max(width, height) > _LONGEST or count > _MOST_PIXELS:
            raise UsageError(
                f"{rendered.num_frames:,} frames of {width:,} x {height:,} are {count:,} pixels, "
                f"more than {_MOST_PIXELS:,}, or a side over {_LONGEST:,}; give a smaller --size"
            )


def _require_suiting(file: Path, kind: type[Kind[Any]], given: Mapping[str, Any]) -> None:
    """Raise if a kind has nothing to render, or an option is for another one.

    Raises:
        UsageError: Naming the kinds that the option is for.
    """
    if not kind.rendered_by:
        raise UsageError(f"{file} is the fit of {_a(kind.name)}, which has nothing to render")
    for option, value in given.items():
        if value is not None and option not in kind.rendered_by:
            takers = [_a(n) for n, each in KINDS.items() if option in each.rendered_by]
            known = " or ".join(takers) or "kinds of data that are not installed"
            raise UsageError(f"--{option} is for {known}; this is the fit of {_a(kind.name)}")


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _usual_suffix(rendered: Rendered) -> str:
    return ".png" if rendered.num_frames == 1 else ".mp4" if has_ffmpeg() else ".webp"


def _write(rendered: Rendered | RenderedFile, out: Path, *, label: str, quiet: bool) -> Path:
    if isinstance(rendered, RenderedFile):
        if out.suffix.lower() != rendered.suffix:
            raise UsageError(f"--out {out}: this fit is written as {rendered.suffix}")
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as partial:
            rendered.write(partial)
        return out
    is_single = rendered.num_frames == 1
    _require_format(out, rendered)
    if out.suffix.lower() in HDR_SUFFIXES and rendered.tone is not None:
        return _write_linear(out, rendered, rendered.tone)
    total, unit = (rendered.size[1], "row") if is_single else (rendered.num_frames, "frame")
    with progress_bar(label, total, unit, quiet=quiet) as bar:

        def strips() -> Iterator[npt.NDArray[np.uint8]]:
            for strip in rendered.strips:
                yield eight_bit(strip)
                bar.update(len(strip) if is_single else 1)

        out.parent.mkdir(parents=True, exist_ok=True)
        if not is_single:
            _write_frames(out, strips(), rate=rendered.rate)
        else:
            pixels = np.empty((*rendered.size[::-1], 3), np.uint8)
            top = 0
            for strip in strips():
                pixels[top : top + len(strip)] = strip
                top += len(strip)
            _write_image(out, pixels)
        sum_up(bar)
    return out


@contextlib.contextmanager
def _claimed(folder: Path, stem: str, suffix: str) -> Iterator[Path]:
    """A name that no file has, with whatever suffix, and that no other command takes meanwhile."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link, which is not followed; use --out")
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        label = stem if number == 1 else f"{stem}-{number}"
        claim = folder / f".{label}.claim"
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            continue
        try:
            if label not in {file.stem for file in folder.iterdir()}:
                yield folder / f"{label}{suffix}"
                return
        finally:
            claim.unlink()


def _write_linear(out: Path, rendered: Rendered, tone: MuLaw) -> Path:
    """Write linear light, in 16 bits or more."""
    linear = tone.light(torch.cat(list(rendered.strips))).numpy()
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as partial:
        try:
            write_hdr(partial, out.suffix.lower(), linear)
        except SceneError as error:
            raise UsageError(f"--out {out}: {error}") from None
    return out


def _require_format(out: Path, rendered: Rendered) -> None:
    """Raise if frames cannot be written to a file of this name.

    Raises:
        UsageError: Naming the suffixes.
    """
    suffix, num_frames = out.suffix.lower(), rendered.num_frames
    if num_frames == 1:
        if suffix in HDR_SUFFIXES and rendered.tone is None:
            raise UsageError(f"--out {out}: this fit is not linear light; write a .png")
        if suffix not in (*_IMAGES, *HDR_SUFFIXES):
            raise UsageError(f"--out {out}: an image is written as {', '.join(_IMAGES)}")
        if suffix in (".tif", ".tiff") and importlib.util.find_spec("tifffile") is None:
            raise UsageError(f"--out {out}: TIFF needs tifffile: {how_to_install('images')}")
    elif suffix not in ("", *_VIDEOS):
        raise UsageError(
            f"--out {out}: {num_frames} frames are written as {', '.join(_VIDEOS)} or to a folder"
        )
    elif suffix == ".mp4" and not has_ffmpeg():
        raise UsageError(f"--out {out}: MP4 needs imageio-ffmpeg: {how_to_install('video')}")


def _write_image(out: Path, pixels: npt.NDArray[np.uint8]) -> None:
    if out.suffix.lower() == ".webp" and max(pixels.shape) > WEBP_SIDE:
        raise UsageError(
            f"--out {out}: a side of a WebP image has at most {WEBP_SIDE} pixels; use .png"
        )
    with replacing(out) as partial:
        partial.write_bytes(_encoded(pixels, out.suffix.lower()))


def _encoded(pixels: npt.NDArray[np.uint8], suffix: str) -> bytes:
    """An image file in memory: not all encoders notice that a disk is full."""
    data: bytes = iio.imwrite("<bytes>", pixels, extension=suffix)
    return data


def _write_frames(out: Path, frames: Iterable[npt.NDArray[np.uint8]], *, rate: float) -> None:
    if out.suffix == "":
        out.mkdir(parents=True, exist_ok=True)
        for i, frame in enumerate(frames):
            with replacing(out / f"{i:04}.png") as partial:
                partial.write_bytes(_encoded(frame, ".png"))
        return
    try:
        with replacing(out) as partial:
            write_frames(partial, frames, rate=max(1, round(rate)))
    except ValueError:
        raise UsageError(
            f"--out {out}: the frames differ in size; write them to a folder"
        ) from None
