"""The film of a run: what each fit shows as it learns, side by side."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from app.report.run_folder import eight_bit, write_video
from app.report.tables import FitResult

_PANEL_WIDTH = 288
_CAPTION_HEIGHT = 40
_FRAMES_PER_SECOND = 6
_LAST_FRAMES = 9


def write_film(
    path: Path,
    originals: Sequence[Float[Tensor, "_height _width 3"]],
    results: Sequence[FitResult],
) -> Path | None:
    """Write the fits' snapshots as a film, beside what they are to come to.

    One column for the original and one a fit, one row for each picture of a snapshot; over
    them the steps taken and the PSNR of the batches. A fit that ended early stands still.

    Args:
        path: file without suffix; MP4 where imageio-ffmpeg is installed, else WebP.
        originals: of each picture of a snapshot, values in [0, 1].
        results: the fits.

    Returns:
        The file that was written; None where no fit has snapshots.
    """
    filmed = [result for result in results if result.snapshots]
    if not filmed:
        return None
    frames = []
    for i in range(max(len(result.snapshots) for result in filmed)):
        columns = [_column(originals, "original", "")]
        for result in filmed:
            snapshot = result.snapshots[min(i, len(result.snapshots) - 1)]
            state = f"step {snapshot.step:,}, {snapshot.psnr:.1f} dB"
            columns.append(_column(snapshot.pictures, result.encoding, state))
        frames.append(np.concatenate(columns, axis=1))
    frames += frames[-1:] * _LAST_FRAMES
    return write_video(
        path, torch.from_numpy(np.stack(frames)).float() / 255, rate=_FRAMES_PER_SECOND
    )


def _column(pictures: Sequence[Tensor], title: str, state: str) -> np.ndarray:
    """Pictures of one width, one below the other, with two lines of text over them."""
    # Here, because a user of the encoders alone has no pillow.
    from PIL import Image, ImageDraw, ImageFont

    panels = []
    for picture in pictures:
        height, width, _ = picture.shape
        size = _PANEL_WIDTH, min(2 * _PANEL_WIDTH, max(1, round(_PANEL_WIDTH * height / width)))
        image = Image.fromarray(eight_bit(picture))
        panels.append(np.asarray(image.resize(size, Image.Resampling.NEAREST)))
    caption = Image.new("RGB", (_PANEL_WIDTH, _CAPTION_HEIGHT), "white")
    draw = ImageDraw.Draw(caption)
    font = ImageFont.load_default(size=14)
    draw.text((6, 3), title, "black", font)
    draw.text((6, 20), state, "black", font)
    return np.concatenate([np.asarray(caption), *panels])
