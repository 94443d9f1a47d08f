"""Reading of command lines: a mistake becomes one line that says how to correct it."""

import contextlib
import io
import re
from collections.abc import Sequence
from typing import TypeVar

import tyro

PROGRAM = "train_fit.py"

AnyOptions = TypeVar("AnyOptions")


class UsageError(Exception):
    """A mistake in the command line; the message says how to correct it."""


def read_options(
    kind: type[AnyOptions], arguments: Sequence[str], *, command: str | None = None
) -> AnyOptions:
    """Parse options, of a subcommand if one is named; the parser's message becomes one line.

    Raises:
        UsageError: If they cannot be parsed.
    """
    printed = io.StringIO()
    program = PROGRAM if command is None else f"{PROGRAM} {command}"
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(kind, args=list(arguments), prog=program)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(_one_line(printed.getvalue(), program)) from None


def _one_line(message: str, program: str) -> str:
    """Reduce the parser's boxed message to one line, without the help that follows."""
    sections: list[list[str]] = [[]]
    for line in message.splitlines()[1:]:
        text = line.strip(" │|")
        if text and set(text) <= set("─-╰╯+"):
            sections.append([])
        elif text:
            sections[-1].append(text)
    # Without UTF-8 there is a rule under the title as well.
    sections = [section for section in sections if section]
    parts = [" ".join(sections[0]).removesuffix(".")]
    parts[0] = _plain(re.sub(r"\[/?bold\]", "", parts[0]))
    suggested = (part[1:] for part in sections[1:] if part[:1] == ["Perhaps you meant:"])
    near = re.search(r"--[\w-]+", " ".join(next(suggested, [])))
    if near:
        parts.append(f"did you mean {near[0]}?")
    return f"{'; '.join(parts)} (see {program} --help)"


def _plain(message: str) -> str:
    """Say in plain words what the parser says of a value of another type, or of one too many."""
    mistyped = re.match(
        r"Error parsing (--[\w-]+): no type matching (\S+) could be instantiated from \['(.*?)'\]",
        message,
    )
    if mistyped:
        option, kinds, value = mistyped.groups()
        known = {"INT": "a whole number", "FLOAT": "a number"}
        names = [known.get(kind, kind.strip("{}")) for kind in kinds.split("|") if kind != "{None}"]
        return f"{option} must be {' or '.join(names)}; got {value!r}"
    unknown = re.match(r"Unrecognized options: (--[\w-]+)", message)
    if unknown:
        return f"there is no option {unknown[1]}"
    if re.match(r"Unrecognized options: [^-]", message):
        return f"{message}; an option takes one value, unless --help shows several"
    return message
