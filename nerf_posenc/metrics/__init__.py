"""How close a reconstruction is to its original.

Read `image` first: PSNR and SSIM. `spectrum` has the power and the PSNR of each octave.
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
