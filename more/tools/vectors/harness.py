"""How other libraries are run, and the files that keep what they gave."""

import ast
import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

OUTPUT = Path(__file__).parents[2] / "tests" / "data" / "library_vectors.npz"

# Repositories of which files are run, and their commits.
COMMITS = {
    "ashawkey/torch-ngp": "b6e080468925f0bb44827b4f8f0ed08291dcf8a9",
    "apchenstu/TensoRF": "6a1e23b10b9521221049aec843ab370a747a7982",
    "autonomousvision/gta": "1dcbd37d243ea7482e381f4a849a5c3d80866c41",
    "black-forest-labs/flux": "802fb4713906133fcbd0d8dc5351620ca4773036",
    "Caoang327/HexPlane": "fc99b61da94fc406702d9e080ca5e37f5d7dcfad",
    "Clay-foundation/model": "a5790cef6265c479c7d35bd00b92934462811f61",
    "cvg/LightGlue": "1fd587b6f5a7a0befd31188f1e5d2f05740006d7",
    "facebookresearch/dinov2": "b8931f7bf91576930313be2c6d6af376033b35f0",
    "facebookresearch/dinov3": "6876159a11b4df116f30f667f8c9888617df0751",
    "facebookresearch/sam2": "2b90b9f5ceec907a1c18123530e92e794ad901a4",
    "google-deepmind/graphcast": "9c034db1ff412d5db6cbe6bb0c5c9afc5a267719",
    "google-research/multinerf": "5b4d4f64608ec8077222c52fdf814d40acc10bc1",
    "hehao13/CameraCtrl": "af45a7a0dbeedb7f6ed66aac4a9e5411a279f0d2",
    "IBM/terratorch": "85467a9fbbaf567e7ce4541758c09a548a7bace5",
    "jwohlwend/boltz": "832486dafed7b80e1246a3fed895e9bb03976558",
    "kxhit/EscherNet": "569240f81d729aae413167a898c2af21dc969dd2",
    "megvii-research/PETR": "f7525f93467a33707ef401c587a52d5e7b34de74",
    "microsoft/satclip": "1ead1067e9a00d44b132403b6bb2ce061e48d48e",
    "naver-ai/rope-vit": "ce85c2e56c5ff3aadc10e1a849872081f7b86293",
    "naver/croco": "d7de0705845239092414480bd829228723bf20de",
    "NVlabs/edm": "008a4e5316c8e3bfe61a62f874bddba254295afb",
    "NVlabs/edm2": "4bf8162f601bcc09472ce8a32dd0cbe8889dc8fc",
    "seai-lab/TorchSpatial": "9f8d83361d84da2524596ad099d797d550e76139",
    "TsinghuaC3I/Fourier-Position-Embedding": "bd94b20d82bf11240ad3584c515c790d255da919",
    "VicenteVivan/geo-clip": "7a1a23b49648a5872a771cfda28490a17ab17d15",
    "vsitzmann/light-field-networks": "ca1af2e1d8c0a8e32ac2705c4e9ab30aaaa9014a",
    "zju3dv/LoFTR": "df7ca80f917334b94cfbe32cc2901e09a80e70a8",
}

Arrays = dict[str, Any]


class _Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import empty modules, all of whose names are empty classes."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: object, target: object = None) -> Any:
        """Find the unused modules."""
        if fullname.split(".")[0] in self.names:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Create an empty module."""

        class Name(type):
            def __getattr__(cls, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return Name(name, (), {})

            def __getitem__(cls, arguments: object) -> Any:
                return cls

        class Empty(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                # As a decorator it gives back what it is given.
                return Name(name, (), {"__new__": lambda cls, *given, **more: cls})

        return Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the module empty."""


