"""The choice of an encoding, its bands or its sigma for given data, by short fits."""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
