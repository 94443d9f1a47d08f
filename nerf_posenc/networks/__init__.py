"""Coordinate networks, with or without an encoder before them.

Read `mlp` first.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
