"""Figures of a run, drawn with matplotlib."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Shaped
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from app.preview import Window, detail_crop
from app.report.depths import nearness
from app.report.errors import MOST_VALUES, clamped, reduced_error, sampled_error
from app.report.palette import figure_colors
from app.report.tables import gain
from nerf_posenc.images import resize_area
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.metrics.spectra import spectra
from nerf_posenc.metrics.spectrum import nyquist_frequency
from nerf_posenc.radiance.evaluation import ViewScore
from nerf_posenc.radiance.views import evenly_spaced
from nerf_posenc.radiance.volume_rendering import visible_depth
from nerf_posenc.training.results import FieldResult

_DPI = 150
_PANEL_INCHES = 3.4
# More pixels than a panel shows.
_PANEL_SIDE = 2 * round(_PANEL_INCHES * _DPI)


def save_comparison(
    path: Path,
    original: Shaped[Tensor, "height width 3"],
    reconstructions: Mapping[str, Shaped[Tensor, "height width 3"]],
    results: Sequence[FieldResult],
) -> None:
    """Draw the original and each reconstruction: whole, in a crop, and their error.

    The crop is the most detailed window of the original. The error is the mean absolute
    difference of the channels, on one scale for all fits.

    Args:
        path: file to write, in the format of its suffix, such as .png or .svg.
        original: values in [0, 1], or 8 or 16 bits without a sign.
        reconstructions: by encoding.
        results: the fits, one column each.
    """
    original = original.cpu()
    height, width, _ = original.shape
    crop = detail_crop(original)
    fits = [clamped(reconstructions[result.encoding].cpu()) for result in results]
    images = [original, *fits]
    titles = ["original", *(_title(result, results) for result in results)]
    scale = max(1 / 255, *(error_quantile(sampled_error(fit, original)) for fit in fits))

    figure, axes = _panels(3, len(images), height / width)
    for column, (image, title) in enumerate(zip(images, titles, strict=True)):
        axes[0, column].imshow(_for_panel(image), extent=(0, width, height, 0))
        axes[0, column].set_title(title, fontsize=11)
        axes[0, column].add_patch(_outline(crop))
        axes[1, column].imshow(_for_panel(image[crop]), interpolation="nearest")
    crop_height, crop_width = (part.stop - part.start for part in crop)
    axes[1, 0].set_ylabel(f"most detailed {crop_width} x {crop_height} pixels", fontsize=9)
    for column, fit in enumerate(fits, start=1):
        error = reduced_error(fit, original, _PANEL_SIDE)
        shown = axes[2, column].imshow(error.numpy(), cmap="magma", vmin=0, vmax=scale)
    axes[2, 0].set_axis_off()
    bar_axis = axes[2, 0].inset_axes((0.08, 0.52, 0.84, 0.08))
    bar = figure.colorbar(shown, cax=bar_axis, orientation="horizontal", extend="max")
    bar.set_label("absolute error of values in [0, 1], one scale for all", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.savefig(path, dpi=_DPI)


def _outline(crop: Window) -> Rectangle:
    rows, columns = crop
    size = columns.stop - columns.start, rows.stop - rows.start
    return Rectangle((columns.start, rows.start), *size, fill=False, ec="white", lw=1.2)


def save_views(
    path: Path,
    truth: Callable[[int], Float[Tensor, "height width 3"]],
    views: Mapping[str, Sequence[ViewScore]],
    results: Sequence[FieldResult],
    *,
    rows: int = 3,
) -> None:
    """Draw test views: the truth, then each fit with its error and its depth.

    Errors and depths have one scale for all.

    Args:
        path: file to write, in the format of its suffix, such as .png or .svg.
        truth: from the index of a test view to its values in [0, 1].
        views: test views as each field renders them, by encoding.
        results: the fits.
        rows: views to draw, evenly spaced, at most all.
    """
    chosen = evenly_spaced(rows, len(views[results[0].encoding]))
    images = [truth(view) for view in chosen]
    height, width, _ = images[0].shape
    figure, axes = _panels(len(chosen), 1 + 3 * len(results), height / width)
    scores = [[views[result.encoding][i] for i in chosen] for result in results]
    errors = [
        [(s.rendering.rgb - i).abs().mean(-1) for s, i in zip(row, images, strict=True)]
        for row in scores
    ]
    scale = max(1 / 255, *(error_quantile(error) for row in errors for error in row))
    near = nearness([visible_depth(score.rendering) for row in scores for score in row])
    for row, image in enumerate(images):
        axes[row, 0].imshow(image.clamp(0, 1).numpy())
        axes[row, 0].set_ylabel(scores[0][row].name, fontsize=9)
        for fit in range(len(results)):
            panels = axes[row, 1 + 3 * fit : 4 + 3 * fit]
            score = scores[fit][row]
            panels[0].imshow(score.rendering.rgb.clamp(0, 1).numpy())
            at = panels[0].transAxes
            panels[0].text(0.02, 0.02, f"{score.psnr:.1f} dB", transform=at, fontsize=9)
            panels[1].imshow(errors[fit][row].numpy(), cmap="magma", vmin=0, vmax=scale)
            depth = near[fit * len(chosen) + row]
            panels[2].imshow(depth.numpy(), cmap="viridis", vmin=0, vmax=1)
    axes[0, 0].set_title("truth", fontsize=11)
    for fit, result in enumerate(results):
        axes[0, 1 + 3 * fit].set_title(_title(result, results), fontsize=11)
        axes[0, 2 + 3 * fit].set_title(f"error, 0 to {scale:.2f}", fontsize=10)
        axes[0, 3 + 3 * fit].set_title("depth, near is bright", fontsize=10)
    figure.savefig(path, dpi=_DPI * 2 // 3)


def _panels(rows: int, columns: int, aspect: float) -> tuple[Figure, Any]:
    """Figure of panels without axes, of one shape, close together."""
    panel_width = _PANEL_INCHES if columns < 6 else _PANEL_INCHES * 0.75
    # A narrow image still gets a visible panel.
    panel_height = panel_width * min(4.0, max(0.25, aspect))
    gap, left, top = 0.08, 0.3, 0.35
    figure_width = left + columns * (panel_width + gap)
    figure_height = top + rows * (panel_height + gap)
    figure = Figure(figsize=(figure_width, figure_height))
    FigureCanvasAgg(figure)
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


def save_curves(path: Path, results: Sequence[FieldResult]) -> None:
    """Draw the PSNR of the training batches over steps and over seconds.

    What took no steps is a point in time; if nothing took any, no file is written.
    """
    if not any(result.steps for result in results):
        return
    figure, axes = _charts(2, sharey=True)
    for result, color in zip(results, figure_colors(len(results)), strict=True):
        if not result.history:
            continue
        psnrs = [psnr_from_mse(record.loss) for record in result.history]
        for axis, name in zip(axes, ("step", "seconds"), strict=True):
            if not result.steps and name == "step":
                continue
            xs = [getattr(record, name) for record in result.history]
            marker = None if result.steps else "o"
            axis.plot(xs, psnrs, color=color, lw=1.6, marker=marker, label=result.encoding)
    axes[0].set_xlabel("training steps")
    axes[1].set_xlabel("training time (s)")
    axes[0].set_ylabel("PSNR of the batches (dB)")
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=_DPI)


def save_frequencies(
    path: Path,
    original: Shaped[Tensor, "height width 3"],
    fits: Mapping[str, Shaped[Tensor, "height width 3"]],
) -> None:
    """Draw power spectra and PSNR by spatial frequency.

    Left the radially averaged power spectra, right the PSNR within each octave.

    Args:
        path: file to write.
        original: values in [0, 1], or 8 or 16 bits without a sign.
        fits: reconstructions by the name of the fit.
    """
    figure, (left, right) = _charts(2)
    content = spectra(original, fits)
    left.loglog(content.frequencies, content.original, color="gray", lw=2.4, label="original")
    colors = figure_colors(len(fits))
    for i, (name, scores) in enumerate(content.bands.items()):
        left.loglog(content.frequencies, content.power[name], color=colors[i], lw=1.4, label=name)
        octaves = [-1.0 if score.octave is None else score.octave for score in scores]
        right.plot(octaves, [s.psnr for s in scores], "-o", color=colors[i], lw=1.4, ms=4)
    height, width, _ = original.shape
    nyquist = nyquist_frequency(height, width)
    left.axvline(nyquist, color="gray", lw=0.8, ls=":")
    left.set_xlabel("angular frequency (rad per unit)")
    left.set_ylabel("mean power")
    left.legend(frameon=False)
    right.set_xticks(octaves, ["mean", *(f"$2^{{{int(k)}}}\\pi$" for k in octaves[1:])])
    right.set_xlabel("octave around (rad per unit)")
    right.set_ylabel("PSNR within the octave (dB)")
    figure.savefig(path, dpi=_DPI)


def save_kernels(path: Path, results: Sequence[FieldResult]) -> None:
    """Draw the similarity of each encoding's features by distance, for those with a kernel."""
    figure, (axis,) = _charts(1)
    for result, color in zip(results, figure_colors(len(results)), strict=True):
        if result.kernel is not None:
            axis.plot(*result.kernel, color=color, lw=1.6, label=result.encoding)
    axis.set_xlabel("distance along x (units)")
    axis.set_ylabel("similarity of features")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=_DPI)


def _charts(columns: int, **options: Any) -> tuple[Figure, Any]:
    """Figure of axes in one row."""
    figure = Figure(figsize=(4.5 * columns, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False, **options)[0]
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _title(result: FieldResult, results: Sequence[FieldResult]) -> str:
    gained = gain(result, results)
    suffix = "" if gained is None else f" ({gained:+.1f})"
    value = "inf" if math.isinf(result.psnr) else f"{result.psnr:.1f}"
    return f"{result.encoding}: {value} dB{suffix}"


def error_quantile(error: Float[Tensor, "*shape"]) -> float:
    """99th percentile of errors, of every n-th of them if they are many."""
    return float(error.flatten()[:: 1 + error.numel() // MOST_VALUES].quantile(0.99))


def _for_panel(image: Tensor) -> npt.NDArray[np.float32]:
    """An image in no more pixels than a panel shows."""
    return np.asarray(resize_area(image, _PANEL_SIDE).numpy())
