"""The page of a run that fits a sequence."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from app.report.charts import Series, line_chart
from app.report.palette import NUM_STYLES
from app.report.passages import passage_spans
from app.report.tables import BASELINE, gain, gain_label, score_text
from app.report.template import render
from nerf_posenc.training.results import Measure
from nerf_posenc.training.system import SequenceResult


def write_sequence_page(
    path: Path,
    title: str,
    results: Sequence[SequenceResult],
    run: Mapping[str, Any],
    *,
    measures: Sequence[Measure],
    lesson: str,
    citations: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: HTML file.
        title: shown as text whatever it contains.
        results: the fits.
        run: what reproduces the run: command, options, versions.
        measures: columns of the table.
        lesson: what the comparison shows.
        citations: BibTeX of the papers that the systems are from.
        notes: remarks on the data, shown below the table.
    """
    page = render(
        "sequence.html.j2",
        run,
        title=title,
        headline=sequence_headline(results, measures),
        lesson=lesson,
        citations=citations,
        notes=notes,
        measures=measures,
        gain_label=gain_label(measures),
        rows=[_row(result, results, measures, i) for i, result in enumerate(results)],
        passages=_passages(results, measures[0]),
        maps=_maps(results),
        charts=_curves(results) + _training_curves(results),
    )
    path.write_text(page, encoding="utf-8")


def sequence_headline(results: Sequence[SequenceResult], measures: Sequence[Measure]) -> str | None:
    """Say what the best encoding scores beside the model without positions.

    Returns:
        A sentence with the numbers of the table; None if there is nothing to compare.
    """
    first = measures[0]
    known = {r.encoding: r for r in results if not math.isnan(r.scores[first.name])}
    baseline = known.pop(BASELINE, None)
    if baseline is None or not known:
        return None
    sign = 1 if first.higher_is_better else -1
    best = max(known.values(), key=lambda result: sign * result.scores[first.name])
    reached, without = (score_text(r.scores[first.name], first) for r in (best, baseline))
    if sign * (best.scores[first.name] - baseline.scores[first.name]) <= 0 or _overlap(
        best, baseline, first.name
    ):
        return (
            f"No encoding is clearly better than none: {first.label} {reached} with "
            f"{best.encoding}, {without} without"
        )
    alike = ", same model" if best.parameters == baseline.parameters else ""
    alike += f", same {best.steps:,} steps" if best.steps == baseline.steps else ""
    return (
        f"{first.label[:1].upper()}{first.label[1:]}: {reached} with {best.encoding}, {without} "
        f"without{alike}"
    )


def _overlap(a: SequenceResult, b: SequenceResult, name: str) -> bool:
    """Whether the scores of two fits with several seeds have values in common."""
    if len(a.by_seed) < 2 or len(b.by_seed) < 2:
        return False
    first, second = ([seed[name] for seed in fit.by_seed] for fit in (a, b))
    return min(first) <= max(second) and min(second) <= max(first)


def _row(
    result: SequenceResult,
    results: Sequence[SequenceResult],
    measures: Sequence[Measure],
    number: int,
) -> dict[str, Any]:
    gained = gain(result, results, measures)
    is_known = gained is not None and not math.isnan(gained)
    spread = ""
    if len(result.by_seed) > 1:
        values = [seed[measures[0].name] for seed in result.by_seed]
        spread = f"{min(values):.{measures[0].digits}f} to {max(values):.{measures[0].digits}f}"
    return {
        "color": str(number % NUM_STYLES),
        "name": result.encoding,
        "scores": [score_text(result.scores[measure.name], measure) for measure in measures],
        "gain": f"{gained:+.{measures[0].digits}f}" if is_known else "-",
        "spread": spread,
        "steps": f"{result.steps:,}",
        "seconds": f"{result.seconds:.1f}",
        "parameters": f"{result.parameters:,}",
    }


def _passages(results: Sequence[SequenceResult], measure: Measure) -> list[dict[str, Any]]:
    """Passages by title, each with one text for every encoding."""
    titles = dict.fromkeys(p.title for result in results for p in result.evaluation.passages)
    return [
        {
            "title": title,
            "texts": [
                {
                    "name": result.encoding,
                    "score": f"{measure.label}: {score_text(result.scores[measure.name], measure)}",
                    "spans": Markup(passage_spans(passage)),
                }
                for result in results
                for passage in result.evaluation.passages
                if passage.title == title
            ],
        }
        for title in titles
    ]


def _maps(results: Sequence[SequenceResult]) -> list[dict[str, Any]]:
    """Heat maps by title, each with one for every encoding; the largest value is darkest."""
    titles = dict.fromkeys(m.title for result in results for m in result.evaluation.maps)
    shown = []
    for title in titles:
        entries = []
        for number, result in enumerate(results):
            for each in result.evaluation.maps:
                if each.title != title:
                    continue
                most = max(1e-9, float(each.values.max())) if each.values.numel() else 1.0
                rows = [
                    {
                        "label": label,
                        "cells": [
                            {"percent": round(100 * v / most), "value": f"{v:.3f}"} for v in row
                        ],
                    }
                    for label, row in zip(each.rows, each.values.tolist(), strict=True)
                ]
                entries.append(
                    {
                        "name": result.encoding,
                        "color": number % NUM_STYLES,
                        "columns": each.columns,
                        "rows": rows,
                    }
                )
        shown.append({"title": title, "entries": entries})
    return shown


def _curves(results: Sequence[SequenceResult]) -> list[dict[str, str]]:
    """Charts of the evaluations, one line per encoding."""
    charts = []
    titles = dict.fromkeys(c.title for result in results for c in result.evaluation.curves)
    for title in titles:
        lines = [
            (curve, Series(result.encoding, curve.xs, curve.ys, number % NUM_STYLES))
            for number, result in enumerate(results)
            for curve in result.evaluation.curves
            if curve.title == title
        ]
        first = lines[0][0]
        svg = line_chart(
            [series for _, series in lines],
            x_label=first.x_label,
            y_label=first.y_label,
            log_x=first.log_x,
        )
        charts.append({"section": "results", "title": title, "svg": svg})
    return charts


def _training_curves(results: Sequence[SequenceResult]) -> list[dict[str, str]]:
    charts = []
    for name, label in (("seconds", "training time (s)"), ("step", "steps")):
        lines = [
            Series(
                result.encoding,
                [getattr(record, name) for record in result.history],
                [record.loss for record in result.history],
                number % NUM_STYLES,
            )
            for number, result in enumerate(results)
        ]
        svg = line_chart(lines, x_label=label, y_label="training loss")
        charts.append({"section": "curves", "title": f"Loss against {name}", "svg": svg})
    return charts
