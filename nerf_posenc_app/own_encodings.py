"""Encodings and networks of a user's own: ``--encodings none ./mine.py:CubicEncoder``, or a class.

The file is code, and importing it runs it. That happens only where the user names the file in this
very call: a saved run names its encodings and their files, and never imports them.
"""

import ast
import hashlib
import inspect
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.checkpoints import bytes_of
from nerf_posenc.training.encoding_recipe import EncoderDescription
from nerf_posenc.training.recipes import (
    ENCODINGS,
    NETWORKS,
    EncodingRecipe,
    OwnEncoding,
    get_network,
    own_encodings,
)
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.shipped import module_of
from nerf_posenc_app.options import CommonOptions, UsageError
from nerf_posenc_app.terminal import first_line

_NAMED = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

# Names of other files of a run folder, and of methods without training that stand beside fits.
_TAKEN = {
    *("original", "truth", "comparison", "auto", *ENCODINGS, *NETWORKS),
    *("guess", "given", "linear", "cubic", "rbf", "bilinear", "bicubic", "lanczos", "sart"),
}

Options = TypeVar("Options", bound=CommonOptions)


@dataclass(frozen=True)
class OwnFile:
    """Where an encoding of a user's own is from.

    Attributes:
        path: its file; empty for a class that is in no file, as in a notebook.
        digest: checksum of the file and of what the encoding computes.
    """

    path: str
    digest: str


def with_own_encodings(options: Options, folder: Path) -> Options:
    """Import the files that ``--encodings`` names, and name their encodings as the files do.

    Args:
        options: options of a run.
        folder: folder that relative paths start from.

    Raises:
        UsageError: If a file cannot be imported, or lacks the encoding.
    """
    if options.encodings is None:
        return options
    return replace(options, encodings=tuple(imported(name, folder) for name in options.encodings))


def imported(name: str, folder: Path = Path()) -> str:
    """Import the encoding or the network of a file.

    Args:
        name: name of an encoding; or ``FILE.py:NAME``, where ``NAME`` is an `EncodingRecipe` or a
            class as `OwnEncoding` takes it.
        folder: folder that relative paths start from.

    Returns:
        The name as it is; of a file an `OwnEncoding`.

    Raises:
        UsageError: If there is no such file or name, the file raises an error, or what it names is
            none of these or takes no coordinates.
    """
    match = _NAMED.fullmatch(name)
    if match is None:
        if name.endswith(".py") and (folder / name).is_file():
            known = " or ".join(f"{name}:{each}" for each in _classes(folder / name))
            raise UsageError(f"{name} needs the name of a class in it: {known or 'it has none'}")
        return name
    file = folder / match["file"]
    try:
        module = module_of(file, f"nerf_posenc_encodings_{file.stem}")
    except SceneError as error:
        raise UsageError(f"{name}: {error}") from error
    value: Any = getattr(module, match["name"], None)
    if not _is_encoding(value):
        known = ", ".join(
            each
            for each, value in vars(module).items()
            if _is_encoding(value)
            # Classes that the file imports, such as nn.Linear, do not count.
            and (isinstance(value, EncodingRecipe) or value.__module__ == module.__name__)
        )
        raise UsageError(
            f"{name}: {file.name} has no class {match['name']} derived from torch.nn.Module, and "
            f"no EncodingRecipe of this name; it has {known or 'none at all'}"
        )
    return _tried(match["name"], value, file, name)


def of_class(value: type) -> OwnEncoding:
    """Encoding or network of a class that Python holds.

    Raises:
        UsageError: If it is no class of modules, or encodes no coordinates.
    """
    name = value.__name__
    if not _is_encoding(value):
        raise UsageError(f"--encodings: {name} is not derived from torch.nn.Module")
    try:
        file = Path(inspect.getfile(value))
    except (OSError, TypeError):
        file = None
    return _tried(name, value, file, name)


def own_files(names: Iterable[str]) -> dict[str, OwnFile]:
    """Files of those of some encodings that are a user's own, by their names."""
    return {str(each): OwnFile(each.path, each.digest) for each in own_encodings(names)}


