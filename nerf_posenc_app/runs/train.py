"""One fit: a model trained with a progress bar, snapshots, a file and an early end."""

import contextlib
import functools
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from nerf_posenc.images import to_eight_bits
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc.training.loop import FitState, TakeStep, Training, captured_step, predictor
from nerf_posenc.training.recipes import OwnEncoding
from nerf_posenc_app.kinds.kind import Config, Fit, Kind, Problem
from nerf_posenc_app.options import CommonConfig
from nerf_posenc_app.runs.saved import FitFile
from nerf_posenc_app.runs.stop import Stop
from nerf_posenc_app.terminal import first_line, print_line, progress_bar
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Point, Result, Snapshot

Watcher = Callable[[str, FitState, Problem], None]
"""Shows a fit in progress, by its name, at every record; no training time."""

OUT_OF_MEMORY = "out of memory; use a smaller --batch-size, --width or --size"
"""What ends a fit, or a command, that needs more memory than there is."""

# Errors of values that are not those of a fit.
_FORGED = (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OverflowError)


class BuildError(RuntimeError):
    """A model cannot be built of the options of a fit; the message is that of the model."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is torch's or Python's for too little memory."""
    # On a CPU torch raises a plain RuntimeError.
    said = ("allocate memory", "DefaultCPUAllocator")
    is_named = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return is_named or any(words in first_line(error) for words in said)


def failure_reason(error: BaseException, *, foreign: str | None = None) -> str:
    """Explain why a fit failed, and what to change.

    Args:
        error: exception that ended the fit.
        foreign: file of the user's or a stranger's code that the fit runs, empty if it is in none;
            such code may raise anything. None if all of the fit is of this project.

    Raises:
        BaseException: The error itself, if no option and no foreign code explains it.
    """
    if isinstance(error, FloatingPointError):
        return f"{error} (--lr)"
    if isinstance(error, CheckpointError):
        return f"{error}; remove the file to fit it again"
    if isinstance(error, BuildError):
        return f"the model cannot be built: {error}"
    if isinstance(error, Exception) and is_out_of_memory(error):
        return OUT_OF_MEMORY
    # By name, since importing these errors takes a second.
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return f"{first_line(error)} (leave out --compile)"
    if foreign is None:
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in frames[::-1] if frame.filename == foreign), frames[-1])
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return f"{type(error).__name__}: {first_line(error)[:500]} ({where})"


def begin_fit(kind: Kind[Config], name: FitName, config: Config) -> Fit[Config]:
    """Build a model and what it is trained on, before the first step.

    Raises:
        BuildError: If the encoder or the network does not take its arguments.
    """
    config = replace(config, seed=config.seed + name.extra_seed)
    own_name = FitName(name.encoding) if name.extra_seed else name
    try:
        model, description = kind.build(
            own_name, config, torch.Generator().manual_seed(config.seed)
        )
    except (ValueError, TypeError, AssertionError) as error:
        raise BuildError(f"{type(error).__name__}: {first_line(error)}") from error
    problem = kind.problem(model.to(config.device), description, config)
    state = FitState(model, problem.optimizer, config.steps, limit_seconds=config.seconds)
    return Fit(name=name, config=config, model=model, problem=problem, state=state)


@contextlib.contextmanager
def training(
    fit: Fit[Config],
    stop: Stop,
    *,
    score: TrainingScore,
    file: FitFile | None = None,
    watchers: Sequence[Watcher] = (),
) -> Iterator["Session"]:
    """Surround the steps of a fit: go on from its file, save it once a minute and as it ends.

    Args:
        fit: the fit, from `begin_fit`; its state is changed in place.
        stop: ends the fit early when asked to.
        score: score of the batches that the progress line and the snapshots show.
        file: file that the fit is saved in; None for nowhere.
        watchers: log the fit in progress.

    Raises:
        CheckpointError: If the file is damaged, of another version or of another fit.
        FloatingPointError: If the loss is not finite.
        SaveError: If the fit cannot be saved as it ends.
        Stopped: If the run was asked to end.
    """
    session = Session(fit, stop, file, score, watchers)
    session.restore()
    was_complete = fit.state.is_complete
    with session.bar, stop.training():
        yield session
        if not was_complete:
            # Inside the fit, so that a signal at the last step does not lose it.
            session.finish()
        # The score is printed when the fit is evaluated.
        session.bar.leave = False


