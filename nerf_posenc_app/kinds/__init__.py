"""The kinds of data that the program fits; no other part of it names them.

A kind of another distribution is an entry point of the group ``nerf_posenc.kinds``: its name is the
option that chooses it, its value a class derived from `Kind`.
"""

from typing import Any

from nerf_posenc.plugins import PluginTable
from nerf_posenc_app.kinds.kind import Kind

KINDS: PluginTable[type[Kind[Any]]] = PluginTable(
    "nerf_posenc.kinds",
    {
        "image": "nerf_posenc_app.kinds.image.image:ImageKind",
        "scene": "nerf_posenc_app.kinds.scene:SceneKind",
        "sequence": "nerf_posenc_app.kinds.sequence:SequenceKind",
    },
)
"""Kinds by name, imported when they are named; the first is that of a command line that names none.
"""

COMPANION = ("photos", "audio", "shape", "scan", "volume", "align", "clip", "task")
"""Kinds of the distribution nerf-posenc-more, to say what installs one that is missing."""
