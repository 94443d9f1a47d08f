"""Encodings of libraries that no preset has, or has in another form, for `identify` to find.

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
    RotaryEncoder,
    SinusoidalEncoder,
    geometric_bands,
    grid_positions,
    linear_bands,
    ratio_bands,
)
from nerf_posenc.core import longrope_bands, longrope_scale, ntk_bands, p_rope_bands
from nerf_posenc.presets import mrope_axes

pi = math.pi


def grid(*shape: int) -> Tensor:
    """Indices of a grid's cells, row by row."""
    return grid_positions(shape).flatten(0, -2)


def rotated(encoder: RotaryEncoder, positions: Tensor, **given: Any) -> dict[str, Any]:
    """Arguments for `identify`: a query before and after, and what is known of its tokens."""
    x = torch.randn(len(positions), encoder.dim)
    known = given or {"positions": positions}
    return {"output": encoder.rotate(x, positions), "before": x, **known}


def trailing(width: int, encoder: RotaryEncoder, positions: Tensor) -> dict[str, Any]:
    """The same, of the last columns of a head."""
    x = torch.randn(len(positions), width)
    first = width - encoder.dim
    after = torch.cat([x[:, :first], encoder.rotate(x[:, first:], positions)], dim=-1)
    return {"output": after, "before": x, "positions": positions}


def embedded(encoder: Any, positions: Tensor, **given: Any) -> dict[str, Any]:
    """Arguments for `identify`: an embedding, and what is known of its tokens."""
    return {"output": encoder(positions), **(given or {"positions": positions})}


def text_and_image(text: int, rows: int, columns: int) -> Tensor:
    """Lumina's positions: tokens of text count up, an image has the next one."""
    image = torch.cat([torch.full((rows * columns, 1), text), grid(rows, columns)], dim=-1)
    return torch.cat([F.pad(torch.arange(text)[:, None], (0, 2)), image])


def reals(count: int, num_axes: int, largest: float = 1.0) -> Tensor:
    """Real coordinates."""
    return (torch.rand(count, num_axes) * 2 - 1) * largest


ROTATIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "flux2": lambda: rotated(
        RotaryEncoder(128, 4, base=2000.0), F.pad(grid(5, 8), (1, 1), value=0)
    ),
    "qwen-image": lambda: rotated(
        RotaryEncoder.preset("flux"), F.pad(grid(5, 6) - torch.tensor([3, 3]), (1, 0)), shape=(5, 6)
    ),
    "qwen-image text": lambda: rotated(
        RotaryEncoder.preset("flux"), (torch.arange(16) + 3)[:, None].expand(-1, 3)
    ),
    "z-image": lambda: rotated(
        RotaryEncoder(128, 3, base=256.0, axis_dims=(32, 48, 48)), text_and_image(33, 4, 6)
    ),
    "lumina2": lambda: rotated(RotaryEncoder(96, 3), text_and_image(6, 4, 5)),
    "lumina-next": lambda: rotated(
        RotaryEncoder(
            48, 2, pair_axes=(0, 1) * 12, bands=geometric_bands(24, base=2e4).repeat_interleave(2)
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
            bands=[ntk_bands(44, factor=1.0), *[ntk_bands(42, factor=3.0)] * 2],
        ),
        grid(2, 3, 4) * torch.tensor([1.5, 1.0, 1.0]),
        shape=(2, 3, 4),
    ),
    "ltx-video": lambda: trailing(
        64,
        RotaryEncoder(
            60,
            3,
            pair_axes=(0, 1, 2) * 10,
            bands=(1e4 ** torch.linspace(0, 1, 10, dtype=torch.float64) * pi / 2).repeat_interleave(
                3
            ),
        ),
        (2 * grid(3, 4, 5) / torch.tensor([20.0, 64, 64]) - 1).double(),
    ),
    "hunyuan-dit": lambda: rotated(
        RotaryEncoder(88, 2),
        torch.cartesian_prod(torch.linspace(0, 25.6, 5), torch.linspace(4, 23.3, 6)).flip(-1),
        shape=(5, 6),
    ),
    "cogview4": lambda: rotated(
        RotaryEncoder(128, 2, pairing="half"),
        torch.cartesian_prod(torch.arange(4) * 256 // 4, torch.arange(8) * 256 // 8),
        shape=(4, 8),
    ),
    "kandinsky5": lambda: rotated(
        RotaryEncoder(64, 3, axis_dims=(16, 24, 24)),
        grid(2, 3, 4) / torch.tensor([1.0, 2.0, 2.0]),
        shape=(2, 3, 4),
    ),
    "ideogram4": lambda: rotated(
        RotaryEncoder.preset("qwen3-vl-text", base=5e6), F.pad(grid(6, 6) + 65_536, (1, 0))
    ),
    "minimax-h3": lambda: rotated(
        RotaryEncoder(128, 3, axis_dims=(32, 32, 32), pairing="half"), grid(3, 4, 5)
    ),
    "stable-audio3-rope": lambda: rotated(
        RotaryEncoder(64, axis_dims=(32,), pairing="half"), torch.arange(20)
    ),
    "omnigen": lambda: rotated(
        RotaryEncoder(
            32,
            bands=longrope_bands(32, [1 + 0.1 * i for i in range(16)]),
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
    "gemma3 global": lambda: rotated(
        RotaryEncoder(64, bands=geometric_bands(64, base=1e6) / 8, pairing="half"),
        torch.arange(0, 4000, 200),
    ),
    "gemma4 text global": lambda: rotated(
        RotaryEncoder(64, bands=p_rope_bands(64, fraction=0.25, base=1e6), pairing="half"),
        torch.arange(20),
    ),
    "gemma4 vision": lambda: rotated(RotaryEncoder.preset("croco"), grid(4, 5), shape=(4, 5)),
    "pixtral": lambda: rotated(
        RotaryEncoder(
            64, 2, bands=[geometric_bands(64)[::2], geometric_bands(64)[1::2]], pairing="half"
        ),
        grid(4, 5),
        shape=(4, 5),
    ),
    "llama4 vision": lambda: rotated(
        RotaryEncoder.preset("torchtune-vision", dim=64), grid(4, 4) + 1, shape=(4, 4)
    ),
    "sam3": lambda: rotated(RotaryEncoder.preset("sam2", dim=64), grid(4, 6) / 3, shape=(4, 6)),
    "efficient-loftr": lambda: rotated(
        RotaryEncoder(64, 2, pair_axes=(0, 1) * 16, bands=geometric_bands(32).repeat_interleave(2)),
        grid(4, 5) + 1,
        shape=(4, 5),
    ),
    "kimi-k2.5": lambda: rotated(
        RotaryEncoder(
            64,
            2,
            pair_axes=(1, 0) * 16,
            bands=geometric_bands(32).repeat_interleave(2),
            pairing="half",
        ),
        grid(4, 5),
        shape=(4, 5),
    ),
    "ernie4.5-vl": lambda: rotated(
        RotaryEncoder(128, 3, pair_axes=(1, 2) * 22 + (0,) * 20, base=5e5), grid(2, 3, 4) + 5
    ),
    "glm4.1v": lambda: rotated(
        RotaryEncoder(128, 3, pair_axes=mrope_axes((8, 12, 12))), grid(2, 3, 4)
    ),
    "qwen3.5": lambda: rotated(
        RotaryEncoder(
            128, 3, pair_axes=mrope_axes((11, 11, 10), interleaved=True), base=1e7, pairing="half"
        ),
        grid(2, 3, 4),
    ),
    "deepseek-v4": lambda: trailing(64, RotaryEncoder(16), torch.arange(20)),
    "minimax-m3": lambda: rotated(
        RotaryEncoder(80, 3, axis_dims=(26, 26, 26), pairing="half"), grid(2, 3, 4)
    ),
    "esmfold2 atoms": lambda: rotated(
        RotaryEncoder(
            32,
            4,
            pair_axes=(0,) * 4 + (1,) * 4 + (2,) * 4 + (3,) * 4,
            bands=torch.cat(
                [
                    (20.0 ** (-torch.arange(4, dtype=torch.float64) / 4)).repeat(3),
                    geometric_bands(4),
                    torch.zeros(2, dtype=torch.float64),
                ]
            ),
            pairing="half",
        ),
        reals(40, 4, 10.0),
    ),
    "3d diffuser actor": lambda: rotated(RotaryEncoder(60, 3), reals(40, 3)),
    "neuraloperator rotary": lambda: rotated(
        RotaryEncoder(16, pairing="half"), torch.arange(20) * 6.4
    ),
    "timm MRope": lambda: rotated(
        RotaryEncoder(64, 3, pair_axes=mrope_axes((11, 11, 10), interleaved=True), pairing="half"),
        F.pad(grid(4, 5), (1, 0)),
    ),
    "depth-anything-3": lambda: rotated(RotaryEncoder.preset("vggt"), grid(4, 5) + 1, shape=(4, 5)),
    "hunyuan-image-3": lambda: rotated(
        RotaryEncoder(64, 2, pair_axes=(0, 1) * 16, pairing="half"), grid(4, 5) + 0.5
    ),
    "phi4-mini": lambda: rotated(
        RotaryEncoder(128, axis_dims=(96,), pairing="half", scale=1.19), torch.arange(60)
    ),
}

EMBEDDINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "stable-audio3 time": lambda: embedded(
        SinusoidalEncoder(
            16,
            bands=ratio_bands(8, first=pi, ratio=20_000 ** (1 / 7)),
            split=True,
            phases=("cos", "sin"),
        ),
        torch.rand(40).double(),
    ),
    "sam3 boxes": lambda: embedded(
        lambda x: GridSinusoidalEncoder(64, 4)(2 * pi * x[:, [1, 0, 2, 3]]), torch.rand(40, 4)
    ),
    "rt-detr": lambda: embedded(GridSinusoidalEncoder(32, layout="apk"), grid(4, 5), shape=(4, 5)),
    "whisper": lambda: embedded(SinusoidalEncoder.timestep(32), torch.arange(20), shape=(20,)),
    "parakeet": lambda: embedded(SinusoidalEncoder(32), torch.arange(9, -10, -1)),
    "bros boxes": lambda: embedded(GridSinusoidalEncoder(64, 8, layout="apk"), torch.rand(40, 8)),
    "transformer-xl": lambda: embedded(SinusoidalEncoder(32, split=True), torch.arange(20)),
    "simple-vit": lambda: embedded(
        lambda p: FourierEncoder(2, bands=geometric_bands(16, last_reached=True), layout="apk")(
            p.flip(-1).float()
        ),
        grid(4, 5),
        shape=(4, 5),
    ),
    "simple-vit 3d": lambda: embedded(
        lambda p: FourierEncoder(3, bands=geometric_bands(12, last_reached=True), layout="apk")(
            p.flip(-1).float()
        ),
        grid(2, 3, 4),
        shape=(2, 3, 4),
    ),
    "clay": lambda: embedded(
        lambda p: FourierEncoder(
            2, bands=10_000.0 ** (-2 / 32 * torch.linspace(0, 1, 8)), layout="apk"
        )(2.5 * p.flip(-1)),
        grid(4, 5),
        shape=(4, 5),
    ),
    "prithvi 3d": lambda: embedded(
        lambda p: GridSinusoidalEncoder(64, 3, axis_dims=(24, 24, 16), layout="apk")(p.flip(-1)),
        grid(2, 3, 4),
        shape=(2, 3, 4),
    ),
    "prithvi location": lambda: embedded(
        GridSinusoidalEncoder(32, 2, layout="apk"), reals(40, 2, 90.0)
    ),
    "aurora": lambda: embedded(
        SinusoidalEncoder(
            16, bands=ratio_bands(8, first=2 * pi / 0.01, ratio=(0.01 / 720) ** (1 / 7)), split=True
        ),
        torch.rand(40).double(),
    ),
    "graphcast": lambda: embedded(
        FourierEncoder(3, bands=ratio_bands(10, first=1.0, ratio=1.2), layout="apk"), reals(40, 3)
    ),
    "pi0": lambda: embedded(
        SinusoidalEncoder(
            16, bands=ratio_bands(8, first=2 * pi / 4e-3, ratio=(4e-3 / 4.0) ** (1 / 7)), split=True
        ),
        torch.rand(40),
    ),
    "act": lambda: embedded(SinusoidalEncoder(16), torch.arange(20), shape=(20,)),
    "petr": lambda: embedded(
        lambda x: GridSinusoidalEncoder(48, 3)(2 * pi * x[:, [1, 0, 2]]), torch.rand(40, 3)
    ),
    "3detr": lambda: embedded(
        lambda x: GridSinusoidalEncoder(32, 3, axis_dims=(12, 10, 10))(2 * pi * x),
        torch.rand(40, 3),
    ),
    "edm": lambda: embedded(SinusoidalEncoder.timestep(16, flip=True), torch.arange(20)),
    "edm endpoint": lambda: embedded(
        SinusoidalEncoder(
            16, bands=geometric_bands(16, last_reached=True), split=True, phases=("cos", "sin")
        ),
        torch.arange(20),
    ),
    "point-nn": lambda: embedded(
        FourierEncoder(3, bands=ratio_bands(4, first=1000.0, ratio=100**-0.25)), reals(40, 3)
    ),
    "vggt head": lambda: embedded(
        GridSinusoidalEncoder(16, 2, base=100.0, layout="apk"), reals(40, 2)
    ),
    "neuraloperator": lambda: embedded(
        FourierEncoder.preset("neuraloperator", 2, 5), torch.rand(40, 2)
    ),
    "neuraloperator transformer": lambda: embedded(
        FourierEncoder(2, bands=ratio_bands(5, first=1.0, ratio=10_000**-0.4)), torch.rand(40, 2)
    ),
    "perceiver": lambda: embedded(
        FourierEncoder.preset(
            "perceiver",
            2,
            bands=torch.stack(
                [linear_bands(3, first=pi, last=pi * 4), linear_bands(3, first=pi, last=pi * 6)], -1
            ),
        ),
        reals(40, 2),
    ),
    "monai 3d": lambda: embedded(
        GridSinusoidalEncoder(24, 3, layout="apk"), grid(2, 3, 4)[:, [1, 0, 2]]
    ),
    "signed bands": lambda: embedded(
        FourierEncoder(1, bands=torch.tensor([1.0, -2.0, 3.0]), phases=("cos", "sin")), reals(60, 1)
    ),
    "bands of its own for each axis": lambda: embedded(FourierEncoder(2, (3, 5)), reals(50, 2)),
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
