"""The images and scenes that ship with the program, a file each; and files of code of the user's.

A Python file makes data by a function with the name of the kind: `image(size)` returns what
`fit(image=...)` takes, `scene(size)` views. Its default size is used if none is asked for.
"""

import contextlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from nerf_posenc_app.data.errors import SceneError

# Most bytes of a file of code.
_MOST_BYTES = 10_000_000
_ROOT = Path(__file__).parents[1]
# A wheel has the folder inside the package, a clone beside it.
FOLDER = _ROOT / "scenes" if (_ROOT / "scenes").is_dir() else _ROOT.parent / "scenes"
"""Folder of the files that ship with the program."""


def shipped(kind: str) -> dict[str, Path]:
    """Files of the images or of the scenes that ship with the program, by name.

    Args:
        kind: ``"image"`` or ``"scene"``.
    """
    makes = f"\ndef {kind}("
    return {
        file.stem.replace("_", "-"): file
        for file in sorted(FOLDER.iterdir())
        if (kind == "image" and file.suffix == ".png")
        or (file.suffix == ".py" and makes in file.read_text(encoding="utf-8"))
    }


def shipped_file(kind: str, name: str) -> Path | None:
    """File of a name such as ``zone-plate``, ``cat`` or ``cat.png``; None if there is none."""
    path = Path(name)
    file = shipped(kind).get(path.stem.replace("_", "-"))
    is_name = path.parent == Path() and file is not None and path.suffix in ("", file.suffix)
    return file if is_name else None


def module_of(file: Path, name: str | None = None) -> ModuleType:
    """Import a file of code, which runs it.

    Args:
        file: path of the file.
        name: name of the module; by default one that no other module has.

    Raises:
        SceneError: If there is no such file, or it raises an error.
    """
    name = name or f"_nerf_posenc_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise SceneError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up the names of their annotations here.
    sys.modules[name] = module
    with _named_errors(file):
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        spec.loader.exec_module(module)
    return module


def made_by(file: Path, kind: str, size: int | None = None) -> Any:
    """Data that a file of code makes.

    Args:
        file: path of the file; importing it runs it.
        kind: name of its function, ``"image"`` or ``"scene"``.
        size: pixels along the longer side; None for the file's own default.

    Raises:
        SceneError: If the file has no such function, or it raises an error.
    """
    make = getattr(module_of(file), kind, None)
    if not callable(make):
        raise SceneError(f"{file} has no function {kind}(size), which makes the {kind}")
    if size is None and any(
        each.default is each.empty for each in inspect.signature(make).parameters.values()
    ):
        raise SceneError(f"{file}: give --size, or {kind} a default size: def {kind}(size=512)")
    with _named_errors(file):
        return make() if size is None else make(size)


@contextlib.contextmanager
def _named_errors(file: Path) -> Iterator[None]:
    """Raise whatever foreign code raises, also to end Python, as an error that names its file."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next(
            (f", line {f.lineno}" for f in frames[::-1] if f.filename == str(file.absolute())), ""
        )
        raise SceneError(f"{file}{line}: {type(error).__name__}: {error}") from error
