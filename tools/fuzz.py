"""Hostile input to every loader, in a process with limits of time and memory.

    python -m tools.fuzz images [--count 10000] [--seed 0]
    python -m tools.fuzz all

A case must be read or refused by an error that is meant for a person: anything else is a failure,
as are 10 s for one case, 2 GB of memory, and a file that is opened outside the case's folder and
the installation.
"""

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from tools.cases import LOADERS

MOST_SECONDS = 10.0
MOST_BYTES = 2 << 30
_ALLOWED = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]), "/usr", "/lib", "/etc/ld")
_DEVICES = ("/proc", "/sys", "/dev/null", "/dev/urandom", "/etc/localtime")
_CACHES = (str(Path.home() / ".cache"),)


def opened_outside(path: Any, folder: str) -> bool:
    """Whether a path is neither of the case nor of the installation."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    resolved = os.path.realpath(os.fsdecode(path))
    return not resolved.startswith((folder, *_ALLOWED, *_DEVICES, *_CACHES))


def run_case(loader: str, number: int, seed: int) -> str:
    """Make and open one case; return what came of it, ``FAILED: ...`` for a failure."""
    kind = LOADERS[loader]
    rng = random.Random(f"{loader}-{seed}-{number}")
    folder = Path(tempfile.mkdtemp(prefix="case-")).resolve()
    before = Path.cwd()
    try:
        case = kind.make(folder, rng)
        os.chdir(folder)
        _watched[:] = [str(folder)]
        try:
            outcome = kind.run(folder, case)
        except kind.refusals:
            outcome = "refused"
        finally:
            _watched.clear()
            os.chdir(before)
            outside = _outside.copy()
            _outside.clear()
        return f"FAILED: opened outside: {outside}" if outside else outcome
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())[:300]
        return f"FAILED: {type(error).__name__}: {message} ({place.filename}:{place.lineno})"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# The folder of the case in progress, and what was opened outside of it.
_watched: list[str] = []
_outside: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watched and opened_outside(arguments[0], _watched[0]):
        _outside.append(repr(arguments[0]))


def _work(connection: Connection, loader: str, start: int, end: int, seed: int) -> None:
    torch.set_num_threads(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    sys.addaudithook(_audit)
    for number in range(start, end):
        connection.send((number, None))
        connection.send((number, run_case(loader, number, seed)))
    connection.send((end, None))


def _peak_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def fuzz(loader: str, count: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Run cases in a child process that is replaced when it dies or goes beyond its limits.

    Returns:
        How many cases were read, refused, ...; and the failures.
    """
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    number = 0
    while number < count:
        ours, theirs = Pipe()
        child = os.fork()
        if child == 0:
            ours.close()
            try:
                _work(theirs, loader, number, count, seed)
            finally:
                os._exit(0)
        theirs.close()
        number, failure = _watch(ours, child, number, count, outcomes)
        if failure is not None:
            failures.append(f"{loader} --seed {seed}, case {number}: {failure}")
            number += 1
    failures += [
        f"{loader} --seed {seed}: {outcome}" for outcome in outcomes if "FAILED" in outcome
    ]
    return outcomes, failures


def _watch(
    connection: Connection, child: int, number: int, count: int, outcomes: Counter[str]
) -> tuple[int, str | None]:
    """Follow a child to its end; return the case it came to and what was wrong with it."""
    begun = time.monotonic()
    while True:
        try:
            if connection.poll(0.02):
                number, outcome = connection.recv()
                begun = time.monotonic()
                if outcome is not None:
                    label = f"case {number}: {outcome}" if "FAILED" in outcome else outcome
                    outcomes[label] += 1
                elif number == count:
                    os.waitpid(child, 0)
                    return count, None
                continue
        except EOFError:
            _, status = os.waitpid(child, 0)
            return number, f"the process died ({os.waitstatus_to_exitcode(status)})"
        reason = None
        if time.monotonic() - begun > MOST_SECONDS:
            reason = f"took more than {MOST_SECONDS:.0f} s"
        elif _peak_bytes(child) > MOST_BYTES:
            reason = f"took more than {MOST_BYTES >> 30} GB"
        if reason is not None:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return number, reason


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("loader", choices=[*LOADERS, "all"])
    parser.add_argument("--count", type=int, help="cases; the full number by default")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for name in LOADERS if options.loader == "all" else [options.loader]:
        started = time.monotonic()
        count = LOADERS[name].count if options.count is None else options.count
        # Once here rather than in every child.
        with tempfile.TemporaryDirectory() as folder:
            LOADERS[name].make(Path(folder), random.Random(0))
        outcomes, failures = fuzz(name, count, options.seed)
        known = {k: v for k, v in sorted(outcomes.items()) if "FAILED" not in k}
        seconds = time.monotonic() - started
        print(f"{name:12} {count:6} cases in {seconds:.0f} s: {known}, {len(failures)} failed")
        print("".join(f"  {failure}\n" for failure in failures[:20]), end="", flush=True)
        failed |= bool(failures)
    return 1 if failed else 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
