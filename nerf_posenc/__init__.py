"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

from nerf_posenc.lazy import lazy_exports

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
