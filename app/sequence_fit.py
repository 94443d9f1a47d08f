"""Fits of a system to sequences: training by one seed or several at once, and evaluation."""

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from app.fit_settings import FitSettings
from app.progress import fit_with_progress
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.seeds import SeedEnsemble, SeedLoss, stacked_draws
from nerf_posenc.training.system import Evaluation, Passage, SequenceResult, System

# The training loss of a seed is the mean over so many of its last records.
_LAST_RECORDS = 10


def fit_system(
    system: System,
    encoding: str,
    settings: FitSettings,
    num_seeds: int = 1,
    *,
    on_record: Callable[[FitState, Callable[[], Passage | None]], None] = lambda state, predict: (
        None
    ),
) -> SequenceResult:
    """Fit a system with one encoding, and evaluate it on its test data.

    Args:
        system: model and data.
        encoding: one of the system's.
        settings: how to fit.
        num_seeds: models to train at once, with seeds from that of the settings on.
        on_record: callback with the state and a function that gives an example of the test data
            with the predictions of the first model as it is now.

    Raises:
        FloatingPointError: If the loss is not finite.
    """
    seeds = range(settings.seed, settings.seed + num_seeds)
    members = [system.build(encoding, torch.Generator().manual_seed(seed)) for seed in seeds]
    ensemble = SeedEnsemble(members, is_stackable=system.recipe.is_stackable)
    ensemble.to(settings.device)
    state = FitState(ensemble, system.optimizer(members, settings.lr), settings.steps)
    draws = [system.batches(encoding, settings.batch_size, seed) for seed in seeds]
    loss = SeedLoss(system.loss)

    def after_step(state: FitState) -> None:
        system.after_step(members, state.step, state.num_steps)

    def record(state: FitState) -> None:
        loss.record()
        on_record(state, lambda: _preview(system, members[0], encoding))

    fit_with_progress(
        state,
        _on_device(stacked_draws(draws), settings.device),
        settings,
        render_preview=list,
        loss_fn=loss,
        after_step=after_step,
        on_record=record,
        model=describe_fit(system, encoding, num_seeds),
        members=loss,
        loss_text=lambda value: f"loss {value:.2f} {system.recipe.loss_unit}".rstrip(),
    )
    evaluations = [_evaluate(system, member, encoding) for member in members]
    training_losses = [_last_loss(loss.histories, i) for i in range(num_seeds)]
    return SequenceResult(
        encoding=encoding,
        parameters=num_parameters(members[0]),
        seconds=state.seconds,
        steps=state.step,
        history=state.history,
        evaluation=_reported(system, evaluations, training_losses),
        by_seed=[dict(evaluation.scores) for evaluation in evaluations],
        details={"seeds": num_seeds, "training_loss_by_seed": training_losses},
    )


def describe_fit(system: System, encoding: str, num_seeds: int) -> dict[str, Any]:
    """What is saved with a fit, to rebuild its models; see `sequences.load_fit`."""
    return {
        "kind": "sequence",
        "system": system.model,
        "encoding": encoding,
        "seeds": num_seeds,
        "description": system.description(encoding),
    }


def _on_device(draw_batch: DrawBatch, device: torch.device) -> DrawBatch:
    def draw(step: int) -> tuple[Any, torch.Tensor]:
        inputs, targets = draw_batch(step)
        return pytree.tree_map(lambda t: t.to(device), inputs), targets.to(device)

    return draw


@torch.no_grad()
def _evaluate(system: System, member: nn.Module, encoding: str) -> Evaluation:
    """Evaluate a copy on the CPU, so that the trained model stays where and as it is."""
    return system.evaluate(copy.deepcopy(member).cpu().eval(), encoding)


@torch.no_grad()
def _preview(system: System, member: nn.Module, encoding: str) -> Passage | None:
    return system.preview(copy.deepcopy(member).cpu().eval(), encoding)


def _last_loss(histories: Sequence[Sequence[float]], member: int) -> float:
    """Mean training loss of a member at the end; infinite if it took no step."""
    last = [losses[member] for losses in histories[-_LAST_RECORDS:]]
    return statistics.mean(last) if last else float("inf")


def _reported(
    system: System, evaluations: Sequence[Evaluation], training_losses: Sequence[float]
) -> Evaluation:
    """Evaluation of the chosen seed, or of the middle one with the medians of all as scores."""
    if system.recipe.selects_seed:
        return evaluations[training_losses.index(min(training_losses))]
    first = system.measures[0].name
    ordered = sorted(evaluations, key=lambda evaluation: evaluation.scores[first])
    medians = {
        measure.name: statistics.median(e.scores[measure.name] for e in evaluations)
        for measure in system.measures
    }
    return replace(ordered[(len(ordered) - 1) // 2], scores=medians)
