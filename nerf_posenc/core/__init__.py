"""The exact sinusoid: bands, columns, and the evaluation that every encoder shares.

Read `sinusoids` first: the two functions at its top define the numbers. `speed` has their chunks
and derivatives. Bands of long contexts (`rope_scaling`) are exported here, the usual ones by
`nerf_posenc`.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
