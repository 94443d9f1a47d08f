"""Every encoding of this library by the names of the models and libraries that have it."""

import difflib
import functools
import importlib
import inspect
import re
from dataclasses import dataclass

from nerf_posenc.catalog.equivalents import SECTIONS
from nerf_posenc.catalog.presets import PRESETS, encoder_of
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import Preset

# Modules whose exported classes and functions are searched by the text of their docstrings.
_PACKAGES = (
    "nerf_posenc",
    "nerf_posenc.encoders",
    "nerf_posenc.positional",
    "nerf_posenc.networks",
)
# Presets that need three axes; all others take any number.
_THREE_AXES = ("cogvideox-sincos", "prithvi")


@dataclass(frozen=True)
class Found:
    """An encoding and the line of code that makes it.

    Attributes:
        name: preset, model or class.
        line: line of Python that makes the encoding.
        also: other names of the same.
        about: source in the library, and what to watch out for.
    """

    name: str
    line: str
    also: tuple[str, ...] = ()
    about: str = ""


@functools.cache
def index() -> tuple[Found, ...]:
    """All presets, lines for what is no preset, and exported classes and functions."""
    presets = []
    for name, row in PRESETS.items():
        about = f"{row.source}. {row.note}".strip()
        # An alias with its own width gets its own line of code.
        presets += [Found(alias, f'preset("{alias}")', (), about) for alias in row.dims]
        also = tuple(alias for alias in row.aliases if alias not in row.dims)
        presets.append(Found(name, _line(name, row), also, about))
    lines = [Found(row.what, row.code) for rows in SECTIONS.values() for row in rows]
    classes: dict[str, Found] = {}
    for package in _PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and name not in classes:
                about = inspect.getdoc(value) or ""
                line = f"from {package} import {name}"
                classes[name] = Found(name, line, about=about.partition("\n\nArgs:")[0])
    return (*presets, *lines, *classes.values())


def find_encodings(text: str) -> list[Found]:
    """Find the line of code for a model, a library or a method.

    Args:
        text: name in any case, with any or no dashes, as ``rtdetr`` or ``"sam 2"``.

    Returns:
        What has the text as whole words in its name, then in what is said of it, then names with
        a word that begins with it; descriptions with such a word if there is nothing else. If
        nothing fits, the same for shorter texts, as ``vit`` of ``"ViT-B/16"``; empty for no text.

    Examples:
        >>> find_encodings("dust3r")[0].line
        'preset("croco")'
        >>> find_encodings("geoclip")[0].name
        'GeoCLIP, random features of sigma 16 on the Equal Earth projection'
    """
    words = _words(text)
    # Search for the whole text, then without size and version: "vit" of ViT-B/16, "wan" of Wan2.1.
    shorter = ["".join(words[:n]) for n in range(len(words), 0, -1)] + words
    shorter += [word.rstrip("0123456789") for word in words]
    for wanted in dict.fromkeys(shorter):
        found = _ranked(wanted)
        # A shortened text must match a whole word.
        if found and (wanted == shorter[0] or (len(wanted) > 1 and found[0][0] < _FIRST_PART)):
            return [each for _, each in found]
    return []


def _ranked(wanted: str) -> list[tuple[int, Found]]:
    """What a text without spaces finds, with its rank."""
    ranked = [(_rank(wanted, found), found) for found in index()] if wanted else []
    best = min((rank for rank, _ in ranked), default=_NOT_FOUND)
    worst = min(_NOT_FOUND - 1, max(best, _NOT_FOUND - 2))
    return [row for row in sorted(ranked, key=lambda row: row[0]) if row[0] <= worst]


def similar_names(text: str) -> list[str]:
    """Names of the index that are spelled like a text."""
    names = [name for found in index() for name in (found.name.lower(), *found.also)]
    return difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.7)


# Ranks of whole words are below this one.
_FIRST_PART = 3
_NOT_FOUND = 5


def _rank(wanted: str, found: Found) -> int:
    """0 for a name itself, 1 and 2 for whole words in the names or the text, 3 and 4 for parts."""
    names = [_words(name) for name in (found.name, *found.also)]
    about = _words(found.about)
    if any("".join(words) == wanted for words in names):
        return 0
    for rank, texts in enumerate((names, [about]), start=1):
        if any(_contains(wanted, words, whole=True) for words in texts):
            return rank
    for rank, texts in enumerate((names, [about]), start=3):
        if any(_contains(wanted, words, whole=False) for words in texts):
            return rank
    return _NOT_FOUND


def _contains(wanted: str, words: list[str], *, whole: bool) -> bool:
    """Whether adjacent words, joined, are or begin with what is wanted."""
    for first in range(len(words)):
        joined = ""
        for word in words[first:]:
            joined += word
            if joined == wanted or (not whole and joined.startswith(wanted)):
                return True
            if len(joined) >= len(wanted):
                break
    return False


def _words(text: str) -> list[str]:
    """Letters and digits of a text, word by word."""
    return re.findall(r"[a-z0-9]+", text.lower())


def _line(name: str, row: Preset) -> str:
    """The line that makes a preset, at usual sizes where it has none."""
    encoder = encoder_of(name)
    if encoder is RotaryEncoder:
        return f'preset("{name}")'
    if encoder is FourierEncoder:
        basis = row.arguments.get("basis")
        in_dim = 3 if basis is None else basis.shape[1]
        own = "num_bands" in row.arguments
        bands = "" if own else ", bands=bands" if row.arguments.get("bands", 0) is None else ", 10"
        return f'preset("{name}", {in_dim}{bands})'
    axes = ", 3" if name in _THREE_AXES else ""
    return f'preset("{name}", {768 if encoder is GridSinusoidalEncoder else 512}{axes})'
