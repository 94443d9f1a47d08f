"""Signals of a run: what Ctrl-C, a terminal that closes, or a scheduler asks for."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from nerf_posenc_app.runs.stop import Stop


def _must_wait(frame: FrameType | None) -> bool:
    """Whether an exception would be lost here, or abort the process.

    Python ignores those of a ``__del__``, and an import may be one that C++ asked for.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or "importlib._bootstrap" in code.co_filename:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def handled_signals(stop: Stop) -> Iterator[list[int]]:
    """Let signals end a fit or the run once it is saved; give the list of those that came."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        # Python delivers signals to the main thread alone.
        yield received
        return

    def handle(number: int, frame: FrameType | None) -> None:
        # Outside of a fit everything is saved already; a third request ends a fit unsaved.
        if stop.is_training and not stop.ends_run:
            received.append(number)
            stop.request(run=number != signal.SIGINT)
        elif _must_wait(frame):
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        else:
            received.append(number)
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if os.name == "posix" else [])]
    previous: dict[int, Any] = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
