"""How a fit is run and watched: its settings, its progress, its snapshots, its early end."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from app.report import Snapshot
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.radiance.rays import Camera
from nerf_posenc.training import recipes
from nerf_posenc.training.loop import DrawBatch, FitState, Loss, cosine_decay, fit, mse


@runtime_checkable
class Audience(Protocol):
    """Who watches fits as they go on, told of each record. Its time is not training time."""

    def watch_picture(self, name: str, state: FitState, show: Callable[[], Tensor]) -> None:
        """See a picture's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            show: gives the picture as it is now, ``(height, width, 3)``, few pixels of a large one.
        """

    def watch_field(
        self, name: str, state: FitState, look: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """See a field's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            look: from a camera and its pose ``(4, 4)`` to what it sees, ``(height, width, 3)``.
        """


class Nobody:
    """An audience that does not look."""

    def watch_picture(self, name: str, state: FitState, show: Callable[[], Tensor]) -> None:
        """Do nothing."""

    def watch_field(
        self, name: str, state: FitState, look: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Training:
    """How to fit.

    Attributes:
        num_steps: of the optimizer.
        batch_size: pixels or rays a step.
        optimizer: ``"muon"``, with Adam on the rest, or ``"adam"``.
        rate: peak learning rate, of Muon where it is Muon's.
        device: where to compute.
        autocast_dtype: type the network trains in; None for float32.
        seed: of the weights and the batches.
        quiet: show no progress.
        num_snapshots: to take of each fit on its way; 0 for none, else 2 or more.
        audience: who watches, as a page in a browser.
        compiled: run the model through ``torch.compile``, as
            [fit][nerf_posenc.training.loop.fit] does.
        adam_rate: peak rate of Adam beside Muon; None for its default.
        schedule: from progress in [0, 1) to the factor of the rates.
        mean_decay: leave the model with the exponential mean of its weights, of which each step
            keeps this share; None for the last weights.
    """

    num_steps: int
    batch_size: int
    optimizer: recipes.Optimizer
    rate: float
    device: torch.device
    autocast_dtype: torch.dtype | None = None
    seed: int = 0
    quiet: bool = True
    num_snapshots: int = 0
    audience: Audience = field(default_factory=Nobody)
    compiled: bool = False
    adam_rate: float | None = None
    schedule: Callable[[float], float] = cosine_decay
    mean_decay: float | None = None


def fit_with_progress(
    state: FitState,
    draw_batch: DrawBatch,
    name: str,
    training: Training,
    *,
    loss_fn: Loss = mse,
    after_step: Callable[[FitState], None] | None = None,
    shoot: Callable[[], Sequence[Tensor]],
    watch: Callable[[FitState], None],
) -> list[Snapshot]:
    """Run a fit with a progress bar and snapshots; a first Ctrl-C ends it early."""
    bar = tqdm(total=state.num_steps, desc=f"{name:8}", unit="step", disable=training.quiet)
    snapshots: list[Snapshot] = []
    count = training.num_snapshots
    # A fit changes most at its beginning.
    due = [state.num_steps * (i / (count - 1)) ** 2 for i in range(count)]

    def take_snapshot(state: FitState) -> None:
        snapshots.append(Snapshot(state.step, psnr_from_mse(state.history[-1].loss), shoot()))

    def show(state: FitState) -> None:
        bar.set_postfix_str(f"PSNR {psnr_from_mse(state.history[-1].loss):.2f} dB", refresh=False)
        bar.update(state.step - bar.n)
        if due and state.step >= due[0]:
            take_snapshot(state)
            while due and state.step >= due[0]:
                del due[0]
        watch(state)

    mean: AveragedModel | None = None
    if training.mean_decay is not None:
        mean = AveragedModel(state.model, multi_avg_fn=get_ema_multi_avg_fn(training.mean_decay))

    def follow(state: FitState) -> None:
        if mean is not None:
            mean.update_parameters(state.model)
        if after_step is not None:
            after_step(state)

    with bar, _ends_early_on_ctrl_c() as interrupted:
        fit(
            state,
            draw_batch,
            loss_fn,
            schedule=training.schedule,
            autocast_dtype=training.autocast_dtype,
            compiled=training.compiled,
            after_step=follow,
            on_record=show,
            should_stop=lambda: bool(interrupted),
        )
    if mean is not None:
        state.model.load_state_dict(mean.module.state_dict())
        if snapshots and snapshots[-1].step == state.step:
            # The end is what the mean shows.
            due = [snapshots.pop().step]
    if due and state.step:
        take_snapshot(state)
    return snapshots


@contextlib.contextmanager
def _ends_early_on_ctrl_c() -> Iterator[list[bool]]:
    """Let a first Ctrl-C fill the list that is given, and a second one stop the program."""
    interrupted: list[bool] = []

    def note(signum: int, frame: Any) -> None:
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(True)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
