"""What there is to fit: images and posed views, from files or built in.

Read `image_files` for images, `transforms` for posed views and `analytic` for the built-in scenes.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
