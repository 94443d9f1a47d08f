from nerf_posenc.catalog.index import find_encodings as find_encodings
from nerf_posenc.catalog.presets import preset as preset
from nerf_posenc.core.bands import geometric_bands as geometric_bands
from nerf_posenc.core.bands import linear_bands as linear_bands
from nerf_posenc.core.bands import octave_bands as octave_bands
from nerf_posenc.core.bands import period_bands as period_bands
from nerf_posenc.core.bands import ratio_bands as ratio_bands
from nerf_posenc.core.grids import grid_positions as grid_positions
from nerf_posenc.core.grids import patch_centers as patch_centers
from nerf_posenc.core.sinusoids import sincos as sincos
from nerf_posenc.encoders.cafe import CAFEEncoder as CAFEEncoder
from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.encoders.geographic import Sphere2VecEncoder as Sphere2VecEncoder
from nerf_posenc.encoders.hash_grid import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder as HashGridEncoder
from nerf_posenc.encoders.k_planes import KPlanesEncoder as KPlanesEncoder
from nerf_posenc.encoders.line_product import LineProductEncoder as LineProductEncoder
from nerf_posenc.encoders.one_blob import OneBlobEncoder as OneBlobEncoder
from nerf_posenc.encoders.porting import port_linear as port_linear
from nerf_posenc.encoders.porting import port_module as port_module
from nerf_posenc.encoders.random_fourier import GaussianEncoder as GaussianEncoder
from nerf_posenc.encoders.spaces import contract as contract
from nerf_posenc.encoders.spaces import normalize as normalize
from nerf_posenc.encoders.spherical_harmonics import (
    IntegratedDirectionalEncoder as IntegratedDirectionalEncoder,
)
from nerf_posenc.encoders.spherical_harmonics import (
    SphericalHarmonicsEncoder as SphericalHarmonicsEncoder,
)
from nerf_posenc.encoders.time2vec import Time2VecEncoder as Time2VecEncoder
from nerf_posenc.encoders.triangle_wave import TriangleWaveEncoder as TriangleWaveEncoder
from nerf_posenc.encoders.vector_matrix import VectorMatrixEncoder as VectorMatrixEncoder
from nerf_posenc.images import image_coordinates as image_coordinates
from nerf_posenc.positional.alibi import alibi_bias as alibi_bias
from nerf_posenc.positional.camera_attention import PRoPEEncoder as PRoPEEncoder
from nerf_posenc.positional.learned import LearnedPositionEncoder as LearnedPositionEncoder
from nerf_posenc.positional.learned_grid import LearnedAxialEncoder as LearnedAxialEncoder
from nerf_posenc.positional.learned_grid import LearnedGridEncoder as LearnedGridEncoder
from nerf_posenc.positional.mixed_rotary import MixedRotaryEncoder as MixedRotaryEncoder
from nerf_posenc.positional.pope import PoPEEncoder as PoPEEncoder
from nerf_posenc.positional.relative_bias import FireBias as FireBias
from nerf_posenc.positional.relative_bias import KerpleBias as KerpleBias
from nerf_posenc.positional.relative_bias import T5RelativeBias as T5RelativeBias
from nerf_posenc.positional.rotary import RotaryEncoder as RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder as GridSinusoidalEncoder
from nerf_posenc.positional.window_bias import LogCPBBias as LogCPBBias
from nerf_posenc.positional.xpos import XPosEncoder as XPosEncoder

__all__: list[str]
__version__: str
