"""Radiance fields: cameras, rays, fields, and the renderers between them.

Read `fields`, then `renderers`. `recipes` has the fields that the program fits.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
