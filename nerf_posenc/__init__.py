"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

from nerf_posenc.bands import coarse_to_fine_weight as coarse_to_fine_weight
from nerf_posenc.bands import geometric_bands as geometric_bands
from nerf_posenc.bands import linear_bands as linear_bands
from nerf_posenc.bands import octave_bands as octave_bands
from nerf_posenc.bands import ratio_bands as ratio_bands
from nerf_posenc.blobs import OneBlobEncoder as OneBlobEncoder
from nerf_posenc.blobs import TriangleWaveEncoder as TriangleWaveEncoder
from nerf_posenc.directions import SphericalHarmonicsEncoder as SphericalHarmonicsEncoder
from nerf_posenc.first_layer import FourierLinear as FourierLinear
from nerf_posenc.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.fourier import icosahedron_basis as icosahedron_basis
from nerf_posenc.gaussian import GaussianEncoder as GaussianEncoder
from nerf_posenc.gaussian import LearnedFourierEncoder as LearnedFourierEncoder
from nerf_posenc.grids import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.grids import HashGridEncoder as HashGridEncoder
from nerf_posenc.layouts import LAYOUTS as LAYOUTS
from nerf_posenc.layouts import column_labels as column_labels
from nerf_posenc.learned import LearnedPositionEncoder as LearnedPositionEncoder
from nerf_posenc.learned import MemN2NPositionEncoder as MemN2NPositionEncoder
from nerf_posenc.learned import TemporalEncoder as TemporalEncoder
from nerf_posenc.planes import TriPlaneEncoder as TriPlaneEncoder
from nerf_posenc.porting import column_order as column_order
from nerf_posenc.porting import port_linear as port_linear
from nerf_posenc.presets import PRESETS as PRESETS
from nerf_posenc.rotary import RotaryEncoder as RotaryEncoder
from nerf_posenc.rotary import alibi_bias as alibi_bias
from nerf_posenc.rotary import alibi_slopes as alibi_slopes
from nerf_posenc.rotary import ntk_bands as ntk_bands
from nerf_posenc.rotary import yarn_bands as yarn_bands
from nerf_posenc.rotary import yarn_scale as yarn_scale
from nerf_posenc.sequence import GRID_PRESETS as GRID_PRESETS
from nerf_posenc.sequence import GridSinusoidalEncoder as GridSinusoidalEncoder
from nerf_posenc.sequence import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.sinusoids import SinCos as SinCos
from nerf_posenc.sinusoids import sincos as sincos
from nerf_posenc.spaces import contract as contract
from nerf_posenc.spaces import normalize as normalize

__version__ = "0.1.0"
