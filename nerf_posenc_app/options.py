"""The options of the command line: one dataclass per kind of data, which is also its configuration.

A field is an option: its type and `Range` are checked, the line below it is its help, and once a
kind has resolved what depends on the data, the same object is the complete configuration of a run.
"""

import difflib
import importlib.util
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Never, TypeVar

from nerf_posenc.core.checks import unknown_name
from nerf_posenc.training.recipes import OPTIMIZERS
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.json_values import from_json
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.terminal import say

SCRIPT = "train_fit.py"
_INSTALLED = "nerf-posenc"

# Windows starts it as nerf-posenc.exe.
PROGRAM = _INSTALLED if Path(sys.argv[0]).stem == _INSTALLED else SCRIPT
"""The program as it was started."""
STARTED = f"{PROGRAM} fit" if PROGRAM == _INSTALLED else PROGRAM
"""The program as it is started for a fit."""


def command_words(python: str = "python") -> list[str]:
    """First words of a command line that starts the program as it was started."""
    if PROGRAM != SCRIPT:
        return [PROGRAM]
    return [python, sys.argv[0] if Path(sys.argv[0]).name == SCRIPT else SCRIPT]


NOT_COMPARED = (
    *("device", "out", "overwrite", "save_every", "figures", "open", "quiet", "video"),
    *("tensorboard", "max_pixels"),
)
"""Options that leave the fits as they are: where a run computes, what it opens and shows, and where
it is written. A resumed run may have others, and a comparison does not name them."""

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


@dataclass(frozen=True)
class Shown:
    """How the command line shows an option, if not by the name and the type of its field.

    Attributes:
        name: name of the option without its dashes; if empty, the name of the field is used.
        values: its values as the help shows them; if empty, they are taken from the type.
        text: its help; if empty, the text below the field is used.
        is_positional: whether it is given by its place instead of its name.
    """

    name: str = ""
    values: str = ""
    text: str = ""
    is_positional: bool = False


POSITIONAL = Shown(is_positional=True)

if typing.TYPE_CHECKING:
    import typing_extensions

    Open = typing_extensions.TypeVar("Open", bound=None, default=None, covariant=True)
else:
    # Python 3.11 has no defaults of type variables.
    Open = TypeVar("Open", bound=type(None), covariant=True)
"""What an option may be instead of a value: None as given, and Never in a configuration."""

LEFT_OPEN: Any = None
"""Default of an option of the type ``... | Open``, which has no value that suits every `Open`."""

Count = Annotated[int | Open, Range(1)]
"""Option that counts something."""
Seconds = Annotated[float | None, Range(0, is_open=True)]


# Limit for the hidden layers: 2 GB, and as much for the gradients and for the momenta.
_MOST_WEIGHTS = 1 << 29


@dataclass(frozen=True, kw_only=True)
class CommonOptions(Generic[Open]):
    """Options of all kinds of data."""

    encodings: tuple[str, ...] | Open = LEFT_OPEN
    """Encodings to fit; FILE.py:CLASS is an encoding or a network of your own."""

    width: Annotated[int | None, Range(1, 1 << 14)] = None
    """Units per hidden layer (default: images 256, after a hash grid 64; scenes 128, nerf and mip
    256; sequences 96)."""

    depth: Annotated[int | None, Range(1, 1 << 8)] = None
    """Hidden layers (default: images 4, after a hash grid 2; scenes 4, nerf and mip 8; sequences
    2)."""

    steps: Count[Open] = LEFT_OPEN
    """Training steps per fit (default: images 600, scenes 700, sequences 800; more on a GPU)."""

    seconds: Seconds = None
    """Training time per fit in seconds, instead of --steps."""

    batch_size: Count[Open] = LEFT_OPEN
    """Examples per step (default: 8192 pixels, 1024 rays, 64 pieces of text; more on a GPU)."""

    lr: Annotated[float | None, Range(0, 1000, is_open=True)] = None
    """Peak learning rate (default: by network, encoding and optimizer; the last note of a run
    names it)."""

    seed: Annotated[int, Range(0, (1 << 32) - 1)] = 0
    """Random seed of the initial weights and the batches."""

    num_seeds: Annotated[int, Range(1, 100), Shown("seeds")] = 1
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


