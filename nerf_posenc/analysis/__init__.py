"""Analysis of encodings: their kernels, and the choice of one for given data.

`kernels` has the similarity of features by distance; `choose` finds an encoding, its bands or its
sigma by short fits.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
