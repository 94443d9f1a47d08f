"""Terminal output: printable text, progress bars, failures, and terminals that are gone."""

import contextlib
import functools
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

# With a score of fewer than 100 dB a bar takes 79 columns.
_NAME_COLUMNS = 19
_NEVER = 1e9
_BAR_FORMAT = (
    "{desc} {percentage:3.0f}% |{bar:11}| {n_fmt:>5}/{total_fmt:<5} {remaining:>5} left{postfix}"
)


def printable(text: str) -> str:
    r"""Replace what one line cannot show: controls, ends of lines and broken bytes.

    Examples:
        >>> printable("cat\x1b[31m\n.png")
        'cat?[31m?.png'
    """
    # Only some lone surrogates stand for bytes of a name; JSON may hold any.
    text = re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text)
    # Not by the encoding of file names, which in some locales has no umlauts.
    decoded = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    decoded = decoded.replace("\ufffd", "?")
    return "".join(c if c.isprintable() else "?" for c in decoded)


def say(*lines: str) -> None:
    """Print lines to standard output, each without the controls that what it names may hold."""
    print(*map(printable, lines), sep="\n", flush=True)


def quoted(path: Path) -> str:
    """A path as a shell takes it back."""
    return shlex.quote(str(path))


def progress_bar(
    name: str, total: int, unit: str, *, initial: int = 0, quiet: bool = False
) -> "tqdm[Any]":
    """Make a progress bar; all bars of a run have one width and one format.

    In a log, which is no terminal, it is only summed up.

    Args:
        name: what is done, for example an encoding or ``"fourier test views"``.
        total: number of units.
        unit: unit of the count, in the singular.
        initial: number of units that were done before.
        quiet: whether to show nothing.
    """
    return tqdm(
        total=total,
        initial=initial,
        desc=f"{name:{_NAME_COLUMNS}}",
        unit=unit,
        disable=quiet,
        delay=0 if sys.stderr.isatty() else _NEVER,
        bar_format=_BAR_FORMAT,
    )


def print_line(name: str, text: str, *, quiet: bool = False) -> None:
    """Print what a progress bar would say in the end, beside its name."""
    if not quiet:
        print_to_stderr(f"{name:{_NAME_COLUMNS}} {text}")


def print_to_stderr(line: str) -> None:
    """Print a line to standard error."""
    print(printable(line), file=sys.stderr)


def first_line(error: BaseException) -> str:
    """First line of an error's message; its type, if there is none or it cannot be told."""
    with contextlib.suppress(Exception, SystemExit):
        return str(error).strip().splitlines()[0]
    return type(error).__name__


@contextlib.contextmanager
def noted(part: str, notes: list[str]) -> Iterator[None]:
    """Note that a part of what a run shows could not be made, and go on without it.

    Args:
        part: name of the part without an article, as the note shows it.
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
        name: name of the view without an article, as the warning shows it.
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


def sum_up(bar: "tqdm[Any]", text: str | None = None) -> None:
    """Let a progress bar end as a line of text, its count and its time if None is given."""
    if bar.disable:
        return
    if text is None:
        text = f"{bar.n} {bar.unit}s in {bar.format_dict['elapsed']:.1f} s"
    if bar.delay:
        print_line(bar.desc, text)
    # Braces would be taken for fields.
    bar.bar_format = "{desc} " + text.replace("{", "{{").replace("}", "}}")


class Stream:
    """A text stream that never raises: what it cannot write is lost, and it says so in the end.

    A fit outlives the terminal that it was started in, and a ``| head -1`` after it.

    Attributes:
        error: the first error, if there was one.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | ValueError | None = None

    def write(self, text: str) -> int:
        """Write text, with what the terminal's encoding lacks replaced by escapes."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        encodable = text.encode(encoding, "backslashreplace").decode(encoding)
        self._attempt(lambda: self._stream.write(encodable))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Any) -> None:
        if self.error is None:
            try:
                action()
            except (OSError, ValueError) as error:  # A closed stream raises a ValueError.
                self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_streams() -> Iterator[tuple[Stream, Stream]]:
    """Write to standard output and error by streams that never raise."""
    before = sys.stdout, sys.stderr
    # Python has no stream for a descriptor that was closed before it started (`>&-`).
    nowhere = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    out, err = (Stream(stream or nowhere) for stream in before)
    sys.stdout, sys.stderr = out, err
    try:
        with warnings.catch_warnings():
            # In one line, without the line of code that it comes from.
            warnings.showwarning = lambda message, *_: print_to_stderr(f"warning: {message}")
            yield out, err
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before
        for stream, original in zip((out, err), before, strict=True):
            if stream.error is not None:
                _discard(original)


def _discard(stream: Any) -> None:
    """Let what a broken stream still buffers go nowhere, or Python would complain as it exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
