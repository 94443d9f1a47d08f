"""Steps of ``train_fit.py`` alone and two at once, by how OpenMP's threads wait.

Each way takes turns, so that an hour in which the machine is slow is slow for all. ``chosen`` is
what the program chooses by itself, ``unset`` is torch's default, without the program's choice.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import machine

ROOT = Path(__file__).parents[1]
WITHOUT_CHOICE = "import sys; from app.cli import main; sys.exit(main(sys.argv[1:]))"
# Where the program starts, and what the environment has of its own.
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    "unset": (["-c", WITHOUT_CHOICE], {}),
    "chosen": (["train_fit.py"], {}),
    "passive": (["train_fit.py"], {"OMP_WAIT_POLICY": "passive"}),
}


def steps_of(count: int, way: str, seconds: float) -> list[int]:
    """Steps that each of several runs takes that are started together."""
    start, environment = WAYS[way]
    own = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | environment
    with tempfile.TemporaryDirectory() as home:
        folders = [Path(home, str(i)) for i in range(count)]
        running = []
        for folder in folders:
            arguments = ["--image", "cat", "--size", "256", "--encodings", "fourier", "--quiet"]
            arguments += ["--seconds", str(seconds), "--video", "0", "--out", str(folder)]
            running.append(
                subprocess.Popen([sys.executable, *start, *arguments], env=own, cwd=ROOT)
            )
        for process in running:
            assert process.wait() == 0
        records = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
    return [record["fits"][0]["steps"] for record in records]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine(), flush=True)
    taken: dict[tuple[str, int], list[int]] = {(way, n): [] for way in WAYS for n in (1, 2)}
    for _ in range(options.rounds):
        for (way, count), steps in taken.items():
            steps.append(sum(steps_of(count, way, options.seconds)))
    print(f"steps in {options.seconds:g} s, median of {options.rounds}")
    alone = statistics.median(taken["unset", 1])
    for way in WAYS:
        one, two = (statistics.median(taken[way, count]) for count in (1, 2))
        print(
            f"{way:<8} alone {one:5.0f} ({one / alone:.2f} of unset), two at once together "
            f"{two:5.0f} ({two / one:.2f} of one alone)",
            flush=True,
        )


if __name__ == "__main__":
    main()
