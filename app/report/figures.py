"""The pictures of a run, drawn with matplotlib."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from app.report.tables import FitResult, PictureResult, SceneResult, gain
from nerf_posenc.metrics.image import power_spectrum, psnr_by_band, psnr_from_mse

# Okabe and Ito's colours, told apart by colour-blind readers too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DPI = 150
_PANEL_INCHES = 3.4
# Of which a quantile is taken: to sort more takes seconds, and torch refuses 2^24.
_MOST_VALUES = 1 << 20


def most_detailed_window(
    picture: Float[Tensor, "height width 3"], window_height: int, window_width: int
) -> tuple[int, int]:
    """Top row and left column of the window with the most fine detail.

    Detail is the energy of the differences between neighbouring pixels.

    Args:
        picture: values in [0, 1].
        window_height: rows of the window, at most the picture's.
        window_width: columns of the window, at most the picture's.
    """
    gray = picture.mean(-1)
    energy = torch.zeros(gray.shape, dtype=torch.float64)
    energy[:, 1:] += gray.diff(dim=1).square()
    energy[1:, :] += gray.diff(dim=0).square()
    # Sums over windows as differences of an integral image, whatever the size of the window.
    integral = torch.nn.functional.pad(energy.cumsum(0).cumsum(1), (1, 0, 1, 0))
    bands = integral[window_height:] - integral[:-window_height]
    sums = bands[:, window_width:] - bands[:, :-window_width]
    top, left = divmod(int(sums.argmax()), sums.shape[1])
    return top, left


def save_comparison(
    path: Path, original: Float[Tensor, "height width 3"], results: Sequence[PictureResult]
) -> None:
    """Draw the original and each reconstruction: whole, in a crop, and their error.

    The crop is the most detailed window of the original. The error is the mean absolute
    difference of the channels, on one scale for all fits.

    Args:
        path: file to write; its suffix says how, as .png or .svg.
        original: values in [0, 1].
        results: the fits, one column each.
    """
    original = original.cpu()
    height, width, _ = original.shape
    rows, columns = max(1, height // 4), max(1, width // 4)
    top, left = most_detailed_window(original, rows, columns)
    window = (slice(top, top + rows), slice(left, left + columns))
    pictures = [original, *(result.reconstruction.cpu().clamp(0, 1) for result in results)]
    titles = ["original", *(_title(result, results) for result in results)]
    errors = [(picture - original).abs().mean(-1) for picture in pictures[1:]]
    scale = max(1 / 255, *(error_quantile(error) for error in errors))

    figure, axes = _panels(3, len(pictures), height / width)
    for column, (picture, title) in enumerate(zip(pictures, titles, strict=True)):
        axes[0, column].imshow(_for_panel(picture), extent=(0, width, height, 0))
        axes[0, column].set_title(title, fontsize=11)
        edges = (left, top), columns, rows
        axes[0, column].add_patch(Rectangle(*edges, fill=False, ec="white", lw=1.2))
        axes[1, column].imshow(_for_panel(picture[window]), interpolation="nearest")
    axes[1, 0].set_ylabel(f"most detailed {columns} x {rows} pixels", fontsize=9)
    for column, error in enumerate(errors, start=1):
        shown = axes[2, column].imshow(_for_panel(error), cmap="magma", vmin=0, vmax=scale)
    axes[2, 0].set_axis_off()
    bar_axis = axes[2, 0].inset_axes((0.08, 0.52, 0.84, 0.08))
    bar = figure.colorbar(shown, cax=bar_axis, orientation="horizontal", extend="max")
    bar.set_label("absolute error of values in [0, 1], one scale for all", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.savefig(path, dpi=_DPI)


def save_views(
    path: Path,
    truth: Float[Tensor, "views height width 3"],
    results: Sequence[SceneResult],
    *,
    rows: int = 3,
) -> None:
    """Draw test views: the truth, then each fit with its error and its depth.

    Errors and depths have one scale for all.

    Args:
        path: file to write; its suffix says how, as .png or .svg.
        truth: all test views, values in [0, 1].
        results: the fits.
        rows: views to draw, evenly spread, at most all.
    """
    rows = min(rows, len(truth))
    chosen = [i * len(truth) // rows for i in range(rows)]
    height, width = truth.shape[1:3]
    figure, axes = _panels(rows, 1 + 3 * len(results), height / width)
    errors, depths = [], []
    for result in results:
        shown = [result.views[i].rendering for i in chosen]
        errors.append(
            [(r.colour - truth[i]).abs().mean(-1) for r, i in zip(shown, chosen, strict=True)]
        )
        depths.append([torch.where(r.opacity > 0.5, r.depth, torch.nan) for r in shown])
    scale = max(1 / 255, *(error_quantile(e) for row in errors for e in row))
    finite = torch.cat([d[d.isfinite()] for row in depths for d in row])
    nearest, farthest = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    for row, view in enumerate(chosen):
        axes[row, 0].imshow(truth[view].clamp(0, 1).numpy())
        axes[row, 0].set_ylabel(results[0].views[view].name, fontsize=9)
        for fit, result in enumerate(results):
            panels = axes[row, 1 + 3 * fit : 4 + 3 * fit]
            score = result.views[view]
            panels[0].imshow(score.rendering.colour.clamp(0, 1).numpy())
            at = panels[0].transAxes
            panels[0].text(0.02, 0.02, f"{score.psnr:.1f} dB", transform=at, fontsize=9)
            panels[1].imshow(errors[fit][row].numpy(), cmap="magma", vmin=0, vmax=scale)
            panels[2].imshow(
                depths[fit][row].numpy(), cmap="viridis_r", vmin=nearest, vmax=farthest
            )
    axes[0, 0].set_title("truth", fontsize=11)
    for fit, result in enumerate(results):
        axes[0, 1 + 3 * fit].set_title(_title(result, results), fontsize=11)
        axes[0, 2 + 3 * fit].set_title(f"error, 0 to {scale:.2f}", fontsize=10)
        axes[0, 3 + 3 * fit].set_title("depth, near is bright", fontsize=10)
    figure.savefig(path, dpi=_DPI * 2 // 3)


def _panels(rows: int, columns: int, aspect: float) -> tuple[Figure, Any]:
    """Figure of bare panels of one shape, close together."""
    panel_width = _PANEL_INCHES if columns < 6 else _PANEL_INCHES * 0.75
    # A strip of a picture still gets a panel that can be seen.
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


def save_curves(path: Path, results: Sequence[FitResult]) -> None:
    """Draw the PSNR of the training batches over steps and over seconds."""
    figure, axes = _charts(2, sharey=True)
    for result, colour in zip(results, _cycled(_COLOURS, len(results)), strict=True):
        psnrs = [psnr_from_mse(record.loss) for record in result.history]
        for axis, name in zip(axes, ("step", "seconds"), strict=True):
            xs = [getattr(record, name) for record in result.history]
            axis.plot(xs, psnrs, color=colour, lw=1.6, label=result.encoding)
    axes[0].set_xlabel("training steps")
    axes[1].set_xlabel("training time (s)")
    axes[0].set_ylabel("PSNR of the batches (dB)")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=_DPI)


def save_frequencies(
    path: Path,
    original: Float[Tensor, "height width 3"],
    fits: Mapping[str, Float[Tensor, "height width 3"]],
) -> None:
    """Draw what is recovered at each spatial frequency.

    Left the radially averaged power spectra, right the PSNR within each octave.

    Args:
        path: file to write.
        original: values in [0, 1].
        fits: reconstructions by the fit's name.
    """
    figure, (left, right) = _charts(2)
    frequencies, power = power_spectrum(original)
    left.loglog(frequencies, power, color="grey", lw=2.4, label="original")
    colours = _cycled(_COLOURS, len(fits))
    for i, (name, fit) in enumerate(fits.items()):
        left.loglog(frequencies, power_spectrum(fit)[1], color=colours[i], lw=1.4, label=name)
        scores = psnr_by_band(fit, original)
        places = [-1.0 if score.octave is None else score.octave for score in scores]
        right.plot(places, [s.psnr for s in scores], "-o", color=colours[i], lw=1.4, ms=4)
    nyquist = math.pi * max(original.shape[:2]) / 2
    left.axvline(nyquist, color="grey", lw=0.8, ls=":")
    left.set_xlabel("angular frequency (rad per unit)")
    left.set_ylabel("mean power")
    left.legend(frameon=False)
    right.set_xticks(places, ["mean", *(f"$2^{{{int(k)}}}\\pi$" for k in places[1:])])
    right.set_xlabel("octave around (rad per unit)")
    right.set_ylabel("PSNR within the octave (dB)")
    figure.savefig(path, dpi=_DPI)


def save_kernels(path: Path, results: Sequence[FitResult]) -> None:
    """Draw how alike each encoding's features are, by distance, where it has a kernel."""
    figure, (axis,) = _charts(1)
    for result, colour in zip(results, _cycled(_COLOURS, len(results)), strict=True):
        if result.kernel is not None:
            axis.plot(*result.kernel, color=colour, lw=1.6, label=result.encoding)
    axis.set_xlabel("distance along x (units)")
    axis.set_ylabel("similarity of features")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=_DPI)


