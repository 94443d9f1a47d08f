"""Encoders from coordinates to features.

Read `fourier` first; the others differ in what they compute, not in how they are used. The encoders
themselves are exported by `nerf_posenc`; what goes with them is exported here.
"""

from nerf_posenc.core.filters import Box as Box
from nerf_posenc.core.filters import Lanczos as Lanczos
from nerf_posenc.encoders.geodesic import icosahedron_basis as icosahedron_basis
from nerf_posenc.encoders.geographic import directions_from_degrees as directions_from_degrees
from nerf_posenc.encoders.geographic import equal_earth as equal_earth
from nerf_posenc.encoders.porting import Port as Port
from nerf_posenc.encoders.porting import column_order as column_order
from nerf_posenc.encoders.porting import port_rotary as port_rotary
from nerf_posenc.encoders.spaces import contract_gaussian as contract_gaussian
from nerf_posenc.encoders.spaces import plucker_rays as plucker_rays
from nerf_posenc.encoders.spaces import uncontract as uncontract
