"""The command line: arguments in, exit status out. The only module that handles signals."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from app import report
from app.options import PROGRAM, CompareOptions, UsageError, parse, read_options
from app.run import run
from app.run_many import run_many
from app.task import Openers
from nerf_posenc.training.devices import keep_freed_memory


def main(arguments: Sequence[str], openers: Openers) -> int:
    """Run the program; return 0, 1 if a fit failed, or 2 for a mistake in the command line."""
    keep_freed_memory()
    try:
        if arguments[:1] == ["compare"]:
            return compare(read_options(CompareOptions, arguments[1:]))
        options = parse(arguments)
        if options.images:
            return run_many(options, arguments, openers, stop_on_ctrl_c)
        results = run(options, arguments, openers, stop_on_ctrl_c)
        return 0 if len(results) == len(options.fitted) else 1
    except UsageError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(f"{PROGRAM}: error: out of memory; use a smaller --batch-size", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped", file=sys.stderr)
        return 130


def compare(options: CompareOptions) -> int:
    """Write one page that compares several runs.

    Raises:
        UsageError: If there is no run, one cannot be read, or the page cannot be written.
    """
    if not options.runs:
        raise UsageError("compare needs one run folder or more")
    if options.out.exists() and not options.overwrite:
        raise UsageError(f"--out {options.out} exists already; name another or add --overwrite")
    try:
        results = report.write_comparison(options.out, options.runs)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}; use --out") from None
    print(f"{report.table(results)}\n\nwrote {options.out}")
    return 0


@contextlib.contextmanager
def stop_on_ctrl_c() -> Iterator[threading.Event]:
    """Let a first Ctrl-C set an event, which ends the fit, and a second one stop the program."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread alone.
        yield stop
        return

    def handle(signum: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
