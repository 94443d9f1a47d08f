"""The kinds of data that the program fits; no other part of it names them.

A kind of another distribution is an entry point of the group ``nerf_posenc.kinds``: its name is the
option that chooses it, its value a class derived from `Kind`.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.shipped import made_by
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, UsageError, option_names
from nerf_posenc_app.plugins import PluginError, PluginTable, how_to_install


def _as_kind(value: Any) -> type[Kind[Any]]:
    if isinstance(value, type) and issubclass(value, Kind) and hasattr(value, "Options"):
        return value
    raise TypeError(f"a kind is a class derived from Kind, with Options, not {value}")


_OWN = {
    "image": "nerf_posenc_app.kinds.image.image:ImageKind",
    "scene": "nerf_posenc_app.kinds.scene.scene:SceneKind",
    "sequence": "nerf_posenc_app.kinds.sequence:SequenceKind",
}

KINDS: PluginTable[type[Kind[Any]]] = PluginTable("nerf_posenc.kinds", _OWN, accept=_as_kind)
"""Kinds by name, imported when they are named; the first is that of a command line that names none.
"""

COMPANION = ("photos", "audio", "shape", "scan", "volume", "clip", "task")
"""Kinds of the distribution nerf-posenc-more."""


def require_installed(name: str) -> None:
    """Raise if a kind is one of the companion, which is not installed.

    Raises:
        UsageError: Naming the command that installs it.
    """
    if name in COMPANION and name not in KINDS:
        install = how_to_install(companion=True)
        raise UsageError(f"--{name} is a kind of data of nerf-posenc-more: {install}")


def named_kinds(options: Iterable[str]) -> list[str]:
    """Kinds that some options choose, such as ``image``.

    An option of this project stays what it is if another distribution has a kind of its name.
    """
    named = [name for name in options if name in KINDS]
    if {*named} <= {*_OWN, *COMPANION}:
        return named
    ours = {option for name in _OWN for option in option_names(KINDS[name].Options)}
    return [name for name in named if name in _OWN or f"--{name}" not in ours]


def options_of_kinds() -> dict[str, type[CommonOptions]]:
    """Options of every kind that can be imported, by the option that chooses it."""
    options_by_kind = {}
    for name in KINDS:
        with contextlib.suppress(PluginError):
            options_by_kind[f"--{name}"] = KINDS[name].Options
    return options_by_kind


def with_data(kind: type[Kind[Any]], options: CommonOptions) -> CommonOptions:
    """Check that the option of a kind names data that is on this machine, and run a FILE.py.

    A file of code makes the data by a function with the name of the kind, which is given
    ``--size``. What it makes is held as `fit` holds arrays, so that a resumed run needs no code.

    Raises:
        UsageError: If the option is empty, or an address, or the file fails.
    """
    data = getattr(options, kind.name)
    if data == "":
        raise UsageError(f"--{kind.name} needs a path or a name")
    if str(data).startswith(("http://", "https://")):
        raise UsageError(f"--{kind.name} {data}: download it first, and give the path of the file")
    if isinstance(data, InMemory) or not data.endswith(".py") or not Path(data).is_file():
        return options
    try:
        values = made_by(Path(data), kind.name, getattr(options, "size", None))
    except SceneError as error:
        raise UsageError(f"--{kind.name} {error}") from error
    changed: dict[str, Any] = {kind.name: InMemory(values, data)}
    return replace(options, **changed)
