"""Encodings have the same bits under autocast: it is for networks, and rounds to three digits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc import (
    FourierEncoder,
    GaussianEncoder,
    GridSinusoidalEncoder,
    HashGridEncoder,
    IntegratedDirectionalEncoder,
    KPlanesEncoder,
    SinusoidalEncoder,
    Sphere2VecEncoder,
    SphericalHarmonicsEncoder,
    Time2VecEncoder,
    contract,
    preset,
)
from nerf_posenc.core import sincos
from nerf_posenc.encoders import Box, Lanczos, contract_gaussian, icosahedron_basis

X = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
DIRECTIONS = F.normalize(X, dim=-1)
VARIANCE = 0.01 * X.square()
COVARIANCE = 0.1 * (X[:, :, None] * X[:, None, :]) + 0.01 * torch.eye(3)
POSITIONS = torch.arange(24) + 5000
CALLS: dict[str, Callable[[], Tensor]] = {
    "bands": lambda: FourierEncoder(3, 10)(X),
    "variances": lambda: FourierEncoder(3, 10)(X, variance=VARIANCE),
    "covariances": lambda: preset("multinerf", 3, 4, basis=icosahedron_basis(2))(
        X, covariance=COVARIANCE
    ),
    "variances along directions": lambda: preset("multinerf", 3, 4, basis=icosahedron_basis(2))(
        X, variance=VARIANCE
    ),
    "box": lambda: FourierEncoder(3, 10)(X, filter=Box(0.01)),
    "lanczos": lambda: FourierEncoder(3, 10)(X, filter=Lanczos(0.01)),
    "gaussian, lanczos": lambda: GaussianEncoder(3, 64)(X, filter=Lanczos(0.01)),
    "sincos": lambda: sincos(X, torch.tensor([1.0, 300.0])),
    "gaussian": lambda: GaussianEncoder(3, 64, sigma=5.0)(X),
    "gaussian, variances": lambda: GaussianEncoder(3, 64, sigma=5.0)(X, variance=VARIANCE),
    "learned matrix": lambda: GaussianEncoder(3, 64, trainable=True)(X),
    "contract": lambda: contract(4 * X),
    "contract_gaussian": lambda: contract_gaussian(4 * X, COVARIANCE)[1],
    "harmonics": lambda: SphericalHarmonicsEncoder(5)(DIRECTIONS),
    "integrated": lambda: IntegratedDirectionalEncoder(4)(DIRECTIONS, roughness=VARIANCE[:, :1]),
    "globe": lambda: Sphere2VecEncoder(16, unit="radians")(X[:, :2]),
    "time2vec": lambda: Time2VecEncoder(1, 16)(100 * X[:, :1]),
    "hash": lambda: HashGridEncoder(3, 4, log2_table_size=12)(X),
    "planes": lambda: KPlanesEncoder(3, 8, resolution=16)(X),
    "sequence": lambda: SinusoidalEncoder(64)(POSITIONS),
    "similarity": lambda: SinusoidalEncoder(64).similarity(POSITIONS, POSITIONS),
    "grid": lambda: GridSinusoidalEncoder(64).table((5, 6)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_bit(name: str, dtype: torch.dtype) -> None:
    same_bits(CALLS[name], dtype)


def same_bits(call: Callable[[], Tensor], dtype: torch.dtype) -> None:
    """Call a function without and with autocast."""
    torch.default_generator.manual_seed(0)
    exact = call()
    torch.default_generator.manual_seed(0)
    with torch.autocast("cpu", dtype):
        found = call()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, atol=0, rtol=0)


def test_integrated_features_stay_in_their_range_under_autocast() -> None:
    encoder = preset("multinerf", 3, 10, basis=icosahedron_basis(2), include_input=None)
    with torch.autocast("cpu", torch.bfloat16):
        features = encoder(X, covariance=1e-6 * COVARIANCE)
    assert float(features.abs().max()) <= 1
