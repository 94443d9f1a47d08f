"""The results of a run as rows of text, and as a table for the terminal."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, FitName
from nerf_posenc_app.values.results import Result

PER_FIT = (
    *("network", "width", "depth", "num_bands"),
    *("optimizer", "lr", "adam_lr", "schedule", "ema_decay", "precision", "batch_size"),
)
"""Details of a fit that say how it was made, beside its encoding."""


def gain(
    result: Result, results: Sequence[Result], measure: Measure, *, digits: int = 15
) -> float | None:
    """How much better a fit is than the one without an encoding; None if that was not fitted whole.

    Of several runs, each is compared within its own.

    Args:
        result: the fit.
        results: all of the table.
        measure: measure of the gain; a lower value is a gain if lower is better.
        digits: digits of the scores, of which the gain is the difference.
    """
    baseline = FitName(BASELINE, run=result.name.run)
    for other in results:
        if other.name == baseline != result.name and other.is_complete:
            mine, theirs = (round(each.scores[measure.name], digits) for each in (result, other))
            more = mine - theirs
            return more if measure.higher_is_better else -more
    return None


def gain_label(measure: Measure) -> str:
    """Heading of the gains, with the unit of the measure."""
    return f"gain ({measure.unit})" if measure.unit else "gain"


def gain_text(result: Result, results: Sequence[Result], measure: Measure) -> str:
    """Format the gain of a fit; a dash if there is none."""
    gained = gain(result, results, measure, digits=measure.digits)
    if gained is None or math.isnan(gained):
        return "-"
    return f"{gained:+.{measure.digits}f}".replace("inf", "∞")


def columns(results: Sequence[Result], measures: Sequence[Measure]) -> list[Measure]:
    """Measures that at least one of the results has."""
    return [m for m in measures if any(m.name in result.scores for result in results)]


def table(results: Sequence[Result], measures: Sequence[Measure]) -> str:
    """Format the results in aligned columns."""
    table_columns = columns(results, measures)
    labels = [measure.label for measure in table_columns]
    rows = [("encoding", "parameters", *labels, "seconds", gain_label(measures[0]))]
    for result in results:
        rows.append(
            (
                result.label,
                f"{result.parameters:,}" if result.parameters else "-",
                *(score_text(result.scores.get(m.name, math.nan), m.digits) for m in table_columns),
                f"{result.seconds:.1f}",
                gain_text(result, results, measures[0]),
            )
        )
    lines = aligned(rows)
    lines.insert(1, "  ".join("-" * len(part) for part in _widest(rows)))
    return "\n".join(lines)


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def fitted_line(results: Sequence[Result], run: Mapping[str, Any]) -> str:
    """How the fits of a table were made, those that were made alike together.

    Args:
        results: the fits of one run.
        run: its description, as in ``metrics.json``.
    """
    alike: dict[str, list[str]] = {}
    for fit in results:
        if not fit.is_reference:
            # A swept value is part of the name.
            swept = fit.name.swept and fit.name.swept[0]
            details = {key: value for key, value in fit.details.items() if key != swept}
            alike.setdefault(_how(details), []).append(fit.label)
    texts = [f"{', '.join(names)}: {how}" for how, names in alike.items() if how]
    config = run.get("config", {})
    texts += [f"seed {config['seed']}"] if "seed" in config else []
    texts += [f"device {run['device']}"] if "device" in run else []
    return "; ".join(texts)


def _how(details: Mapping[str, Any]) -> str:
    """Network, optimizer, precision and batches of a fit."""
    known = {key: value for key in PER_FIT if (value := details.get(key)) is not None}
    parts = []
    if "network" in known:
        # One of the user's own may be called so already.
        network = str(known["network"])
        parts.append(network if network.lower().endswith("network") else f"{network} network")
    if "width" in known:
        layers = f"{known['depth']} x {known['width']}" if "depth" in known else known["width"]
        parts.append(f"{layers} units")
    if "num_bands" in known:
        parts.append(f"{known['num_bands']} bands")
    if "lr" in known:
        parts.append(f"{known['optimizer']} {known['lr']:g}")
    parts += [f"adam {known['adam_lr']:g}"] if "adam_lr" in known else []
    parts += [f"{known['schedule']} schedule".replace("_", " ")] if "schedule" in known else []
    parts += [f"EMA {known['ema_decay']:g}"] if known.get("ema_decay") else []
    parts += [str(known["precision"])] if "precision" in known else []
    parts += [f"batches of {known['batch_size']:,}"] if "batch_size" in known else []
    return ", ".join(parts)


def as_csv(groups: Mapping[str, Sequence[Result]], measures: Sequence[Measure]) -> str:
    """Fits of several runs as comma-separated values, one row each, scores to all digits.

    Args:
        groups: fits of all runs by what was fitted.
        measures: measures, whose names are the columns.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [measure.name for measure in measures]
    head = ["data", "run", "encoding", *PER_FIT, "parameters"]
    writer.writerow([*head, *names, "steps", "seconds"])
    for title, fits in groups.items():
        for fit in fits:
            run, name = fit.name.run or "", str(fit.name.in_run)
            scores = [fit.scores.get(name, "") for name in names]
            details = [fit.details.get(key) for key in PER_FIT]
            known = ("" if value is None else str(value) for value in details)
            texts = map(_cell, (title, run, name, *known))
            writer.writerow([*texts, fit.parameters, *scores, fit.steps, fit.seconds])
    return text.getvalue()


def _widest(rows: Sequence[Sequence[str]]) -> list[str]:
    return [max((row[i] for row in rows), key=len) for i in range(len(rows[0]))]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join cells, the first of a row flush left and the others flush right."""
    rows = [[*map(printable, row)] for row in rows]
    first, *rest = (len(part) for part in _widest(rows))
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], rest)]) for row in rows]
