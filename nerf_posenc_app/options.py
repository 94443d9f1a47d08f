"""The options of the command line: one dataclass per kind of data, which is also its configuration.

A field is an option: its type and `Range` are checked, the line below it is its help, and once a
kind has resolved what depends on the data, the same object is the complete configuration of a run.
"""

import contextlib
import difflib
import functools
import importlib.util
import inspect
import io
import math
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar

import tyro
from tyro import _docstrings as tyro_docstrings

from nerf_posenc.core.checks import unknown_name
from nerf_posenc.plugins import how_to_install
from nerf_posenc.training.recipes import OPTIMIZERS
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.json_values import from_json
from nerf_posenc_app.terminal import say

SCRIPT = "train_fit.py"
_INSTALLED = "nerf-posenc"

# Windows starts it as nerf-posenc.exe.
PROGRAM = _INSTALLED if Path(sys.argv[0]).stem == _INSTALLED else SCRIPT
"""The program as it was started."""
# Types as tyro names them.
_TYPES = {"INT": "an integer", "FLOAT": "a number", "INT ...": "integers", "FLOAT ...": "numbers"}
_STARTED = f"{PROGRAM} fit" if PROGRAM == _INSTALLED else PROGRAM


def command_words(python: str = "python") -> list[str]:
    """First words of a command line that starts the program as it was started."""
    if PROGRAM != SCRIPT:
        return [PROGRAM]
    return [python, sys.argv[0] if Path(sys.argv[0]).name == SCRIPT else SCRIPT]


NOT_COMPARED = (
    *(
        "device",
        "out",
        "overwrite",
        "save_every",
        "figures",
        "open",
        "quiet",
        "video",
        "tensorboard",
    ),
    *("max_pixels", "images"),
)
"""Options that leave the fits as they are: where a run computes, what it opens and shows, and where
it is written. A resumed run may have others, and a comparison does not name them."""

Declared = TypeVar("Declared")
Options = TypeVar("Options", bound="CommonOptions")


class UsageError(Exception):
    """A mistake in the options; the message says how to correct it, for the command line."""

    def for_python(self) -> str:
        """The message with arguments of `fit` for options: ``batch_size`` for --batch-size."""
        return re.sub(r"--([A-Za-z_][\w-]*)", lambda match: match[1].replace("-", "_"), str(self))


@dataclass(frozen=True)
class Range:
    """Values that a numeric option may have.

    Attributes:
        low: smallest value, or the bound below all values if ``is_open``.
        high: largest value.
        is_open: whether ``low`` itself is no such value.
    """

    low: int | float
    high: int | float = math.inf
    is_open: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or not math.isfinite(value):
            return False
        if isinstance(value, int) and value > 1 << 53:
            # A file would not hold it exactly.
            return False
        return self.low < value <= self.high if self.is_open else self.low <= value <= self.high

    def __str__(self) -> str:
        low, high = (
            f"{bound:,}" if isinstance(bound, int) else f"{bound:,g}"
            for bound in (self.low, self.high)
        )
        if self.high < math.inf:
            return f"{'above ' if self.is_open else ''}{low} to {high}"
        return f"above {low}" if self.is_open else f"{low} or more"


Value = TypeVar("Value")

if typing.TYPE_CHECKING:
    # A resolved configuration has a value.
    Resolved = Annotated[Value, None]
else:
    # As given, None leaves the value to the kind, the model or the data.
    Resolved = Optional

UNSET: Any = None
"""Value of an option that is left open, which `Kind.resolve` replaces."""

Count = Annotated[Resolved[int], Range(1)]
"""Option that counts something."""
Seconds = Annotated[float | None, Range(0, is_open=True)]


