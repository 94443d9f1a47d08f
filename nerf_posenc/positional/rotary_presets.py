"""Rotary embeddings of vision, video and language models, frozen."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from jaxtyping import Num
from torch import Tensor

from nerf_posenc.core.bands import geometric_bands, linear_bands, ratio_bands
from nerf_posenc.core.encoder import unknown_name
from nerf_posenc.core.scaled_bands import llama3_bands
from nerf_posenc.positional import model_grids

Grid = Callable[[Sequence[int]], Tensor]


@dataclass(frozen=True)
class RotaryPreset:
    """The rotary embedding of a model: an encoder, and how the model counts positions.

    Attributes:
        dim: width of a head in the model.
        arguments: of [RotaryEncoder][nerf_posenc.RotaryEncoder], from ``dim``.
        grid: positions of the model's tokens from the sizes of a grid.
        source: where the model keeps its form.
    """

    dim: int
    source: str
    arguments: Callable[[int], dict[str, Any]] = field(repr=False)
    grid: Grid = field(repr=False)

    def arguments_with(self, **overrides: Any) -> dict[str, Any]:
        """Arguments of [RotaryEncoder][nerf_posenc.RotaryEncoder] for the model.

        Args:
            overrides: arguments that differ from the preset's.

        Raises:
            ValueError: If ``base`` is given for a preset with bands of its own.
        """
        dim = overrides.pop("dim", self.dim)
        arguments = self.arguments(dim)
        if "base" in overrides and "bands" in arguments and "bands" not in overrides:
            raise ValueError(
                "this preset has bands of its own, which no base alone describes; give bands=, as "
                "from llama3_bands or geometric_bands"
            )
        return {"dim": dim, **arguments, **overrides}

    def positions(self, shape: Sequence[int]) -> Num[Tensor, "length *axes"]:
        """Positions of the tokens of a sequence, an image or a video, in the model's order.

        Args:
            shape: ``(length,)``, ``(rows, columns)`` of patches or ``(frames, rows, columns)``,
                as the model has it.

        Returns:
            ``(length,)`` or ``(length, num_axes)``, for ``rotate``.

        Raises:
            ValueError: If the shape does not have as many sizes as the model's grid.
        """
        if not isinstance(shape, Sequence):
            raise TypeError(f"shape must have a size for each axis, as ({shape},); got {shape!r}")
        return self.grid(shape)


def rotary_preset(name: str) -> RotaryPreset:
    """Look a preset up.

    Args:
        name: one of [ROTARY_PRESETS][nerf_posenc.ROTARY_PRESETS].

    Raises:
        ValueError: If the name is unknown; the nearest ones are given.

    Examples:
        >>> rotary_preset("dinov3").positions((3, 4)).shape
        torch.Size([12, 2])
    """
    if name not in ROTARY_PRESETS:
        raise ValueError(unknown_name("rotary preset", name, ROTARY_PRESETS))
    return ROTARY_PRESETS[name]


def mrope_axes(sections: Sequence[int], *, interleaved: bool = False) -> tuple[int, ...]:
    """Axis of each pair of Qwen-VL's multimodal rotary embedding (M-RoPE), for ``pair_axes``.

    One series of bands goes through all pairs; each pair takes the position along time, height
    or width. A text token has the same position along all three.

    Args:
        sections: number of pairs of each axis: ``(16, 24, 24)`` in Qwen2-VL, ``(24, 20, 20)`` in
            Qwen3-VL.
        interleaved: take the axes in turn as long as each has pairs left, and the first axis for
            the rest (Qwen3-VL), instead of one after the other (Qwen2-VL).

    Returns:
        One axis for each pair.

    Raises:
        ValueError: If a section is negative, or with ``interleaved`` a later axis has more pairs
            than the first.

    Examples:
        >>> mrope_axes((2, 1, 1))
        (0, 0, 1, 2)
        >>> mrope_axes((2, 1, 1), interleaved=True)
        (0, 1, 2, 0)
    """
    if min(sections) < 0 or (interleaved and max(sections) > sections[0]):
        raise ValueError(
            "sections must be 0 or more pairs for each axis, with interleaved none more than the "
            f"first; got {tuple(sections)}"
        )
    if not interleaved:
        return tuple(axis for axis, pairs in enumerate(sections) for _ in range(pairs))
    axes = [0] * sum(sections)
    for axis, pairs in enumerate(sections):
        if axis:
            axes[axis : pairs * len(sections) : len(sections)] = [axis] * pairs
    return tuple(axes)


def _flux_widths(dim: int) -> tuple[int, int, int]:
    rest = 7 * dim // 16
    return dim - 2 * rest, rest, rest


def _wan_widths(dim: int) -> tuple[int, int, int]:
    rest = 2 * (dim // 6)
    return dim - 2 * rest, rest, rest


def _cogvideox_widths(dim: int) -> tuple[int, int, int]:
    return dim // 4, dim // 8 * 3, dim // 8 * 3


def _plain(num_axes: int = 1, **arguments: Any) -> Callable[[int], dict[str, Any]]:
    return lambda dim: dict(num_axes=num_axes, **arguments)


def _video(widths: Callable[[int], tuple[int, ...]], **arguments: Any) -> Callable[[int], Any]:
    return lambda dim: dict(num_axes=3, axis_dims=widths(dim), **arguments)


def _dinov3(dim: int) -> dict[str, Any]:
    bands = 2 * math.pi * geometric_bands(dim // 2, base=100.0)
    return dict(num_axes=2, bands=bands, pairing="half")


def _linear_pixels(dim: int) -> dict[str, Any]:
    return dict(num_axes=2, bands=linear_bands(dim // 4, first=math.pi, last=math.pi * 128))


def _geometric_pixels(dim: int) -> dict[str, Any]:
    num_bands = dim // 4
    ratio = 112 ** (1 / (num_bands - 1))
    return dict(num_axes=2, bands=ratio_bands(num_bands, first=math.pi, ratio=ratio))


def _mrope(first: tuple[int, ...], base: float, *, interleaved: bool) -> Callable[[int], Any]:
    """M-RoPE with the sections of 64 pairs in proportion."""

    def arguments(dim: int) -> dict[str, Any]:
        sections = [pairs * dim // 128 for pairs in first]
        sections[0] = dim // 2 - sum(sections[1:])
        axes = mrope_axes(sections, interleaved=interleaved)
        return dict(num_axes=3, pair_axes=axes, base=base, pairing="half")

    return arguments


_TRANSFORMERS = "transformers, models/"
_DIFFUSERS = "diffusers, models/"

_PRESETS = {
    "roformer": RotaryPreset(64, f"{_TRANSFORMERS}roformer", _plain(), model_grids.sequence),
    "torchtune": RotaryPreset(
        128, "torchtune, modules/position_embeddings.py", _plain(), model_grids.sequence
    ),
    "rotary-embedding-torch": RotaryPreset(
        64, "rotary_embedding_torch.py, RotaryEmbedding(dim)", _plain(), model_grids.sequence
    ),
    "gptj": RotaryPreset(
        256, f"{_TRANSFORMERS}gptj", lambda dim: dict(axis_dims=(dim // 4,)), model_grids.sequence
    ),
    "gpt-neox": RotaryPreset(
        96,
        f"{_TRANSFORMERS}gpt_neox",
        lambda dim: dict(axis_dims=(dim // 4,), pairing="half"),
        model_grids.sequence,
    ),
    "llama": RotaryPreset(
        128, f"{_TRANSFORMERS}llama", _plain(pairing="half"), model_grids.sequence
    ),
    "llama3": RotaryPreset(
        128,
        f"{_TRANSFORMERS}llama, rope_type 'llama3' with factor 8 (Llama 3.1)",
        lambda dim: dict(bands=llama3_bands(dim), pairing="half"),
        model_grids.sequence,
    ),
    "qwen2-vl-text": RotaryPreset(
        128,
        f"{_TRANSFORMERS}qwen2_vl, sections 16, 24, 24",
        _mrope((16, 24, 24), 1e6, interleaved=False),
        model_grids.frames,
    ),
    "qwen3-vl-text": RotaryPreset(
        128,
        f"{_TRANSFORMERS}qwen3_vl, interleaved sections 24, 20, 20",
        _mrope((24, 20, 20), 5e5, interleaved=True),
        model_grids.frames,
    ),
    "qwen2-vl-vision": RotaryPreset(
        80, f"{_TRANSFORMERS}qwen2_vl", _plain(2, pairing="half"), model_grids.merged_blocks
    ),
    "qwen3-vl-vision": RotaryPreset(
        72, f"{_TRANSFORMERS}qwen3_vl", _plain(2, pairing="half"), model_grids.merged_blocks
    ),
    "dinov3": RotaryPreset(
        64,
        "facebookresearch/dinov3, dinov3/layers/rope_position_encoding.py",
        _dinov3,
        model_grids.centers,
    ),
    "torchtune-vision": RotaryPreset(
        88,
        "torchtune, modules/position_embeddings.py, VisionRotaryPositionalEmbeddings",
        _plain(2, axis_order=(1, 0)),
        lambda shape: model_grids.rows_and_columns(shape) + 1,
    ),
    "eva02": RotaryPreset(
        64,
        "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(ref_feat_shape=(16, 16))",
        _plain(2),
        model_grids.relative_to_16,
    ),
    "timm": RotaryPreset(
        64,
        "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(in_pixels=False)",
        _plain(2),
        model_grids.rows_and_columns,
    ),
    "timm-pixel": RotaryPreset(
        64,
        "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(in_pixels=True), max_res 224",
        _geometric_pixels,
        model_grids.ends_at_one,
    ),
    "rotary-embedding-torch-pixel": RotaryPreset(
        64,
        "rotary_embedding_torch.py, RotaryEmbedding(dim / 2, freqs_for='pixel', max_freq=256)",
        _linear_pixels,
        model_grids.ends_at_one,
    ),
    "rope-vit-axial": RotaryPreset(
        64,
        "naver-ai/rope-vit, models/vit_rope.py, compute_axial_cis",
        _plain(2, base=100.0, axis_order=(1, 0)),
        model_grids.rows_and_columns,
    ),
    "sam2": RotaryPreset(
        256,
        "facebookresearch/sam2, sam2/modeling/position_encoding.py, compute_axial_cis",
        _plain(2, axis_order=(1, 0)),
        model_grids.rows_and_columns,
    ),
    "croco": RotaryPreset(
        64,
        "naver/croco, models/pos_embed.py, RoPE2D(freq=100); also DUSt3R and MASt3R",
        _plain(2, base=100.0, pairing="axis-half"),
        model_grids.rows_and_columns,
    ),
    "vggt": RotaryPreset(
        64,
        "facebookresearch/vggt, vggt/layers/rope.py; camera and register tokens are at (0, 0)",
        _plain(2, base=100.0, pairing="axis-half"),
        lambda shape: model_grids.rows_and_columns(shape) + 1,
    ),
    "vjepa2": RotaryPreset(
        64,
        "facebookresearch/vjepa2, src/models/utils/modules.py, RoPEAttention",
        _video(lambda dim: (2 * (dim // 6),) * 3, pairing="tiled"),
        model_grids.frames,
    ),
    "flux": RotaryPreset(
        128,
        "black-forest-labs/flux, src/flux/math.py; text tokens have position (0, 0, 0)",
        _video(_flux_widths),
        model_grids.images_and_frames,
    ),
    "hunyuan-video": RotaryPreset(
        128,
        "Tencent/HunyuanVideo, hyvideo/modules/posemb_layers.py",
        _video(_flux_widths, base=256.0),
        model_grids.frames,
    ),
    "wan": RotaryPreset(
        128, f"{_DIFFUSERS}transformers/transformer_wan.py", _video(_wan_widths), model_grids.frames
    ),
    "cogvideox": RotaryPreset(
        64,
        f"{_DIFFUSERS}embeddings.py, get_3d_rotary_pos_embed, of CogVideoX 1.5",
        _video(_cogvideox_widths),
        model_grids.frames,
    ),
    "cogvideox-1.0": RotaryPreset(
        64,
        f"{_DIFFUSERS}embeddings.py, get_3d_rotary_pos_embed, of CogVideoX 1.0 5B",
        _video(_cogvideox_widths),
        model_grids.fitted_into_30_by_45,
    ),
}

ROTARY_PRESETS: Mapping[str, RotaryPreset] = MappingProxyType(_PRESETS)
"""Rotary embeddings of models: ``RotaryEncoder.preset(name)`` is the encoder, and
``ROTARY_PRESETS[name].positions(shape)`` gives positions as the model counts them.

RoPE-ViT's mixed frequencies and LightGlue's learned ones are parameters of
[MixedRotaryEncoder][nerf_posenc.MixedRotaryEncoder].
"""
