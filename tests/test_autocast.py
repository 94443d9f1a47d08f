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
    LearnedGridEncoder,
    RotaryEncoder,
    SinusoidalEncoder,
    Sphere2VecEncoder,
    SphericalHarmonicsEncoder,
    Time2VecEncoder,
    contract,
    preset,
)
from nerf_posenc.core import sincos
from nerf_posenc.encoders import (
    OneBlobEncoder,
    TriangleWaveEncoder,
    contract_gaussian,
    icosahedron_basis,
)
from nerf_posenc.positional import (
    FireBias,
    FourierSeriesRotaryEncoder,
    KerpleBias,
    LogCPBBias,
    MixedRotaryEncoder,
    PoPEEncoder,
    PRoPEEncoder,
    T5RelativeBias,
    XPosEncoder,
    alibi_bias,
)

X = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
DIRECTIONS = F.normalize(X, dim=-1)
VARIANCE = 0.01 * X.square()
COVARIANCE = 0.1 * (X[:, :, None] * X[:, None, :]) + 0.01 * torch.eye(3)
QUERIES = torch.sin(torch.arange(4 * 24 * 64.0)).view(4, 24, 64)
POSITIONS = torch.arange(24) + 5000
POSES = torch.eye(4).repeat(2, 1, 1)
POSES[1, :3, :3] = torch.linalg.qr(X[:3])[0]
POSES[:, :3, 3] = 30 * X[:2]
INTRINSICS = torch.tensor([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]]).repeat(2, 1, 1)


def cameras(x: Tensor) -> Tensor:
    encoder = PRoPEEncoder(64, patches=(3, 4))
    transforms = encoder.transforms(POSES, INTRINSICS, image_size=(480, 640))
    moved = torch.cat([encoder.queries(x, transforms), encoder.outputs(x, transforms)])
    return torch.cat([moved.flatten(), *(each.flatten() for each in vars(transforms).values())])


CALLS: dict[str, Callable[[], Tensor]] = {
    "bands": lambda: FourierEncoder(3, 10)(X),
    "variances": lambda: FourierEncoder(3, 10)(X, variance=VARIANCE),
    "covariances": lambda: preset("multinerf", 3, 4, basis=icosahedron_basis(2))(
        X, covariance=COVARIANCE
    ),
    "variances along directions": lambda: preset("multinerf", 3, 4, basis=icosahedron_basis(2))(
        X, variance=VARIANCE
    ),
    "sincos": lambda: sincos(X, torch.tensor([1.0, 300.0])),
    "gaussian": lambda: GaussianEncoder(3, 64, sigma=5.0)(X),
    "gaussian, variances": lambda: GaussianEncoder(3, 64, sigma=5.0)(X, variance=VARIANCE),
    "learned matrix": lambda: GaussianEncoder(3, 64, trainable=True)(X),
    "contract": lambda: contract(4 * X),
    "contract_gaussian": lambda: contract_gaussian(4 * X, COVARIANCE)[1],
    "harmonics": lambda: SphericalHarmonicsEncoder(5)(DIRECTIONS),
    "integrated": lambda: IntegratedDirectionalEncoder(4)(DIRECTIONS, roughness=VARIANCE[:, :1]),
    "globe": lambda: Sphere2VecEncoder(16, unit="radians")(X[:, :2]),
    "time2vec": lambda: Time2VecEncoder(16)(100 * X[:, :1]),
    "one-blob": lambda: OneBlobEncoder(3, 16)(X / 2 + 0.5),
    "triangles": lambda: TriangleWaveEncoder(3, 8)(X),
    "hash": lambda: HashGridEncoder(3, 4, log2_table_size=12)(X),
    "planes": lambda: KPlanesEncoder(3, 8, resolution=16)(X),
    "sequence": lambda: SinusoidalEncoder(64)(POSITIONS),
    "similarity": lambda: SinusoidalEncoder(64).similarity(POSITIONS, POSITIONS),
    "grid": lambda: GridSinusoidalEncoder(64).table((5, 6)),
    "learned grid": lambda: LearnedGridEncoder((5, 6), 64).table((7, 8)),
    "rotary": lambda: RotaryEncoder(64).rotate(QUERIES, POSITIONS),
    "rotary tables": lambda: torch.cat(RotaryEncoder(64)(POSITIONS)),
    "mixed": lambda: MixedRotaryEncoder(64, 2, num_heads=4).rotate(QUERIES, 20 * X[:24, :2]),
    "series": lambda: FourierSeriesRotaryEncoder(64, 4, trained_length=64).rotate(
        QUERIES, POSITIONS
    ),
    "xpos": lambda: XPosEncoder(64).rotate(QUERIES, POSITIONS - 5000),
    "pope": lambda: PoPEEncoder(64, 1).rotate(QUERIES[:1], POSITIONS),
    "cameras": lambda: cameras(QUERIES),
    "alibi": lambda: alibi_bias(8, 30),
    "t5": lambda: T5RelativeBias(8)(30),
    "kerple": lambda: KerpleBias(8)(30),
    "fire": lambda: FireBias(8)(30),
    "swin v2": lambda: LogCPBBias(4)((7, 7)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_bit(name: str, dtype: torch.dtype) -> None:
    torch.default_generator.manual_seed(0)
    exact = CALLS[name]()
    torch.default_generator.manual_seed(0)
    with torch.autocast("cpu", dtype):
        found = CALLS[name]()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, atol=0, rtol=0)


def test_integrated_features_stay_in_their_range_under_autocast() -> None:
    encoder = preset("multinerf", 3, 10, basis=icosahedron_basis(2), include_input=None)
    with torch.autocast("cpu", torch.bfloat16):
        features = encoder(X, covariance=1e-6 * COVARIANCE)
    assert float(features.abs().max()) <= 1


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tables_of_half_precision_rotate(pairing: str, dtype: torch.dtype) -> None:
    encoder = RotaryEncoder(64, pairing=pairing)  # type: ignore[arg-type]
    cosine, sine = (table.to(dtype) for table in encoder(POSITIONS))
    for x in (QUERIES, QUERIES.to(dtype)):
        found = encoder.rotate_with(x, cosine, sine)
        assert found.dtype == x.dtype
        tolerance = 1e-6 if x.dtype == torch.float32 else torch.finfo(dtype).eps
        expected = encoder.rotate_with(x.double(), cosine.double(), sine.double())
        torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
