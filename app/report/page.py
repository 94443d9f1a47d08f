"""The page of a run: one self-contained HTML file without network requests."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from app.preview import Window, detail_crop, most_detailed_window
from app.report.depths import nearness
from app.report.eight_bit import eight_bit
from app.report.errors import clamped, error_map, reduced_error, sampled_error
from app.report.figures import error_quantile
from app.report.headline import headline
from app.report.page_charts import decibels, forecast_notes, octave_rows, page_charts
from app.report.palette import NUM_STYLES
from app.report.tables import BASELINE, gain, score_text, storage_measures
from app.report.template import render
from app.report.tiles import TilePyramid
from app.task import Panel
from nerf_posenc.images import resize_area, unit_range
from nerf_posenc.metrics.image import squared_error
from nerf_posenc.metrics.spectra import spectra
from nerf_posenc.training.results import FieldResult

# Above this many pixels a lossless image would make the page too heavy: it shows an overview of
# about as many, and crops at full size.
_LOSSLESS_PIXELS = 700_000
_CROP_SIDE = 512
# A crop of fewer pixels would be too coarse to look at.
_LEAST_CROP = 96
WEBP_SIDE = 16383
"""Longest side that the format takes, in pixels."""


@dataclass(frozen=True)
class Group:
    """Fits of a comparison that are of one image and one measure.

    Attributes:
        title: image and measure.
        settings: by the name of the fit, what its run has that others have not.
    """

    title: str
    settings: Mapping[str, str]


def write_page(
    path: Path,
    title: str,
    panels: Sequence[Panel],
    results: Sequence[FieldResult],
    run: Mapping[str, Any],
    *,
    turntables: Mapping[str, Path] | None = None,
    training_videos: Mapping[str, Path] | None = None,
    groups: Sequence[Group] = (),
    tiles: TilePyramid | None = None,
) -> None:
    """Write the page.

    Args:
        path: HTML file.
        title: its heading, shown as text whatever it contains.
        panels: images with their reconstructions, one or more.
        results: the fits.
        run: what reproduces the run: command, options, versions.
        turntables: videos by the name of the fit.
        training_videos: videos of the fits as they learn, by the name of the run.
        groups: of the fits of several runs; empty for one run.
        tiles: of the first image, if it is large: the page opens on it and loads them as one zooms.
    """
    errors = [sampled_error(fit, p.original) for p in panels for fit in p.fits.values()]
    scale = max(1 / 255, *map(error_quantile, errors))
    content = spectra(panels[0].original, panels[0].fits)
    held_out = bool(run.get("options", {}).get("held_out"))
    page = render(
        "page.html.j2",
        run,
        title=title,
        headline=headline(results, held_out=held_out),
        measure="PSNR (held-out)" if held_out else "PSNR",
        held_out=held_out,
        is_scene=bool(panels[0].depths),
        has_networks=any(result.is_fit and not result.is_closed_form for result in results),
        has_series=any(result.is_closed_form for result in results),
        baseline=BASELINE,
        psnr={result.encoding: decibels(result.psnr, 1) for result in results},
        rows=[_row(result, results, i, groups) for i, result in enumerate(results)],
        # A heading wraps between its words, not within "8 bits".
        storage_labels=[
            m.label.replace("8 bits", "8\u00a0bits") for m in storage_measures(results)
        ],
        band_names=[r.encoding for r in results if r.encoding in panels[0].fits],
        best=max((r for r in results if r.is_fit), key=_rank, default=results[0]).encoding,
        images=[_shown(panel, scale, part) for panel in panels for part in _parts(panel)],
        opened=_opened(panels) if tiles is None else {"whole": 0, "detail": 0},
        tiles=None if tiles is None else tiles.as_json(),
        num_panels=len(panels),
        error_scale=f"{scale:.2f}",
        charts=page_charts(panels[0], content, results),
        forecast_notes=forecast_notes(results),
        bands=octave_rows(content, results),
        turntables={name: _data_url(file) for name, file in (turntables or {}).items()},
        training_videos={n: _data_url(file) for n, file in (training_videos or {}).items()},
    )
    path.write_text(page, encoding="utf-8")


def _rank(result: FieldResult) -> float:
    """PSNR for the choice of the best fit: an undefined one is the worst."""
    return -math.inf if math.isnan(result.psnr) else result.psnr


def _row(
    result: FieldResult, results: Sequence[FieldResult], number: int, groups: Sequence[Group]
) -> dict[str, Any]:
    gained = gain(result, results)
    group = next((group for group in groups if result.encoding in group.settings), None)
    is_first = group is not None and next(iter(group.settings)) == result.encoding
    return {
        "group": group.title if group is not None and is_first else "",
        "settings": "" if group is None else group.settings[result.encoding],
        "color": str(number % NUM_STYLES),
        "name": result.encoding,
        "parameters": f"{result.parameters:,}" if result.is_fit else "-",
        "psnr": decibels(result.psnr, 2),
        "ssim": "-" if math.isnan(result.ssim) else f"{result.ssim:.4f}",
        "steps": f"{result.steps:,}" if result.steps else "-",
        "seconds": f"{result.seconds:.1f}",
        "storage": [
            score_text(result.scores.get(measure.name, math.nan), measure)
            for measure in storage_measures(results)
        ],
        "gain": "-" if gained is None or math.isnan(gained) else f"{gained:+.2f}",
    }


@dataclass(frozen=True)
class _Part:
    """What the page shows of an image and its reconstructions.

    Attributes:
        label: for its choice.
        window: rows and columns.
        longer_side: pixels that the window is reduced to; None for all of its own.
    """

    label: str
    window: Window
    longer_side: int | None = None

    def image(self, image: Tensor) -> Tensor:
        """This part of an image or a map, values in [0, 1] of an image."""
        part = image[self.window]
        return unit_range(part) if self.longer_side is None else resize_area(part, self.longer_side)

    def error(self, fit: Tensor, original: Tensor) -> Tensor:
        """This part of the error map."""
        fit, original = fit[self.window], original[self.window]
        if self.longer_side is None:
            return error_map(fit, original)
        return reduced_error(fit, original, self.longer_side)


def _parts(panel: Panel) -> list[_Part]:
    """All of an image, or an overview if it is large, and its most detailed crop."""
    height, width, _ = panel.original.shape
    all_of_it = slice(0, height), slice(0, width)
    is_large = height * width > _LOSSLESS_PIXELS or max(height, width) > WEBP_SIDE
    side = _CROP_SIDE if is_large else max(_LEAST_CROP, max(height, width) // 3)
    if not is_large:
        whole = [_Part(panel.name, all_of_it)]
        if min(height, width) <= _LEAST_CROP:
            return whole
        # Wider than high, to fill a screen.
        crop = most_detailed_window(panel.original, min(height, 2 * side // 3), min(width, side))
        return [*whole, _Part(f"{panel.name}, most detailed crop", crop)]
    reduced = round(max(height, width) * math.sqrt(_LOSSLESS_PIXELS / (height * width)))
    longer_side = min(reduced, max(height, width), WEBP_SIDE)
    crop = detail_crop(panel.original, side=side)
    return [
        _Part(f"{panel.name}, reduced from {width} x {height}", all_of_it, longer_side),
        _Part(f"{panel.name}, most detailed crop at full size", crop),
    ]


def _opened(panels: Sequence[Panel]) -> dict[str, int]:
    """Which image the page opens on, and which is the whole beside it: where fits differ most."""

    def spread(panel: Panel) -> float:
        errors = [squared_error(f, panel.original) for f in panel.fits.values()]
        errors = [error / panel.original.numel() for error in errors]
        finite = [error for error in errors if math.isfinite(error)]
        return max(finite) - min(finite) if len(finite) > 1 else 0.0

    counts = [len(_parts(panel)) for panel in panels]
    chosen = 0 if len(panels) == 1 else max(range(len(panels)), key=lambda i: spread(panels[i]))
    whole = sum(counts[:chosen])
    return {"whole": whole, "detail": whole + counts[chosen] - 1}


def _shown(panel: Panel, scale: float, part: _Part) -> dict[str, Any]:
    original = part.image(panel.original)
    height, width, _ = original.shape
    near = dict(zip(panel.depths, nearness(list(panel.depths.values())), strict=True))
    fits = []
    for name, fit in panel.fits.items():
        error = (part.error(fit, panel.original) / scale).clamp(0, 1)
        fitted = _webp(part.image(clamped(fit)))
        shown = {"name": name, "url": fitted, "error": _webp(_mapped(error, "magma"), 80)}
        if name in near:
            depth = part.image(near[name][..., None])[..., 0]
            shown["depth"] = _webp(_mapped(depth.nan_to_num(0.0), "viridis"), 80)
        fits.append(shown)
    return {
        "name": part.label,
        "width": width,
        "height": height,
        "original": _webp(original),
        "fits": fits,
    }


def _mapped(values: Tensor, name: str) -> Tensor:
    """Map values in [0, 1] to colors."""
    colors = matplotlib.colormaps[name](values.cpu().numpy())[..., :3]
    return torch.from_numpy(np.ascontiguousarray(colors))


def _webp(image: Tensor, quality: int | None = None) -> str:
    """Image as a data URL: lossless if it is not too large and no quality is given."""
    encoded = Image.fromarray(eight_bit(image))
    buffer = io.BytesIO()
    if quality is None and encoded.width * encoded.height <= _LOSSLESS_PIXELS:
        encoded.save(buffer, "WEBP", lossless=True, method=2)
    else:
        encoded.save(buffer, "WEBP", quality=95 if quality is None else quality, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _data_url(video: Path) -> dict[str, str]:
    kind = "video/mp4" if video.suffix == ".mp4" else f"image/{video.suffix[1:]}"
    data = base64.b64encode(video.read_bytes()).decode()
    return {"kind": kind, "url": f"data:{kind};base64,{data}"}
