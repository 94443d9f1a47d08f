"""Commands of ``train_fit.py`` for runs that were saved.

A command of another distribution is an entry point of the group ``nerf_posenc.commands``: a
function whose arguments are its options. It may return an exit status.
"""

from collections.abc import Callable
from typing import Any

from nerf_posenc_app.plugins import PluginTable


def _as_command(value: Any) -> Callable[..., int | None]:
    if callable(value):
        function: Callable[..., int | None] = value
        return function
    raise TypeError(f"a command is a function, not {value}")


COMMANDS: PluginTable[Callable[..., int | None]] = PluginTable(
    "nerf_posenc.commands",
    {
        "compare": "nerf_posenc_app.commands.compare:compare",
        "render": "nerf_posenc_app.commands.render:render",
        "export": "nerf_posenc_app.commands.export:export",
    },
    accept=_as_command,
)
"""Commands by name, imported when they are named."""

COMPANION = ("identify", "mesh")
"""Commands of the distribution nerf-posenc-more."""
