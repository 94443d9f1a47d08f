"""A fit with a progress bar, snapshots, a viewer and an early end."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from app.fit_settings import FitSettings
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.loop import FitState, Loss, fit, mse
from nerf_posenc.training.results import Snapshot


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
) -> list[Snapshot]:
    """Run a fit with a progress bar and snapshots.

    Args:
        state: the fit; it is changed in place.
        draw_batch: from the step to its inputs and targets.
        settings: how to fit.
        render_preview: renders the images of a snapshot.
        loss_fn: from prediction and targets to a scalar.
        forward: from the inputs of a batch to the prediction; None is the model itself.
        after_step: callback after each step.
        on_record: callback after each record; its time does not count as training time.

    Returns:
        The snapshots.

    Raises:
        FloatingPointError: If the loss is not finite.
    """
    bar = tqdm(
        total=state.num_steps, desc=f"{settings.name:8}", unit="step", disable=settings.quiet
    )
    snapshots = _Snapshots(settings, render_preview)
    average: AveragedModel | None = None
    if settings.ema_decay is not None:
        average = AveragedModel(state.model, multi_avg_fn=get_ema_multi_avg_fn(settings.ema_decay))

    def step_callback(state: FitState) -> None:
        if average is not None:
            average.update_parameters(state.model)
        if after_step is not None:
            after_step(state)

    def record_callback(state: FitState) -> None:
        bar.set_postfix_str(f"PSNR {psnr_from_mse(state.history[-1].loss):.2f} dB", refresh=False)
        bar.update(state.step - bar.n)
        snapshots.take_if_due(state)
        on_record(state)

    with bar:
        fit(
            state,
            draw_batch,
            loss_fn,
            forward=forward,
            schedule=settings.schedule,
            autocast_dtype=settings.autocast_dtype,
            compiled=settings.compiled,
            after_step=step_callback,
            on_record=record_callback,
            should_stop=(lambda: False) if settings.stop is None else settings.stop.is_set,
        )
    if average is not None:
        state.model.load_state_dict(average.module.state_dict())
    snapshots.finish(state, weights_changed=average is not None)
    return snapshots.taken


class _Snapshots:
    """Snapshots of a fit, close together in the beginning, when it changes most."""

    def __init__(self, settings: FitSettings, render: Callable[[], Sequence[Tensor]]) -> None:
        count = settings.num_snapshots
        self.taken: list[Snapshot] = []
        self._render = render
        self._due = [settings.steps * (i / (count - 1)) ** 2 for i in range(count)]

    def take_if_due(self, state: FitState) -> None:
        if self._due and state.step >= self._due[0]:
            self._take(state)
            while self._due and state.step >= self._due[0]:
                del self._due[0]

    def finish(self, state: FitState, *, weights_changed: bool) -> None:
        """Take the last snapshot, again if the weights have changed since."""
        if weights_changed and self.taken and self.taken[-1].step == state.step:
            self.taken.pop()
            self._take(state)
        elif self._due and state.step:
            self._take(state)

    def _take(self, state: FitState) -> None:
        psnr = psnr_from_mse(state.history[-1].loss)
        self.taken.append(Snapshot(state.step, psnr, self._render()))
