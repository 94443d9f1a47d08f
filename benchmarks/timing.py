"""Interleaved timing, as README.md describes."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch


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


def machine() -> str:
    """One line on where the figures come from."""
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, {torch.get_num_threads()} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}"
    )
