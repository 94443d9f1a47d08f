"""The page of a run: one HTML file that holds all it shows and asks no network for anything."""

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from app.report.charts import Mark, Series, line_chart
from app.report.figures import error_quantile, most_detailed_window, reduced
from app.report.run_folder import eight_bit
from app.report.tables import FitResult, PictureResult, SceneResult, gain
from nerf_posenc.metrics.image import power_spectrum, psnr_by_band, psnr_from_mse

# More views than these only make the page heavy; the folder has them all.
_MOST_VIEWS = 6
# Above this many pixels a lossless image would make the page too heavy: it shows an overview of
# about as many, and crops at full size.
_LOSSLESS_PIXELS = 700_000
_CROP_SIDE = 512
_PALETTE = 7


@dataclass(frozen=True)
class Shown:
    """A picture, what each fit made of it, and what else there is to see of each.

    Attributes:
        name: of the picture or the view.
        original: values in [0, 1].
        fits: reconstructions by the fit's name.
        depths: distances by the fit's name, NaN where nothing is.
    """

    name: str
    original: Float[Tensor, "height width 3"]
    fits: Mapping[str, Float[Tensor, "height width 3"]]
    depths: Mapping[str, Float[Tensor, "height width"]]


def shown_picture(
    name: str, original: Float[Tensor, "height width 3"], results: Sequence[PictureResult]
) -> list[Shown]:
    """What the page of a picture shows."""
    return [Shown(name, original, {r.encoding: r.reconstruction for r in results}, {})]


def shown_views(
    truth: Float[Tensor, "views height width 3"], results: Sequence[SceneResult]
) -> list[Shown]:
    """What the page of a scene shows: some of its test views, evenly spread."""
    count = min(_MOST_VIEWS, len(truth))
    shown = []
    for view in [i * len(truth) // count for i in range(count)]:
        renderings = {r.encoding: r.views[view].rendering for r in results}
        fits = {name: rendering.colour for name, rendering in renderings.items()}
        depths = {
            name: torch.where(rendering.opacity > 0.5, rendering.depth, torch.nan)
            for name, rendering in renderings.items()
        }
        shown.append(Shown(results[0].views[view].name, truth[view], fits, depths))
    return shown


def write_page(
    path: Path,
    title: str,
    shown: Sequence[Shown],
    results: Sequence[FitResult],
    run: Mapping[str, Any],
    *,
    films: Mapping[str, Path] | None = None,
    learning: Path | None = None,
) -> None:
    """Write the page.

    Args:
        path: HTML file.
        title: its heading, shown as text whatever it holds.
        shown: the pictures.
        results: the fits.
        run: what reproduces the run: command, options, versions.
        films: turntables by the fit's name.
        learning: film of the fits as they learn.
    """
    # Here, because a user of the encoders alone has no jinja2.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("app.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    errors = [
        {name: (fit.clamp(0, 1) - one.original).abs().mean(-1) for name, fit in one.fits.items()}
        for one in shown
    ]
    # An image's values run to 1, and NaN compares with nothing.
    scale = max(1 / 255, *(error_quantile(e) for by_name in errors for e in by_name.values()))
    page = environment.get_template("page.html.j2").render(
        title=title,
        rows=[_row(result, results, i) for i, result in enumerate(results)],
        band_names=[r.encoding for r in results if r.encoding in shown[0].fits],
        best=max(results, key=lambda result: result.psnr).encoding,
        pictures=[
            _picture(one, by_name, scale, label, select)
            for one, by_name in zip(shown, errors, strict=True)
            for label, select in _selections(one)
        ],
        error_scale=f"{scale:.2f}",
        charts=_charts(shown, results),
        bands=_bands(shown[0], results),
        films={name: _data_url(file) for name, file in (films or {}).items()},
        learning=None if learning is None else _data_url(learning),
        command=run.get("command", ""),
        details=json.dumps({k: v for k, v in run.items() if k != "command"}, indent=2),
    )
    path.write_text(page, encoding="utf-8")


def _row(result: FitResult, results: Sequence[FitResult], number: int) -> dict[str, str]:
    gained = gain(result, results)
    return {
        "colour": str(number % _PALETTE),
        "name": result.encoding,
        "parameters": f"{result.parameters:,}",
        "psnr": "∞" if math.isinf(result.psnr) else f"{result.psnr:.2f}",
        "ssim": "-" if math.isnan(result.ssim) else f"{result.ssim:.4f}",
        "steps": f"{result.steps:,}",
        "seconds": f"{result.seconds:.1f}",
        "gain": "-" if gained is None or math.isnan(gained) else f"{gained:+.2f}",
    }


Select = Callable[[Tensor], Tensor]
"""From an image, or an error or depth map, to what the page shows of it."""


def _selections(one: Shown) -> list[tuple[str, Select]]:
    """What the page shows of an image: all of it, or an overview and the most detailed crop."""
    height, width, _ = one.original.shape
    if height * width <= _LOSSLESS_PIXELS:
        return [(one.name, lambda image: image)]
    longer_side = round(max(height, width) * math.sqrt(_LOSSLESS_PIXELS / (height * width)))
    rows, columns = min(height, _CROP_SIDE), min(width, _CROP_SIDE)
    top, left = most_detailed_window(one.original, rows, columns)
    return [
        (f"{one.name}, reduced from {width} x {height}", lambda image: reduced(image, longer_side)),
        (
            f"{one.name}, most detailed crop at full size",
            lambda image: image[top : top + rows, left : left + columns],
        ),
    ]


