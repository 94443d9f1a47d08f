"""What there is to fit: images and posed views, from files or built in.

Read `image_files` for images, `transforms` for posed views and `analytic` for the built-in scenes.
"""

from pkgutil import extend_path

from nerf_posenc.lazy import lazy_exports

# Modules of a user's own folder `scenes` are found too.
__path__ = extend_path(__path__, __name__)

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
