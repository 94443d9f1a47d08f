"""The kinds of data that the program fits; no other part of it names them.

A kind of another distribution is an entry point of the group ``nerf_posenc.kinds``: its name is the
option that chooses it, its value a class derived from `Kind`.
"""

import contextlib
from typing import Any

from nerf_posenc.plugins import PluginError, PluginTable, how_to_install
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, UsageError


def _as_kind(value: Any) -> type[Kind[Any]]:
    if isinstance(value, type) and issubclass(value, Kind):
        return value
    raise TypeError(f"a kind is a class derived from Kind, not {value}")


KINDS: PluginTable[type[Kind[Any]]] = PluginTable(
    "nerf_posenc.kinds",
    {
        "image": "nerf_posenc_app.kinds.image.image:ImageKind",
        "scene": "nerf_posenc_app.kinds.scene.scene:SceneKind",
        "sequence": "nerf_posenc_app.kinds.sequence:SequenceKind",
    },
    accept=_as_kind,
)
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


def options_of_kinds() -> dict[str, type[CommonOptions]]:
    """Options of every kind that can be imported, by the option that chooses it."""
    options_by_kind = {}
    for name in KINDS:
        with contextlib.suppress(PluginError):
            options_by_kind[f"--{name}"] = KINDS[name].Options
    return options_by_kind


def require_data(kind: type[Kind[Any]], options: CommonOptions) -> None:
    """Check that the option of a kind names data that is on this machine.

    Raises:
        UsageError: If it is empty, or an address.
    """
    data = getattr(options, kind.name)
    if data == "":
        raise UsageError(f"--{kind.name} needs a path or a name")
    if str(data).startswith(("http://", "https://")):
        raise UsageError(f"--{kind.name} {data}: download it first, and give the path of the file")
