"""The results of a run as a table for the terminal."""

import math
from collections.abc import Mapping, Sequence

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
