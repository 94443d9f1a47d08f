"""Read a command line into a dataclass of options, or call a function with it.

A field of the dataclass is an option, and the text below it is its help; so are the arguments of a
function, and the section ``Args`` of its docstring. argparse takes the words apart.
"""

import argparse
import ast
import contextlib
import inspect
import os
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from nerf_posenc_app.options import (
    PROGRAM,
    SCRIPT,
    STARTED,
    CommonOptions,
    Open,
    Shown,
    UsageError,
    option_names,
    require_ranges,
    shown,
    unknown_option,
)

Declared = TypeVar("Declared")

HELP = {"-h", "--help"}
"""Words that ask for the help."""

# Column of the help where the texts of the options begin.
_TEXTS = 18


# How the type of a word is shown in the help, and named in an error, one word and several.
_KINDS = {
    int: ("INT", "an integer", "integers"),
    float: ("FLOAT", "a number", "numbers"),
    str: ("STR", "a text", "texts"),
    Path: ("PATH", "a path", "paths"),
}
_GROUPS = ("arguments", "options", "training", "run folder and screen")


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, and words them as this program does."""

    def error(self, message: str) -> typing.NoReturn:
        message = re.sub(r"^argument ([^:/]+): ", r"\1 ", message)
        message = re.sub(r"expected (one|at least one) argument", "needs a value", message)
        message = re.sub(r"expected (\d+) arguments", r"needs \1 values", message)
        message = re.sub(r"ignored explicit argument .*", "takes no value", message)
        raise UsageError(f"{message} (see {self.prog} --help)")


@dataclass(frozen=True)
class _Option:
    """An option as it is declared.

    Attributes:
        field: name of the field or the argument.
        name: the option itself, such as ``--bands``, or the name of a positional argument.
        types: types that a word may have.
        choices: words that it may be instead.
        count: number of words, as argparse has it: None for one, ``"*"`` for any number, ``"+"`` if
            one word stands for itself and several for a tuple.
        default: its default; `inspect.Parameter.empty` for none.
        shown: how the command line shows it.
    """

    field: str
    name: str
    types: Sequence[type]
    choices: Sequence[str]
    count: int | str | None
    default: Any
    shown: Shown

    @property
    def values(self) -> str:
        """Its values as the help shows them."""
        if bool in self.types or self.shown.values:
            return self.shown.values
        word = "|".join(_KINDS[each][0] for each in self.types)
        if isinstance(self.count, int):
            return " ".join([word] * self.count)
        words = f"{word} ..." if self.count else word
        return "|".join([words, *self.choices] if words else self.choices)

    def allowed(self) -> str:
        """Its values as an error names them."""
        if not self.types:
            return f"one of {', '.join(map(repr, self.choices))}"
        kinds = [_KINDS[each][1 if self.count is None else 2] for each in self.types]
        return " or ".join([*kinds, *self.choices])

    def read(self, word: str) -> Any:
        """A value of one word."""
        if word in self.choices:
            return word
        for each in self.types:
            with contextlib.suppress(ValueError):
                return each(word)
        raise argparse.ArgumentTypeError(f"takes {self.allowed()}, not {word!r}")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser know it."""
        if self.shown.is_positional:
            parser.add_argument(self.field, type=self.read, nargs=self.count or "?")
            return
        how: dict[str, Any] = {"action": "store_true"}
        if bool not in self.types:
            is_needed = self.default is inspect.Parameter.empty
            how = {"type": self.read, "nargs": self.count, "required": is_needed}
        parser.add_argument(self.name, dest=self.field, default=argparse.SUPPRESS, **how)

    def value(self, words: Any) -> Any:
        """Its value from those of its words."""
        if self.count != "+":
            return tuple(words) if isinstance(words, list) else words
        if len(words) > 1 and {*words} & {*self.choices}:
            raise UsageError(f"{self.name} takes {self.allowed()}, not both")
        return words[0] if len(words) == 1 else tuple(words)


def _options(declared: Any) -> list[_Option]:
    """Options of a function, or of a dataclass: its own before those of its bases."""
    hints = typing.get_type_hints(declared, include_extras=True)
    defaults = {name: each.default for name, each in inspect.signature(declared).parameters.items()}
    options = []
    for name, field in option_names(declared).items():
        types_of_word: list[type] = []
        choices: list[str] = []
        count: int | str | None = None
        for part in (parts := list(_parts(hints[field]))):
            arguments = typing.get_args(part)
            if typing.get_origin(part) is Literal:
                choices += arguments
            elif typing.get_origin(part) is tuple:
                count = "*" if arguments[-1] is Ellipsis else len(arguments)
                types_of_word.append(arguments[0])
            else:
                types_of_word.append(part)
        count = "+" if count == "*" and len(parts) > 1 else count
        kinds = list(dict.fromkeys(types_of_word))
        of_field = shown(hints[field])
        options.append(_Option(field, name, kinds, choices, count, defaults[field], of_field))
    if isinstance(declared, type):
        own = [name for base in declared.__mro__ for name in inspect.get_annotations(base)]
        options.sort(key=lambda option: own.index(option.field))
    return options


