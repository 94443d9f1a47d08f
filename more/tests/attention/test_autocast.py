"""Rotations and biases have the same bits under autocast."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nerf_posenc_attention import (
    FireBias,
    FourierSeriesRotaryEncoder,
    KerpleBias,
    LearnedGridEncoder,
    LogCPBBias,
    MixedRotaryEncoder,
    PoPEEncoder,
    PRoPEEncoder,
    RotaryEncoder,
    T5RelativeBias,
    XPosEncoder,
    alibi_bias,
)
from tests.test_autocast import same_bits

X = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
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
    same_bits(CALLS[name], dtype)


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