# Limit for the hidden layers: 2 GB, and as much for the gradients and for the momenta.
_MOST_WEIGHTS = 1 << 29


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of all kinds of data."""

    encodings: Resolved[tuple[str, ...]] = UNSET
    """Encodings to fit; FILE.py:CLASS is an encoding or a network of your own."""

    width: Annotated[int | None, Range(1, 1 << 14)] = None
    """Units per hidden layer (default: set by data and encoding)."""

    depth: Annotated[int | None, Range(1, 1 << 8)] = None
    """Hidden layers (default: set by data and encoding)."""

    steps: Count = UNSET
    """Training steps per fit (default: set by the data, a few minutes in total)."""

    seconds: Seconds = None
    """Training time per fit in seconds, instead of --steps."""

    batch_size: Count = UNSET
    """Pixels, rays or examples per step (default: set by the data and the device)."""

    lr: Annotated[float | None, Range(0, 1000, is_open=True)] = None
    """Peak learning rate (default: set by the encoding and the optimizer)."""

    seed: Annotated[int, Range(0, (1 << 32) - 1)] = 0
    """Random seed of the initial weights and the batches."""

    num_seeds: Annotated[int, Range(1, 100), tyro.conf.arg(name="seeds")] = 1
    """Repeat each fit with N seeds and report the mean score."""

    device: str = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:N or mps."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Floating-point type of the network in training."""

    video: Annotated[int, Range(0, 10_000)] = 16
    """Number of frames of the training video; 0 turns it off."""

    out: Path | None = None
    """Folder to write the run to (default: a new one under runs/)."""

    overwrite: bool = False
    """Allow --out to be a folder that contains files."""

    save_every: Annotated[float, Range(0, is_open=True)] = 60.0
    """Save each fit every N seconds, for --resume."""

    figures: bool = False
    """Also write each chart as an SVG file."""

    open: bool = False
    """Open the report in a browser when the run ends."""

    tensorboard: bool = False
    """Also write TensorBoard logs."""

    quiet: bool = False
    """Print errors only."""

    def check(self) -> None:
        """Check the ranges of all options, and that they fit together.

        Raises:
            UsageError: Naming the option, what it must be and what it is.
        """
        require_ranges(type(self), vars(self))
        require(self.video != 1, "--video must be 2 or more, or 0 for none; got 1")
        require(
            self.steps is None or self.seconds is None,
            "--steps and --seconds both set the length of a fit; give one of them",
        )
        weights = (self.width or 0) ** 2 * (self.depth or 1)
        require(
            weights <= _MOST_WEIGHTS,
            f"--width {self.width} --depth {self.depth} make {weights:,} weights, more than "
            f"{_MOST_WEIGHTS:,}; give smaller ones",
        )
        names = self.encodings
        require(names is None or len(names) > 0, "--encodings needs one name or more")
        require(
            names is None or len(set(names)) == len(names),
            "--encodings names an encoding twice; give each once",
        )
        require(
            not self.tensorboard or importlib.util.find_spec("tensorboard") is not None,
            f"--tensorboard needs tensorboard: {how_to_install('tensorboard')}",
        )

    def in_memory(self) -> dict[str, InMemory]:
        """Data that Python holds, by the name of the option."""
        return {name: value for name, value in vars(self).items() if isinstance(value, InMemory)}

    def log(self, line: str) -> None:
        """Print a line, unless ``--quiet``."""
        if not self.quiet:
            say(line)


@dataclass(frozen=True, kw_only=True)
class CoordinateOptions(CommonOptions):
    """Options of networks on coordinates."""

    num_bands: Annotated[Resolved[int], Range(1, 100), tyro.conf.arg(name="bands")] = UNSET
    """Frequency bands L of fourier: sine and cosine of 2^k pi x for k = 0 ... L-1 (default: set
    by the data)."""

    sigma: Annotated[float | None, Range(0, 1e6, is_open=True)] = None
    """Standard deviation of the frequencies of gaussian, in cycles per unit of the coordinate
    (default: set by the data)."""

    optimizer: str = "auto"
    """Optimizer: adam, or muon, which trains the hidden matrices and leaves all other parameters
    to Adam. auto is muon for ReLU networks and adam for others."""

    def check(self) -> None:
        """Check ranges, and that the optimizer is known."""
        super().check()
        require(
            self.optimizer in ("auto", *OPTIMIZERS),
            f"--optimizer: {unknown_name('optimizer', self.optimizer, ['auto', *OPTIMIZERS])}",
        )


