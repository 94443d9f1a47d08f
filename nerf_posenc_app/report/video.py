"""Videos: the fits as they learn, side by side, and turntables."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.results import Result, Snapshot

if TYPE_CHECKING:
    from jaxtyping import Float

_PANEL_WIDTH = 288
_CAPTION_HEIGHT = 40
_FRAMES_PER_SECOND = 6
_LAST_FRAMES = 9


def write_training_video(
    path: Path,
    originals: Sequence[Float[Tensor, "_height _width 3"]],
    results: Sequence[Result],
    training: Measure,
) -> Path | None:
    """Write the snapshots of all fits as a video, beside the true images.

    One column for the original and one per fit, one row for each image of a snapshot; captions give
    the steps taken and the score of the batches. A fit that ended early keeps its last
    snapshot.

    Args:
        path: file without suffix; MP4 if imageio-ffmpeg is installed, else WebP.
        originals: the true images of a snapshot, values in [0, 1].
        results: the fits.
        training: measure of the score of a snapshot.

    Returns:
        The file that was written; None if no fit has snapshots.
    """
    recorded = [result for result in results if result.snapshots]
    if not recorded:
        return None
    frames = []
    for i in range(max(len(result.snapshots) for result in recorded)):
        columns = [_column(originals, "original", "")]
        for result in recorded:
            snapshot = result.snapshots[min(i, len(result.snapshots) - 1)]
            state = snapshot_caption(snapshot, training)
            columns.append(_column(snapshot.images, result.label, state))
        frames.append(np.concatenate(columns, axis=1))
    frames += frames[-1:] * _LAST_FRAMES
    return write_video(
        path, torch.from_numpy(np.stack(frames)).float() / 255, rate=_FRAMES_PER_SECOND
    )


def snapshot_caption(snapshot: Snapshot, training: Measure) -> str:
    """Steps that a fit had taken, and its score."""
    return f"step {snapshot.step:,}, {training.sentence(snapshot.score)}"


def _column(images: Sequence[Tensor], title: str, state: str) -> np.ndarray:
    """Images of one width, one below the other, with two lines of text above them."""
    panels = []
    for image in images:
        height, width, _ = image.shape
        size = _PANEL_WIDTH, min(2 * _PANEL_WIDTH, max(1, round(_PANEL_WIDTH * height / width)))
        panel = Image.fromarray(eight_bit(image))
        panels.append(np.asarray(panel.resize(size, Image.Resampling.NEAREST)))
    caption = Image.new("RGB", (_PANEL_WIDTH, _CAPTION_HEIGHT), "white")
    draw = ImageDraw.Draw(caption)
    font = ImageFont.load_default(size=14)
    draw.text((6, 3), title, "black", font)
    draw.text((6, 20), state, "black", font)
    return np.concatenate([np.asarray(caption), *panels])


def write_video(
    path: Path, frames: Float[Tensor, "frames height width 3"], *, rate: int = 15
) -> Path:
    """Write a looping video: MP4 if imageio-ffmpeg is installed, else WebP.

    Args:
        path: file without suffix.
        frames: values in [0, 1].
        rate: frames per second.

    Returns:
        The file that was written.
    """
    file = path.with_suffix(".mp4" if has_ffmpeg() else ".webp")
    write_frames(file, eight_bit(frames), rate=rate)
    return file


def has_ffmpeg() -> bool:
    """Whether MP4 can be written."""
    return importlib.util.find_spec("imageio_ffmpeg") is not None


def write_frames(file: Path, frames: Iterable[npt.NDArray[np.uint8]], *, rate: int) -> None:
    """Write 8-bit frames ``(height, width, 3)`` as a looping video, .mp4 or .webp.

    Raises:
        OSError: If the file cannot be written whole.
        ValueError: If the frames differ in size.
    """
    if file.suffix.lower() == ".webp":
        held = np.stack(list(frames))
        options: dict[str, Any] = {"duration": 1000 / rate, "loop": 0, "quality": 80}
        file.write_bytes(iio.imwrite("<bytes>", held, extension=".webp", **options))
        return
    import imageio_ffmpeg

    iterator = iter(frames)
    first = next(iterator)
    # The codec takes even sides only.
    even = [(0, side % 2) for side in first.shape[:2]]
    height, width = (side + more for side, (_, more) in zip(first.shape, even, strict=False))
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-nostdin"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate)]
    command += ["-i", "-", "-c:v", "libx264", "-crf", "15", "-pix_fmt", "yuv420p", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            for frame in itertools.chain([first], iterator):
                if frame.shape != first.shape:
                    process.kill()
                    raise ValueError("frames differ in size")
                process.stdin.write(np.pad(frame, [*even, (0, 0)], mode="edge").data)
            process.stdin.close()
        said = process.stderr.read().decode(errors="replace").strip().split("\n")
    if process.returncode != 0:
        raise OSError(f"ffmpeg: {said[-1][:200]}")