def _charts(columns: int, **options: Any) -> tuple[Figure, Any]:
    """Figure of plain axes in one row."""
    figure = Figure(figsize=(4.5 * columns, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns, squeeze=False, **options)[0]
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _title(result: FitResult, results: Sequence[FitResult]) -> str:
    gained = gain(result, results)
    suffix = "" if gained is None else f" ({gained:+.1f})"
    value = "inf" if math.isinf(result.psnr) else f"{result.psnr:.1f}"
    return f"{result.encoding}: {value} dB{suffix}"


def _cycled(values: Sequence[str], count: int) -> list[str]:
    return [values[i % len(values)] for i in range(count)]


def error_quantile(error: Float[Tensor, "height width"]) -> float:
    """99th percentile of an error map, of every n-th of its values if they are many."""
    return float(error.flatten()[:: 1 + error.numel() // _MOST_VALUES].quantile(0.99))


def reduced(image: Tensor, longer_side: int) -> Tensor:
    """Average an image or a map by area until its longer side is ``longer_side``; never enlarges.

    Args:
        image: ``(height, width, channels)`` or ``(height, width)``.
        longer_side: pixels.
    """
    height, width = image.shape[:2]
    scale = longer_side / max(height, width)
    if scale >= 1:
        return image
    size = max(1, round(height * scale)), max(1, round(width * scale))
    channels = image.reshape(height, width, -1).permute(2, 0, 1)[None]
    small = torch.nn.functional.interpolate(channels, size=size, mode="area")[0].permute(1, 2, 0)
    return small.reshape(*size, *image.shape[2:])


def _for_panel(image: Tensor) -> npt.NDArray[np.float32]:
    """An image or a map in no more pixels than a panel shows."""
    return np.asarray(reduced(image, 2 * round(_PANEL_INCHES * _DPI)).numpy())
