"""Notes on the results of a run: fits that ended early or were too short, and how seeds differ."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonConfig, CommonOptions
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.results import Result


def notes_on(
    kind: Kind[Any], config: CommonConfig, results: Sequence[Result], shown: Sequence[Result]
) -> list[str | Doubt]:
    """Remarks on the results: of the kind, on fits that ended early, and on seeds."""
    ended = [
        f"{fit.name} was stopped early, after {_taken(fit, config)}"
        for fit in results
        if not fit.is_complete
    ]
    return [*kind.notes(shown, config), *ended, *_notes_on_seeds(shown, kind, config)]


def _taken(fit: Result, config: CommonConfig) -> str:
    if config.seconds is not None:
        return f"{fit.seconds:.1f} of {config.seconds:g} seconds"
    return f"{fit.steps} of {config.steps} steps"


def too_short(kind: Kind[Any], config: CommonConfig) -> str | None:
    """How many of the usual steps were asked for, if they are less than half; None if enough."""
    options: CommonOptions = config
    usual = kind.resolve(replace(options, steps=None, quiet=True)).steps
    if config.seconds is not None or 2 * config.steps >= usual:
        return None
    return f"{config.steps:,} of the usual {usual:,} steps"


def _notes_on_seeds(results: Sequence[Result], kind: Kind[Any], config: CommonConfig) -> list[str]:
    """Direction of the measures, and how far seeds differ."""
    measures = kind.measures(config)
    lower = [measure.label for measure in measures if not measure.higher_is_better]
    notes = [f"lower is better for {', '.join(lower)}"] if lower else []
    first = measures[0]
    for result in results:
        values = [seed[first.name] for seed in result.evaluation.by_seed]
        if len(values) > 1:
            notes.append(
                f"{result.name}: {len(values)} seeds, {first.label} "
                f"{min(values):.{first.digits}f} to {max(values):.{first.digits}f}"
            )
    return notes
