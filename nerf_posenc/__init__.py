"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

from nerf_posenc.core.bands import coarse_to_fine_weight as coarse_to_fine_weight
from nerf_posenc.core.bands import geometric_bands as geometric_bands
from nerf_posenc.core.bands import linear_bands as linear_bands
from nerf_posenc.core.bands import octave_bands as octave_bands
from nerf_posenc.core.bands import period_bands as period_bands
from nerf_posenc.core.bands import ratio_bands as ratio_bands
from nerf_posenc.core.columns import LAYOUTS as LAYOUTS
from nerf_posenc.core.columns import column_labels as column_labels
from nerf_posenc.core.scaled_bands import dynamic_ntk_bands as dynamic_ntk_bands
from nerf_posenc.core.scaled_bands import llama3_bands as llama3_bands
from nerf_posenc.core.scaled_bands import longrope_bands as longrope_bands
from nerf_posenc.core.scaled_bands import longrope_scale as longrope_scale
from nerf_posenc.core.scaled_bands import ntk_bands as ntk_bands
from nerf_posenc.core.scaled_bands import p_rope_bands as p_rope_bands
from nerf_posenc.core.scaled_bands import yarn_bands as yarn_bands
from nerf_posenc.core.scaled_bands import yarn_scale as yarn_scale
from nerf_posenc.core.sinusoids import SinCos as SinCos
from nerf_posenc.core.sinusoids import sincos as sincos
from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.encoders.geodesic import icosahedron_basis as icosahedron_basis
from nerf_posenc.encoders.geographic import Sphere2VecEncoder as Sphere2VecEncoder
from nerf_posenc.encoders.geographic import directions_from_degrees as directions_from_degrees
from nerf_posenc.encoders.geographic import equal_earth as equal_earth
from nerf_posenc.encoders.hash_grid import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder as HashGridEncoder
from nerf_posenc.encoders.k_planes import KPlanesEncoder as KPlanesEncoder
from nerf_posenc.encoders.one_blob import OneBlobEncoder as OneBlobEncoder
from nerf_posenc.encoders.porting import Port as Port
from nerf_posenc.encoders.porting import column_order as column_order
from nerf_posenc.encoders.porting import port_linear as port_linear
from nerf_posenc.encoders.porting import port_module as port_module
from nerf_posenc.encoders.porting import port_rotary as port_rotary
from nerf_posenc.encoders.presets import PRESETS as PRESETS
from nerf_posenc.encoders.random_fourier import GaussianEncoder as GaussianEncoder
from nerf_posenc.encoders.random_fourier import LearnedFourierEncoder as LearnedFourierEncoder
from nerf_posenc.encoders.spaces import contract as contract
from nerf_posenc.encoders.spaces import contract_gaussian as contract_gaussian
from nerf_posenc.encoders.spaces import normalize as normalize
from nerf_posenc.encoders.spaces import plucker_rays as plucker_rays
from nerf_posenc.encoders.spaces import uncontract as uncontract
from nerf_posenc.encoders.spherical_harmonics import (
    IntegratedDirectionalEncoder as IntegratedDirectionalEncoder,
)
from nerf_posenc.encoders.spherical_harmonics import (
    SphericalHarmonicsEncoder as SphericalHarmonicsEncoder,
)
from nerf_posenc.encoders.time2vec import Time2VecEncoder as Time2VecEncoder
from nerf_posenc.encoders.triangle_wave import TriangleWaveEncoder as TriangleWaveEncoder
from nerf_posenc.encoders.vector_matrix import VectorMatrixEncoder as VectorMatrixEncoder
from nerf_posenc.identification import Match as Match
from nerf_posenc.identification import identify as identify
from nerf_posenc.positional.alibi import alibi_bias as alibi_bias
from nerf_posenc.positional.alibi import alibi_slopes as alibi_slopes
from nerf_posenc.positional.camera_attention import CameraTransforms as CameraTransforms
from nerf_posenc.positional.camera_attention import PRoPEEncoder as PRoPEEncoder
from nerf_posenc.positional.camera_attention import transformed_by_camera as transformed_by_camera
from nerf_posenc.positional.fourier_series import (
    FourierSeriesRotaryEncoder as FourierSeriesRotaryEncoder,
)
from nerf_posenc.positional.grids import augmented_positions as augmented_positions
from nerf_posenc.positional.grids import grid_positions as grid_positions
from nerf_posenc.positional.grids import patch_centers as patch_centers
from nerf_posenc.positional.learned import LearnedPositionEncoder as LearnedPositionEncoder
from nerf_posenc.positional.learned_grid import LearnedGridEncoder as LearnedGridEncoder
from nerf_posenc.positional.memory_networks import MemN2NPositionEncoder as MemN2NPositionEncoder
from nerf_posenc.positional.memory_networks import TemporalEncoder as TemporalEncoder
from nerf_posenc.positional.mixed_rotary import MixedRotaryEncoder as MixedRotaryEncoder
from nerf_posenc.positional.relative_bias import FireBias as FireBias
from nerf_posenc.positional.relative_bias import KerpleBias as KerpleBias
from nerf_posenc.positional.relative_bias import T5RelativeBias as T5RelativeBias
from nerf_posenc.positional.rotary import RotaryEncoder as RotaryEncoder
from nerf_posenc.positional.rotary_presets import ROTARY_PRESETS as ROTARY_PRESETS
from nerf_posenc.positional.rotary_presets import mrope_axes as mrope_axes
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GRID_PRESETS as GRID_PRESETS
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder as GridSinusoidalEncoder
from nerf_posenc.positional.window_bias import LogCPBBias as LogCPBBias
from nerf_posenc.positional.xpos import XPosEncoder as XPosEncoder

__version__ = "0.1.0"
