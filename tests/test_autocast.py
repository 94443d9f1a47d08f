"""Encodings have the same bits under autocast: it is for networks, and rounds to three digits.

Encoders by themselves are in `tests.encoders.family`; these are their further arguments.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc import (
    FourierEncoder,
    GaussianEncoder,
    GridSinusoidalEncoder,
    IntegratedDirectionalEncoder,
    SinusoidalEncoder,
    contract,
    preset,
)
from nerf_posenc.core import sincos
from nerf_posenc.encoders import Box, Lanczos, contract_gaussian, icosahedron_basis

X = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
VARIANCE = 0.01 * X.square()
COVARIANCE = 0.1 * (X[:, :, None] * X[:, None, :]) + 0.01 * torch.eye(3)
POSITIONS = torch.arange(24) + 5000
CALLS: dict[str, Callable[[], Tensor]] = {
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
    "gaussian, variances": lambda: GaussianEncoder(3, 64, sigma=5.0)(X, variance=VARIANCE),
    "sincos": lambda: sincos(X, torch.tensor([1.0, 300.0])),
    "contract": lambda: contract(4 * X),
    "contract_gaussian": lambda: contract_gaussian(4 * X, COVARIANCE)[1],
    "roughness": lambda: IntegratedDirectionalEncoder(4)(
        F.normalize(X, dim=-1), roughness=VARIANCE[:, :1]
    ),
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
