"""The properties of the family, of every encoder of coordinates and of sinusoidal positions."""

from typing import ClassVar

import torch

import nerf_posenc as ne
from nerf_posenc.encoders import icosahedron_basis
from tests.encoders.family import Case, EncoderFamily, coordinates, directions, positions

# Made here, since a test builds encoders under torch.device("meta").
OFFSETS = torch.linspace(-0.4, 0.7, 16)


class TestEncoders(EncoderFamily):
    """All encoders of the library."""

    CASES: ClassVar = {
        "fourier": Case(lambda: ne.FourierEncoder(2, 6), coordinates(2), is_exported=False),
        "fourier-raw": Case(lambda: ne.FourierEncoder.preset("nerf", 3, 4), coordinates(3)),
        "fourier-ragged": Case(lambda: ne.FourierEncoder(2, (3, 5), layout="kpa"), coordinates(2)),
        "fourier-lifted": Case(
            lambda: ne.FourierEncoder(3, 4, basis=icosahedron_basis()),
            coordinates(3),
            is_exported=False,
        ),
        "fourier-trained": Case(
            lambda: ne.FourierEncoder(2, 4, include_input="front", trainable=True), coordinates(2)
        ),
        "gaussian": Case(lambda: ne.GaussianEncoder(2, 16, sigma=3.0), coordinates(2)),
        "learned-fourier": Case(
            lambda: ne.GaussianEncoder(2, 16, sigma=3.0, trainable=True),
            coordinates(2),
            keeps_parameters=True,
            is_exported=False,
        ),
        "gaussian-raw": Case(
            lambda: ne.GaussianEncoder(2, 16, sigma=3.0, include_input="back"),
            coordinates(2),
            is_exported=False,
        ),
        "cosines": Case(
            lambda: ne.GaussianEncoder(2, 16, sigma=3.0, offsets=OFFSETS), coordinates(2)
        ),
        "learned-cosines": Case(
            lambda: ne.GaussianEncoder(2, 16, sigma=3.0, trainable=True, offsets=OFFSETS),
            coordinates(2),
            keeps_parameters=True,
        ),
        "hash-grid": Case(
            lambda: ne.HashGridEncoder(3, 3, log2_table_size=6, base_resolution=3), coordinates(3)
        ),
        "hash-grid-smooth": Case(
            lambda: ne.HashGridEncoder(
                2, 3, log2_table_size=6, base_resolution=3, interpolation="smoothstep"
            ),
            coordinates(2),
            is_exported=False,
        ),
        "dense-grid": Case(lambda: ne.DenseGridEncoder(2, base_resolution=5), coordinates(2)),
        "tri-plane": Case(
            lambda: ne.KPlanesEncoder(3, 4, resolution=5, reduce="sum"),
            coordinates(3),
            is_exported=False,
        ),
        "spherical-harmonics": Case(lambda: ne.SphericalHarmonicsEncoder(5), directions),
        "sinusoidal": Case(
            lambda: ne.SinusoidalEncoder(8), positions, has_axes=False, takes_integers=True
        ),
        "timestep": Case(
            lambda: ne.SinusoidalEncoder.timestep(9),
            positions,
            has_axes=False,
            takes_integers=True,
            is_exported=False,
        ),
        "grid-sinusoidal": Case(
            lambda: ne.GridSinusoidalEncoder(12), coordinates(2), takes_integers=True
        ),
        "integrated-directions": Case(lambda: ne.IntegratedDirectionalEncoder(3), directions),
        "harmonics-of-9-levels": Case(
            lambda: ne.SphericalHarmonicsEncoder(9), directions, is_exported=False
        ),
        "sphere2vec": Case(lambda: ne.Sphere2VecEncoder(4, unit="radians"), coordinates(2)),
        "sphere2vec-dfs": Case(
            lambda: ne.Sphere2VecEncoder(2, unit="degrees", kind="dfs"),
            coordinates(2),
            is_exported=False,
        ),
        "k-planes": Case(lambda: ne.KPlanesEncoder(4, 3, resolution=(4, 5, 6, 3)), coordinates(4)),
        "hexplane": Case(
            lambda: ne.KPlanesEncoder(4, 3, resolution=4, reduce="hexplane"),
            coordinates(4),
            is_exported=False,
        ),
        "grid-sinusoidal-shares": Case(
            lambda: ne.GridSinusoidalEncoder(16, 3, layout="apk", axis_dims=(4, 6, 6)),
            coordinates(3),
            takes_integers=True,
            is_exported=False,
        ),
    }