def _parts(hint: Any) -> Iterator[Any]:
    """Types that a type is made of, without None."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        yield from _parts(arguments[0])
    elif origin in (Union, types.UnionType):
        for each in arguments:
            yield from _parts(each)
    elif hint not in (type(None), Open):
        yield hint


def read(
    declared: type[Declared] | Callable[..., Declared],
    arguments: Sequence[str],
    *,
    command: str = "",
    description: str | None = None,
    others: Callable[[], Mapping[str, type]] = dict,
) -> Declared:
    """Read a command line into a dataclass, or call a function with it.

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
        SystemExit: After the help is printed.
    """
    # A shell leaves the ~ of --image=~/photo.jpg as it is.
    arguments = [re.sub("^((?:--[^=]+=)?)(~.*)", _with_home, word) for word in arguments]
    program = f"{PROGRAM} {command}".strip()
    options = _options(declared)
    if HELP & {*arguments}:
        print(_help(declared, options, program, description))
        raise SystemExit(0)
    parser = _Parser(prog=program, add_help=False, allow_abbrev=False)
    for option in options:
        option.add_to(parser)
    namespace, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        raise UsageError(f"{_refusal(unknown[0], declared, others())} (see {program} --help)")
    given = vars(namespace)
    for option in options:
        if option.shown.is_positional and given[option.field] is None:
            text = _texts(declared).get(option.field, "")
            raise UsageError(f"{option.values} is missing: {text} (see {program} --help)")
    values = {each.field: each.value(given[each.field]) for each in options if each.field in given}
    if not isinstance(declared, type):
        require_ranges(declared, values)
    return declared(**values)


def _with_home(match: re.Match[str]) -> str:
    return match[1] + os.path.expanduser(match[2])


def _refusal(word: str, declared: Any, others: Mapping[str, type]) -> str:
    """Reason why a word is neither an option nor the value of one."""
    if word.startswith("--"):
        return unknown_option(word.split("=")[0], declared, others)
    return f"{word!r} belongs to no option; an option takes one value, unless --help shows several"


def _texts(declared: Any) -> dict[str, str]:
    """Help of each field of a dataclass or argument of a function, in one line."""
    texts: dict[str, str] = {}
    if not isinstance(declared, type):
        arguments = (inspect.getdoc(declared) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
        for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
            texts[name] = " ".join(text.split())
        return texts
    for base in declared.__mro__[::-1]:
        if not is_dataclass(base):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(node, ast.ClassDef)
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                texts[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return texts


def _help(declared: Any, options: Sequence[_Option], program: str, description: str | None) -> str:
    """Help of a command line: what it is for, then its options in groups."""
    width, texts = shutil.get_terminal_size().columns, _texts(declared)
    positional = " ".join(each.values for each in options if each.shown.is_positional)
    about = description or (inspect.getdoc(declared) or "").partition("\nArgs:\n")[0]
    about = about.strip().replace(f"  {SCRIPT} ", f"  {STARTED} ")
    lines = [" ".join(f"usage: {program} {positional} [OPTIONS]".split())]
    for paragraph in about.split("\n\n"):
        is_list = paragraph.startswith(" ")
        lines += ["", *(paragraph.splitlines() if is_list else textwrap.wrap(paragraph, width))]
    for title in _GROUPS:
        group = [option for option in options if _group(declared, option) == title]
        lines += ["", f"{title}:"] if group else []
        for option in group:
            name = "" if option.shown.is_positional else option.name
            text = option.shown.text or texts.get(option.field, "")
            if option.default != "" and type(option.default) in (str, int, float):
                text += f" (default: {option.default})"
            wrapped = textwrap.wrap(text, width - _TEXTS) or [""]
            head = "  " + f"{name} {option.values}".strip()
            if len(head) + 2 <= _TEXTS:
                head = head.ljust(_TEXTS) + wrapped.pop(0)
            lines += [head, *(" " * _TEXTS + line for line in wrapped)]
    return "\n".join(lines)


def _group(declared: Any, option: _Option) -> str:
    """Title of the group of an option in the help."""
    if option.shown.is_positional:
        return _GROUPS[0]
    common = list(option_names(CommonOptions))
    if not (isinstance(declared, type) and option.name in common):
        return _GROUPS[1]
    return _GROUPS[2 if common.index(option.name) < common.index("--video") else 3]
