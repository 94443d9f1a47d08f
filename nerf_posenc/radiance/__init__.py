"""Radiance fields: cameras, rays, fields, and the renderers between them.

Read `fields`, then `base_renderer` and `renderers`. The table ``FIELDS`` in `build` has the fields
that the program fits. Names that mean the same in all modules:

- ``rays``: ``origins`` and unit ``directions``, ``(rays, 3)``, in coordinates in which the scene
  lies in [-1, 1]^3.
- ``distances``: lengths t from the origins, at points ``origins + t directions``.
- ``paths``: rays in the cube that a field is defined on (`scene_spaces`). A coordinate ``along`` a
  path is the distance where the cube is the scene's own box.
- ``near``, ``far``: coordinates at which a path enters and leaves the cube, ``(rays,)``.
- ``edges``: bounds of consecutive intervals of a path, rising, ``(rays, samples + 1)``.
- ``middles``: centers of intervals; ``lengths``: differences of their edges, ``(rays, samples)``.
- ``positions``: points in the cube at which a field is evaluated, ``(rays, samples, 3)``.
- ``density``: 0 or more, per unit of ``along``; ``rgb``: color of the light, in [0, 1].
- ``thickness``: density times length. ``optical_depth``: its sum over the intervals in front.
- ``weights``: share of a pixel's light that comes from each interval; they sum to at most 1. The
  sum is the ``opacity`` of the ray, and the background has the rest.
- ``depth``: mean of the distances by weight.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
