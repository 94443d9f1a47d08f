"""Encodings of a user's own file: ``--encodings none ./mine.py:CubicEncoder``."""

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from app.options import UsageError
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.recipes import ENCODINGS, EncodingRecipe

_SPECIFIED = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

# Files of the encodings that were added, by name.
_ADDED: dict[str, Path] = {}


def with_own_encodings(words: Sequence[str], folder: Path) -> list[str]:
    """Add encodings of files to ``ENCODINGS``, and name them as the files do.

    Args:
        words: words of the command line; ``FILE.py:NAME`` is an `Encoder` class, which is called
            with the number of coordinates, or an `EncodingRecipe`.
        folder: folder that relative paths start from.

    Returns:
        The words, with ``NAME`` for each ``FILE.py:NAME``.

    Raises:
        UsageError: If there is no such file or name, the file raises an error, or what it names is
            neither of both.
    """
    named = []
    for word in words:
        found = _SPECIFIED.fullmatch(word)
        if found is not None:
            file, name = folder / found["file"], found["name"]
            if name in ENCODINGS and _ADDED.get(name) != file.resolve():
                raise UsageError(f"{word}: there is an encoding {name} already; rename yours")
            ENCODINGS[name], _ADDED[name] = _recipe(file, name, word), file.resolve()
        named.append(word if found is None else found["name"])
    return named


def _recipe(file: Path, name: str, word: str) -> EncodingRecipe:
    value = getattr(_module(file, word), name, None)
    if isinstance(value, EncodingRecipe):
        return value
    if not (isinstance(value, type) and issubclass(value, Encoder)):
        raise UsageError(
            f"{word}: {file.name} has no class {name} derived from nerf_posenc.core.Encoder, and "
            "no EncodingRecipe of this name"
        )
    make: Callable[[int], Encoder] = value
    return EncodingRecipe(title=f"The encoding {name}", build=lambda model, _: make(model.in_dim))


def _module(file: Path, word: str) -> object:
    """Import a file."""
    key = f"nerf_posenc_encodings_{file.stem}"
    spec = importlib.util.spec_from_file_location(key, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{word}: there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    # Where a dataclass looks for the names of its annotations.
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{word}: {type(error).__name__}: {error}") from error
    return module
