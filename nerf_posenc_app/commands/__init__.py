"""Commands of ``train_fit.py`` for runs that were saved.

A command of another distribution is an entry point of the group ``nerf_posenc.commands``: a
function whose arguments are its options. It may return an exit status.
"""

from collections.abc import Callable

from nerf_posenc.plugins import PluginTable

COMMANDS: PluginTable[Callable[..., int | None]] = PluginTable(
    "nerf_posenc.commands",
    {
        "compare": "nerf_posenc_app.commands.compare:compare",
        "render": "nerf_posenc_app.commands.render:render",
        "export": "nerf_posenc_app.commands.export:export",
    },
)
"""Commands by name, imported when they are named."""

COMPANION = ("identify", "check", "vectors")
"""Commands of the distribution nerf-posenc-more."""
