from nerf_posenc.core.bands import geometric_bands as geometric_bands
from nerf_posenc.core.bands import linear_bands as linear_bands
from nerf_posenc.core.bands import octave_bands as octave_bands
from nerf_posenc.core.bands import period_bands as period_bands
from nerf_posenc.core.bands import ratio_bands as ratio_bands
from nerf_posenc.core.grids import grid_positions as grid_positions
from nerf_posenc.encoders.by_name import preset as preset
from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.encoders.geographic import Sphere2VecEncoder as Sphere2VecEncoder
from nerf_posenc.encoders.hash_grid import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder as HashGridEncoder
from nerf_posenc.encoders.k_planes import KPlanesEncoder as KPlanesEncoder
from nerf_posenc.encoders.porting import Port as Port
from nerf_posenc.encoders.porting import port_module as port_module
from nerf_posenc.encoders.random_fourier import GaussianEncoder as GaussianEncoder
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder as SinusoidalEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder as GridSinusoidalEncoder
from nerf_posenc.encoders.spaces import contract as contract
from nerf_posenc.encoders.spaces import normalize_box as normalize_box
from nerf_posenc.encoders.spherical_harmonics import (
    IntegratedDirectionalEncoder as IntegratedDirectionalEncoder,
)
from nerf_posenc.encoders.spherical_harmonics import (
    SphericalHarmonicsEncoder as SphericalHarmonicsEncoder,
)

__all__: list[str]
__version__: str
