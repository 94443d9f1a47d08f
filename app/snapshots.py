"""Previews of a fit in progress, for the training video."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from app.fit_settings import FitSettings
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import Snapshot


class Snapshots:
    """Snapshots of a fit, close together in the beginning, when it changes most.

    Args:
        settings: of the fit.
        render: renders the images of a snapshot.

    Attributes:
        taken: so far.
    """

    def __init__(self, settings: FitSettings, render: Callable[[], Sequence[Tensor]]) -> None:
        count = settings.num_snapshots
        self.taken: list[Snapshot] = []
        self._render = render
        # In steps, or in seconds of a fit whose length is given in seconds.
        length = settings.steps if settings.seconds is None else settings.seconds
        self._due = [length * (i / (count - 1)) ** 2 for i in range(count)]

    def take_if_due(self, state: FitState) -> None:
        """Take one if the fit has come far enough."""
        at = state.step if state.limit_seconds is None else state.seconds
        if self._due and at >= self._due[0]:
            self._take(state)
            while self._due and at >= self._due[0]:
                del self._due[0]

    def finish(self, state: FitState, *, weights_changed: bool) -> None:
        """Take the last snapshot, again if the weights have changed since."""
        if weights_changed and self.taken and self.taken[-1].step == state.step:
            self.taken.pop()
            self._take(state)
        elif self._due and state.history:
            self._take(state)

    def load_state_dict(self, saved: Sequence[Mapping[str, Any]], state: FitState) -> None:
        """Go on from the saved snapshots of a fit that was loaded."""
        self.taken = [
            Snapshot(
                int(each["step"]),
                float(each["psnr"]),
                [image.float() / 255 for image in each["images"]],
            )
            for each in saved
        ]
        if self.taken:
            last: float = self.taken[-1].step
            if state.limit_seconds is not None:
                last = max(r.seconds for r in state.history if r.step <= last)
            self._due = [due for due in self._due if due > last]

    def _take(self, state: FitState) -> None:
        psnr = psnr_from_mse(state.history[-1].loss)
        self.taken.append(Snapshot(state.step, psnr, self._render()))
