"""The encodings of other libraries and models by name: one table of plain rows for each encoder.

``FourierEncoder.preset``, ``GridSinusoidalEncoder.preset`` and ``RotaryEncoder.preset`` read them.
"""

from nerf_posenc.presets.fourier import FOURIER as FOURIER
from nerf_posenc.presets.grid import GRID as GRID
from nerf_posenc.presets.preset import Preset as Preset
from nerf_posenc.presets.rotary import ROTARY as ROTARY
from nerf_posenc.presets.rotary import mrope_axes as mrope_axes
