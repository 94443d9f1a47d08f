"""Whether every built-in task shows what its page says: ``python -m more.tools.contracts``.

Each task is run by its default command. The encoding that its paper recommends must lead the one
without by two standard errors, the one without must leave room for it, and no score may be worse
than a guess. The tables are Markdown, for the pages of the systems.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Contract:
    """What a task is to show.

    Attributes:
        arguments: the command without its seeds.
        recommended: encoding of the paper.
        without: encoding that lacks what the paper adds.
        ceiling: score that the one without may not reach, so that something is left to gain; None
            for a measure without an end.
        gains: whether the recommended one gains; of some systems the paper's point is that it does
            not.
    """

    arguments: tuple[str, ...]
    recommended: str
    without: str
    ceiling: float | None = None
    gains: bool = True


CONTRACTS = {
    "transformer.md": Contract(("numbers",), "sinusoidal", "none", 98.0),
    "convs2s.md": Contract(("numbers", "--model", "conv"), "both", "none", 98.0),
    "memn2n.md": Contract(("stories",), "position-temporal", "temporal"),
    "memory_network.md": Contract(
        ("stories", "--model", "memory-network"), "position-temporal", "temporal"
    ),
    "bert.md": Contract(("topics", "--model", "bert"), "position-segment", "none"),
    "indexing.md": Contract(("indexing",), "pope", "sinusoidal", 98.0),
    "self_attentive.md": Contract(("chapters",), "sinusoidal", "none", gains=False),
}


def metrics_of(contract: Contract, seeds: int) -> dict[str, Any]:
    """Run a task, and return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["--task", *contract.arguments, "--seeds", str(seeds), "--out", str(run)]
        command = [sys.executable, str(_ROOT / "train_fit.py"), *words, "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        return found


def broken(contract: Contract, metrics: dict[str, Any]) -> list[str]:
    """What a run does not show of what it should."""
    measure, fits = metrics["measures"][0], {fit["name"]: fit for fit in metrics["fits"]}
    sign = 1 if measure["higher_is_better"] else -1
    scores = {name: fit[measure["name"]] for name, fit in fits.items()}
    problems = []
    for other in metrics["measures"]:
        worst = -1 if other["higher_is_better"] else 1
        guess = fits["guess"][other["name"]]
        problems += [
            f"{name} is worse than a guess: {other['quantity']} {fit[other['name']]}"
            for name, fit in fits.items()
            if guess is not None and worst * fit[other["name"]] > worst * guess
        ]
    if contract.ceiling is not None and sign * scores[contract.without] > sign * contract.ceiling:
        problems.append(f"{contract.without} leaves nothing to gain: {scores[contract.without]}")
    gained = sign * (scores[contract.recommended] - scores[contract.without])
    if contract.gains and gained <= 2 * standard_error(contract, metrics):
        problems.append(f"{contract.recommended} gains {gained:.3f}, no more than chance")
    return problems


def standard_error(contract: Contract, metrics: dict[str, Any]) -> float:
    """Standard error of the gain: of seeds, and of a share of the test examples."""
    measure, fits = metrics["measures"][0], {fit["name"]: fit for fit in metrics["fits"]}
    variance = 0.0
    for name in (contract.recommended, contract.without):
        fit = fits[name]
        if measure["count"] is not None:
            share = fit[measure["name"]] / 100
            variance += 1e4 * share * (1 - share) / measure["count"]
        values = [seed[measure["name"]] for seed in fit["by_seed"]]
        if len(values) > 1:
            mean = sum(values) / len(values)
            variance += sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)
    return math.sqrt(variance)


def table(metrics: dict[str, Any]) -> str:
    """All fits of a run as Markdown, with the range of the seeds of the first measure."""
    measures = metrics["measures"]
    lines = [["encoding", *(f"{m['quantity']} {m['unit']}".strip() for m in measures)]]
    lines.append(["---"] * len(lines[0]))
    for fit in metrics["fits"]:
        texts = [
            "-" if fit[m["name"]] is None else f"{fit[m['name']]:.{m['digits']}f}" for m in measures
        ]
        values = [seed[measures[0]["name"]] for seed in fit["by_seed"]]
        if len(values) > 1:
            digits = measures[0]["digits"]
            texts[0] += f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
        lines.append([fit["name"], *texts])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Run the tasks, print their tables, and return 1 if one does not show its effect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("pages", nargs="*", choices=[*CONTRACTS, []], help="all by default")
    asked = parser.parse_args()
    status = 0
    for page in asked.pages or CONTRACTS:
        contract, started = CONTRACTS[page], time.perf_counter()
        metrics = metrics_of(contract, asked.seeds)
        problems = broken(contract, metrics)
        words = " ".join(contract.arguments)
        print(f"\n{page}: --task {words}, {time.perf_counter() - started:.0f} s")
        print(table(metrics), *(f"BROKEN: {problem}" for problem in problems), sep="\n", flush=True)
        status |= bool(problems)
    return status


if __name__ == "__main__":
    sys.exit(main())
