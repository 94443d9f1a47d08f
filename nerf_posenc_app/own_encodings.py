"""Encodings of a user's own file: ``--encodings none ./mine.py:CubicEncoder``."""

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.encoding_recipe import EncoderDescription, as_recipe
from nerf_posenc.training.recipes import ENCODINGS, EncodingRecipe
from nerf_posenc_app.options import UsageError

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
            neither of both or encodes no coordinates.
    """
    named = []
    for word in words:
        found = _SPECIFIED.fullmatch(word)
        if found is not None:
            file, name = folder / found["file"], found["name"]
            if name in ENCODINGS and _ADDED.get(name) != file.resolve():
                raise UsageError(f"{word}: there is an encoding {name} already; rename yours")
            recipe = _recipe(file, name, word)
            _try(name, recipe, word)
            ENCODINGS[name], _ADDED[name] = recipe, file.resolve()
        elif word.endswith(".py") and (folder / word).is_file():
            known = [n for n, v in vars(_module(folder / word, word)).items() if _is_encoding(v)]
            raise UsageError(f"{word} needs a name: {' or '.join(f'{word}:{n}' for n in known)}")
        named.append(word if found is None else found["name"])
    return named


def _recipe(file: Path, name: str, word: str) -> EncodingRecipe:
    values = vars(_module(file, word))
    value: Any = values.get(name)
    if not _is_encoding(value):
        known = [each for each, found in values.items() if _is_encoding(found)]
        raise UsageError(
            f"{word}: {file.name} has no class {name} derived from nerf_posenc.core.Encoder, and "
            f"no EncodingRecipe of this name; it has {', '.join(known) or 'none at all'}"
        )
    return as_recipe(value)


def _is_encoding(value: object) -> bool:
    """Whether a value of a file is an encoding of its own, and not an imported base class."""
    is_class = isinstance(value, type) and issubclass(value, Encoder)
    return isinstance(value, EncodingRecipe) or (is_class and value is not Encoder)


def _try(name: str, recipe: EncodingRecipe, word: str) -> None:
    """Encode two points with it, before anything is fitted.

    Raises:
        UsageError: If it encodes coordinates of no kind of data.
    """
    problems = []
    # Of an image, a volume, a sound: an encoding may be for some of them alone.
    for in_dim in (2, 3, 1):
        try:
            description = EncoderDescription(name, in_dim=in_dim, resolution=64, num_bands=2)
            encoder = recipe.build(description, torch.Generator().manual_seed(0))
            features = encoder(torch.full((2, in_dim), 0.5))
            shape = tuple(features.shape)
            if shape != (2, encoder.out_dim):
                problems.append(
                    f"its out_dim is {encoder.out_dim}, and it gives {shape} for (2, 2)"
                )
            elif not bool(features.isfinite().all()):
                problems.append("its features are not finite")
            else:
                return
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
    raise UsageError(f"{word}: {name} encodes no coordinates: {problems[0].splitlines()[0]}")


def _module(file: Path, word: str) -> ModuleType:
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