@contextmanager
def _unused(names: Sequence[str]) -> Iterator[None]:
    finder = _Unused(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for module in [key for key in sys.modules if key.split(".")[0] in names]:
            del sys.modules[module]


class Libraries:
    """Modules of installed libraries and of files of repositories.

    Args:
        sources: folder with the repositories, each as ``OWNER+NAME``; None for none.

    Attributes:
        used: names and versions of what was loaded since the list was emptied.
    """

    def __init__(self, sources: Path | None) -> None:
        self._sources = sources or Path("no --sources given")
        self.used: list[str] = []

    def installed(self, module: str, *unused: str, distribution: str = "") -> Any:
        """A module of an installed library, with empty ones for what it imports but no entry uses.

        Args:
            module: name of the module.
            unused: names of packages that are empty while it is imported.
            distribution: name under which pip installs it, if it is not that of the package.
        """
        name = distribution or module.partition(".")[0]
        self.used.append(f"{name} {importlib.metadata.version(name)}, {module}")
        with _unused(unused):
            return importlib.import_module(module)

    def model(self, name: str) -> Any:
        """The modeling module of a model in transformers."""
        return self.installed(f"transformers.models.{name}.modeling_{name}")

    def config(self, model: str, name: str, **options: Any) -> Any:
        """A configuration in transformers."""
        module = f"transformers.models.{model}.configuration_{model}"
        return getattr(self.installed(module), name)(**options)

    def path(self, repository: str, path: str) -> Path:
        """The path of a file or folder of a repository, which must be there."""
        found = self._sources / repository.replace("/", "+") / path
        if not found.exists():
            raise FileNotFoundError(str(found))
        self.used.append(f"{repository} @ {COMMITS[repository]}, {path}")
        return found

    def module(self, repository: str, folder: str, name: str, *unused: str) -> Any:
        """A module of a repository, with ``folder`` on the import path."""
        sys.path.insert(0, str(self.path(repository, folder)))
        with _unused(unused):
            return importlib.import_module(name)

    def file(self, repository: str, path: str, *unused: str) -> Any:
        """One file of a repository, run as a module; a file may check itself as it is imported."""
        spec = importlib.util.spec_from_file_location(Path(path).stem, self.path(repository, path))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        try:
            with _unused(unused):
                spec.loader.exec_module(module)
        finally:
            torch.set_default_dtype(torch.float64)
        return module

    def definitions(self, repository: str, path: str, names: str, **given: Any) -> Any:
        """Some definitions of a file of a repository; see `definitions`."""
        return definitions(self.path(repository, path), names, **given)


def definitions(path: Path, names: str, **given: Any) -> Any:
    """Execute some definitions of a file whose imports are not wanted.

    Args:
        path: the file.
        names: names of functions, classes, constants or ``Class.method``, with spaces between.
        given: other names that the definitions use.

    Returns:
        A namespace with the definitions.
    """
    space: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": np}
    space |= {"math": math, **vars(typing), **given}
    for name in names.split():
        body = ast.parse(path.read_text()).body
        for part in name.split("."):
            node = next(n for n in body if part in _defined(n))
            body = getattr(node, "body", [])
        exec(compile(ast.Module([node], []), name, "exec", dont_inherit=True), space)
    return types.SimpleNamespace(**space)


def _defined(node: ast.stmt) -> list[str]:
    """Names that a statement defines."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


class Entry(NamedTuple):
    """What runs a library, the call that it stands for, and the type in which it computes."""

    run: Callable[[Libraries], Arrays]
    call: str
    dtype: str


ENTRIES: dict[str, Entry] = {}


def entry(
    name: str, dtype: str = "float64", call: str = ""
) -> Callable[[Callable[[Libraries], Arrays]], Callable[[Libraries], Arrays]]:
    """Register a function under the name of its vectors; its docstring is the call."""

    def register(run: Callable[[Libraries], Arrays]) -> Callable[[Libraries], Arrays]:
        ENTRIES[name] = Entry(run, " ".join((call or run.__doc__ or "").split()), dtype)
        return run

    return register


def before(*shape: int) -> Tensor:
    """The query that every library rotates: sin(0.37 n + 0.1) of its elements n."""
    return torch.sin(0.37 * torch.arange(math.prod(shape), dtype=torch.float64) + 0.1).view(shape)


def grid(*sizes: int) -> Tensor:
    """Integer positions of a grid in row-major order, one row per token."""
    return torch.cartesian_prod(*(torch.arange(size) for size in sizes)).view(-1, len(sizes))


class Vectors:
    """Numbers of all entries and what is said of them, as the two files keep them."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        if OUTPUT.exists():
            with np.load(OUTPUT) as file:
                self.arrays = dict(file)
            listed = json.loads(OUTPUT.with_suffix(".json").read_text())["entries"]
            self.facts = {each["id"]: each for each in listed if each["id"] in ENTRIES}

    def compute(self, name: str, libraries: Libraries) -> dict[str, np.ndarray[Any, Any]]:
        """Run a library; raise what it raises."""
        made = ENTRIES[name]
        libraries.used.clear()
        with torch.no_grad():
            arrays = made.run(libraries)
        # More digits than float32 has would be noise in what was computed from float32 angles.
        coarse = "float32" in made.dtype
        return {key: _stored(value, coarse and key == "after") for key, value in arrays.items()}

    def put(self, name: str, found: dict[str, np.ndarray[Any, Any]], used: Sequence[str]) -> None:
        """Replace the numbers of an entry."""
        self.arrays = {k: v for k, v in self.arrays.items() if not k.startswith(f"{name}/")}
        self.arrays |= {f"{name}/{key}": value for key, value in found.items()}
        made = ENTRIES[name]
        self.facts[name] = {
            "id": name,
            "from": list(dict.fromkeys(used)),
            "call": made.call,
            "dtype": made.dtype,
            "arrays": {key: f"{value.dtype} {list(value.shape)}" for key, value in found.items()},
        }

    def difference(self, name: str, found: dict[str, np.ndarray[Any, Any]]) -> float:
        """Largest difference from the kept numbers, infinity where shapes differ."""
        largest = 0.0
        for key, value in found.items():
            old = self.arrays.get(f"{name}/{key}")
            if old is None or old.shape != value.shape or (np.isnan(old) != np.isnan(value)).any():
                return math.inf
            largest = max(largest, float(np.nanmax(np.abs(value - old), initial=0.0)))
        return largest

    def save(self) -> None:
        """Write both files."""
        kept = {k: self.arrays[k] for k in sorted(self.arrays) if k.split("/")[0] in self.facts}
        np.savez_compressed(OUTPUT, allow_pickle=False, **kept)
        listing = {
            "before": "sin(0.37 n + 0.1), n counts the elements of the array, in float64",
            "torch": str(torch.__version__),
            "entries": [self.facts[name] for name in ENTRIES if name in self.facts],
        }
        OUTPUT.with_suffix(".json").write_text(json.dumps(listing, indent=1) + "\n")


def _stored(value: Any, single: bool) -> np.ndarray[Any, Any]:
    """As int32, or as float32 if that is exact or ``single`` is true."""
    array = np.asarray(value.detach() if isinstance(value, Tensor) else value)
    if array.dtype.kind in "iub":
        return array.astype(np.int32)
    array = array.astype(np.float64) if array.dtype != np.float32 else array
    is_exact = np.array_equal(array, array.astype(np.float32), equal_nan=True)
    return array.astype(np.float32) if single or is_exact else array
