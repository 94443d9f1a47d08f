"""What is read to be fitted: images and posed views, of files or of arrays.

`open_image` (`image_files`) opens images and `open_scene` (`scene_files`) posed views; `posed` and
`reading` read their formats, `arrays` takes values of Python, and `shipped` finds what ships with
the program.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
