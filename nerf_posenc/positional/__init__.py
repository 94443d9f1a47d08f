"""Encoders from positions to embeddings, rotations and attention biases.

Read `sinusoidal` first. Most are exported by `nerf_posenc`; the rest is exported here.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
