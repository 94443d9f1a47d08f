"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

from nerf_posenc.core.bands import coarse_to_fine_weight as coarse_to_fine_weight
from nerf_posenc.core.bands import geometric_bands as geometric_bands
from nerf_posenc.core.bands import linear_bands as linear_bands
from nerf_posenc.core.bands import ntk_bands as ntk_bands
from nerf_posenc.core.bands import octave_bands as octave_bands
from nerf_posenc.core.bands import ratio_bands as ratio_bands
from nerf_posenc.core.bands import yarn_bands as yarn_bands
from nerf_posenc.core.bands import yarn_scale as yarn_scale
from nerf_posenc.core.columns import LAYOUTS as LAYOUTS
from nerf_posenc.core.columns import column_labels as column_labels
from nerf_posenc.core.sinusoids import SinCos as SinCos
from nerf_posenc.core.sinusoids import sincos as sincos
from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.encoders.fourier_linear import FourierLinear as FourierLinear
from nerf_posenc.encoders.geodesic import icosahedron_basis as icosahedron_basis
from nerf_posenc.encoders.hash_grid import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder as HashGridEncoder
from nerf_posenc.encoders.one_blob import OneBlobEncoder as OneBlobEncoder
from nerf_posenc.encoders.porting import column_order as column_order
from nerf_posenc.encoders.porting import port_linear as port_linear
from nerf_posenc.encoders.presets import PRESETS as PRESETS
from nerf_posenc.encoders.random_fourier import GaussianEncoder as GaussianEncoder
from nerf_posenc.encoders.random_fourier import LearnedFourierEncoder as LearnedFourierEncoder
from nerf_posenc.encoders.spaces import contract as contract
from nerf_posenc.encoders.spaces import normalize as normalize
from nerf_posenc.encoders.spherical_harmonics import (
    SphericalHarmonicsEncoder as SphericalHarmonicsEncoder,
)
from nerf_posenc.encoders.triangle_wave import TriangleWaveEncoder as TriangleWaveEncoder
from nerf_posenc.encoders.triplane import TriPlaneEncoder as TriPlaneEncoder
from nerf_posenc.positional.alibi import alibi_bias as alibi_bias
from nerf_posenc.positional.alibi import alibi_slopes as alibi_slopes
from nerf_posenc.positional.learned import LearnedPositionEncoder as LearnedPositionEncoder
from nerf_posenc.positional.memory_networks import MemN2NPositionEncoder as MemN2NPositionEncoder
from nerf_posenc.positional.memory_networks import TemporalEncoder as TemporalEncoder
from nerf_posenc.positional.rotary import RotaryEncoder as RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GRID_PRESETS as GRID_PRESETS
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder as GridSinusoidalEncoder

__version__ = "0.1.0"
