"""Interleaved timing, as README.md describes."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from nerf_posenc.training.schedules import cosine_decay


def medians(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 15, seconds: float = 0.05
) -> dict[str, float]:
    """Median seconds of one call of each, over rounds that take the calls in turn.

    Args:
        calls: what to time.
        rounds: number of turns of each.
        seconds: least length of a turn.
    """
    for call in calls.values():
        call()
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            count, started = 0, time.perf_counter()
            while time.perf_counter() - started < seconds:
                call()
                count += 1
            times[name].append((time.perf_counter() - started) / count)
    return {name: statistics.median(values) for name, values in times.items()}


class Clock:
    """A budget of seconds, running from now on, for a fit that is to use it up.

    A learning-rate schedule over time instead of steps gives every recipe its whole budget at
    any speed, also where the speed changes on the way.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._before = 0.0
        self._started: float | None = time.perf_counter()

    def pause(self) -> None:
        """Stop, while others have their turn."""
        self._before, self._started = self.used(), None

    def go_on(self) -> None:
        """Run again."""
        self._started = time.perf_counter()

    def used(self) -> float:
        """Seconds used up."""
        running = 0.0 if self._started is None else time.perf_counter() - self._started
        return self._before + running

    def progress(self) -> float:
        """Share of the budget that is used up, 0 to 1."""
        return min(1.0, self.used() / max(self.seconds, 1e-9))

    def schedule(self, _: float) -> float:
        """Factor of the learning rate."""
        return cosine_decay(self.progress())

    def is_over(self) -> bool:
        """Tell whether the budget is used up."""
        return self.progress() >= 1


def machine() -> str:
    """One line on where the figures come from."""
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, {torch.get_num_threads()} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}"
    )
