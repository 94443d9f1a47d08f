"""Fits in memory, for tests of what a fit becomes."""

from typing import Any

from nerf_posenc_app.kinds.kind import Fit, Kind
from nerf_posenc_app.options import CommonOptions
from nerf_posenc_app.runs.stop import Stop
from nerf_posenc_app.runs.train import begin_fit, result_of, training
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import TrainingScore
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from train_fit import train


def resolved(kind: Kind[Any], **options: Any) -> Any:
    """Configuration of a run on the CPU with these options, as `Kind.Options` names them."""
    asked = kind.Options(**{"device": "cpu", "quiet": True, "video": 0, **options})
    config: CommonOptions = kind.resolve(asked)
    return config


def fit_alone(kind: Kind[Any], name: FitName, config: Any) -> Result:
    """Train one fit in this process, without a file, and evaluate."""
    fit = begin_fit(kind, name, config)
    train_alone(fit, kind.training)
    return result_of(kind, fit)


def train_alone(fit: Fit[Any], score: TrainingScore, stop: Stop | None = None) -> None:
    """Take the steps of a fit in this process, without a file."""
    with training(fit, stop or Stop(), score=score) as session:
        train(fit, session)


def fitted(kind: Kind[Any], encoding: str, **options: Any) -> Result:
    """Fit with one encoding in memory."""
    return fit_alone(kind, FitName(encoding), resolved(kind, encodings=(encoding,), **options))


def blocks_of(evaluation: Evaluation, kind: type) -> list[Any]:
    """Blocks of one type."""
    return [block for block in evaluation.blocks if isinstance(block, kind)]
