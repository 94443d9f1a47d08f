"""A fit with a progress bar, snapshots, a viewer, a file and an early end."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from app.fit_settings import FitSettings
from app.report.eight_bit import eight_bit
from app.snapshots import Snapshots
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.distributed import PeerError
from nerf_posenc.training.loop import FitState, Loss, fit, mse
from nerf_posenc.training.results import Snapshot

# With a score of fewer than 100 dB a bar takes 79 columns.
_NAME_COLUMNS = 19
_BAR_FORMAT = (
    "{desc} {percentage:3.0f}% |{bar:11}| {n_fmt:>5}/{total_fmt:<5} {remaining:>5} left{postfix}"
)


def fit_with_progress(
    state: FitState,
    draw_batch: DrawBatch,
    settings: FitSettings,
    *,
    render_preview: Callable[[], Sequence[Tensor]],
    loss_fn: Loss = mse,
    forward: Callable[[Any], Any] | None = None,
    after_step: Callable[[FitState], None] | None = None,
    on_record: Callable[[FitState], None] = lambda state: None,
    model: Mapping[str, Any] | None = None,
    members: "SavedHistory | None" = None,
    loss_text: Callable[[float], str] = lambda loss: f"PSNR {psnr_from_mse(loss):.2f} dB",
) -> list[Snapshot]:
    """Run a fit with a progress bar and snapshots; resume it if its file has a part of it.

    Args:
        state: the fit; it is changed in place.
        draw_batch: from the step to its inputs and targets.
        settings: how to fit.
        render_preview: renders the images of a snapshot.
        loss_fn: from prediction and targets to a scalar.
        forward: from the inputs of a batch to the prediction; None is the model itself.
        after_step: callback after each step.
        on_record: callback after each record; its time does not count as training time.
        model: what rebuilds the model, saved with the fit.
        members: histories of an ensemble's members, saved with the fit.
        loss_text: how the progress bar shows a loss.

    Returns:
        The snapshots.

    Raises:
        CheckpointError: If the file is damaged, of another version or of another fit.
        FloatingPointError: If the loss is not finite.
        PeerError: If another process of the fit has ended; the fit is saved.
        SaveError: If the fit cannot be saved as it ends.
        Stopped: If the run was asked to end.
    """
    session = _Session(state, settings, render_preview, model or {}, members)
    session.restore()
    was_complete = state.is_complete
    bar = _bar(state, settings)

    def step_callback(state: FitState) -> None:
        session.average_weights()
        if after_step is not None:
            after_step(state)

    def record_callback(state: FitState) -> None:
        bar.set_postfix_str(loss_text(state.history[-1].loss), refresh=False)
        bar.update(_done(state) - bar.n)
        session.snapshots.take_if_due(state)
        on_record(state)
        session.save_if_due()

    with bar, settings.stop.training():
        session.fit(
            draw_batch,
            loss_fn,
            forward=forward,
            after_step=step_callback,
            on_record=record_callback,
        )
        sum_up(bar, _summary(state, loss_text))
    if not was_complete:
        session.finish()
    return session.snapshots.taken


def progress_bar(
    name: str, total: int, unit: str, *, initial: int = 0, quiet: bool = False
) -> "tqdm[Any]":
    """Make a progress bar; all bars of a run have one width and one format.

    Args:
        name: what is done, for example an encoding or ``"fourier test views"``.
        total: number of units.
        unit: of the count, in the singular.
        initial: units that were done before.
        quiet: show nothing.
    """
    return tqdm(
        total=total,
        initial=initial,
        desc=f"{name:{_NAME_COLUMNS}}",
        unit=unit,
        disable=quiet,
        bar_format=_BAR_FORMAT,
    )


def sum_up(bar: "tqdm[Any]", text: str | None = None) -> None:
    """Let a progress bar end as a line of text, its count and its time if None is given."""
    if bar.disable:
        return
    if text is None:
        text = f"{bar.n} {bar.unit}s in {bar.format_dict['elapsed']:.1f} s"
    # Braces would be taken for fields.
    bar.bar_format = "{desc} " + text.replace("{", "{{").replace("}", "}}")


def _bar(state: FitState, settings: FitSettings) -> "tqdm[Any]":
    """Progress bar of a fit: of its steps, or of its seconds."""
    limit = state.limit_seconds
    total, unit = (state.num_steps, "step") if limit is None else (math.ceil(limit), "s")
    return progress_bar(settings.name, total, unit, initial=_done(state), quiet=settings.quiet)


def _done(state: FitState) -> int:
    """Steps taken, or whole seconds of a fit whose length is given in seconds."""
    limit = state.limit_seconds
    return state.step if limit is None else min(math.ceil(limit), int(state.seconds))


def _summary(state: FitState, loss_text: Callable[[float], str]) -> str:
    """Steps, seconds and last loss of a fit."""
    is_clocked = state.limit_seconds is not None
    of = "" if state.is_complete or is_clocked else f" of {state.num_steps}"
    steps = f"{state.step}{of}"
    loss = f", {loss_text(state.history[-1].loss)}" if state.history else ""
    limit = "" if state.is_complete or not is_clocked else f" of {state.limit_seconds:g}"
    return f"{steps} steps in {state.seconds:.1f}{limit} s{loss}"


class _Session:
    """A fit with its average, its snapshots and its file."""

    def __init__(
        self,
        state: FitState,
        settings: FitSettings,
        render_preview: Callable[[], Sequence[Tensor]],
        model: Mapping[str, Any],
        members: "SavedHistory | None",
    ) -> None:
        self.state = state
        self._settings = settings
        self.snapshots = Snapshots(settings, render_preview)
        self._average: AveragedModel | None = None
        if settings.ema_decay is not None:
            average = get_ema_multi_avg_fn(settings.ema_decay)
            self._average = AveragedModel(state.model, multi_avg_fn=average)
        self._file = settings.file
        self._model = model
        self._members = members
        self._halved_batch_size = settings.halved_batch_size

    def fit(self, draw_batch: DrawBatch, loss_fn: Loss, **callbacks: Any) -> None:
        """Run the fit, and save it if it ends early.

        Raises:
            PeerError: If another process has ended.
        """
        settings = self._settings
        try:
            fit(
                self.state,
                draw_batch,
                loss_fn,
                schedule=settings.schedule,
                autocast_dtype=settings.autocast_dtype,
                compiled=settings.compiled,
                should_stop=lambda: settings.stop.is_agreed(settings.world),
                world=settings.world,
                **callbacks,
            )
        except PeerError:
            # The state is that after the last step that all took.
            if not self.state.is_complete:
                self.save()
            raise
        if not self.state.is_complete:
            self.save()

    def average_weights(self) -> None:
        """Take a step's weights into the average."""
        if self._average is not None:
            self._average.update_parameters(self.state.model)

    def finish(self) -> None:
        """Give the model its averaged weights, take the last snapshot, save a complete fit."""
        if self._average is not None:
            self.state.model.load_state_dict(self._average.module.state_dict())
        self.snapshots.finish(self.state, weights_changed=self._average is not None)
        if self.state.is_complete:
            self.save()

    def save(self) -> None:
        """Save the fit.

        Raises:
            SaveError: If it cannot be written.
        """
        if self._file is not None:
            self._file.write(self._values())

    def save_if_due(self) -> None:
        """Save a fit in progress if the last save was long enough ago."""
        if self._file is not None and self._file.is_due and not self.state.is_complete:
            self._file.try_to_write(self._values())

    def _values(self) -> dict[str, Any]:
        # The model of a complete fit has its averaged weights already.
        averages = self._average is not None and not self.state.is_complete
        return {
            **checkpoint_values(self.state, self.snapshots.taken, self._model),
            "ema": self._average.state_dict() if averages and self._average else None,
            "halved_batch_size": self._halved_batch_size,
            "members": None if self._members is None else self._members.state_dict(),
        }

    def restore(self) -> None:
        """Go on from what was saved, if anything was.

        Raises:
            CheckpointError: If it is of another fit, or not complete.
        """
        file = self._file
        saved = self._settings.world.from_first(lambda: None if file is None else file.read())
        if saved is None:
            return
        try:
            self.state.load_state_dict(saved["fit"])
            if self._average is not None and saved["ema"] is not None:
                self._average.load_state_dict(saved["ema"])
            self.snapshots.load_state_dict(saved["snapshots"], self.state)
            if self._members is not None:
                self._members.load_state_dict(saved["members"])
        except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, IndexError) as error:
            reason = " ".join(str(error).split())
            path = "the fit" if file is None else file.path
            raise CheckpointError(f"{path} cannot be resumed: {reason}") from None


def checkpoint_values(
    state: FitState, snapshots: Sequence[Snapshot], model: Mapping[str, Any]
) -> dict[str, Any]:
    """What the checkpoint of a fit contains.

    Args:
        state: the fit.
        snapshots: taken so far; 8 bits are saved of them, as a video shows.
        model: what rebuilds the model.
    """
    return {
        "fit": state.state_dict(),
        "ema": None,
        "halved_batch_size": None,
        "snapshots": [
            {
                "step": snapshot.step,
                "psnr": str(snapshot.psnr),
                "images": [torch.from_numpy(eight_bit(image)) for image in snapshot.images],
            }
            for snapshot in snapshots
        ],
        "members": None,
        "model": dict(model),
    }


@runtime_checkable
class SavedHistory(Protocol):
    """Histories beside that of the fit, saved with it."""

    def state_dict(self) -> Any:
        """Return plain containers and tensors."""

    def load_state_dict(self, state: Any) -> None:
        """Go on from what was saved."""
