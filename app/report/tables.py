"""The results of a run as a table for the terminal."""

import math
from collections.abc import Mapping, Sequence

from nerf_posenc.training.results import (
    FIELD_MEASURES,
    STORAGE_MEASURES,
    FieldResult,
    FitResult,
    Measure,
)

BASELINE = "none"
"""Name of the fit that gains are relative to: the one without an encoding."""


def gain(
    result: FitResult, results: Sequence[FitResult], measures: Sequence[Measure] = FIELD_MEASURES
) -> float | None:
    """How much better a fit is than the one without an encoding; None if that was not fitted.

    Fits of several runs are named ``run: encoding``; each is compared within its own run.

    Args:
        result: of the fit.
        results: all of the table.
        measures: the first of them counts; less of it is a gain if lower is better.
    """
    first = measures[0]
    run, _, encoding = result.encoding.rpartition(": ")
    baseline = f"{run}: {BASELINE}" if run else BASELINE
    for other in results:
        if other.encoding == baseline and encoding != BASELINE:
            more = result.scores[first.name] - other.scores[first.name]
            return more if first.higher_is_better else -more
    return None


def gain_label(measures: Sequence[Measure]) -> str:
    """Heading of the gains, with the unit of the first measure."""
    _, bracket, unit = measures[0].label.partition("(")
    return f"gain ({unit}" if bracket else "gain"


def score_text(value: float, measure: Measure) -> str:
    """Format a score; a dash if it is undefined."""
    return "-" if math.isnan(value) else f"{value:.{measure.digits}f}"


def storage_measures(results: Sequence[FieldResult]) -> Sequence[Measure]:
    """Columns of what is stored, if that was measured of any fit."""
    return STORAGE_MEASURES if any(result.storage is not None for result in results) else ()


def table(results: Sequence[FitResult], measures: Sequence[Measure] = FIELD_MEASURES) -> str:
    """Format the results in aligned columns."""
    labels = [measure.label for measure in measures]
    rows = [("encoding", "parameters", *labels, "seconds", gain_label(measures))]
    for result in results:
        gained = gain(result, results, measures)
        is_known = gained is not None and not math.isnan(gained)
        rows.append(
            (
                result.encoding,
                f"{result.parameters:,}" if result.is_fit else "-",
                *(score_text(result.scores.get(m.name, math.nan), m) for m in measures),
                f"{result.seconds:.1f}",
                f"{gained:+.{measures[0].digits}f}" if is_known else "-",
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
