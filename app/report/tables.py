"""The results of a run: as a table for the terminal and as JSON for programs."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.results import FitResult

BASELINE = "none"
"""Name of the fit that gains are relative to: raw coordinates."""


def gain(result: FitResult, results: Sequence[FitResult]) -> float | None:
    """PSNR of a fit above that of the raw coordinates in dB; None if those were not fitted.

    Fits of several runs are named ``run: encoding``; each is compared within its own run.
    """
    run, _, encoding = result.encoding.rpartition(": ")
    baseline = f"{run}: {BASELINE}" if run else BASELINE
    for other in results:
        if other.encoding == baseline and encoding != BASELINE:
            return result.psnr - other.psnr
    return None


def table(results: Sequence[FitResult]) -> str:
    """Format the results in aligned columns."""
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


def table_of_images(scores: Mapping[str, Mapping[str, float]], encodings: Sequence[str]) -> str:
    """Format the PSNR of several images, one row each, and their mean in dB.

    Args:
        scores: PSNR by image and encoding; a fit that failed is left out.
        encodings: the columns.
    """
    rows = [("image", *(f"{encoding} (dB)" for encoding in encodings))]
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
    """Join cells, the first flush left and the others flush right."""
    numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *numbers])


def write_metrics(path: Path, results: Sequence[FitResult], run: dict[str, Any]) -> None:
    """Write all results, the histories and the description of the run as JSON.

    Args:
        path: file to write.
        results: the fits.
        run: command, configuration, versions and device.
    """
    fits = [
        {
            "encoding": result.encoding,
            "parameters": result.parameters,
            "psnr_db": result.psnr,
            "ssim": result.ssim,
            "seconds": result.seconds,
            "steps": result.steps,
            "gain_db": gain(result, results),
            "history": [
                {
                    "step": record.step,
                    "seconds": record.seconds,
                    "mse": record.loss,
                    "psnr_db": psnr_from_mse(record.loss),
                }
                for record in result.history
            ],
            **result.details,
        }
        for result in results
    ]
    definitions = {
        "psnr_db": "-10 log10(MSE) over all pixels of an image, with --held-out over those that "
        "were not fitted, or its mean over the test views; values clamped to [0, 1], float64; the "
        "string inf for a perfect fit, null if undefined",
        "ssim": "Wang et al. 2004: 11 x 11 Gaussian window, sigma 1.5, mean over channels",
        "history": "mean over the batches of the steps since the previous point",
    }
    report = _as_json({**run, "definitions": definitions, "fits": fits})
    path.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _as_json(value: Any) -> Any:
    """Replace infinite numbers by strings and NaN by null, also within containers."""
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_json(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
