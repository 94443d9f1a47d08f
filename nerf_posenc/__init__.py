"""Coordinate encodings: sines and cosines of many frequencies, for fields and sequences."""

import importlib as _importlib
import typing as _typing
import warnings as _warnings

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
from nerf_posenc.encoders.random_fourier import LearnedFourierEncoder as LearnedFourierEncoder
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
from nerf_posenc.identification import identify as identify
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
from nerf_posenc.presets.catalog import preset as preset
from nerf_posenc.presets.index import find_encodings as find_encodings

__version__ = "0.2.0"

# The modules that now export names which version 0.1 exported here.
_MOVED = {
    "core": """SinCos LAYOUTS column_labels coarse_to_fine_weight dynamic_ntk_bands llama3_bands
        longrope_bands longrope_scale ntk_bands p_rope_bands yarn_bands yarn_scale""",
    "encoders": """icosahedron_basis directions_from_degrees equal_earth contract_gaussian
        uncontract plucker_rays Port column_order port_rotary""",
    "positional": """alibi_slopes augmented_positions CameraTransforms transformed_by_camera
        MemN2NPositionEncoder TemporalEncoder FourierSeriesRotaryEncoder""",
    "identification": "Match",
    "presets": "mrope_axes",
}


_RENAMED = {
    "ROTARY_PRESETS": "nerf_posenc.presets.ROTARY",
    "FOURIER_PRESETS": "nerf_posenc.presets.FOURIER",
    "GRID_PRESETS": "nerf_posenc.presets.GRID",
    "SEQUENCE_PRESETS": "nerf_posenc.presets.SEQUENCE",
    "TriPlaneEncoder": 'KPlanesEncoder(3, reduce="sum")',
    "find_presets": "find_encodings(text)",
    "pixel_centers": "image_coordinates(height, width)",
}

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        for wing, names in _MOVED.items():
            if name in names.split():
                new = f"nerf_posenc.{wing}"
                _warnings.warn(
                    f"nerf_posenc.{name} is {new}.{name} now", DeprecationWarning, stacklevel=2
                )
                return getattr(_importlib.import_module(new), name)
        if name in _RENAMED:
            raise AttributeError(f"nerf_posenc.{name} is gone; take {_RENAMED[name]}")
        raise AttributeError(f"module 'nerf_posenc' has no attribute {name!r}")
