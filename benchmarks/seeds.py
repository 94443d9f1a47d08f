"""What several seeds cost, trained as one, beside as many fits one after the other.

    python -m benchmarks.seeds

Prints the time of a training step with N seeds over that with one, the median of alternating
rounds, for each system.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from nerf_posenc.training.ensemble import Ensemble, member_losses, stacked_draws
from nerf_posenc.training.loop import FitState, fit
from sequences import open_sequence
from sequences.system import System, SystemOptions

SYSTEMS: dict[str, tuple[str, SystemOptions, str]] = {
    "memn2n": ("stories", SystemOptions(model="memn2n"), "temporal"),
    "transformer, width 32": ("docstrings", SystemOptions(width=32), "sinusoidal"),
    "transformer, width 96": ("docstrings", SystemOptions(), "sinusoidal"),
}


def steps_of(system: System, encoding: str, num_seeds: int) -> Callable[[int], float]:
    """From a number of steps to the seconds that they take."""
    members = [
        system.build(encoding, torch.Generator().manual_seed(seed)) for seed in range(num_seeds)
    ]
    ensemble = Ensemble(members, is_stackable=system.recipe.is_stackable)
    optimizer = system.optimizer(members, system.recipe.lr)
    draws = [system.batches(encoding, system.recipe.batch_size, seed) for seed in range(num_seeds)]

    def run(num_steps: int) -> float:
        state = FitState(ensemble, optimizer, num_steps)
        started = time.perf_counter()
        fit(state, stacked_draws(draws), member_losses(system.loss))
        return time.perf_counter() - started

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{options.seeds} seeds, {torch.get_num_threads()} threads, {options.rounds} rounds")
    for name, (data, system_options, encoding) in SYSTEMS.items():
        system = open_sequence(data, system_options)
        one, several = (steps_of(system, encoding, count) for count in (1, options.seeds))
        one(2), several(2)
        ratios, milliseconds = [], []
        for _ in range(options.rounds):
            alone = one(options.steps)
            ratios.append(several(options.steps) / alone)
            milliseconds.append(1000 * alone / options.steps)
        print(
            f"{name:24} one seed {statistics.median(milliseconds):6.1f} ms a step, "
            f"{options.seeds} seeds {statistics.median(ratios):.2f} times as long "
            f"({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
