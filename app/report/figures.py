"""The comparison of reconstructions for print, drawn with matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.crops import Window, detail_crop
from app.kinds.kind import Result
from app.report.canvas import new_figure
from app.report.images import clamped, error_scale, nearness, reduced_error
from app.report.palette import unmathematical
from app.report.sections import Panel
from app.report.tables import BASELINE, gain_text, score_text
from nerf_posenc.images import resize_area
from nerf_posenc.radiance.views import evenly_spaced

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
from nerf_posenc.training.results import Measure

_DPI = 150
_PANEL_INCHES = 3.4
# More pixels than a panel shows.
_PANEL_SIDE = 2 * round(_PANEL_INCHES * _DPI)
_ROWS = 3


def save_comparison(
    path: Path, panels: Sequence[Panel], results: Sequence[Result], measure: Measure
) -> None:
    """Draw originals, then each fit with its error and, if it has one, its depth.

    A single image has a second row with its most detailed crop. Errors are mean absolute
    differences of the channels; errors and depths have one scale for all.

    Args:
        path: file to write, in the format of its suffix, such as .png or .svg.
        panels: images or views; some of them, evenly spread, are drawn.
        results: the fits.
        measure: score in the headings.
    """
    chosen = [panels[i] for i in evenly_spaced(_ROWS, len(panels))]
    rows: list[tuple[Panel, Window | None]] = [(panel, None) for panel in chosen]
    if len(rows) == 1:
        rows.append((chosen[0], detail_crop(chosen[0].original)))
    fits = [result for result in results if result.label in chosen[0].fits]
    scale = error_scale([(fit, p.original) for p in chosen for fit in p.fits.values()])
    has_depth = bool(chosen[0].depths)
    across = 3 if has_depth else 2
    height, width, _ = chosen[0].original.shape
    figure, axes = _panels(len(rows), 1 + across * len(fits), height / width)
    for row, (panel, crop) in enumerate(rows):
        window = crop or (slice(None), slice(None))
        label = panel.title if crop is None else f"{panel.title}, most detailed part"
        axes[row, 0].imshow(_shown(panel.original[window]), extent=_extent(panel, crop))
        axes[row, 0].set_ylabel(unmathematical(label), fontsize=9)
        if crop is None and len(chosen) == 1:
            axes[row, 0].add_patch(_outline(rows[1][1]))
        near = nearness([panel.depths[fit.label] for fit in fits]) if has_depth else []
        for i, fit in enumerate(fits):
            own = axes[row, 1 + across * i : 1 + across * (i + 1)]
            image = clamped(panel.fits[fit.label].cpu())[window]
            own[0].imshow(_shown(image))
            error = reduced_error(image, panel.original.cpu()[window], _PANEL_SIDE)
            own[1].imshow(error.numpy(), cmap="magma", vmin=0, vmax=scale)
            if has_depth:
                own[2].imshow(near[i].numpy(), cmap="viridis", vmin=0, vmax=1)
    axes[0, 0].set_title("original", fontsize=11)
    for i, fit in enumerate(fits):
        gained = gain_text(fit, results, measure)
        suffix = "" if gained == "-" or fit.label == BASELINE else f" ({gained})"
        title = f"{fit.label}: {score_text(fit.scores[measure.name], measure)}{suffix}"
        axes[0, 1 + across * i].set_title(unmathematical(title), fontsize=11)
        axes[0, 2 + across * i].set_title(f"error, 0 to {scale:.2f}", fontsize=10)
        if has_depth:
            axes[0, 3 + across * i].set_title("depth, near is bright", fontsize=10)
    figure.savefig(path, dpi=_DPI if len(chosen) == 1 else _DPI * 2 // 3)


def _shown(image: Any) -> Any:
    """An image in no more pixels than a panel shows."""
    return np.asarray(resize_area(image.cpu(), _PANEL_SIDE).numpy())


def _extent(panel: Panel, crop: Window | None) -> tuple[int, int, int, int] | None:
    """Coordinates of a whole image in its own pixels, so that the outline of a crop fits."""
    height, width, _ = panel.original.shape
    return (0, width, height, 0) if crop is None else None


def _outline(crop: Window | None) -> "Rectangle":
    from matplotlib.patches import Rectangle

    assert crop is not None
    rows, columns = crop
    size = columns.stop - columns.start, rows.stop - rows.start
    return Rectangle((columns.start, rows.start), *size, fill=False, ec="white", lw=1.2)


def _panels(rows: int, columns: int, aspect: float) -> tuple["Figure", Any]:
    """Figure of panels without axes, of one shape, close together."""
    panel_width = _PANEL_INCHES if columns < 6 else _PANEL_INCHES * 0.75
    # A narrow image still gets a visible panel.
    panel_height = panel_width * min(4.0, max(0.25, aspect))
    gap, left, top = 0.08, 0.3, 0.35
    figure_width = left + columns * (panel_width + gap)
    figure_height = top + rows * (panel_height + gap)
    figure = new_figure(figsize=(figure_width, figure_height))
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(
        left=left / figure_width,
        right=1 - gap / figure_width,
        top=1 - top / figure_height,
        bottom=gap / figure_height,
        wspace=gap / panel_width,
        hspace=gap / panel_height,
    )
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
    return figure, axes