def _picture(
    one: Shown, errors: Mapping[str, Tensor], scale: float, label: str, select: Select
) -> dict[str, Any]:
    original = select(one.original)
    height, width, _ = original.shape
    distances = [d[d.isfinite()] for d in one.depths.values()]
    finite = torch.cat(distances) if distances else torch.zeros(0)
    fits = []
    for name, fit in one.fits.items():
        error = (select(errors[name]) / scale).clamp(0, 1)
        fitted = _webp(select(fit.clamp(0, 1)))
        shown = {"name": name, "url": fitted, "error": _webp(_mapped(error, "magma"), 80)}
        if name in one.depths and len(finite):
            near, far = float(finite.min()), float(finite.max())
            depth = (select(one.depths[name]) - near) / max(far - near, 1e-6)
            shown["depth"] = _webp(_mapped(depth.nan_to_num(1.0), "viridis_r"), 80)
        fits.append(shown)
    return {
        "name": label,
        "width": width,
        "height": height,
        "original": _webp(original),
        "fits": fits,
    }


def _charts(shown: Sequence[Shown], results: Sequence[FitResult]) -> list[dict[str, str]]:
    """The curves, the spectrum, what is recovered of each octave, and the kernels."""
    colour = {result.encoding: i % _PALETTE for i, result in enumerate(results)}
    charts = []
    for name, label in (("seconds", "training time (s)"), ("step", "steps")):
        curves = [
            Series(
                result.encoding,
                [getattr(record, name) for record in result.history],
                [psnr_from_mse(record.loss) for record in result.history],
                colour[result.encoding],
            )
            for result in results
        ]
        chart = line_chart(curves, x_label=label, y_label="PSNR of the batches (dB)")
        charts.append({"title": f"PSNR against {name}", "svg": chart})
    first = shown[0]
    frequencies, power = power_spectrum(first.original)
    spectra = [Series("original", frequencies.tolist(), power.tolist(), _PALETTE)]
    for name, fit in first.fits.items():
        spectra.append(
            Series(name, frequencies.tolist(), power_spectrum(fit)[1].tolist(), colour[name])
        )
    nyquist = math.pi * max(first.original.shape[:2]) / 2
    marks = [Mark(nyquist, "Nyquist")] + [
        Mark(band, f"2^{round(math.log2(band / math.pi))}π")
        for band in sorted({band for result in results for band in result.bands})
        if band <= nyquist
    ]
    charts.append(
        {
            "title": "Power by frequency, with the bands of the encoding",
            "svg": line_chart(
                spectra,
                x_label="angular frequency (rad per unit)",
                y_label="mean power",
                log_x=True,
                log_y=True,
                marks=marks,
            ),
        }
    )
    kernels = [
        Series(result.encoding, *result.kernel, colour[result.encoding])
        for result in results
        if result.kernel is not None
    ]
    if kernels:
        chart = line_chart(
            kernels, x_label="distance along x (units)", y_label="similarity of features"
        )
        charts.append({"title": "Kernel of the encoding", "svg": chart})
    return charts


def _bands(first: Shown, results: Sequence[FitResult]) -> list[dict[str, Any]]:
    """Rows of the table by octave."""
    scored = {name: psnr_by_band(fit, first.original) for name, fit in first.fits.items()}
    names = [result.encoding for result in results if result.encoding in scored]
    rows = []
    for i, band in enumerate(next(iter(scored.values()))):
        cells = []
        for name in names:
            score = scored[name][i]
            recovered = 0.0 if math.isnan(score.recovered) else max(0.0, score.recovered)
            cells.append(
                {
                    "psnr": "∞" if math.isinf(score.psnr) else f"{score.psnr:.1f}",
                    "percent": f"{100 * recovered:.1f}",
                }
            )
        label = "below" if band.octave is None else f"{band.octave}"
        span = f"{band.low:.4g} to {band.high:.4g}"
        rows.append({"octave": label, "span": span, "cells": cells})
    return rows


def _mapped(values: Tensor, name: str) -> Tensor:
    """Values in [0, 1] as colours."""
    colours = matplotlib.colormaps[name](values.cpu().numpy())[..., :3]
    return torch.from_numpy(np.ascontiguousarray(colours))


def _webp(picture: Tensor, quality: int | None = None) -> str:
    """Picture as a data URL: exact where it is not too large and no quality is given."""
    from PIL import Image

    image = Image.fromarray(eight_bit(picture))
    buffer = io.BytesIO()
    if quality is None and image.width * image.height <= _LOSSLESS_PIXELS:
        image.save(buffer, "WEBP", lossless=True, method=2)
    else:
        image.save(buffer, "WEBP", quality=quality or 95, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _data_url(film: Path) -> dict[str, str]:
    kind = "video/mp4" if film.suffix == ".mp4" else f"image/{film.suffix[1:]}"
    data = base64.b64encode(film.read_bytes()).decode()
    return {"kind": kind, "url": f"data:{kind};base64,{data}"}