@dataclass(frozen=True, kw_only=True)
class PixelOptions(CoordinateOptions):
    """Options of data that is read from images."""

    size: Annotated[int | None, Range(1)] = None
    """Reduce images to N pixels along their longer side before the fit."""

    max_pixels: Annotated[int, Range(1)] = 200_000_000
    """Reject image files with more pixels before decoding them."""


def require(condition: bool, message: str) -> None:
    """Raise a `UsageError` with this message unless the condition holds."""
    if not condition:
        raise UsageError(message)


def option_names(declared: Any) -> dict[str, str]:
    """Field of a dataclass, or argument of a function, for each option of the command line."""
    field_by_option: dict[str, str] = {}
    for field, hint in typing.get_type_hints(declared, include_extras=True).items():
        known = [each for each in getattr(hint, "__metadata__", ()) if hasattr(each, "aliases")]
        names = [field, *(name for each in known for name in (each.name, *(each.aliases or ())))]
        # An explicit name replaces that of the field.
        names = names[1:] if len(names) > 1 and names[1] else names[:1]
        field_by_option |= {
            "--" + name.lstrip("-").replace("_", "-"): field for name in names if name
        }
    return field_by_option


def from_values(
    options: type[Options],
    given: Mapping[str, Any],
    others: Callable[[], Mapping[str, type]] = dict,
) -> Options:
    """Make options of values, as the command line makes them of words.

    Args:
        options: dataclass of the options.
        given: values by the name of the field or of the option, with ``_`` for ``-``; arrays where
            an option names a file. None leaves an option at its default.
        others: function that gives the options of the other kinds of data, by the option that
            chooses the kind; called to explain an unknown name.

    Raises:
        UsageError: If a name is unknown or given twice, or a value is of another type.
    """
    names = option_names(options)
    fields_by_option = names | {
        f"--{field.name.replace('_', '-')}": field.name for field in fields(options)
    }
    hints = typing.get_type_hints(options, include_extras=True)
    values: dict[str, Any] = {}
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if option not in fields_by_option:
            raise UsageError(unknown_option(option, options, others()))
        field = fields_by_option[option]
        if field in values:
            raise UsageError(
                f"{option} and {_option_of(names, field)} are the same option; give one of them"
            )
        if value is None:
            continue
        if InMemory in getattr(hints[field], "__metadata__", ()):
            # A number is a word of the command line: observed=0.1.
            value = value.item() if getattr(value, "ndim", None) == 0 else value
            is_word = isinstance(value, str | Path | int | float) and value is not True
            values[field] = str(value) if is_word else InMemory(value)
            continue
        try:
            values[field] = from_json(hints[field], _plain(value), option)
        except ValueError as error:
            raise UsageError(str(error)) from None
    return options(**values)


def _option_of(names: Mapping[str, str], field: str) -> str:
    return next(option for option, name in names.items() if name == field)