def result_of(kind: Kind[Config], fit: Fit[Config]) -> Result:
    """Evaluate a fit."""
    # An ensemble of several seeds counts as one of its models.
    members = getattr(fit.model, "members", [fit.model])
    evaluation = kind.evaluate(fit)
    first = kind.measures(fit.config)[0]
    if math.isnan(evaluation.scores[first.name]):
        raise FloatingPointError(
            f"its {first.label} is not a number: its weights overflow; use a smaller learning rate"
        )
    problem = fit.problem
    (optimizer, lr), *others = problem.optimizer.peak_lrs.items()
    return Result(
        name=fit.name,
        parameters=num_parameters(members[0]),
        seconds=fit.state.seconds,
        steps=fit.state.step,
        evaluation=evaluation,
        history=[
            Point(record.step, record.seconds, kind.training.score_from_loss(record.loss))
            for record in fit.state.history
        ],
        snapshots=fit.snapshots,
        details={
            **problem.details,
            "optimizer": optimizer,
            "lr": lr,
            **{f"{name}_lr": other for name, other in others},
            "schedule": getattr(problem.schedule, "__qualname__", type(problem.schedule).__name__),
            "ema_decay": problem.ema_decay or 0.0,
            "batch_size": fit.config.batch_size,
            "precision": str(problem.autocast_dtype or torch.float32).removeprefix("torch."),
            **evaluation.details,
        },
        is_complete=fit.state.is_complete,
    )


def _done(state: FitState) -> int:
    """Steps taken, or full seconds of a fit whose length is given in seconds."""
    limit = state.limit_seconds
    return state.step if limit is None else min(math.ceil(limit), int(state.seconds))


def print_ending(result: Result, measure: Measure, config: CommonConfig) -> None:
    """Print the steps, the seconds and the score of a fit, as the table has it."""
    is_over, is_clocked = result.is_complete, config.seconds is not None
    of = "" if is_over or is_clocked else f" of {config.steps}"
    limit = "" if is_over or not is_clocked else f" of {config.seconds:g}"
    score = measure.sentence(result.scores[measure.name])
    text = f"{result.steps}{of} steps in {result.seconds:.1f}{limit} s, {score}"
    print_line(str(result.name), text, quiet=config.quiet)


def _seeded(steps: Callable[[], Iterator[int]], config: CommonConfig) -> Iterator[int]:
    """Numbers of the steps, each with torch's own generator set to a state of its own.

    The user's code may draw from it, as dropout does; a resumed fit then draws the same.
    """
    device = torch.device(config.device)
    gpus = [device.index or 0] if device.type == "cuda" else []
    generators = [torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in gpus)]
    with torch.random.fork_rng(gpus):
        for step in steps():
            for generator in generators:
                generator.manual_seed(config.seed * 1_000_003 + step)
            yield step


