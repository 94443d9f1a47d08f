"""The figures of a run: as a table for the terminal and as JSON for programs."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.radiance.renderers import ViewScore
from nerf_posenc.training.loop import Record

BASELINE = "none"
"""Name of the fit that gains are counted from: raw coordinates."""


@dataclass(frozen=True)
class Snapshot:
    """What a fit shows on its way.

    Attributes:
        step: steps taken.
        psnr: of the last batches, in dB.
        pictures: values in [0, 1], one or more, the same ones in every snapshot of a fit.
    """

    step: int
    psnr: float
    pictures: Sequence[Float[Tensor, "_height _width 3"]]


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """One fit, finished or ended early.

    Attributes:
        encoding: its name.
        parameters: trainable numbers.
        psnr: in dB.
        ssim: structural similarity.
        seconds: training time.
        steps: steps taken.
        history: mean loss (MSE of the batches) on the way.
        bands: of the encoding, in rad per unit, where it has them for every axis.
        kernel: distances along an axis, and how alike the features are at each.
        snapshots: what it showed on its way, for a film.
    """

    encoding: str
    parameters: int
    psnr: float
    ssim: float
    seconds: float
    steps: int
    history: Sequence[Record]
    bands: Sequence[float] = ()
    kernel: tuple[Sequence[float], Sequence[float]] | None = None
    snapshots: Sequence[Snapshot] = ()


@dataclass(frozen=True, kw_only=True)
class PictureResult(FitResult):
    """Fit of a picture; PSNR and SSIM are over all its pixels, or those that were held out.

    Attributes:
        reconstruction: those pixels as they were recovered, values in [0, 1].
    """

    reconstruction: Float[Tensor, "height width 3"]


@dataclass(frozen=True, kw_only=True)
class SceneResult(FitResult):
    """Fit of a radiance field; PSNR and SSIM are means over the views that were not fitted.

    Attributes:
        views: those views, as the field shows them.
        render_seconds: to render all of them.
        film: of the camera's way round, where there is one.
    """

    views: Sequence[ViewScore]
    render_seconds: float
    film: Path | None = None


def kernel_of(encoder: nn.Module, in_dim: int) -> tuple[list[float], list[float]] | None:
    """How alike the features of two places are, by their distance along the first axis.

    The features' inner product over their norms: what a network behind them can tell apart.

    Args:
        encoder: of coordinates.
        in_dim: number of coordinates.

    Returns:
        Distances in [-1, 1] and similarities; None for an encoder whose features are trained.
    """
    if not isinstance(encoder, FourierEncoder | GaussianEncoder):
        return None
    distances = torch.linspace(-1, 1, 801)
    places = torch.zeros(len(distances), in_dim)
    places[:, 0] = distances
    with torch.no_grad():
        features = encoder.cpu()(places)
        middle = features[len(distances) // 2]
        alike = features @ middle / (features.norm(dim=-1) * middle.norm())
    return distances.tolist(), alike.tolist()


def bands_of(encoder: nn.Module) -> list[float]:
    """Bands of an encoder in rad per unit; none where they are random or trained."""
    if not isinstance(encoder, FourierEncoder):
        return []
    return [float(band) for band in encoder.sincos.bands.flatten()]


def gain(result: FitResult, results: Sequence[FitResult]) -> float | None:
    """PSNR of a fit over that of the raw coordinates in dB; None where those were not fitted."""
    for other in results:
        if other.encoding == BASELINE and result.encoding != BASELINE:
            return result.psnr - other.psnr
    return None


def table(results: Sequence[FitResult]) -> str:
    """Lay the figures out in aligned columns."""
    rows = [("encoding", "parameters", "PSNR (dB)", "SSIM", "seconds", "gain (dB)")]
    for result in results:
        gained = gain(result, results)
        rows.append(
            (
                result.encoding,
                f"{result.parameters:,}",
                f"{result.psnr:.2f}",
                "-" if math.isnan(result.ssim) else f"{result.ssim:.4f}",
                f"{result.seconds:.1f}",
                "-" if gained is None else f"{gained:+.2f}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [_aligned(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def table_of_pictures(scores: Mapping[str, Mapping[str, float]], encodings: Sequence[str]) -> str:
    """Lay out the PSNR of several pictures, one row each, and their mean in dB.

    Args:
        scores: PSNR by picture and encoding; a fit that failed is left out.
        encodings: the columns.
    """
    rows = [("picture", *(f"{encoding} (dB)" for encoding in encodings))]
    for name, by_encoding in scores.items():
        cells = (f"{by_encoding[e]:.2f}" if e in by_encoding else "-" for e in encodings)
        rows.append((name, *cells))
    means = []
    for encoding in encodings:
        known = [by[encoding] for by in scores.values() if encoding in by]
        means.append(f"{sum(known) / len(known):.2f}" if known else "-")
    rows.append((f"mean of {len(scores)}", *means))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(_aligned(row, widths) for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Join cells, the first flush left and the figures flush right."""
    figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *figures])


def write_metrics(path: Path, results: Sequence[FitResult], run: dict[str, Any]) -> None:
    """Write every figure, the histories and what describes the run as JSON.

    Args:
        path: file to write.
        results: the fits.
        run: configuration, versions, device and whatever else reproduces the run.
    """
    fits = [
        {
            "encoding": result.encoding,
            "parameters": result.parameters,
            "psnr_db": _finite(result.psnr),
            "ssim": _finite(result.ssim),
            "seconds": result.seconds,
            "steps": result.steps,
            "gain_db": _finite(gain(result, results)),
            "history": [
                {
                    "step": record.step,
                    "seconds": record.seconds,
                    "mse": record.loss,
                    "psnr_db": _finite(psnr_from_mse(record.loss)),
                }
                for record in result.history
            ],
            **_of_views(result),
        }
        for result in results
    ]
    definitions = {
        "psnr_db": "-10 log10(MSE) over all pixels of a picture, with --held-out over those that "
        "were not fitted, or its mean over the test views; values clamped to [0, 1], float64",
        "ssim": "Wang et al. 2004: 11 x 11 Gaussian window, sigma 1.5, mean over channels",
        "history": "mean over the batches of the steps since the point before",
    }
    report = {**run, "definitions": definitions, "fits": fits}
    path.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _of_views(result: FitResult) -> dict[str, Any]:
    if not isinstance(result, SceneResult):
        return {}
    views = [
        {"name": view.name, "psnr_db": _finite(view.psnr), "ssim": _finite(view.ssim)}
        for view in result.views
    ]
    return {"views": views, "render_seconds": result.render_seconds}


def _finite(value: float | None) -> float | None:
    """JSON has no infinity and no NaN: they become null."""
    return value if value is not None and math.isfinite(value) else None
