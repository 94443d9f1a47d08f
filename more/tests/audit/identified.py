"""Encodings of libraries that no preset has, or has with other arguments, for `identify` to find.

Each is a line with which an encoding of a library was reproduced from outside; see the names.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc import (
    FourierEncoder,
    GridSinusoidalEncoder,
    SinusoidalEncoder,
    geometric_bands,
    grid_positions,
    linear_bands,
)
from nerf_posenc.core import ratio_bands
from nerf_posenc_attention import (
    RotaryEncoder,
    longrope_bands,
    longrope_scale,
    mrope_axes,
    ntk_bands,
    p_rope_bands,
)

pi = math.pi


def grid(*shape: int) -> Tensor:
    """Indices of a grid's cells, row by row."""
    return grid_positions(shape).flatten(0, -2)


def rotated(encoder: RotaryEncoder, positions: Tensor, **given: Any) -> dict[str, Any]:
    """Arguments for `identify`: a query before and after, and what is known of its tokens."""
    x = torch.randn(len(positions), encoder.dim)
    known = given or {"positions": positions}
    return {"output": encoder.rotate(x, positions), "before": x, **known}


def embedded(encoder: Any, positions: Tensor, **given: Any) -> dict[str, Any]:
    """Arguments for `identify`: an embedding, and what is known of its tokens."""
    return {"output": encoder(positions), **(given or {"positions": positions})}


def reals(count: int, num_axes: int, largest: float = 1.0) -> Tensor:
    """Real coordinates."""
    return (torch.rand(count, num_axes) * 2 - 1) * largest


ROTATIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "lumina-next": lambda: rotated(
        RotaryEncoder(
            48,
            2,
            pair_axes=(0, 1) * 12,
            frequencies=geometric_bands(12, base=2e4).repeat_interleave(2),
        ),
        grid(4, 5),
        shape=(4, 5),
    ),
    "cosmos": lambda: rotated(
        RotaryEncoder(
            128,
            3,
            axis_dims=(44, 42, 42),
            pairing="half",
            frequencies=[ntk_bands(44, factor=1.0), *[ntk_bands(42, factor=3.0)] * 2],
        ),
        grid(2, 3, 4) * torch.tensor([1.5, 1.0, 1.0]),
        shape=(2, 3, 4),
    ),
    "hunyuan-dit": lambda: rotated(
        RotaryEncoder(88, 2),
        torch.cartesian_prod(torch.linspace(0, 25.6, 5), torch.linspace(4, 23.3, 6)).flip(-1),
        shape=(5, 6),
    ),
    "minimax-h3": lambda: rotated(
        RotaryEncoder(128, 3, axis_dims=(32, 32, 32), pairing="half"), grid(3, 4, 5)
    ),
    "omnigen": lambda: rotated(
        RotaryEncoder(
            32,
            frequencies=longrope_bands(32, [1 + 0.1 * i for i in range(16)]),
            pairing="half",
            scale=longrope_scale(32.0, 4096),
        ),
        torch.arange(20),
    ),
    "allegro": lambda: rotated(
        RotaryEncoder(96, 3, pairing="axis-half"),
        grid(2, 3, 4) * torch.tensor([1.0, 2.0, 2.0]) / 2,
        shape=(2, 3, 4),
    ),
    "gemma4 text global": lambda: rotated(
        RotaryEncoder(64, frequencies=p_rope_bands(64, fraction=0.25, base=1e6), pairing="half"),
        torch.arange(20),
    ),
    "sam3": lambda: rotated(RotaryEncoder.preset("sam2", dim=64), grid(4, 6) / 3, shape=(4, 6)),
    "qwen3.5": lambda: rotated(
        RotaryEncoder(
            128, 3, pair_axes=mrope_axes((11, 11, 10), interleaved=True), base=1e7, pairing="half"
        ),
        grid(2, 3, 4),
    ),
    "deepseek-v4": lambda: rotated(
        RotaryEncoder(64, axis_dims=(16,), trailing=True), torch.arange(20)
    ),
    "esmfold2 atoms": lambda: rotated(
        RotaryEncoder(
            32,
            4,
            pair_axes=(0,) * 4 + (1,) * 4 + (2,) * 4 + (3,) * 4,
            frequencies=torch.cat(
                [
                    (20.0 ** (-torch.arange(4, dtype=torch.float64) / 4)).repeat(3),
                    geometric_bands(2),
                    torch.zeros(2, dtype=torch.float64),
                ]
            ),
            pairing="half",
        ),
        reals(40, 4, 10.0),
    ),
    "timm MRope": lambda: rotated(
        RotaryEncoder(64, 3, pair_axes=mrope_axes((11, 11, 10), interleaved=True), pairing="half"),
        F.pad(grid(4, 5), (1, 0)),
    ),
    "hunyuan-image-3": lambda: rotated(
        RotaryEncoder(64, 2, pair_axes=(0, 1) * 16, pairing="half"), grid(4, 5) + 0.5
    ),
    "timesformer-pytorch": lambda: rotated(
        RotaryEncoder(32, 2, frequencies=linear_bands(8, first=pi, last=5 * pi)),
        torch.cartesian_prod(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 7)),
    ),
    "phi4-mini": lambda: rotated(
        RotaryEncoder(128, axis_dims=(96,), pairing="half", scale=1.19), torch.arange(60)
    ),
}


EMBEDDINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "stable-audio3 time": lambda: embedded(
        SinusoidalEncoder(
            16,
            frequencies=ratio_bands(8, first=pi, ratio=20_000 ** (1 / 7)),
            split=True,
            phases=("cos", "sin"),
        ),
        torch.rand(40).double(),
    ),
    "sam3 boxes": lambda: embedded(
        lambda x: GridSinusoidalEncoder(64, 4)(2 * pi * x[:, [1, 0, 2, 3]]), torch.rand(40, 4)
    ),
    "clay": lambda: embedded(
        lambda p: FourierEncoder(
            2, frequencies=10_000.0 ** (-2 / 32 * torch.linspace(0, 1, 8)), layout="apk"
        )(2.5 * p.flip(-1)),
        grid(4, 5),
        shape=(4, 5),
    ),
    "graphcast": lambda: embedded(
        FourierEncoder(3, frequencies=ratio_bands(10, first=1.0, ratio=1.2), layout="apk"),
        reals(40, 3),
    ),
    "petr": lambda: embedded(
        lambda x: GridSinusoidalEncoder(48, 3)(2 * pi * x[:, [1, 0, 2]]), torch.rand(40, 3)
    ),
    "edm endpoint": lambda: embedded(
        SinusoidalEncoder(
            16, frequencies=geometric_bands(8, shift=1), split=True, phases=("cos", "sin")
        ),
        torch.arange(20),
    ),
    "point-nn": lambda: embedded(
        FourierEncoder(3, frequencies=ratio_bands(4, first=1000.0, ratio=100**-0.25)), reals(40, 3)
    ),
    "vggt head": lambda: embedded(
        GridSinusoidalEncoder(16, 2, base=100.0, layout="apk"), reals(40, 2)
    ),
    "neuraloperator transformer": lambda: embedded(
        FourierEncoder(2, frequencies=ratio_bands(5, first=1.0, ratio=10_000**-0.4)),
        torch.rand(40, 2),
    ),
    "perceiver": lambda: embedded(
        FourierEncoder.preset(
            "perceiver",
            2,
            frequencies=torch.stack(
                [linear_bands(3, first=pi, last=pi * 4), linear_bands(3, first=pi, last=pi * 6)], -1
            ),
        ),
        reals(40, 2),
    ),
    "signed bands": lambda: embedded(
        FourierEncoder(1, frequencies=torch.tensor([1.0, -2.0, 3.0]), phases=("cos", "sin")),
        reals(60, 1),
    ),
    "descending positions": lambda: embedded(
        lambda x: SinusoidalEncoder(64)(48 - x), torch.arange(97), shape=(97,)
    ),
    "framediff": lambda: embedded(
        lambda x: SinusoidalEncoder(32, base=2056.0, split=True)(x * pi),
        torch.arange(128),
        shape=(128,),
    ),
    "x-transformers": lambda: embedded(
        lambda x: 64**-0.5 * SinusoidalEncoder.preset("xlnet", 64)(x), torch.arange(50), shape=(50,)
    ),
}
