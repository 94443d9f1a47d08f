"""Comparison of runs that fitted sequences."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.report.metrics_file import Metrics
from app.report.sequence_page import write_sequence_page
from nerf_posenc.training.system import SequenceResult


def write_sequence_comparison(
    path: Path, title: str, runs: Mapping[str, Metrics], details: Mapping[str, Any]
) -> list[SequenceResult]:
    """Write one page that compares several runs of sequences.

    Args:
        path: HTML file.
        title: of the page.
        runs: by the names that the fits are given.
        details: what reproduces the runs.

    Returns:
        All fits, named by run and encoding.

    Raises:
        ValueError: If the runs have different columns, so that no column could hold them all.
    """
    first_label, first = next(iter(runs.items()))
    results: list[SequenceResult] = []
    for label, run in runs.items():
        if _columns(run) != _columns(first):
            raise ValueError(
                f"{first_label} and {label} measure different things "
                f"({first.measures[0].label} and {run.measures[0].label}, or at other lengths); "
                "compare runs of one model and one --context"
            )
        for fit in run.fits:
            assert isinstance(fit, SequenceResult)
            results.append(replace(fit, encoding=f"{label}: {fit.encoding}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_sequence_page(
        path,
        title,
        results,
        details,
        measures=first.measures,
        lesson=" ".join(dict.fromkeys(run.lesson for run in runs.values())),
        citations=list(dict.fromkeys(each for run in runs.values() for each in run.citations)),
    )
    return results


def _columns(run: Metrics) -> list[tuple[str, str]]:
    """What tells columns apart; their explanations may be worded otherwise in an older run."""
    return [(measure.name, measure.label) for measure in run.measures]
