"""The result of a fit: scores and blocks, its history, and previews of its training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.names import FitName

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True)
class Snapshot:
    """Previews of a fit in progress.

    Attributes:
        step: steps taken.
        score: training score of the last batches, by the kind's `TrainingScore`.
        images: values in [0, 1], of the same content in every snapshot of a fit.
    """

    step: int
    score: float
    images: Sequence[Float[Tensor, "_height _width 3"]]


@dataclass(frozen=True)
class Point:
    """One point of a training curve.

    Attributes:
        step: steps taken.
        seconds: training time so far.
        score: score of the batches since the point before.
        deviation: standard deviation of the score over seeds; 0 for one seed.
    """

    step: int
    seconds: float
    score: float
    deviation: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """One fit, complete or ended early, or a reference that takes no training.

    Attributes:
        name: name of the fit, or of the reference.
        parameters: number of trainable parameters; 0 if there is no model.
        seconds: training time.
        steps: steps taken.
        evaluation: scores and blocks.
        history: training score at each record.
        snapshots: previews during the fit, for the training video.
        details: further values for ``metrics.json``, with the settings that the fit was trained
            with, as its model and its optimizer have them.
        is_reference: whether it is a reference.
        is_complete: whether it took all its steps or seconds; False if it was ended early.
    """

    name: FitName
    seconds: float
    evaluation: Evaluation
    parameters: int = 0
    steps: int = 0
    history: Sequence[Point] = ()
    snapshots: Sequence[Snapshot] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    is_reference: bool = False
    is_complete: bool = True

    @property
    def label(self) -> str:
        """Name of the fit as text."""
        return str(self.name)

    @property
    def scores(self) -> Mapping[str, float]:
        """Scores on test data, by the name of the measure."""
        return self.evaluation.scores

    def blocks(self, kind: type) -> list[Any]:
        """Blocks of one type."""
        return [block for block in self.evaluation.blocks if isinstance(block, kind)]


def over_seeds(results: Sequence[Result]) -> list[Result]:
    """Results with the repetitions of each fit as one: the first, with the means of all scores.

    Training curves are means too, at the steps that all have. Images, models and what is computed
    of them are those of the first.

    Args:
        results: fits of a run; those whose names have an extra seed are repetitions.
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        name = result.name.encoding if result.name.extra_seed else result.label
        groups.setdefault(name, []).append(result)
    return [_mean(group) for group in groups.values()]


def _spread(values: Sequence[float]) -> float:
    """Standard deviation; NaN where a score is not finite."""
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _mean(group: Sequence[Result]) -> Result:
    first = group[0]
    if len(group) == 1:
        return first
    by_seed = [
        {
            **result.scores,
            "steps": result.steps,
            "seconds": result.seconds,
            "seed": result.name.extra_seed,
        }
        for result in group
    ]
    means = {name: statistics.mean(scores[name] for scores in by_seed) for name in first.scores}
    return replace(
        first,
        seconds=statistics.mean(result.seconds for result in group),
        history=[
            Point(
                points[0].step,
                statistics.mean(point.seconds for point in points),
                statistics.mean(point.score for point in points),
                _spread([point.score for point in points]),
            )
            for points in zip(*(result.history for result in group), strict=False)
            if len({point.step for point in points}) == 1
        ],
        evaluation=replace(first.evaluation, scores=means, by_seed=by_seed),
        details={**first.details, "num_seeds": len(group)},
        is_complete=all(result.is_complete for result in group),
    )
