"""Task-agnostic training loop: batches and a loss function in, a trained model out."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.cuda_graph import CapturedStep
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc.training.schedules import cosine_decay


class ShownLoss(NamedTuple):
    """A loss, and the part of it that the history keeps, such as the error without penalties."""

    loss: Tensor
    shown: Tensor

    def sum(self) -> Tensor:
        """What the gradient is taken of."""
        return self.loss.sum()

    def detach(self) -> Tensor:
        """What the history keeps."""
        return self.shown.detach()


Loss = Callable[[Any, Any], Tensor | ShownLoss]
"""From a batch's prediction and targets to a scalar, or to the loss of each of several models."""

TakeStep = Callable[[tuple[Any, Any]], Tensor]
"""One gradient step: from a batch, inputs and targets, to its loss."""


@dataclass(frozen=True)
class Record:
    """One point of a fit's history.

    Attributes:
        step: steps taken.
        seconds: training time so far.
        loss: mean loss over the steps since the previous record.
    """

    step: int
    seconds: float
    loss: float


@dataclass
class FitState:
    """Everything that a fit needs to continue: saved and loaded, it continues to the same bits.

    Attributes:
        model: the model that is trained.
        optimizer: its optimizer, with its moments.
        num_steps: length of the whole fit, which the learning-rate schedule spans; if that is given
            in seconds, an estimate until the fit is complete.
        step: steps taken.
        seconds: training time so far.
        history: records so far.
        losses: losses of the steps since the last record.
        member_losses: mean loss of each of several models in one, at every record.
        limit_seconds: length of the whole fit in seconds of training, which the schedule spans
            instead; None for a length in steps.
    """

    model: nn.Module
    optimizer: OptimizerGroup
    num_steps: int
    step: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    member_losses: list[list[float]] = field(default_factory=list)
    limit_seconds: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all steps are taken."""
        return self.step == self.num_steps

    @property
    def length(self) -> str:
        """Length of the whole fit with its unit."""
        return _length(self.num_steps, self.limit_seconds)

    def progress_at(self, seconds: float) -> float:
        """Progress of the fit in [0, 1) before its next step, at so many seconds of training."""
        if self.limit_seconds is None:
            return self.step / self.num_steps
        return min(seconds / self.limit_seconds, 1 - 1e-6)

    def estimate_length(self, seconds: float) -> None:
        """Find the number of steps of a fit whose length is given in seconds, after each step."""
        if self.limit_seconds is None:
            return
        if seconds >= self.limit_seconds:
            self.num_steps = self.step
        else:
            estimate = round(self.step * self.limit_seconds / max(seconds, 1e-6))
            self.num_steps = max(self.step + 1, estimate)

    def state_dict(self) -> dict[str, Any]:
        """Return plain containers and tensors, for ``save_checkpoint`` or ``torch.save``.

        A complete fit leaves out its optimizer, which is needed no more.
        """
        optimizer = {} if self.is_complete else {"optimizer": self.optimizer.state_dict()}
        return {
            "model": self.model.state_dict(),
            **optimizer,
            "num_steps": self.num_steps,
            "limit_seconds": self.limit_seconds,
            "step": self.step,
            "seconds": self.seconds,
            "history": [asdict(record) for record in self.history],
            "losses": [loss.tolist() for loss in self.losses],
            "member_losses": [list(each) for each in self.member_losses],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume a saved fit of the same model, optimizer and length.

        Raises:
            ValueError: If the length differs, since the schedule would jump, or the model or the
                optimizer is another one.
        """
        saved, own = _length(state["num_steps"], state.get("limit_seconds")), self.length
        if saved != own:
            raise ValueError(
                f"the saved fit is {saved} long and this one {own}; give both the same length"
            )
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"the saved fit is of another model: {reason}") from None
        self.num_steps = state["num_steps"]
        if state["step"] < self.num_steps:
            self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])
        self.history = [
            Record(int(record["step"]), float(record["seconds"]), float(record["loss"]))
            for record in state["history"]
        ]
        device = next(self.model.parameters()).device
        self.losses = [torch.tensor(loss, device=device) for loss in state["losses"]]
        self.member_losses = [[float(loss) for loss in each] for each in state["member_losses"]]


def _length(num_steps: int, limit_seconds: float | None) -> str:
    return f"{num_steps} steps" if limit_seconds is None else f"{limit_seconds:g} seconds"


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error, in float32 whatever type the network ran in."""
    return (prediction.float() - target).square().mean()


def weighted_mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error by the weight in the last column of the target, in float32."""
    return (target[:, -1:] * (prediction.float() - target[:, :-1]).square()).mean()