class Session:
    """The training of a fit, with its progress bar, average, snapshots and file.

    Attributes:
        bar: progress bar.
        predict: function from the inputs of a batch to the prediction: the model, or what renders
            its field, in the precision of the fit.
        steps: numbers of the steps that are still to be taken; the learning rates are set.
        record: counts a step and its loss.
    """

    def __init__(
        self,
        fit: Fit[Any],
        stop: Stop,
        file: FitFile | None,
        score: TrainingScore,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self._fit, self._file, self._watchers = fit, file, watchers
        self._state, self._problem = state, problem = fit.state, fit.problem
        self._score = score
        # Denser at the start, when a fit changes most; in steps or seconds.
        config = fit.config
        length, count = config.seconds or config.steps, config.video
        self._due = [length * (i / (count - 1)) ** 2 for i in range(count)]
        self._average: AveragedModel | None = None
        if problem.ema_decay is not None:
            average = get_ema_multi_avg_fn(problem.ema_decay)
            self._average = AveragedModel(fit.model, multi_avg_fn=average)
        limit = state.limit_seconds
        total, unit = (state.num_steps, "step") if limit is None else (math.ceil(limit), "s")
        self.bar = progress_bar(
            str(fit.name), total, unit, initial=_done(state), quiet=config.quiet
        )
        self.predict = predictor(
            fit.model,
            problem.forward,
            autocast_dtype=problem.autocast_dtype,
            compiled=problem.compiled,
        )
        loop = Training(
            state,
            schedule=problem.schedule,
            after_step=self._after_step,
            on_record=self._on_record,
            should_stop=lambda: stop.is_requested,
        )
        self.record = loop.record
        is_own = isinstance(fit.name.encoding, OwnEncoding)
        self.steps = functools.partial(_seeded, loop.steps, config) if is_own else loop.steps

    def captured(self, take_step: TakeStep) -> TakeStep:
        """The step as a CUDA graph, if the fit has one; else as it is."""
        return captured_step(take_step, self._state) if self._problem.captured else take_step

    def _after_step(self, state: FitState) -> None:
        if self._average is not None:
            self._average.update_parameters(self._fit.model)
        if self._problem.after_step is not None:
            self._problem.after_step(state)

    def _on_record(self, state: FitState) -> None:
        score = self._score
        text = score.measure.sentence(score.score_from_loss(state.history[-1].loss))
        self.bar.set_postfix_str(f"batches {text}", refresh=False)
        self.bar.update(_done(state) - self.bar.n)
        at = state.step if state.limit_seconds is None else state.seconds
        if self._due and at >= self._due[0]:
            self._take_snapshot()
            self._due = [due for due in self._due if due > at]
        for show in self._watchers:
            show(str(self._fit.name), state, self._problem)
        self.save_if_due()

    def _take_snapshot(self) -> None:
        images = list(self._problem.preview())
        if images:
            score = self._score.score_from_loss(self._state.history[-1].loss)
            self._fit.snapshots.append(Snapshot(self._state.step, score, images))

    def finish(self) -> None:
        """Give the model its averaged weights, and take the last snapshot.

        A fit that ended early is saved before that, to be continued, and a complete one after it.
        """
        if not self._state.is_complete:
            self.save()
        if self._average is not None:
            self._fit.model.load_state_dict(self._average.module.state_dict())
            if self._fit.snapshots and self._fit.snapshots[-1].step == self._state.step:
                # The weights have changed since.
                self._fit.snapshots.pop()
                self._due.append(0)
        if self._due and self._state.history:
            self._take_snapshot()
        if self._state.is_complete:
            self.save()

    def save_if_due(self) -> None:
        """Save a fit in progress if the last save was long enough ago."""
        if self._file is not None and not self._state.is_complete:
            self._file.write_if_due(self.values)

    def save(self) -> None:
        """Save the fit.

        Raises:
            SaveError: If it cannot be written.
        """
        if self._file is not None:
            self._file.write(self.values())

    def values(self) -> dict[str, Any]:
        """Contents of the checkpoint."""
        # The model of a complete fit has its averaged weights already.
        averages = self._average is not None and not self._state.is_complete
        return {
            "fit": self._state.state_dict(),
            "ema": self._average.state_dict() if averages and self._average else None,
            # In 8 bits, as a video shows them.
            "snapshots": [
                {
                    "step": snapshot.step,
                    "score": str(snapshot.score),
                    "images": [to_eight_bits(image).cpu() for image in snapshot.images],
                }
                for snapshot in self._fit.snapshots
            ],
            "model": dict(self._problem.description),
        }

    def restore(self) -> None:
        """Go on from what was saved, if anything was.

        Raises:
            CheckpointError: If it is of another fit, or not complete.
        """
        file = self._file
        if file is None or not file.path.exists():
            return
        saved = load_checkpoint(file.path)
        try:
            self._state.load_state_dict(saved["fit"])
            for record in self._state.history:
                # A loss that no fit has is refused here, where the file is named.
                self._score.score_from_loss(record.loss)
            if self._average is not None and saved["ema"] is not None:
                self._average.load_state_dict(saved["ema"])
            self._restore_snapshots(saved["snapshots"])
        except _FORGED as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{file.path} cannot be resumed: {reason}") from None

    def _restore_snapshots(self, saved: Sequence[Mapping[str, Any]]) -> None:
        self._fit.snapshots[:] = [
            Snapshot(
                int(each["step"]),
                float(each["score"]),
                [image.float() / 255 for image in each["images"]],
            )
            for each in saved
        ]
        if self._fit.snapshots:
            last: float = self._fit.snapshots[-1].step
            if self._state.limit_seconds is not None:
                last = max(r.seconds for r in self._state.history if r.step <= last)
            self._due = [due for due in self._due if due > last]
