"""Tasks on sequences: a system of the literature, fitted by one seed or by several at once."""

import copy
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import torch
from torch import nn
from torch.utils import _pytree as pytree

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc_app.kinds.kind import Fit, Kind, Problem, digest_of
from nerf_posenc_app.options import CommonOptions, Open, UsageError, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.names import GUESS, FitName
from nerf_posenc_app.values.results import Result
from nerf_posenc_sequences import SequenceError, open_sequence
from nerf_posenc_sequences.ensemble import Ensemble, member_batches, member_losses
from nerf_posenc_sequences.system import System, SystemOptions

# The training loss of a seed is the mean over this many of its last records.
_LAST_RECORDS = 10


@dataclass(frozen=True, kw_only=True)
class TaskOptions(CommonOptions[Open], SystemOptions):
    """Fit a published sequence model to a task.

    Encodings, depending on the model: none sinusoidal learned rotary and others. A wrong name
    prints the list.

      train_fit.py --task stories --model memn2n
    """

    task: str = "topics"
    """Text (.txt), pairs or labeled sentences (.tsv), folder of bAbI tasks, or built-in data:
    topics, stories, numbers, chapters, indexing."""

    def check(self) -> None:
        """Check ranges."""
        super().check()
        for name in ("context", "heads", "hops", "beam"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"--{name} must be 1 or more; got {value}")
        is_weight = math.isfinite(self.penalty) and self.penalty >= 0
        require(is_weight, f"--penalty must be 0 or more; got {self.penalty:g}")


TaskConfig = TaskOptions[Never]


class TaskKind(Kind[TaskConfig]):
    """A system with its data."""

    name = "task"
    Options = TaskOptions

    def __init__(self, options: TaskOptions, system: System | None = None) -> None:
        try:
            self.system = system or open_sequence(options.task, options)
        except SequenceError as error:
            raise UsageError(str(error)) from None
        self.title = printable(self.system.name)
        self.source = printable(self.system.source)
        self.about, self.citations = self.system.lesson, self.system.citations
        self.notes_on_data = self.system.notes()
        self.facts = {"model": self.system.model}
        unit, scale = ("bits", math.log(2)) if self.system.defaults.is_likelihood else ("", 1.0)
        self.training = TrainingScore(
            Measure("loss", "loss", unit, 3, higher_is_better=False), lambda loss: loss / scale
        )

    def summary(self, config: TaskConfig) -> list[str]:
        """Source, and how much there is to train and to test."""
        return [f"task     {self.source}", *self.system.summary()]

    def digest(self) -> str:
        """Checksum of all data."""
        return digest_of((tensor.shape, [tensor]) for tensor in self.system.data())

    def resolve(self, options: TaskOptions) -> TaskConfig:
        """Take what was not asked for from the defaults of the system."""
        system, defaults = self.system, self.system.defaults
        encodings = options.encodings or system.default_encodings
        unknown = [encoding for encoding in encodings if encoding not in system.encodings]
        require(
            not unknown,
            f"--model {system.model} takes the encodings {', '.join(system.encodings)}, not "
            f"{', '.join(unknown)}",
        )
        precision = "float32" if options.precision == "auto" else options.precision
        return self.with_defaults(
            replace(options, model=system.model, precision=precision),
            encodings=encodings,
            steps=defaults.steps,
            batch_size=defaults.batch_size,
            lr=defaults.lr,
        )

    def fit_names(self, config: TaskConfig) -> Sequence[FitName]:
        """One fit for each encoding, with all seeds at once."""
        return [FitName(encoding) for encoding in config.encodings]

    def references(self, config: TaskConfig) -> Mapping[str, Callable[[], Result]]:
        """Scores of a guess."""

        def compute() -> Result:
            return Result(
                name=FitName(GUESS),
                seconds=0.0,
                evaluation=Evaluation(self.system.guess()),
                is_reference=True,
            )

        return {GUESS: compute}

    def measures(self, config: TaskConfig) -> Sequence[Measure]:
        """Measures of the system."""
        return self.system.measures

    def build(
        self, name: FitName, config: TaskConfig, generator: torch.Generator
    ) -> tuple[Ensemble, dict[str, Any]]:
        """One model per seed, as an ensemble."""
        seeds = range(config.seed, config.seed + config.num_seeds)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        members = [self.system.build(name.encoding, each) for each in generators]
        return Ensemble(members), {
            "kind": self.name,
            "system": self.system.model,
            "encoding": name.encoding,
            "num_seeds": config.num_seeds,
            "description": self.system.description(name.encoding),
        }

    def problem(self, model: nn.Module, description: dict[str, Any], config: TaskConfig) -> Problem:
        """Batches of every seed, and the loss of each."""
        assert isinstance(model, Ensemble)
        system, members, encoding = self.system, list(model.members), description["encoding"]
        lr = config.lr or system.defaults.lr
        seeds = range(config.seed, config.seed + config.num_seeds)
        draws = [system.batches(encoding, config.batch_size, seed) for seed in seeds]
        return Problem(
            draw_batch=_on_device(member_batches(draws), torch.device(config.device)),
            optimizer=system.optimizer(members, lr),
            description=description,
            loss=member_losses(system.loss),
            schedule=system.schedule,
            autocast_dtype=torch.bfloat16 if config.precision == "bfloat16" else None,
            details={
                "network": system.model,
                "width": getattr(system, "width", None),
                "depth": getattr(system, "depth", None),
            },
        )

    @torch.no_grad()
    def evaluate(self, fit: Fit[TaskConfig]) -> Evaluation:
        """Evaluation of the chosen seed, or of the middle one with the medians of all as scores."""
        assert isinstance(fit.model, Ensemble)
        system = self.system
        # Copies on the CPU, so that the trained models stay where and as they are.
        evaluations = [
            system.evaluate(copy.deepcopy(member).cpu().eval(), fit.name.encoding)
            for member in fit.model.members
        ]
        by_seed = [dict(evaluation.scores) for evaluation in evaluations]
        losses = [_last_loss(fit.state.member_losses, i) for i in range(len(evaluations))]
        details = {"num_seeds": fit.config.num_seeds, "training_loss_by_seed": losses}
        if system.defaults.selects_seed:
            best = evaluations[losses.index(min(losses))]
            return replace(best, by_seed=by_seed, details=details)
        first = system.measures[0].name
        ordered = sorted(evaluations, key=lambda evaluation: evaluation.scores[first])
        medians = {
            measure.name: statistics.median(scores[measure.name] for scores in by_seed)
            for measure in system.measures
        }
        middle = ordered[(len(ordered) - 1) // 2]
        return replace(middle, scores=medians, by_seed=by_seed, details=details)


def _on_device(draw_batch: DrawBatch, device: torch.device) -> DrawBatch:
    def draw(step: int) -> tuple[Any, Any]:
        batch: tuple[Any, Any] = pytree.tree_map(lambda t: t.to(device), draw_batch(step))
        return batch

    return draw


def _last_loss(losses: Sequence[Sequence[float]], member: int) -> float:
    """Mean training loss of a member at the end; infinite if it took no step."""
    last = [each[member] for each in losses[-_LAST_RECORDS:]]
    return statistics.mean(last) if last else float("inf")
