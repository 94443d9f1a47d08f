"""Images and posed views to fit, from files or built in.

`open_image` (`image_files`) opens images and `open_scene` (`open`) posed views; `builtin`, `posed`
and `reading` hold what they open.
"""

from pkgutil import extend_path

from nerf_posenc.lazy import lazy_exports

# Modules of a user's own folder `scenes` are found too.
__path__ = extend_path(__path__, __name__)

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
