"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

from nerf_posenc.bands import LAYOUTS as LAYOUTS
from nerf_posenc.bands import SinCos as SinCos
from nerf_posenc.bands import column_labels as column_labels
from nerf_posenc.bands import geometric_bands as geometric_bands
from nerf_posenc.bands import octave_bands as octave_bands
from nerf_posenc.bands import sincos as sincos
from nerf_posenc.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.sequence import SinusoidalEncoder as SinusoidalEncoder

__version__ = "0.1.0"