def _plain(value: Any) -> Any:
    """A value of NumPy or torch, a tuple or a path as JSON has it."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) and not isinstance(value, str) else value


def require_ranges(declared: Any, values: Mapping[str, Any]) -> None:
    """Check numbers against the ranges that they are annotated with.

    Args:
        declared: dataclass or function whose fields or arguments are the options.
        values: values by the name of the field or the argument.

    Raises:
        UsageError: Naming the option, what it must be and what it is.
    """
    hints = typing.get_type_hints(declared, include_extras=True)
    for option, name in option_names(declared).items():
        given = values.get(name)
        for allowed in getattr(hints[name], "__metadata__", ()):
            for value in given if isinstance(given, tuple) else (given,):
                if isinstance(allowed, Range) and type(value) in (int, float):
                    remedy = "; raw coordinates are --encodings none" if name == "num_bands" else ""
                    require(value in allowed, f"{option} must be {allowed}; got {value}{remedy}")


def read(
    declared: type[Declared] | Callable[..., Declared],
    arguments: Sequence[str],
    *,
    command: str = "",
    description: str | None = None,
    others: Callable[[], Mapping[str, type]] = dict,
) -> Declared:
    """Read a command line into a dataclass, or call a function with it; tyro prints the help.

    A function is called once the whole command line is known to be right.

    Args:
        declared: dataclass or function whose fields or arguments are the options.
        arguments: words of the command line.
        command: name of the command that they follow, if any.
        description: text at the top of the help; None for the docstring.
        others: function that gives the dataclasses whose options belong to another kind of data, by
            the option that chooses that kind; called to explain an unknown option.

    Raises:
        UsageError: If there is an option that the dataclass or the function lacks, or a value of
            another type.
        SystemExit: After tyro has printed the help.
    """
    program = f"{PROGRAM} {command}".strip()
    markers = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    with _errors_in_one_line(program), _tidy_help():
        values, unknown = tyro.cli(
            declared if isinstance(declared, type) else _recorded(declared),
            prog=program,
            description=description,
            args=list(arguments),
            return_unknown_args=True,
            config=markers,
        )
    if unknown:
        _refuse(unknown[0], program, declared, others())
    if isinstance(declared, type):
        options: Declared = values
        return options
    require_ranges(declared, inspect.signature(declared).bind(*values[0], **values[1]).arguments)
    return declared(*values[0], **values[1])


@contextlib.contextmanager
def _errors_in_one_line(program: str) -> Iterator[None]:
    """Raise what tyro would print in a box, without the types of Python in it."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            yield
    except SystemExit as ended:
        if not ended.code:
            raise  # The help is printed.
        raise UsageError(f"{_in_one_line(printed.getvalue())} (see {program} --help)") from None
    else:
        print(printed.getvalue(), end="", file=sys.stderr)  # Warnings.


def _in_one_line(box: str) -> str:
    """One line for an error that tyro has drawn a box around."""
    lines = [re.sub(r"[│╭╮╰╯─]|-{3,}", " ", line).strip() for line in box.splitlines()]
    text = " ".join(line for line in lines if line)
    if wrong := re.search(r"Error parsing (\S+): (.*?) (Got errors|Argument helptext):", text):
        named = lines[lines.index("Argument helptext:") + 1]
        types = named.removeprefix(wrong[1]).strip().split("|")
        expected = " or ".join(_TYPES.get(each, each) for each in types)
        given = " ".join(re.findall(r"'[^']*'|\"[^\"]*\"", wrong[2]))
        return f"{wrong[1]} takes {expected}, not {given}"
    if choice := re.search(
        r"choice (\S+) for argument '(\S+)' ?\. Expected one of \((.*?)\)", text
    ):
        return f"{choice[2]} takes one of {choice[3]}, not {choice[1]}"
    if missing := re.search(r"Missing from [^:]*: (\S+) (.*?) ?\(required\)", text):
        return f"{missing[1]} is missing: {missing[2]}"
    if empty := re.search(r"Missing value for argument '(\S+)'", text):
        return f"{empty[1]} needs a value"
    return text


