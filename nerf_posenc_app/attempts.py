"""What may fail without the run: parts of a report, and what shows fits in progress."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from nerf_posenc_app.terminal import print_to_stderr


def first_line(error: Exception) -> str:
    """What an error says in its first line; its type, if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def noted(part: str, notes: list[str]) -> Iterator[None]:
    """Note that a part of what a run shows could not be made, and go on without it.

    Args:
        part: what it is, after "the".
        notes: list that gets the note.

    Raises:
        OSError: If the system refused something, such as space on a full disk: leaving out a part
            would not mend it.
    """
    try:
        yield
    except Exception as error:
        # Errors of the system have a number; libraries raise OSErrors without one.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        notes.append(f"the {part} could not be made: {first_line(error)}")


def warning_once(show: Callable[..., None], name: str) -> Callable[..., None]:
    """Turn errors of what shows a fit in progress into one warning.

    Args:
        show: the function.
        name: what it is, after "the".
    """
    is_warned = False

    @functools.wraps(show)
    def guarded(*args: Any, **kwargs: Any) -> None:
        nonlocal is_warned
        try:
            show(*args, **kwargs)
        except Exception as error:
            if not is_warned:
                reason = f"{type(error).__name__}: {first_line(error)}"
                print_to_stderr(f"warning: the {name} failed ({reason}); the fit goes on")
            is_warned = True

    return guarded
