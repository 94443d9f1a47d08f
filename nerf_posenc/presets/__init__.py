"""The encodings of other libraries and models by name: one table of rows for each encoder class.

``FourierEncoder.preset`` and the like read one table; ``nerf_posenc.preset`` reads all of them.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
