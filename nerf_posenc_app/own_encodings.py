"""Encodings and networks of a user's own: ``--encodings none ./mine.py:CubicEncoder``, or a class.

The file is code, and importing it runs it. That happens only where the user names the file in this
very call: a saved run names its encodings and their files, and never imports them.
"""

import ast
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.checkpoints import bytes_of
from nerf_posenc.training.encoding_recipe import EncoderDescription, as_recipe
from nerf_posenc.training.recipes import ENCODINGS, NETWORKS, EncodingRecipe, NetworkRecipe
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.shipped import module_of
from nerf_posenc_app.options import CommonOptions, UsageError

_NAMED = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

_NO_NETWORK = "computes no values; a network takes in_dim, out_dim, width, depth"

Options = TypeVar("Options", bound=CommonOptions)


@dataclass(frozen=True)
class OwnFile:
    """Where an encoding of a user's own is from.

    Attributes:
        path: its file; empty for a class that is in no file, as in a notebook.
        digest: SHA-256 of the file.
    """

    path: str
    digest: str


# Encodings that were added in this process, by name.
_ADDED: dict[str, OwnFile] = {}


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
    """Add the encoding of a file to ``ENCODINGS``, or the network of a file to ``NETWORKS``.

    Args:
        name: name of an encoding; or ``FILE.py:NAME``, where ``NAME`` is a class of
            modules with ``out_dim``, the number of features, which is called with the number of
            coordinates, or an `EncodingRecipe`; or a class of networks on raw coordinates, which
            is called with ``in_dim, out_dim, width=, depth=``.
        folder: folder that relative paths start from.

    Returns:
        The name of the encoding.

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
    return _added(match["name"], value, file, name)


def add_class(value: type) -> str:
    """Add a class that Python holds to ``ENCODINGS``, and return its name.

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
    return _added(name, value, file, name)


def own_files(names: Iterable[str] | None = None) -> dict[str, OwnFile]:
    """Files of those of some encodings that are a user's own; of all by default."""
    known = {*ENCODINGS, *NETWORKS} & {*_ADDED}
    return {name: _ADDED[name] for name in (_ADDED if names is None else names) if name in known}


def require_same_files(saved: Mapping[str, OwnFile], run: Path) -> None:
    """Check that a saved run's own encodings were added in this process, unchanged.

    Raises:
        UsageError: Naming the encoding, its file, and the option that imports it.
    """
    added = own_files(saved)
    for name, file in saved.items():
        if name not in added and not file.path:
            raise UsageError(
                f"{run}: its encoding {name} was defined in a session of Python, not in a file, "
                "and is lost; start a new run"
            )
        if name not in added:
            raise UsageError(
                f"{run}: its encoding {name} is code, which runs only if you name it: add "
                f"--encodings {file.path}:{name}"
            )
        if added[name].digest != file.digest:
            raise UsageError(
                f"{run}: {added[name].path or name} has changed since the run started; start a "
                "new run"
            )


def _added(name: str, value: Any, file: Path | None, given: str) -> str:
    path = "" if file is None else str(file.resolve())
    if name in (*ENCODINGS, *NETWORKS) and (name not in _ADDED or _ADDED[name].path != path):
        raise UsageError(f"{given}: there is an encoding {name} already; rename yours")
    if _is_network(value):
        network = NetworkRecipe(title=f"The network {name}", build=_network_builder(value))
        features = _try(name, partial(_network_values, network), _NO_NETWORK, given)
        NETWORKS[name] = network
    else:
        recipe = as_recipe(value)
        features = _try(name, partial(_features, name, recipe), "encodes no coordinates", given)
        ENCODINGS[name] = recipe
    is_file = file is not None and file.is_file()
    # Classes of a notebook with the same name are told apart by what they compute.
    content = file.read_bytes() if file is not None and is_file else features
    _ADDED[name] = OwnFile(path, hashlib.sha256(content).hexdigest())
    return name


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


def _is_network(value: object) -> bool:
    """Whether a value is a class that needs the number of outputs, as encodings do not."""
    if not isinstance(value, type):
        return False
    out_dim = inspect.signature(value).parameters.get("out_dim")
    return out_dim is not None and out_dim.default is out_dim.empty


def _network_builder(value: type[nn.Module]) -> Callable[..., nn.Module]:
    """Build a network whose initial weights are drawn from torch's own generator by a seed."""

    def build(*dims: int, generator: torch.Generator | None = None, **layers: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            if generator is not None:
                seed = int(torch.randint(1 << 62, (), generator=generator))
                torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
            return value(*dims, **layers)

    return build


def _network_values(network: NetworkRecipe, in_dim: int, points: Tensor) -> tuple[Tensor, int]:
    generator = torch.Generator().manual_seed(0)
    built = network.build(in_dim, 3, width=8, depth=2, generator=generator)
    return built(points), 3


def _features(name: str, recipe: EncodingRecipe, in_dim: int, points: Tensor) -> tuple[Tensor, int]:
    description = EncoderDescription(name, in_dim=in_dim, resolution=64, num_bands=2)
    encoder = recipe.encoder(description, torch.Generator().manual_seed(0))
    return encoder(points), encoder.out_dim


def _try(
    name: str, compute: Callable[[int, Tensor], tuple[Tensor, int]], failure: str, given: str
) -> bytes:
    """Compute two points with it, before anything is fitted, and return the values.

    Raises:
        UsageError: If it takes coordinates of no kind of data.
    """
    problems = []
    # Dimensions of an image, a volume and a sound; an encoding may support only some of them.
    for in_dim in (2, 3, 1):
        try:
            points = torch.linspace(-0.7, 0.6, 2 * in_dim).view(2, in_dim)
            # Built twice, as for a fit and for the model that is loaded later.
            (values, out_dim), (again, _) = (compute(in_dim, points) for _ in range(2))
            if tuple(values.shape) != (2, out_dim):
                shapes = f"{tuple(values.shape)} for (2, {in_dim})"
                problems.append(f"its out_dim is {out_dim}, and it gives {shapes}")
            elif not values.is_floating_point():
                problems.append(f"its values are {values.dtype}; give floating-point ones")
            elif not bool(values.isfinite().all()):
                problems.append("its values are not finite")
            elif not torch.equal(again, values):
                problems.append(
                    "it differs each time it is built: draw random constants from "
                    "torch, or keep them in the file"
                )
            else:
                return bytes(bytes_of(values.detach().cpu().contiguous()))
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
    raise UsageError(f"{given}: {name} {failure}: {problems[0].splitlines()[0]}")