@contextlib.contextmanager
def _tidy_help() -> Iterator[None]:
    """Remove defaults of None and False from the help: texts state theirs, and flags are off.

    Line breaks within a paragraph are removed as well: tyro keeps those of indented docstrings and
    then wraps the lines again.
    """
    printed, parse = io.StringIO(), tyro_docstrings.parse_docstring_from_object
    tyro_docstrings.parse_docstring_from_object = functools.lru_cache(
        lambda declared: {name: " ".join(text.split()) for name, text in parse(declared).items()}
    )
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        tyro_docstrings.parse_docstring_from_object = parse
        # It may go on in the next line of a box, whose frame stays.
        blank = re.sub(
            r"\(default:(\s*│\n│)?\s*(None|False|)\)",
            lambda found: re.sub(r"[^│\n]", " ", found[0]),
            printed.getvalue().replace(f"Example: {SCRIPT}", f"Example: {_STARTED}"),
        )
        # Without the lines that had nothing else.
        lines = re.sub(r"\n[│ ]+(?=\n)", "", blank).splitlines()
        print("".join(f"{line}\n" for line in _arranged(_wrapped(lines))), end="")


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Lines of a help with its text above the options wrapped, which tyro leaves as it is."""
    width = shutil.get_terminal_size().columns
    box = next((i for i, line in enumerate(lines) if re.match(r"\W+\w+", line)), len(lines))
    texts = [textwrap.wrap(line, width) or [""] for line in lines[:box]]
    return [line for text in texts for line in text] + list(lines[box:])


def _arranged(lines: Sequence[str]) -> list[str]:
    """Lines of a help: options of the data first, those of folder and screen last."""
    lines = [_without_braces(line) for line in lines]
    box = next((i for i, line in enumerate(lines) if re.match(r"\W+options\b", line)), len(lines))
    heads = [i for i in range(box, len(lines)) if re.match(r"[│ ] -", lines[i])]
    if not any("--encodings" in lines[i] for i in heads):
        return lines
    end = next((i for i in range(heads[-1] + 1, len(lines)) if lines[i][2:3] != " "), len(lines))
    blocks = [lines[i:j] for i, j in zip(heads, [*heads[1:], end], strict=True)]
    names, data = list(option_names(CommonOptions)), lines[0].split("[")[0].split()[-1]
    first_of_folder = names.index("--video")

    def group(block: Sequence[str]) -> int:
        option = next((word for word in block[0].split() if word.startswith("--")), "")
        if option not in names:
            return 0 if option in ("--help", data, f"{data}s") else 1
        return 2 if names.index(option) < first_of_folder else 3

    arranged: list[str] = []
    for number, title in enumerate(("", "", "training", "run folder and screen")):
        own = [line for each in blocks if group(each) == number for line in each]
        frame = "│" if own and own[0].startswith("│") else " "
        width = len(own[0]) if own else 0
        arranged += [f"{frame} {title}:".ljust(width - 1) + frame] if title and own else []
        arranged += own
    return [*lines[: heads[0]], *arranged, *lines[end:]]


def _without_braces(line: str) -> str:
    """A line of the help with ``STR ...`` for ``{[STR [STR ...]]}``, as wide as it was."""
    is_usage = not line.startswith((" ", "│"))

    def plural(found: re.Match[str]) -> str:
        return f"{found[1]} ...".ljust(0 if is_usage else len(found[0]))

    line = re.sub(r"\[\[(\w+) \[\w+ \.\.\.\]\]\]", plural, line)
    plain = re.sub(r"(?<=--)([\w-]+) \{\[(\w+) \[\w+ \.\.\.\]\]\}", r"\1 \2 ...", line)
    plain = re.sub(r"(?<=--)([\w-]+) \{([^}]*)\}", r"\1 \2", plain)
    end = len(line.rstrip()) if line.endswith("│") else len(line)
    return line if plain == line else plain[:-1].ljust(end - 1) + plain[-1:]


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same arguments that returns them."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    # The descriptions of arguments in one line each, which the help wraps.
    record.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    del record.__wrapped__
    record.__doc__ = re.sub(r"(?<=\S)\n {12}(?=\S)", " ", function.__doc__ or "")
    return record


def _refuse(word: str, program: str, declared: Any, others: Mapping[str, type]) -> None:
    """Raise for a word that is neither an option nor the value of one."""
    if not word.startswith("--"):
        raise UsageError(
            f"{word!r} belongs to no option; an option takes one value, unless --help shows "
            f"several (see {program} --help)"
        )
    reason = unknown_option(word.split("=")[0], declared, others)
    raise UsageError(f"{reason} (see {program} --help)")


def unknown_option(option: str, declared: Any, others: Mapping[str, type]) -> str:
    """Say which kind of data has an unknown option, or which option is spelled like it.

    Args:
        option: the unknown option, as ``--bnads``.
        declared: dataclass or function that lacks it.
        others: dataclasses of the options of all kinds of data, by the option that chooses a kind.
    """
    chosen = next((name for name, other in others.items() if other is declared), "this")
    for choice, other in others.items():
        if option in option_names(other):
            return f"{option} is for {choice}, not for {chosen}"
    names = [name.strip("-") for name in (*option_names(declared), *others)]
    near = difflib.get_close_matches(option.strip("-"), names, n=1)
    return f"there is no option {option}" + (f"; did you mean --{near[0]}?" if near else "")
