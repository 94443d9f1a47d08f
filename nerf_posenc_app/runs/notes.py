"""Notes on the results of a run: fits that ended early or were too short, and how seeds differ."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonConfig, CommonOptions
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
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
    return [*kind.notes(shown, config), *ended, *_directions(kind.measures(config))]


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


def _directions(measures: Sequence[Measure]) -> list[str]:
    """Name the measures of which less is better."""
    lower = [measure.label for measure in measures if not measure.higher_is_better]
    return [f"lower is better for {', '.join(lower)}"] if lower else []