class Training:
    """The loop of a fit around its gradient steps.

    ```python
    for step in training.steps():
        training.record(take_step(draw_batch(step)))
    ```

    The device is only waited for when a record is due, so that it never idles in between. A fit
    that stops between two records keeps its losses, so that it goes on as if it had not stopped.

    Args:
        state: the fit, new or resumed; it is changed in place.
        schedule: function from progress in [0, 1) to the factor of the learning rates.
        record_every: steps from one record to the next.
        after_step: callback after each step, for example to update an occupancy grid.
        on_record: callback after each record, for example a progress bar; its time does not count
            as training time. The model is in evaluation mode.
        should_stop: checked before each step, for example ``threading.Event().is_set``.
    """

    def __init__(
        self,
        state: FitState,
        *,
        schedule: Callable[[float], float] = cosine_decay,
        record_every: int = 10,
        after_step: Callable[[FitState], None] | None = None,
        on_record: Callable[[FitState], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.state, self.schedule, self.record_every = state, schedule, record_every
        self.after_step, self.on_record, self.should_stop = after_step, on_record, should_stop
        self._started = 0.0

    def steps(self) -> Iterator[int]:
        """Numbers of the steps to take, with the learning rates set; `record` ends each step."""
        state = self.state
        # A resumed fit continues from its training time so far.
        self._started = time.perf_counter() - state.seconds
        state.model.train()
        while state.step < state.num_steps and not self.should_stop():
            # Progress in steps or seconds, whichever limits the fit.
            progress = state.progress_at(time.perf_counter() - self._started)
            state.optimizer.scale_lrs(self.schedule(progress))
            yield state.step
        if state.losses:
            state.seconds = time.perf_counter() - self._started
        state.model.eval()

    def record(self, loss: Tensor) -> None:
        """Count a step and its loss.

        Args:
            loss: scalar, or the loss of each of several models in one. It is a tensor, since to
                read its number would wait for the device at every step.

        Raises:
            FloatingPointError: If the mean loss since the last record is not finite.
        """
        state = self.state
        state.losses.append(loss)
        state.step += 1
        state.estimate_length(time.perf_counter() - self._started)
        if self.after_step is not None:
            self.after_step(state)
        if state.step % self.record_every != 0 and state.step != state.num_steps:
            return
        means = torch.stack(state.losses).mean(0)
        mean = float(means.mean())
        state.losses = []
        state.seconds = time.perf_counter() - self._started
        if not math.isfinite(mean):
            raise FloatingPointError(
                f"the loss became {mean} at step {state.step}; use a smaller learning rate"
            )
        state.history.append(Record(state.step, state.seconds, mean))
        if means.ndim:
            state.member_losses.append(means.tolist())
        if self.on_record is not None:
            state.model.eval()
            self.on_record(state)
            state.model.train()
            # Time in the callback, such as an evaluation, does not count as training.
            self._started = time.perf_counter() - state.seconds


def fit(
    state: FitState,
    draw_batch: DrawBatch,
    loss_fn: Loss = mse,
    *,
    forward: Callable[[Any], Any] | None = None,
    schedule: Callable[[float], float] = cosine_decay,
    autocast_dtype: torch.dtype | None = None,
    compiled: bool = False,
    captured: bool = False,
    record_every: int = 10,
    after_step: Callable[[FitState], None] | None = None,
    on_record: Callable[[FitState], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> FitState:
    """Train a model to the end of its fit, or until it is told to stop.

    A fit of so many seconds takes as many steps as the clock allows, one at least: it is not
    reproduced to the same bits.

    Args:
        state: the fit, new or resumed; it is changed in place.
        draw_batch: function from the step to its inputs and targets.
        loss_fn: function from prediction and targets to a scalar, or to a `ShownLoss`. Of several
            models in one, the loss of each: the gradient is that of the sum, so that each model's
            is its own, and the history is their mean.
        forward: function from the inputs of a batch to the prediction; None is the model itself.
        schedule: see `Training`, as for the arguments that follow ``captured``.
        autocast_dtype: run the forward pass under autocast in this type; None is float32.
        compiled: run the forward and backward pass through ``torch.compile``; batches must keep
            their shape.
        captured: capture a step as a CUDA graph, on a device that has them, and replay it;
            [CapturedStep][nerf_posenc.training.cuda_graph.CapturedStep] says what it asks of a
            step. Other devices take the same steps without.
        record_every: steps from one record to the next.
        after_step: callback after each step.
        on_record: callback after each record.
        should_stop: checked before each step.

    Returns:
        The same state; its model is in evaluation mode.

    Raises:
        FloatingPointError: If the loss is not finite.
    """
    predict = predictor(state.model, forward, autocast_dtype=autocast_dtype, compiled=compiled)
    training = Training(
        state,
        schedule=schedule,
        record_every=record_every,
        after_step=after_step,
        on_record=on_record,
        should_stop=should_stop,
    )

    def take_step(batch: tuple[Any, Any]) -> Tensor:
        inputs, targets = batch
        state.optimizer.zero_grad()
        loss = loss_fn(predict(inputs), targets)
        loss.sum().backward()
        state.optimizer.step()
        return loss.detach()

    step_as_told = captured_step(take_step, state) if captured else take_step
    for step in training.steps():
        training.record(step_as_told(draw_batch(step)))
    return state


def predictor(
    model: nn.Module,
    forward: Callable[[Any], Any] | None = None,
    *,
    autocast_dtype: torch.dtype | None = None,
    compiled: bool = False,
) -> Callable[[Any], Any]:
    """Function from the inputs of a batch to the prediction, as it is trained; see `fit`."""
    device = next(model.parameters()).device
    run = model if forward is None else forward
    if compiled:
        run = torch.compile(run, dynamic=False)

    def predict(inputs: Any) -> Any:
        with autocast(device, autocast_dtype):
            return run(inputs)

    return predict


def captured_step(take_step: TakeStep, state: FitState) -> TakeStep:
    """The step as a CUDA graph, on a device that has them; else the step as it is."""
    device = next(state.model.parameters()).device
    if device.type != "cuda":
        return take_step
    state.optimizer.make_capturable(device)
    return CapturedStep(take_step, device)


@torch.no_grad()
def predict(model: Callable[[Tensor], Tensor], inputs: Tensor, *, chunk_size: int = 8192) -> Tensor:
    """Outputs for all inputs in float32, in chunks that stay in a CPU's cache.

    Args:
        model: function from ``(n, in_dim)`` to ``(n, out_dim)``.
        inputs: one row per example.
        chunk_size: rows in a chunk.
    """
    return torch.cat([model(chunk).float() for chunk in inputs.split(chunk_size)])
