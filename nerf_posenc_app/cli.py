"""The command line: arguments in, exit status out. Signals are handled here alone."""

import difflib
import shlex
import signal
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from nerf_posenc import __version__
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc_app.command_line import HELP, read
from nerf_posenc_app.commands import COMMANDS, COMPANION
from nerf_posenc_app.kinds import KINDS, named_kinds, options_of_kinds, require_installed, with_data
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import PROGRAM, CommonOptions, UsageError, command_words, require
from nerf_posenc_app.own_encodings import with_own_encodings
from nerf_posenc_app.plugins import PluginError, how_to_install
from nerf_posenc_app.runs.resume import options_of_resume, resumed
from nerf_posenc_app.runs.run import Context, resume_command
from nerf_posenc_app.runs.saved import SaveError
from nerf_posenc_app.runs.signals import handled_signals
from nerf_posenc_app.runs.stop import Stop, Stopped
from nerf_posenc_app.runs.train import OUT_OF_MEMORY, is_out_of_memory
from nerf_posenc_app.terminal import lasting_streams, print_to_stderr, printable, say

# Commands of another program.
_AUDIT = {name: f"nerf_posenc_audit {name}" for name in ("check", "find", "vendor", "vectors")}
# Maximum length of a printed error message.
_MAX_MESSAGE = 2000


def parse(arguments: Sequence[str]) -> tuple[type[Kind[Any]], CommonOptions]:
    """Choose the kind of data, and read and check its options.

    Raises:
        UsageError: If options are unknown, of another kind, out of their range, or conflict.
        SystemExit: After the help is printed.
    """
    given = [argument.split("=")[0] for argument in arguments]
    words = set(given)
    chosen = named_kinds(word[2:] for word in sorted(words) if word.startswith("--"))
    if len(chosen) > 1:
        names = " and ".join(f"--{name}" for name in chosen)
        raise UsageError(f"{names} exclude each other; give one of them")
    for name in chosen:
        # Of other options the last one holds.
        is_once = given.count(f"--{name}") <= 1
        require(is_once, f"--{name} is given more than once; give one")
    for word in words:
        if word.startswith("--"):
            require_installed(word.removeprefix("--"))
    if not chosen and words & HELP:
        read(CommonOptions, ["--help"], description=_description())
    kind = KINDS[chosen[0] if chosen else "image"]
    options = read(kind.Options, arguments, command=f"--{kind.name}", others=options_of_kinds)
    options = with_data(kind, with_own_encodings(options, Path()))
    options.check()
    return kind, options


def _description() -> str:
    """Description of the program, its kinds of data and its commands."""
    lines = []
    for name in KINDS:
        try:
            about = (KINDS[name].Options.__doc__ or "").splitlines()[0]
        except PluginError as error:
            about = str(error)
        lines.append((f"--{name} --help", about))
    lines.append(("--resume RUN", "Continue an interrupted run."))
    commands = f"Work with saved runs and other files: {', '.join(COMMANDS)}."
    lines.append(("COMMAND --help", commands))
    listed = "\n".join(
        textwrap.fill(about, 80, initial_indent=f"  {words:19} ", subsequent_indent=" " * 22)
        for words, about in lines
    )
    return (
        f"Fit a small network without and with an encoding, and show what it recovers.\n\n{listed}"
    )


def main(arguments: Sequence[str], experiment: Callable[..., bool]) -> int:
    """Run the program.

    Args:
        arguments: words of the command line.
        experiment: makes a run of the kind of data and the options that they name.

    Returns:
        0; 1 if a fit failed or could not be saved; 2 for a mistake in the command line; 128 and
        the number of the signal that ended it.
    """
    # The installed command may be called as nerf-posenc fit --image cat.png.
    arguments = arguments[1:] if arguments[:1] == ["fit"] else arguments
    keep_freed_memory()
    stop = Stop()
    with lasting_streams() as (out, _), handled_signals(stop) as signals:
        try:
            _require_text(arguments)
            command = shlex.join([*command_words(), *arguments])
            status = _run(arguments, Context(printable(command), stop), experiment)
        except SystemExit as ended:
            # The help is printed.
            is_status = ended.code is None or isinstance(ended.code, int)
            status = int(ended.code or 0) if is_status else _fail(str(ended.code), 2)
        except (UsageError, PluginError) as error:
            status = _fail(str(error), 2)
        except SaveError as error:
            status = _fail(str(error), 1, stop)
        except (Stopped, KeyboardInterrupt):
            status = 128 + (signals[-1] if signals else signal.SIGINT)
            _fail("stopped", status, stop)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            status = _fail(OUT_OF_MEMORY, 1, stop)
        out.flush()
        if out.error is not None and not isinstance(out.error, BrokenPipeError):
            print_to_stderr(f"{PROGRAM}: error: cannot print: {out.error}")
            status = status or 1
    return status


def _run(arguments: Sequence[str], context: Context, experiment: Callable[..., bool]) -> int:
    if list(arguments) == ["--version"]:
        say(f"{PROGRAM} of nerf_posenc {__version__}, torch {torch.__version__}")
        return 0
    if not arguments:
        arguments = ["--help"]
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:2], "--help"]
    if arguments and not arguments[0].startswith("-"):
        name = arguments[0]
        if name in COMPANION and name not in COMMANDS:
            install = how_to_install(companion=True)
            raise UsageError(f"{name} is a command of nerf-posenc-more: {install}")
        if name in _AUDIT and name not in COMMANDS:
            raise UsageError(f"{name} is a command of nerf_posenc_audit: python -m {_AUDIT[name]}")
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            guess = f"did you mean {near[0]}?" if near else f"to fit it, --image {name}"
            raise UsageError(f"no command {name!r}; {guess} (commands: {', '.join(COMMANDS)})")
        return read(COMMANDS[name], arguments[1:], command=name) or 0
    if any(argument.split("=")[0] == "--resume" for argument in arguments):
        found = resumed(context, **read(options_of_resume, arguments, others=_of_new_runs))
        return 0 if found is None or experiment(*found) else 1
    kind, options = parse(arguments)
    return 0 if experiment(kind, options, context) else 1


def _require_text(arguments: Sequence[str]) -> None:
    """Raise if a word is no text, which no file of a run could hold.

    Raises:
        UsageError: Naming the word.
    """
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{printable(word)} is no text in this locale; rename the file or folder, or set "
                "PYTHONUTF8=1"
            ) from None


def _of_new_runs() -> dict[str, type[CommonOptions[Any]]]:
    """Options that a run takes as it begins, and none that goes on."""
    of_kinds = {f"a new run of --{name}": kind.Options for name, kind in KINDS.items()}
    return {"a new run": CommonOptions, **of_kinds}


def _fail(message: str, status: int, stop: Stop | None = None) -> int:
    """Print why the program ends, and how to go on with what it saved."""
    # A value from a file may have many megabytes.
    message = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + " ..."
    line = f"{PROGRAM}: error: {message}" if status < 128 else f"{PROGRAM}: {message}"
    if stop is not None and stop.folder is not None and stop.folder.exists():
        line += f"; resume with: {resume_command(stop.folder, stop.encodings)}"
    print_to_stderr(line)
    return status
