"""Rotary embeddings of vision, video and language models, frozen."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from torch import Tensor

from nerf_posenc.core.bands import geometric_bands, linear_bands, ratio_bands
from nerf_posenc.core.scaled_bands import llama3_bands, ntk_bands
from nerf_posenc.presets import positions
from nerf_posenc.presets.row import Preset


def mrope_axes(sections: Sequence[int], *, interleaved: bool = False) -> tuple[int, ...]:
    """Axis of each pair of Qwen-VL's multimodal rotary embedding (M-RoPE), for ``pair_axes``.

    One series of bands goes through all pairs; each pair takes the position along time, height
    or width. A text token has the same position along all three. The sections are as many as half
    of the head: in a wider one, as in Ideogram 4, the first axis has the rest.

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


def _dinov3_bands(dim: int) -> Tensor:
    return 2 * math.pi * geometric_bands(dim // 2, base=100.0)


def _linear_pixel_bands(dim: int) -> Tensor:
    return linear_bands(dim // 4, first=math.pi, last=math.pi * 128)


def _geometric_pixel_bands(dim: int) -> Tensor:
    num_bands = dim // 4
    return ratio_bands(num_bands, first=math.pi, ratio=112 ** (1 / max(num_bands - 1, 1)))


def _mrope(first: tuple[int, ...], dim: int, *, interleaved: bool) -> tuple[int, ...]:
    """M-RoPE with the sections of 64 pairs in proportion."""
    sections = [pairs * dim // 128 for pairs in first]
    sections[0] = dim // 2 - sum(sections[1:])
    return mrope_axes(sections, interleaved=interleaved)


def _alternating_bands(dim: int) -> Tensor:
    """Each band for both axes, one after the other."""
    return geometric_bands(dim // 2).repeat_interleave(2)


def _ltx_bands(dim: int) -> Tensor:
    """From a quarter of a cycle to 10,000 times as much, each band for all axes in turn."""
    num_bands = dim // 6
    bands = ratio_bands(num_bands, first=math.pi / 2, ratio=1e4 ** (1 / max(num_bands - 1, 1)))
    return bands.repeat_interleave(3)


def _pixtral_bands(dim: int) -> list[Tensor]:
    bands = geometric_bands(dim)
    return [bands[::2], bands[1::2]]


def _cosmos_bands(dim: int) -> list[Tensor]:
    # The rates of frames are stretched for twice as many.
    frames, rows, columns = _wan_widths(dim)
    return [ntk_bands(frames, factor=2.0), geometric_bands(rows), geometric_bands(columns)]


def _ernie_axes(dim: int) -> tuple[int, ...]:
    """Rows and columns in turn, then the frames."""
    frames = 5 * dim // 32
    return (1, 2) * ((dim // 2 - frames) // 2) + (0,) * frames


def _first_half_mrope(dim: int) -> tuple[int, ...]:
    """GLM's sections of the first half of the columns."""
    return _mrope((16, 24, 24), dim // 2, interleaved=False)


def _quarter_mrope(dim: int) -> tuple[int, ...]:
    """Qwen3.5's sections of the first quarter of the columns, as equal as they can be."""
    pairs = dim // 8
    sections = [(pairs + 2 - axis) // 3 for axis in range(3)]
    return mrope_axes(sections, interleaved=True)


def _first_quarter(dim: int) -> tuple[int]:
    return (dim // 4,)


def _row(
    dim: int,
    source: str,
    token_positions: Callable[[Sequence[int]], Tensor],
    num_axes: int = 1,
    aliases: tuple[str, ...] = (),
    note: str = "",
    **arguments: Any,
) -> Preset:
    arguments = {"num_axes": num_axes, **arguments}
    return Preset(source, arguments, note, aliases, dim, token_positions)


_TRANSFORMERS = "transformers, models/"
_DIFFUSERS = "diffusers, models/"

ROTARY: Mapping[str, Preset] = MappingProxyType(
    {
        "roformer": _row(64, f"{_TRANSFORMERS}roformer", positions.sequence),
        "torchtune": _row(128, "torchtune, modules/position_embeddings.py", positions.sequence),
        "rotary-embedding-torch": _row(
            64, "rotary_embedding_torch.py, RotaryEmbedding(dim)", positions.sequence
        ),
        "gptj": _row(256, f"{_TRANSFORMERS}gptj", positions.sequence, axis_dims=_first_quarter),
        "gpt-neox": _row(
            96,
            f"{_TRANSFORMERS}gpt_neox",
            positions.sequence,
            aliases=("stablelm",),
            axis_dims=_first_quarter,
            pairing="half",
        ),
        "llama": _row(
            128, f"{_TRANSFORMERS}llama", positions.sequence, aliases=("moshi",), pairing="half"
        ),
        "deepseek-v4": _row(
            512,
            f"{_TRANSFORMERS}deepseek_v4, the last 64 columns, layers without compression",
            positions.sequence,
            axis_dims=(64,),
            trailing=True,
        ),
        "stable-audio": _row(
            64,
            f"{_DIFFUSERS}attention_processor.py, StableAudioAttnProcessor2_0",
            positions.sequence,
            axis_dims=lambda dim: (dim // 2,),
            pairing="half",
        ),
        "llama3": _row(
            128,
            f"{_TRANSFORMERS}llama, rope_type 'llama3' with factor 8 (Llama 3.1)",
            positions.sequence,
            note="Llama 3.2 has ``bands=llama3_bands(dim, factor=32)``, Llama 4 Scout "
            "``llama3_bands(128, factor=16, fast_cycles=1)`` with ``pairing='interleaved'``.",
            bands=llama3_bands,
            pairing="half",
        ),
        "qwen2-vl-text": _row(
            128,
            f"{_TRANSFORMERS}qwen2_vl, sections 16, 24, 24",
            positions.frames,
            3,
            aliases=("qwen2.5-vl-text",),
            pair_axes=partial(_mrope, (16, 24, 24), interleaved=False),
            base=1e6,
            pairing="half",
        ),
        "qwen3-vl-text": _row(
            128,
            f"{_TRANSFORMERS}qwen3_vl, interleaved sections 24, 20, 20; rope_theta of the released "
            "2B, 4B, 8B and 30B-A3B",
            positions.frames,
            3,
            pair_axes=partial(_mrope, (24, 20, 20), interleaved=True),
            base=5e6,
            pairing="half",
        ),
        "qwen3.5-text": _row(
            256,
            f"{_TRANSFORMERS}qwen3_5, a quarter of the columns, interleaved sections 11, 11, 10; "
            "rope_theta of the released models",
            positions.frames,
            3,
            pair_axes=_quarter_mrope,
            base=1e7,
            pairing="half",
        ),
        "gemma3": _row(
            256,
            f"{_TRANSFORMERS}gemma3, global layers of 4B, 12B and 27B; local ones are llama",
            positions.sequence,
            bands=lambda dim: geometric_bands(dim, base=1e6) / 8,
            pairing="half",
        ),
        "glm4.1v-text": _row(
            128,
            f"{_TRANSFORMERS}glm4v, half of the columns, sections 8, 12, 12",
            positions.frames,
            3,
            pair_axes=_first_half_mrope,
        ),
        "ernie4.5-vl-text": _row(
            128,
            f"{_TRANSFORMERS}ernie4_5_vl_moe, sections 22, 22, 20",
            positions.frames,
            3,
            pair_axes=_ernie_axes,
            base=500_000.0,
        ),
        "pixtral": _row(
            64,
            f"{_TRANSFORMERS}pixtral, of the image; also Mistral 3",
            positions.rows_and_columns,
            2,
            bands=_pixtral_bands,
            pairing="half",
        ),
        "qwen2-vl-vision": _row(
            80, f"{_TRANSFORMERS}qwen2_vl", positions.merged_blocks, 2, pairing="half"
        ),
        "qwen3-vl-vision": _row(
            72, f"{_TRANSFORMERS}qwen3_vl", positions.merged_blocks, 2, pairing="half"
        ),
        "dinov3": _row(
            64,
            "facebookresearch/dinov3, dinov3/layers/rope_position_encoding.py",
            positions.centers,
            2,
            aliases=("sapiens2",),
            bands=_dinov3_bands,
            pairing="half",
        ),
        "torchtune-vision": _row(
            88,
            "torchtune, modules/position_embeddings.py, VisionRotaryPositionalEmbeddings",
            positions.rows_and_columns_from_1,
            2,
            axis_order=(1, 0),
        ),
        "eva02": _row(
            64,
            "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(ref_feat_shape=(16, 16))",
            partial(positions.relative_to, 16),
            2,
        ),
        "timm-rope": _row(
            64,
            "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(in_pixels=False)",
            positions.rows_and_columns,
            2,
            aliases=("timm", "prx"),
        ),
        "timm-pixel": _row(
            64,
            "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(in_pixels=True), max_res 224",
            positions.ends_at_one,
            2,
            bands=_geometric_pixel_bands,
        ),
        "rotary-embedding-torch-pixel": _row(
            64,
            "rotary_embedding_torch.py, RotaryEmbedding(dim / 2, freqs_for='pixel', max_freq=256)",
            positions.ends_at_one,
            2,
            bands=_linear_pixel_bands,
        ),
        "rope-vit-axial": _row(
            64,
            "naver-ai/rope-vit, models/vit_rope.py, compute_axial_cis",
            positions.rows_and_columns,
            2,
            base=100.0,
            axis_order=(1, 0),
        ),
        "sam2": _row(
            256,
            "facebookresearch/sam2, sam2/modeling/position_encoding.py, compute_axial_cis",
            positions.rows_and_columns,
            2,
            axis_order=(1, 0),
        ),
        "sam3": _row(
            64,
            f"{_TRANSFORMERS}sam3, layers of the whole image; windows of 24 x 24 are alike",
            partial(positions.relative_to, 24),
            2,
            axis_order=(1, 0),
        ),
        "llama4-vision": _row(
            88,
            f"{_TRANSFORMERS}llama4; the class token, the last one, is not rotated",
            positions.rows_and_columns_from_1,
            2,
            axis_order=(1, 0),
        ),
        "kimi-k2.5-vision": _row(
            72,
            f"{_TRANSFORMERS}kimi_k25, the image encoder of Kimi K2.5",
            positions.rows_and_columns,
            2,
            pair_axes=lambda dim: (1, 0) * (dim // 4),
            bands=_alternating_bands,
            pairing="half",
        ),
        "minimax-m3-vision": _row(
            80,
            f"{_TRANSFORMERS}minimax_m3_vl, the image encoder; two columns are not rotated",
            positions.frames,
            3,
            axis_dims=lambda dim: (2 * (dim // 6),) * 3,
            pairing="half",
        ),
        "efficient-loftr": _row(
            256,
            f"{_TRANSFORMERS}efficientloftr; all heads as one, cells counted from 1",
            positions.rows_and_columns_from_1,
            2,
            pair_axes=lambda dim: (0, 1) * (dim // 4),
            bands=_alternating_bands,
        ),
        "gemma4-vision": _row(
            64,
            f"{_TRANSFORMERS}gemma4, the image encoder of E2B",
            positions.rows_and_columns,
            2,
            base=100.0,
            axis_order=(1, 0),
            pairing="axis-half",
        ),
        "croco": _row(
            64,
            "naver/croco, models/pos_embed.py, RoPE2D(freq=100)",
            positions.rows_and_columns,
            2,
            aliases=("dust3r", "mast3r"),
            base=100.0,
            pairing="axis-half",
        ),
        "vggt": _row(
            64,
            "facebookresearch/vggt, vggt/layers/rope.py; camera and register tokens are at (0, 0)",
            positions.rows_and_columns_from_1,
            2,
            aliases=("depth-anything-3",),
            base=100.0,
            pairing="axis-half",
        ),
        "vjepa2": _row(
            64,
            "facebookresearch/vjepa2, src/models/utils/modules.py, RoPEAttention",
            positions.frames,
            3,
            axis_dims=lambda dim: (2 * (dim // 6),) * 3,
            pairing="tiled",
        ),
        "flux": _row(
            128,
            "black-forest-labs/flux, src/flux/math.py; text tokens have position (0, 0, 0)",
            positions.images_and_frames,
            3,
            aliases=("chroma", "bria"),
            axis_dims=_flux_widths,
        ),
        "hidream-image": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_hidream_image.py, of I1; text tokens have "
            "position (0, 0, 0)",
            positions.images_and_frames,
            3,
            axis_dims=lambda dim: (dim // 2, dim // 4, dim // 4),
        ),
        "krea2": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_krea2.py; text tokens have position (0, 0, 0)",
            positions.images_and_frames,
            3,
            axis_dims=lambda dim: (dim // 4, 3 * dim // 8, 3 * dim // 8),
            base=1000.0,
        ),
        "hunyuan-image": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_hunyuanimage.py, of HunyuanImage 2.1",
            positions.rows_and_columns,
            2,
            base=256.0,
        ),
        "hunyuan-dit": _row(
            88,
            f"{_DIFFUSERS}embeddings.py, get_2d_rotary_pos_embed, as HunyuanDiT calls it",
            partial(positions.fitted_into, 32, 32, 2),
            2,
            axis_order=(1, 0),
        ),
        "lumina-next": _row(
            96,
            f"{_DIFFUSERS}embeddings.py, get_2d_rotary_pos_embed_lumina, without its factors",
            positions.rows_and_columns,
            2,
            pair_axes=lambda dim: (0, 1) * (dim // 4),
            bands=_alternating_bands,
        ),
        "ltx-video": _row(
            2048,
            f"{_DIFFUSERS}transformers/transformer_ltx.py; all heads as one, 25 frames a second",
            positions.seconds_and_pixels,
            3,
            pair_axes=lambda dim: (0, 1, 2) * (dim // 6),
            bands=_ltx_bands,
            trailing=True,
        ),
        "hunyuan-video": _row(
            128,
            "Tencent/HunyuanVideo, hyvideo/modules/posemb_layers.py",
            positions.frames,
            3,
            aliases=("hunyuan-video-1.5",),
            axis_dims=_flux_widths,
            base=256.0,
        ),
        "wan": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_wan.py",
            positions.frames,
            3,
            aliases=("skyreels-v2", "chronoedit"),
            axis_dims=_wan_widths,
        ),
        "cogvideox": _row(
            64,
            f"{_DIFFUSERS}embeddings.py, get_3d_rotary_pos_embed, of CogVideoX 1.5",
            positions.frames,
            3,
            axis_dims=_cogvideox_widths,
        ),
        "cogvideox-1.0": _row(
            64,
            f"{_DIFFUSERS}embeddings.py, get_3d_rotary_pos_embed, of CogVideoX 1.0 5B",
            partial(positions.fitted_into, 30, 45, 3),
            3,
            aliases=("easyanimate",),
            axis_dims=_cogvideox_widths,
        ),
        "flux2": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_flux2.py; text tokens are at (0, 0, 0, index)",
            positions.image_of_4_axes,
            4,
            base=2000.0,
        ),
        "qwen-image": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_qwenimage.py; text tokens follow at the larger "
            "half of the sides, the same on all axes",
            positions.centered_image,
            3,
            axis_dims=_flux_widths,
        ),
        "z-image": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_z_image.py; images begin on the first axis "
            "after the text",
            positions.images_and_frames,
            3,
            axis_dims=lambda dim: (dim // 4, 3 * dim // 8, 3 * dim // 8),
            base=256.0,
        ),
        "lumina2": _row(
            96,
            f"{_DIFFUSERS}transformers/transformer_lumina2.py; images begin on the first axis "
            "after the text",
            positions.images_and_frames,
            3,
        ),
        "kandinsky5": _row(
            64,
            f"{_DIFFUSERS}transformers/transformer_kandinsky.py, with its scale factors 1, 2, 2",
            positions.frames_of_half_patches,
            3,
            axis_dims=_cogvideox_widths,
        ),
        "cosmos": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_cosmos.py, with its scales 2, 1, 1",
            positions.frames,
            3,
            axis_dims=_wan_widths,
            bands=_cosmos_bands,
            pairing="half",
        ),
        "cogview4": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_cogview4.py",
            positions.stretched_to_256,
            2,
            pairing="half",
        ),
    }
)
"""Rotary embeddings of models: ``RotaryEncoder.preset(name)`` is the encoder, and
``ROTARY[name].positions(shape)`` gives positions as the model counts them.

RoPE-ViT's mixed frequencies and LightGlue's learned ones are parameters of
[MixedRotaryEncoder][nerf_posenc.MixedRotaryEncoder].
"""
