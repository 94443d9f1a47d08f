"""How the threads of a fit wait for each other, which must be chosen before torch is imported.

By default OpenMP's threads spin while they wait. On an idle machine that is 10 to 17% faster; where
other programs want the processor, the thread that is waited for does not get it, and a step takes
several times as long (docs/howto/speed.md).
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

POLICY = "OMP_WAIT_POLICY"

_PROC = Path("/proc")
_LOOK_SECONDS = 0.1
# Share of the processor from which other programs count.
_BUSY = 0.25


def choose_waiting(program: str) -> None:
    """Let threads wait without spinning if other programs use the processor.

    What the user has set stays. Nothing is done where there is no ``/proc``.

    Args:
        program: file name of this program; with another run of it there will be waiting.
    """
    if POLICY in os.environ or not (_PROC / "stat").exists():
        return
    if any(program in words for words in _other_commands()) or _busy_share() > _BUSY:
        os.environ[POLICY] = "passive"


def _other_commands() -> Iterator[list[str]]:
    """File names in the command line of every other process."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and int(folder.name) not in (os.getpid(), os.getppid()):
            try:
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:  # It has ended, or is somebody else's.
                continue
            # Programs that were given this one as an argument, such as a shell, are left out.
            words = line.split("\0")
            if "python" in Path(words[0]).name:
                yield [Path(word).name for word in words[1:3]]


def _busy_share() -> float:
    """Share of the processor that is in use, for a moment in which this process sleeps."""
    busy, idle = _processor_times()
    time.sleep(_LOOK_SECONDS)
    busy_after, idle_after = _processor_times()
    total = busy_after - busy + idle_after - idle
    return (busy_after - busy) / total if total else 0.0


def _processor_times() -> tuple[int, int]:
    """Busy and idle time of all cores since the machine was started (proc(5), ``/proc/stat``)."""
    first = (_PROC / "stat").read_text().split("\n", 1)[0]
    user, nice, system, idle, waiting, *others = (int(number) for number in first.split()[1:9])
    return user + nice + system + sum(others), idle + waiting
