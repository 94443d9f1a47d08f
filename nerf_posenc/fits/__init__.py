"""Fits that were saved, given back as models to be queried and rendered.

```python
from nerf_posenc.fits import load_fit

fit = load_fit("runs/cat/fits/fourier.safetensors")
rgb = fit.render(4096)  # (height, width, 3), values in [0, 1]
```
"""

from nerf_posenc.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
