"""The comparison of reconstructions as one image: originals, fits, errors and depths."""

from collections.abc import Sequence
from pathlib import Path

import imageio.v3 as iio
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from nerf_posenc.images import evenly_spaced, resize_area, unit_range
from nerf_posenc_app.crops import Window, detail_crop
from nerf_posenc_app.report.images import (
    clamped,
    color_mapped,
    eight_bit,
    error_scale,
    nearness,
    reduced_error,
)
from nerf_posenc_app.report.sections import Panel
from nerf_posenc_app.report.tables import gain_text
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE
from nerf_posenc_app.values.results import Result

# Size of a panel and of the line above it, in pixels.
_PANEL_SIDE = 480
_CAPTION = 34
_FONT_SIZE = 22
_GAP = 8
_ROWS = 3
_FITS_PER_LINE = 3


def save_comparison(
    path: Path, panels: Sequence[Panel], results: Sequence[Result], measure: Measure
) -> None:
    """Draw originals, then each fit with its error and, if it has one, its depth.

    A single image has a second row with its most detailed crop. Errors are mean absolute
    differences of the channels; errors and depths have one scale for all.

    Args:
        path: file to write, .png.
        panels: images or views; some of them, evenly spread, are drawn.
        results: the fits.
        measure: score in the captions.
    """
    chosen = [panels[i] for i in evenly_spaced(_ROWS, len(panels))]
    rows: list[tuple[Panel, Window | None]] = [(panel, None) for panel in chosen]
    if len(rows) == 1:
        rows.append((chosen[0], detail_crop(chosen[0].original)))
    scale = error_scale([(fit, p.original) for p in chosen for fit in p.fits.values()])
    fits = [result for result in results if result.label in chosen[0].fits]
    lines = [fits[i : i + _FITS_PER_LINE] for i in range(0, len(fits), _FITS_PER_LINE)]
    save_grid(
        path,
        [
            _row(panel, crop, line, results, measure, scale)
            for panel, crop in rows
            for line in lines or [[]]
        ],
    )


def _row(
    panel: Panel,
    crop: Window | None,
    fits: Sequence[Result],
    results: Sequence[Result],
    measure: Measure,
    scale: float,
) -> list[tuple[str, Tensor]]:
    """Captions and images of one view, or of a crop of it."""
    window = crop or (slice(None), slice(None))
    original = panel.original.cpu()[window]
    title = panel.title if crop is None else f"{panel.title}, most detailed part"
    row = [(title, unit_range(resize_area(original, _PANEL_SIDE)))]
    has_depth = bool(panel.depths) and crop is None
    near = nearness([panel.depths[fit.label] for fit in fits]) if has_depth else []
    for i, fit in enumerate(fits):
        gained = gain_text(fit, results, measure)
        suffix = "" if gained == "-" or fit.label == BASELINE else f" ({gained})"
        image = clamped(panel.fits[fit.label].cpu())[window]
        score = score_text(fit.scores[measure.name], measure.digits)
        row.append((f"{fit.label}: {score}{suffix}", unit_range(resize_area(image, _PANEL_SIDE))))
        error = (reduced_error(image, original, _PANEL_SIDE) / scale).clamp(0, 1)
        row.append((f"error, 0 to {scale:.2f}", color_mapped(error, "magma")))
        if has_depth:
            row.append(("depth, near is bright", color_mapped(near[i].nan_to_num(0.0), "viridis")))
    return row


def save_grid(path: Path, rows: Sequence[Sequence[tuple[str, Tensor]]]) -> None:
    """Write images in rows, each with a line of text above it, as one PNG.

    Args:
        path: file to write.
        rows: captions, and images ``(height, width, 3)`` in [0, 1], which are brought to one width.
    """
    bands = [np.concatenate([_captioned(*each) for each in row], axis=1) for row in rows]
    width = max(band.shape[1] for band in bands)
    padded = [
        np.pad(band, [(0, 0), (0, width - band.shape[1]), (0, 0)], constant_values=255)
        for band in bands
    ]
    iio.imwrite(path, np.concatenate(padded), compress_level=1)


def _captioned(caption: str, image: Tensor) -> np.ndarray:
    height, width, _ = image.shape
    # A narrow image still gets a visible panel.
    size = (
        _PANEL_SIDE,
        min(4 * _PANEL_SIDE, max(_PANEL_SIDE // 4, round(_PANEL_SIDE * height / width))),
    )
    enlarged = Image.fromarray(eight_bit(image)).resize(size, Image.Resampling.NEAREST)
    panel = Image.new("RGB", (size[0] + _GAP, size[1] + _CAPTION + _GAP), "white")
    panel.paste(enlarged, (0, _CAPTION))
    font = ImageFont.load_default(size=_FONT_SIZE)
    ImageDraw.Draw(panel).text((2, 4), caption, "black", font)
    return np.asarray(panel)
