"""The results of a run as rows of text, and as a table for the terminal."""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, FitName
from nerf_posenc_app.values.results import Result

PER_FIT = (
    *("network", "width", "depth", "num_bands", "sigma"),
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


def spread_text(result: Result, measure: Measure) -> str:
    """Standard deviation over seeds and their number: ``"± 2.06 (3)"``; empty for one seed."""
    values = [seed[measure.name] for seed in result.evaluation.by_seed if measure.name in seed]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return ""
    return f"± {statistics.stdev(values):.{measure.digits}f} ({len(values)})"


def scores_row(
    result: Result, results: Sequence[Result], measures: Sequence[Measure]
) -> tuple[str, ...]:
    """Cells of a fit: its name, parameters, scores with their spread over seeds, and gain."""
    scores = (
        f"{score_text(result.scores.get(m.name, math.nan), m.digits)} {spread_text(result, m)}"
        for m in measures
    )
    return (
        result.label,
        f"{result.parameters:,}" if result.parameters else "-",
        *map(str.strip, scores),
        f"{result.seconds:.1f}",
        gain_text(result, results, measures[0]),
    )


def table(results: Sequence[Result], measures: Sequence[Measure]) -> str:
    """Format the results in aligned columns."""
    table_columns = columns(results, measures)
    labels = [measure.label for measure in table_columns]
    rows = [("encoding", "parameters", *labels, "seconds", gain_label(measures[0]))]
    rows += [scores_row(result, results, table_columns) for result in results]
    lines = aligned(rows)
    lines.insert(1, "  ".join("-" * len(part) for part in _widest(rows)))
    return "\n".join(lines)


def _cell(value: object) -> str:
    """A value as text that no spreadsheet takes for a formula; None is empty."""
    text = "" if value is None else str(value)
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
    parts += [f"sigma {known['sigma']:g}"] if "sigma" in known else []
    if "lr" in known:
        parts.append(f"{known['optimizer']} {known['lr']:g}")
    parts += [f"adam {known['adam_lr']:g}"] if "adam_lr" in known else []
    # The method of a class says no more than that it has one.
    schedule = str(known.get("schedule", "."))
    parts += [] if "." in schedule else [f"{schedule} schedule".replace("_", " ")]
    parts += [f"EMA {known['ema_decay']:g}"] if known.get("ema_decay") else []
    parts += [str(known["precision"])] if "precision" in known else []
    parts += [f"batches of {known['batch_size']:,}"] if "batch_size" in known else []
    return ", ".join(parts)


def as_csv(
    groups: Mapping[str, Sequence[Result]],
    measures: Sequence[Measure],
    about_runs: Mapping[str, Any],
) -> str:
    """Fits of several runs as comma-separated values, one row for each seed.

    Args:
        groups: fits of all runs by what was fitted.
        measures: measures, whose names are the columns; their scores have all digits.
        about_runs: description of the run, as in ``metrics.json``; of several, by their names.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [measure.name for measure in measures]
    head = ["data", "digest", "run", "encoding", "seed", *PER_FIT, "parameters", *names]
    writer.writerow([*head, "steps", "seconds", "device", "nerf_posenc", "torch"])
    for title, fits in groups.items():
        for fit in fits:
            run = about_runs.get(fit.name.run or "", about_runs)
            versions = run.get("versions", {})
            made_by = (run.get("device"), versions.get("nerf_posenc"), versions.get("torch"))
            first_seed = None if fit.is_reference else run.get("config", {}).get("seed", 0)
            one = {**fit.scores, "steps": fit.steps, "seconds": fit.seconds}
            for i, by_seed in enumerate(fit.evaluation.by_seed or [one]):
                values = {**one, **by_seed}
                texts = (
                    *(title, run.get("data", {}).get("digest"), fit.name.run, fit.name.in_run),
                    None if first_seed is None else f"{first_seed + by_seed.get('seed', i):.0f}",
                    *map(fit.details.get, PER_FIT),
                )
                scores = (values.get(name, "") for name in names)
                took = round(values["steps"]), values["seconds"]
                writer.writerow(
                    [*map(_cell, texts), fit.parameters, *scores, *took, *map(_cell, made_by)]
                )
    return text.getvalue()


def as_tex(groups: Mapping[str, Sequence[Result]], measures: Sequence[Measure]) -> str:
    """Fits of several runs as a table for LaTeX, with the package ``booktabs``.

    Args:
        groups: fits of all runs by what was fitted.
        measures: columns of the table.
    """
    shown = columns([fit for fits in groups.values() for fit in fits], measures)
    head = ["encoding", "parameters", *(m.label for m in shown), "seconds", gain_label(shown[0])]
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule", _tex_row(head)]
    for title, fits in groups.items():
        lines += [r"\midrule", rf"\multicolumn{{{len(head)}}}{{l}}{{{_tex(title)}}} \\"]
        lines += [_tex_row(scores_row(fit, fits, shown)) for fit in fits]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _tex_row(cells: Sequence[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _tex(text: str) -> str:
    """A text without what LaTeX takes for a command."""
    escaped = {char: f"\\{char}" for char in "&%$#_{}"}
    escaped |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    escaped |= {"±": r"$\pm$", "∞": r"$\infty$"}
    return "".join(escaped.get(char, char) for char in printable(text))


def _widest(rows: Sequence[Sequence[str]]) -> list[str]:
    return [max((row[i] for row in rows), key=len) for i in range(len(rows[0]))]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join cells, the first of a row flush left and the others flush right."""
    rows = [[*map(printable, row)] for row in rows]
    first, *rest = (len(part) for part in _widest(rows))
    return ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], rest)]) for row in rows]
