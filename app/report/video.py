"""Videos: the fits as they learn, side by side, and turntables."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from app.kinds.kind import LossName, Result, Snapshot
from app.report.images import eight_bit

_PANEL_WIDTH = 288
_CAPTION_HEIGHT = 40
_FRAMES_PER_SECOND = 6
_LAST_FRAMES = 9


def write_training_video(
    path: Path,
    originals: Sequence[Float[Tensor, "_height _width 3"]],
    results: Sequence[Result],
    loss_name: LossName = "mse",
) -> Path | None:
    """Write the snapshots of all fits as a video, beside the true images.

    One column for the original and one per fit, one row for each image of a snapshot; captions give
    the steps taken and the PSNR or the loss of the batches. A fit that ended early keeps its last
    snapshot.

    Args:
        path: file without suffix; MP4 if imageio-ffmpeg is installed, else WebP.
        originals: the true images of a snapshot, values in [0, 1].
        results: the fits.
        loss_name: whether the training loss is a mean squared error.

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
            state = snapshot_caption(snapshot, loss_name)
            columns.append(_column(snapshot.images, result.label, state))
        frames.append(np.concatenate(columns, axis=1))
    frames += frames[-1:] * _LAST_FRAMES
    return write_video(
        path, torch.from_numpy(np.stack(frames)).float() / 255, rate=_FRAMES_PER_SECOND
    )


def snapshot_caption(snapshot: Snapshot, loss_name: LossName) -> str:
    """Steps that a fit had taken, and its score."""
    score = f"{snapshot.score:.1f} dB" if loss_name == "mse" else f"loss {snapshot.score:.3g}"
    return f"step {snapshot.step:,}, {score}"


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


def write_frames(file: Path, frames: npt.NDArray[np.uint8], *, rate: int) -> None:
    """Write 8-bit frames ``(frames, height, width, 3)`` as a looping video, .mp4 or .webp."""
    if file.suffix.lower() == ".webp":
        iio.imwrite(file, frames, duration=1000 / rate, loop=0, quality=80)
        return
    # The codec takes even sides only.
    even = [(0, 0), (0, frames.shape[1] % 2), (0, frames.shape[2] % 2), (0, 0)]
    iio.imwrite(
        file,
        np.pad(frames, even, mode="edge"),
        plugin="FFMPEG",
        fps=rate,
        macro_block_size=2,
        quality=7,
    )
