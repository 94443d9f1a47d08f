"""The exact sinusoid: bands, columns, and the evaluation that every encoder shares.

Read `sinusoids` first; a band is multiplied by pi in `SinCos._evaluate`. Bands of long contexts
(`scaled_bands`) are exported here, the usual ones by `nerf_posenc`.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