CommonConfig = CommonOptions[Never]
"""Configuration of a run: options of which `Kind.resolve` has left none open."""


@dataclass(frozen=True, kw_only=True)
class CoordinateOptions(CommonOptions[Open]):
    """Options of networks on coordinates."""

    num_bands: Annotated[int | Open, Range(1, 100), Shown("bands")] = LEFT_OPEN
    """Frequency bands L of fourier: sine and cosine of 2^k pi x for k = 0 ... L-1 (default: by
    the Nyquist frequency of the data; 10 with --field nerf or proposal, 16 with mip)."""

    sigma: Annotated[float | None, Range(0, 1e6, is_open=True)] = None
    """Standard deviation of the frequencies of gaussian, in cycles per unit of the coordinate,
    of which the data span 2 (default: 0.09 of the Nyquist frequency)."""

    optimizer: str = "auto"
    """Optimizer: adam, or muon, which trains the hidden matrices and leaves all other parameters
    to Adam. auto is adam for siren, wire and mfn, and muon for other networks."""

    def check(self) -> None:
        """Check ranges, and that the optimizer is known."""
        super().check()
        require(
            self.optimizer in ("auto", *OPTIMIZERS),
            f"--optimizer: {unknown_name('optimizer', self.optimizer, ['auto', *OPTIMIZERS])}",
        )


@dataclass(frozen=True, kw_only=True)
class PixelOptions(CoordinateOptions[Open]):
    """Options of data that is read from images."""

    size: Annotated[int | None, Range(1)] = None
    """Reduce images to N pixels along their longer side before the fit."""

    max_pixels: Annotated[int, Range(1)] = 200_000_000
    """Reject image files with more pixels before decoding them."""


def require(condition: bool, message: str) -> None:
    """Raise a `UsageError` with this message unless the condition holds."""
    if not condition:
        raise UsageError(message)


def shown(hint: Any) -> Shown:
    """How the command line shows a field of this type."""
    notes = getattr(hint, "__metadata__", ())
    return next((each for each in notes if isinstance(each, Shown)), Shown())


def option_names(declared: Any) -> dict[str, str]:
    """Field of a dataclass, or argument of a function, for each option of the command line."""
    hints = typing.get_type_hints(declared, include_extras=True)
    hints.pop("return", None)
    return {
        f"--{(shown(hint).name or field).replace('_', '-')}": field for field, hint in hints.items()
    }


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
            values[field] = os.path.expanduser(str(value)) if is_word else InMemory(value)
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


# What other programs call an option.
_SYNONYMS = {
    **dict.fromkeys(("--epochs", "--iterations", "--iters", "--num-steps"), "steps"),
    **dict.fromkeys(("--learning-rate", "--rate"), "lr"),
    **dict.fromkeys(("--L", "--num-frequencies", "--frequencies", "--multires"), "bands"),
    **dict.fromkeys(("--save", "--output", "--output-dir", "--save-dir"), "out"),
    **dict.fromkeys(("--encoding", "--encoder"), "encodings"),
    **dict.fromkeys(("--hidden-dim", "--hidden", "--units"), "width"),
    **dict.fromkeys(("--layers", "--num-layers"), "depth"),
    **dict.fromkeys(("--data", "--input", "--img", "--path"), "image"),
    **dict.fromkeys(("--gpu", "--cuda", "--cpu"), "device"),
}


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
    near = [_SYNONYMS[option]] if _SYNONYMS.get(option) in names else []
    near = near or difflib.get_close_matches(option.strip("-"), names, n=1)
    return f"there is no option {option}" + (f"; did you mean --{near[0]}?" if near else "")
