"""Test errors of memory networks on the bAbI tasks, beside the published ones.

    python -m benchmarks.memory_networks --babi FOLDER [--tasks 1 2 4] [--seeds 10] [--out FILE]

One model per task, trained on 90% of the training questions (MemN2N) or on all (memory networks).
The error is of the seed with the least training loss, as Sukhbaatar et al. (2015) choose among 10;
beside it are the least, median and largest of all seeds. Rows are printed as they come. With
``--out`` they are also written to a file, and a run that was stopped goes on after its last row.

The position weights of words are about twice as large in the authors' program as by the formula of
the paper. ``pe`` has twice those of the formula, and ``pe1`` those. The published errors of single
tasks are quoted by their columns, whose means agree with the published means.
"""

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from benchmarks.timing import machine
from nerf_posenc.training.loop import FitState, fit
from sequences.data.stories import open_babi_folder
from sequences.data.types import Stories, StoryTask
from sequences.ensemble import Ensemble, member_batches, member_losses
from sequences.system import System, SystemOptions
from sequences.systems.memn2n import MemN2NSystem
from sequences.systems.memory_network import MemoryNetworkSystem


@dataclass(frozen=True)
class Variant:
    """A row of a published table.

    Attributes:
        encoding: of the system.
        paper: published errors of tasks 1 to 20 in percent, where they are known.
        is_end_to_end: MemN2N, and not a memory network with supporting facts.
    """

    encoding: str
    paper: tuple[float, ...] = ()
    is_end_to_end: bool = True


# Sukhbaatar et al. 2015, table 1, three hops, trained on 1,000 questions of one task.
_BOW = (
    *(0.6, 17.6, 71.0, 32.0, 18.3, 8.7, 23.5, 11.4, 21.1, 22.8),
    *(4.1, 0.3, 10.5, 1.3, 24.3, 52.0, 45.4, 48.1, 89.7, 0.1),
)
_PE = (
    *(0.1, 21.6, 64.2, 3.8, 14.1, 7.9, 21.6, 12.6, 23.3, 17.4),
    *(4.3, 0.3, 9.9, 1.8, 0.0, 52.1, 50.1, 13.6, 87.4, 0.0),
)
VARIANTS = {
    "bow": Variant("temporal", _BOW),
    "pe": Variant("position2-temporal", _PE),
    "pe1": Variant("position-temporal", _PE),
    "no-time": Variant("none"),
    "facts-no-time": Variant("none", is_end_to_end=False),
    "facts-time": Variant("time", is_end_to_end=False),
    "facts-position-time": Variant("position-time", is_end_to_end=False),
}
DEFAULTS = ["bow", "pe"]


@dataclass(frozen=True)
class Row:
    """One task.

    Attributes:
        variant: its name.
        task: its name.
        error: of the seed of the least training loss, in percent.
        errors: of all seeds.
        losses: training losses of all seeds, means over the last 5% of the fit.
        seconds: of the fit of all seeds together.
    """

    variant: str
    task: str
    error: float
    errors: list[float]
    losses: list[float]
    seconds: float


def measured(name: str, variant: Variant, stories: Stories, num_seeds: int) -> Row:
    """Fit all seeds of one task side by side."""
    options = SystemOptions()
    system: System = (
        MemN2NSystem(stories, options)
        if variant.is_end_to_end
        else MemoryNetworkSystem(stories, options)
    )
    seeds = range(num_seeds)
    members: list[nn.Module] = [
        system.build(variant.encoding, torch.Generator().manual_seed(seed)) for seed in seeds
    ]
    recipe = system.recipe
    draws = [system.batches(variant.encoding, recipe.batch_size, seed) for seed in seeds]
    state = FitState(
        Ensemble(members), system.optimizer(members, recipe.lr), num_steps=recipe.steps
    )
    started = time.perf_counter()
    fit(
        state,
        member_batches(draws),
        member_losses(system.loss),
        schedule=system.schedule,
        record_every=max(recipe.steps // 20, 1),
    )
    seconds = time.perf_counter() - started
    errors = [
        system.evaluate(member.eval(), variant.encoding).scores["error_percent"]
        for member in members
    ]
    losses = state.member_losses[-1]
    best = min(seeds, key=lambda seed: losses[seed])
    return Row(name, stories.tasks[0].name, errors[best], errors, losses, seconds)


def published(variant: Variant, task: str) -> float | None:
    """Error in the paper."""
    place = int(task) - 1
    return variant.paper[place] if place < len(variant.paper) else None


def shown(row: Row) -> str:
    """A line of the table."""
    paper = published(VARIANTS[row.variant], row.task)
    beside = "" if paper is None else f"paper {paper:5.1f}"
    spread = [min(row.errors), statistics.median(row.errors), max(row.errors)]
    seeds = " ".join(f"{error:5.1f}" for error in spread)
    return (
        f"{row.variant:<20} task {row.task:>2} {row.error:6.1f}   {beside:<11}   "
        f"seeds {seeds}   {row.seconds:4.0f} s"
    )


def summarized(name: str, rows: list[Row]) -> str:
    """Means over the tasks of a variant, the paper's over the same tasks."""
    paper = [published(VARIANTS[name], row.task) for row in rows]
    known = [error for error in paper if error is not None]
    beside = f"paper {statistics.mean(known):5.1f}" if len(known) == len(rows) else ""
    means = [
        statistics.mean(pick(row.errors) for row in rows) for pick in (min, statistics.median, max)
    ]
    seeds = " ".join(f"{error:5.1f}" for error in means)
    mean = statistics.mean(row.error for row in rows)
    return f"{name:<20} mean    {mean:6.1f}   {beside:<11}   seeds {seeds}   {len(rows)} tasks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--babi", type=Path, required=True, help="folder of the tasks")
    parser.add_argument("--tasks", nargs="+", help="names of tasks; all by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=DEFAULTS)
    parser.add_argument("--out", type=Path, help="JSON file of the rows")
    options = parser.parse_args()
    torch.set_num_threads(1)
    stories = open_babi_folder(options.babi)
    tasks: list[StoryTask] = [
        task for task in stories.tasks if options.tasks is None or task.name in options.tasks
    ]
    rows: list[Row] = []
    if options.out is not None and options.out.exists():
        rows = [Row(**row) for row in json.loads(options.out.read_text())["rows"]]
    print(f"{machine()}\n{options.seeds} seeds; test error in %", flush=True)
    for name in options.variants:
        own = []
        for task in tasks:
            done = [row for row in rows if (row.variant, row.task) == (name, task.name)]
            done = [row for row in done if len(row.errors) == options.seeds]
            one = Stories(stories.name, stories.source, [task])
            row = done[0] if done else measured(name, VARIANTS[name], one, options.seeds)
            own.append(row)
            print(shown(row), flush=True)
            if not done:
                rows.append(row)
                if options.out is not None:
                    record = {"machine": machine(), "rows": [asdict(row) for row in rows]}
                    options.out.write_text(json.dumps(record, indent=1))
        print(summarized(name, own), flush=True)


if __name__ == "__main__":
    main()
