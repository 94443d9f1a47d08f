"""Strong and weak scaling of a fit by several processes, and how far its losses are from one's.

    python -m benchmarks.scaling [--processes 1 2] [--rounds 3] [arguments of train_fit.py]

Strong scaling shares one global batch; weak scaling gives each process a batch of that size. Every
round starts each number of processes once by torchrun. The figures are medians over the rounds:
seconds of training per step, and pixels or rays per second as a ratio to one process.
``OMP_NUM_THREADS`` is 1 unless it is set. Two processes on two shared cores show that the losses
are right; how a fit scales is seen where each process has a GPU, or a machine, of its own.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

_DEFAULT = ["--image", "cat", "--size", "256", "--steps", "60", "--encodings", "fourier", "hash"]


@dataclass(frozen=True)
class Fit:
    """One fit of a run.

    Attributes:
        encoding: its name.
        num_rows: pixels or rays of a step.
        step_seconds: seconds of training per step.
        losses: at each record.
        psnr: in dB.
    """

    encoding: str
    num_rows: int
    step_seconds: float
    losses: Sequence[float]
    psnr: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8192)
    options, arguments = parser.parse_known_args()
    arguments = arguments or _DEFAULT
    counts = sorted({1, *options.processes})
    batch_sizes = {("strong", count): options.batch_size for count in counts}
    batch_sizes |= {("weak", count): options.batch_size * count for count in counts if count > 1}
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {torch.cuda.device_count()} GPUs")
    print(f"train_fit.py {' '.join(arguments)}, batches of {options.batch_size}\n")
    runs: dict[tuple[str, int], list[list[Fit]]] = {key: [] for key in batch_sizes}
    for _ in range(options.rounds):
        for (kind, count), size in batch_sizes.items():
            runs[kind, count].append(fits(count, [*arguments, "--batch-size", str(size)]))
    print("encoding  scaling  processes  ms/step  speedup  efficiency    dB  difference of losses")
    for index in range(len(runs["strong", 1][0])):
        one = [each[index] for each in runs["strong", 1]]
        for (kind, count), rounds in runs.items():
            print(row(kind, count, one, [each[index] for each in rounds]))


def fits(num_processes: int, arguments: Sequence[str]) -> list[Fit]:
    """Run the program by so many processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        output = ["--video", "0", "--quiet", "--out", str(out)]
        subprocess.run(
            [sys.executable, *launcher, str(num_processes), "train_fit.py", *arguments, *output],
            env={"OMP_NUM_THREADS": "1", **os.environ},
            check=True,
        )
        metrics = json.loads((out / "metrics.json").read_text())
    num_rows = int(metrics["config"]["training"]["batch_size"])
    if "image" in metrics:
        num_rows = min(num_rows, math.prod(metrics["image"]["size"]))
    return [
        Fit(
            encoding=fit["encoding"],
            num_rows=num_rows,
            step_seconds=fit["seconds"] / fit["steps"],
            losses=[record["mse"] for record in fit["history"]],
            psnr=float(fit["psnr_db"]),
        )
        for fit in metrics["fits"]
    ]


def row(kind: str, count: int, one: Sequence[Fit], several: Sequence[Fit]) -> str:
    """Line of the table: the rounds of so many processes beside those of one."""
    seconds, alone = (statistics.median(f.step_seconds for f in each) for each in (several, one))
    speedup = (several[0].num_rows / seconds) / (one[0].num_rows / alone)
    difference = "-"
    if kind == "strong" and count > 1:
        pairs = list(zip(one[0].losses, several[0].losses, strict=True))
        largest, relative = max(abs(a - b) for a, b in pairs), max(abs(a - b) / a for a, b in pairs)
        difference = f"up to {largest:.1e}, {relative:.1e} of the loss"
    return (
        f"{one[0].encoding:8}  {kind:7}  {count:9}  {1e3 * seconds:7.1f}  {speedup:7.2f}  "
        f"{speedup / count:10.0%}  {several[0].psnr:4.1f}  {difference}"
    )


if __name__ == "__main__":
    main()
