"""Encoders from coordinates to features.

Read `fourier` first; the others differ in what they compute, not in how they are used.
"""

from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
from nerf_posenc.encoders.hash_grid import DenseGridEncoder as DenseGridEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder as HashGridEncoder
from nerf_posenc.encoders.one_blob import OneBlobEncoder as OneBlobEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder as GaussianEncoder
from nerf_posenc.encoders.random_fourier import LearnedFourierEncoder as LearnedFourierEncoder
from nerf_posenc.encoders.spherical_harmonics import (
    SphericalHarmonicsEncoder as SphericalHarmonicsEncoder,
)
from nerf_posenc.encoders.triangle_wave import TriangleWaveEncoder as TriangleWaveEncoder
