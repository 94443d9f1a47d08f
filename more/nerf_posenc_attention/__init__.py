"""Positions of attention: rotary embeddings, biases, learned tables and cameras.

They use the same exact sinusoids as the encoders of `nerf_posenc`. Read `rotary` first.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
