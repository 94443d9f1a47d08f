"""Kill runs at random moments and resume them: nothing may be lost, no bit may differ.

    python -m more.tools.soak [--kills 100] [--interrupts 20] [--terminations 20]

Each attempt starts a short run in a process of its own (an image, a held-out image, a sound, a
scan, a clip, a scene), ends it by a signal at a random moment, also while it writes, checks that no
file looks whole and is not, and resumes it, which half of the time is ended by a signal as well.
The run that comes out must have the same scores, losses, images and weights, to the bit, as one
that was not interrupted. Prints one line per run and a summary; exit status 1 if anything was lost,
differed, or looked whole and was not.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import train_fit
from nerf_posenc.training.checkpoints import load_checkpoint
from nerf_posenc_app.runs.saved import read_metrics
from tests.signals import content, same

_PLAIN = ["--batch-size", "200", "--width", "16", "--depth", "2", "--video", "4"]
_QUICK = ["--size", "24", *_PLAIN]
RUNS: dict[str, list[str]] = {
    "image": ["--image", "cat", *_QUICK, "--steps", "150"],
    "held-out": ["--image", "cat", "--held-out", *_QUICK, "--steps", "120"],
    "sound": ["--audio", "phrase", "--duration", "0.1", *_PLAIN, "--steps", "120"],
    "scan": ["--scan", "shepp-logan", "--projections", "4", *_QUICK, "--steps", "80"],
    "clip": ["--clip", "spheres", "--size", "16", "--num-frames", "6", *_PLAIN, "--steps", "120"],
    "scene": [
        *("--scene", "spheres", "--size", "12", "--steps", "140", "--batch-size", "64"),
        *("--width", "16", "--depth", "1", "--video", "3", "--turntable", "2"),
        *("--test-views", "2"),
    ],
}


def start(arguments: Sequence[str]) -> int:
    """Run the program in a fork of this process, which has it imported; return its number."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        log = os.open("stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        status = train_fit.main([*arguments])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def wait(child: int, seconds: float | None = None) -> int | None:
    """Exit status, negative for a signal; None if it runs on after so many seconds."""
    end = None if seconds is None else time.monotonic() + seconds
    while end is None or time.monotonic() < end:
        number, status = os.waitpid(child, 0 if end is None else os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def end_by(child: int, number: int, after: float) -> int:
    """Send a signal after so many seconds, Ctrl-C twice; return the exit status."""
    status = wait(child, after)
    times = 2 if number == signal.SIGINT else 1
    for _ in range(times):
        if status is None:
            os.kill(child, number)
            status = wait(child, 0.02 if times == 2 else 30)
    if status is None:
        status = wait(child, 30)
    if status is None:
        os.kill(child, signal.SIGKILL)
        wait(child)
        raise AssertionError(f"it does not end within 30 s of signal {number}")
    return status


def check_whole(run: Path) -> None:
    """Check that nothing under its own name is cut off.

    Raises:
        Exception: If a file cannot be read.
    """
    for file in run.rglob("*"):
        if any(part.startswith(".") for part in file.relative_to(run).parts):
            continue
        if file.suffix == ".safetensors":
            load_checkpoint(file)
        elif file.suffix == ".png":
            Image.open(file).load()
        elif file.suffix == ".json":
            json.loads(file.read_text())
        elif file.name == "report.html":
            assert file.read_text().rstrip().endswith("</html>"), f"{file} is cut off"
    for metrics in run.rglob("metrics.json"):
        if not any(part.startswith(".") for part in metrics.relative_to(run).parts):
            folder = metrics.parent
            assert (folder / "report.html").exists(), f"{folder} has no report"
            for fit in read_metrics(folder).fits:
                names = [fit.name.stem + end for end in (".png", ".wav", "/view_000.png")]
                assert any((folder / name).exists() for name in names), f"{folder} lacks a result"


def trial(kind: str, number: int, seconds: float, expected: dict[str, Any]) -> str:
    """One run that is ended by a signal and resumed; return where it was ended.

    Raises:
        AssertionError: If something is lost, differs, or looks whole and is not.
    """
    rng = random.Random()
    arguments = [*RUNS[kind], "--out", "run", "--save-every", "0.05"]
    run = Path("run")
    ended = []
    child = start(arguments)
    for attempt in range(4):
        last = attempt == 3 or (attempt > 0 and rng.random() < 0.5)
        status = wait(child) if last else end_by(child, number, rng.uniform(0, 1.1 * seconds))
        assert status is not None
        # SIGTERM may come before the program handles it, or when it has ended.
        fine = {0, -signal.SIGKILL, -signal.SIGTERM, 130, 143} if not last else {0}
        assert status in fine, f"exit status {status}: {Path('stderr.txt').read_text()[-600:]}"
        if run.exists():
            check_whole(run)
        # One Ctrl-C ends a fit, and the run goes on: it may end well and not be complete.
        if last:
            break
        begun = (run / "run.json").exists()
        ended.append("finished" if status == 0 else "begun" if begun else "not begun")
        again = ["--resume", "run"] if begun else [*arguments, "--overwrite"]
        child = start(again)
    assert (run / "metrics.json").exists(), "it is lost"
    found = content(run)
    different = [
        n for n in expected.keys() | found.keys() if not same(expected.get(n), found.get(n))
    ]
    assert not different, f"different: {sorted(different)[:5]}"
    return ", ".join(ended)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--interrupts", type=int, default=20)
    parser.add_argument("--terminations", type=int, default=20)
    parser.add_argument("--only", choices=sorted(RUNS), help="one kind of run")
    options = parser.parse_args()
    torch.set_num_threads(1)  # A fork must not inherit threads.
    kinds = [options.only] if options.only else list(RUNS)
    references: dict[str, tuple[float, dict[str, Any]]] = {}
    outcomes: Counter[str] = Counter()
    home = Path.cwd()
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            started = time.monotonic()
            status = wait(start([*RUNS[kind], "--out", "run"]))
            log = Path("stderr.txt").read_text()[-2000:]
            assert status == 0, f"{kind} fails undisturbed: {log}"
            references[kind] = time.monotonic() - started, content(Path("run"))
            os.chdir(home)
        print(f"{kind:9} undisturbed: {references[kind][0]:.1f} s", flush=True)
    plan = (
        [signal.SIGKILL] * options.kills
        + [signal.SIGINT] * options.interrupts
        + [signal.SIGTERM] * options.terminations
    )
    for i, number in enumerate(plan):
        kind = kinds[i % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                where = trial(kind, number, *references[kind])
                outcome = "same bits"
            except Exception as error:
                where, outcome = f"{type(error).__name__}: {error}", "FAILED"
            os.chdir(home)
        outcomes[f"{signal.Signals(number).name} {outcome}"] += 1
        print(f"{i + 1:4} {kind:9} {signal.Signals(number).name:7} {outcome}: {where}", flush=True)
    print(dict(outcomes))
    return 1 if any("FAILED" in outcome for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
