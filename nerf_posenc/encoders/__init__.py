"""Encoders from coordinates to features.

Read `fourier` first; the others differ in what they compute, not in how they are used. The encoders
themselves are exported by `nerf_posenc`; what goes with them is exported here.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
