"""JSON that is not trusted, read into dataclasses with every value checked for its type."""

import dataclasses
import json
import math
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

Value = TypeVar("Value")

# A parsed file takes about 50 bytes of memory per byte.
_MAX_BYTES = 16 << 20
_MAX_ITEMS = 1_000_000
_MAX_TEXT = 100_000


class JsonTypeError(ValueError):
    """A value is not of the type that is expected.

    Attributes:
        expected: description of the expected value, for the message.
    """

    def __init__(self, name: str, expected: str, value: Any) -> None:
        super().__init__(f"{name} must be {expected}; it is {value!r:.80}")
        self.expected = expected


def as_json(value: Any) -> Any:
    """Plain containers that JSON takes: infinite numbers become strings, and NaN becomes null."""
    special = {"NaN": None, "Infinity": "inf", "-Infinity": "-inf"}
    return json.loads(json.dumps(value, default=_as_plain), parse_constant=special.get)


def _as_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) else str(value)


def read_json(file: Path) -> Any:
    """Read a JSON file that this program wrote.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it contains no JSON, is nested too deeply, or too large for such a file.
    """
    if not file.is_file() or file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{file.name} is not a regular file of at most {_MAX_BYTES >> 20} MB")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{file.name} is nested too deeply") from None


def from_json(kind: Any, value: Any, name: str) -> Any:
    """Read a value of a type: a dataclass of these, a number, a text, a list or a mapping.

    Args:
        kind: type that is expected, as `typing` writes it.
        value: result of `json.loads`.
        name: name of the value, for the message.

    Raises:
        ValueError: If the value is of another type, not finite where that is not meant, or too
            long.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is typing.Annotated:
        return from_json(arguments[0], value, name)
    if origin in (Union, types.UnionType):
        return _from_union(arguments, value, name)
    if origin is Literal:
        return _checked(value, value in arguments, f"one of {', '.join(map(str, arguments))}", name)
    if dataclasses.is_dataclass(kind):
        return _from_mapping(kind, value, name)
    if origin in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        is_list = isinstance(value, list) and len(value) <= _MAX_ITEMS
        _checked(value, is_list, "a list", name)
        if origin is not tuple:
            return [from_json(arguments[0], item, name) for item in value]
        kinds = arguments
        if arguments[-1] is Ellipsis:
            kinds = arguments[:1] * len(value)
        _checked(value, len(value) == len(kinds), f"a list of {len(kinds)}", name)
        return tuple(from_json(*pair, name) for pair in zip(kinds, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _checked(value, isinstance(value, dict), "an object", name)
        return {
            str(key): from_json(arguments[1], item, f"{name}.{key}") for key, item in value.items()
        }
    return _from_plain(kind, value, name)


def _from_union(kinds: Sequence[Any], value: Any, name: str) -> Any:
    # A type variable stands for its bound.
    kinds = [getattr(kind, "__bound__", kind) for kind in kinds]
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return from_json(kind, value, name)
            except JsonTypeError as error:
                errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    expected = dict.fromkeys(error.expected for error in errors)
    raise JsonTypeError(name, " or ".join(expected), value)


def _from_mapping(kind: Any, value: Any, name: str) -> Any:
    """Read the fields of a dataclass that are there; the others have their defaults."""
    _checked(value, isinstance(value, dict), "an object", name)
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            values[field.name] = from_json(hints[field.name], value[field.name], field.name)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name} has no {field.name}")
    return kind(**values)


def _from_plain(kind: Any, value: Any, name: str) -> Any:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if kind is bool:
        return _checked(value, isinstance(value, bool), "True or False", name)
    if kind is int:
        return _checked(value, is_integer and abs(value) < 1 << 53, "an integer", name)
    if kind is float:
        if value in (None, "inf", "-inf"):
            # What `as_json` writes for numbers that JSON lacks; dicts with this one NaN are equal.
            return math.nan if value is None else float(value)
        is_number = isinstance(value, float) or (is_integer and abs(value) <= sys.float_info.max)
        return float(_checked(value, is_number, "a number", name))
    if kind in (str, Path):
        text = _checked(value, isinstance(value, str), "a text", name)
        is_valid = len(text) <= _MAX_TEXT and not re.search("[\ud800-\udfff]", text)
        _checked(text, is_valid, f"a Unicode text of at most {_MAX_TEXT:,} characters", name)
        # A name that carries more than its text stays what it is.
        return text if kind is str else Path(text)
    raise TypeError(f"{name} is of the type {kind}, which is not read from JSON")


def _checked(value: Any, is_valid: bool, expected: str, name: str) -> Any:
    if not is_valid:
        raise JsonTypeError(name, expected, value)
    return value