def require_same_files(saved: Mapping[str, OwnFile], given: Iterable[str], run: Path) -> None:
    """Check that a saved run's own encodings are given, unchanged.

    Raises:
        UsageError: Naming the encoding, its file, and the option that imports it.
    """
    files = own_files(given)
    for name, file in saved.items():
        if name not in files and not file.path:
            raise UsageError(
                f"{run}: its encoding {name} was defined in a session of Python, not in a file; "
                f"give the class: encodings=[{name}]"
            )
        if name not in files:
            raise UsageError(
                f"{run}: its encoding {name} is code, which runs only if you name it: if you trust "
                f"it, add --encodings {shlex.quote(f'{file.path}:{name}')}"
            )
        if files[name].digest != file.digest:
            raise UsageError(
                f"{run}: {files[name].path or name}, or what it uses, has changed since the run "
                "started; start a new run"
            )


def _tried(name: str, value: Any, file: Path | None, given: str) -> OwnEncoding:
    """Compute two points with an encoding or a network, before anything is fitted.

    Raises:
        UsageError: If its name is taken, or it takes coordinates of no kind of data.
    """
    if name.lower() in _TAKEN:
        raise UsageError(f"{given}: the name {name} is taken; rename yours")
    own = OwnEncoding(name, value)
    content = file.read_bytes() if file is not None and file.is_file() else b""
    # A helper that the file imports, or a file of weights, shows in what it computes.
    digest = hashlib.sha256(content + _values(own, given)).hexdigest()
    path = "" if file is None else str(file.resolve())
    return OwnEncoding(name, value, path=path, digest=digest)


def _classes(file: Path) -> Sequence[str]:
    """Names of the classes of a file, which is not run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def _is_encoding(value: object) -> bool:
    """Whether a value is an encoding, and not an imported base class."""
    is_class = isinstance(value, type) and issubclass(value, nn.Module)
    return isinstance(value, EncodingRecipe) or (is_class and value not in (nn.Module, Encoder))


def _computed(own: OwnEncoding, in_dim: int, points: Tensor) -> tuple[Tensor, int]:
    """Values of points, and how many each must have."""
    generator = torch.Generator().manual_seed(0)
    if own.recipe is None:
        network = get_network(own).build(in_dim, 3, width=8, depth=2, generator=generator)
        return network.eval()(points), 3
    description = EncoderDescription(own, in_dim=in_dim, resolution=64, num_bands=2)
    encoder = own.recipe.encoder(description, generator)
    return encoder.eval()(points), encoder.out_dim


def _values(own: OwnEncoding, given: str) -> bytes:
    """Values of two points.

    Raises:
        UsageError: If it takes coordinates of no kind of data.
    """
    problems = []
    # Dimensions of an image, a volume and a sound; an encoding may support only some of them.
    for in_dim in (2, 3, 1):
        try:
            points = torch.linspace(-0.7, 0.6, 2 * in_dim).view(2, in_dim)
            # Built twice, as for a fit and for the model that is loaded later.
            (values, out_dim), (again, _) = (_computed(own, in_dim, points) for _ in range(2))
            if tuple(values.shape) != (2, out_dim):
                shapes = f"{tuple(values.shape)} for (2, {in_dim})"
                problems.append(f"its out_dim is {out_dim}, and it gives {shapes}")
            elif not values.is_floating_point():
                problems.append(f"its values are {values.dtype}; give floating-point ones")
            elif not bool(values.isfinite().all()):
                problems.append("it gives infinity or NaN")
            elif not torch.equal(again, values):
                problems.append(
                    "it differs each time it is built and evaluated: draw random constants "
                    "from torch as it is built, or keep them in the file"
                )
            else:
                return bytes(bytes_of(values.detach().cpu().contiguous()))
        except (Exception, SystemExit) as error:
            problems.append(f"{type(error).__name__}: {first_line(error)}")
    failure = "fails at two points in [-1, 1]"
    if own.recipe is None:
        failure += "; a network takes in_dim, out_dim, width, depth"
    raise UsageError(f"{given} {failure}: {problems[0]}")
