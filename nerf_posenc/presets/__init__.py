"""The encodings of other libraries and models by name: one table of plain rows for each encoder.

The classmethod ``preset`` of each encoder reads them, and ``nerf_posenc.preset`` those of all.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
