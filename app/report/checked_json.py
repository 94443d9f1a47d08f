"""Values of JSON that is not trusted, each checked for its type and its range.

Every function takes a value and the name that its ``ValueError`` gives it.
"""

import math
from collections.abc import Mapping
from typing import Any

_MOST_ITEMS = 1_000_000
_MOST_NAME = 200


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object; it is {type(value).__name__}")
    return value


def items(value: Any, name: str) -> list[Any]:
    """A list that is not too long."""
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ValueError(f"{name} must be a list of at most {_MOST_ITEMS:,} items")
    return value


def text(value: Any, name: str, *, most: int = 1000) -> str:
    """A string of Unicode of at most so many characters."""
    if not isinstance(value, str) or len(value) > most or (not value.isascii() and "\0" in value):
        raise ValueError(f"{name} must be a text of at most {most} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode") from None
    return value


def file_name(value: Any, name: str) -> str:
    """The name of a file without a folder."""
    plain = text(value, name, most=_MOST_NAME)
    if not plain.strip(". ") or set(plain) & set("/\\:\0") or not plain.isprintable():
        raise ValueError(f"{name} must be the plain name of a file; it is {plain!r}")
    return plain


def count(value: Any, name: str) -> int:
    """A whole number of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise ValueError(f"{name} must be a whole number of 0 or more; it is {value!r:.80}")
    return value


def number(value: Any, name: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise ValueError(f"{name} must be a finite number; it is {value!r:.80}")
    return float(value)


def score(value: Any, name: str) -> float:
    """A score: null is NaN, and infinite ones are strings."""
    if value is None:
        return math.nan
    return math.inf if value == "inf" else number(value, name)
