"""Fits that were saved, given back as models to be queried and rendered.

```python
from nerf_posenc.fits import load_fit

fit = load_fit("runs/cat/fits/fourier.safetensors")
rgb = fit.render(4096)  # (height, width, 3), values in [0, 1]
```
"""

from nerf_posenc.fits.files import describe_fit as describe_fit
from nerf_posenc.fits.files import describe_scene_fit as describe_scene_fit
from nerf_posenc.fits.files import load_fit as load_fit
from nerf_posenc.fits.models import CoordinateFit as CoordinateFit
from nerf_posenc.fits.models import ImageFit as ImageFit
from nerf_posenc.fits.models import SceneFit as SceneFit
from nerf_posenc.fits.models import Window as Window
