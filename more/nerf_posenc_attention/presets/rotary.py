"""Rotary embeddings of vision, video and language models, as released.

A row has the width of a head, the source, how the model counts positions, the number of axes, and
the arguments of ``RotaryEncoder``. Arguments that depend on the width are functions of it.
"""

import math
from functools import partial

from torch import Tensor

from nerf_posenc.core.bands import geometric_bands, linear_bands, ratio_bands
from nerf_posenc.presets.row import PresetTable
from nerf_posenc_attention.presets import positions
from nerf_posenc_attention.presets.language import LANGUAGE
from nerf_posenc_attention.presets.row import RotaryPreset
from nerf_posenc_attention.presets.row import rotary_row as _row
from nerf_posenc_attention.rope_scaling import ntk_bands


def _flux_widths(dim: int) -> tuple[int, int, int]:
    # 128 -> (16, 56, 56): frames, rows, columns.
    rest = 7 * dim // 16
    return dim - 2 * rest, rest, rest


def _wan_widths(dim: int) -> tuple[int, int, int]:
    # 128 -> (44, 42, 42): even widths near a third; the frames take the rest.
    rest = 2 * (dim // 6)
    return dim - 2 * rest, rest, rest


def _cogvideox_widths(dim: int) -> tuple[int, int, int]:
    # Of 64 columns the axes have 16, 24 and 24.
    return dim // 4, dim // 8 * 3, dim // 8 * 3


def _dinov3_bands(dim: int) -> Tensor:
    # DINOv3 divides positions by periods, and an angle is 2 pi times the quotient.
    return 2 * math.pi * geometric_bands(dim // 4, base=100.0)


def _linear_pixel_bands(dim: int) -> Tensor:
    # The last band is pi max_freq / 2, with the preset's max_freq of 256.
    return linear_bands(dim // 4, first=math.pi, last=math.pi * 128)


def _geometric_pixel_bands(dim: int) -> Tensor:
    # The last band is pi max_res / 2, with timm's max_res of 224.
    num_bands = dim // 4
    return ratio_bands(num_bands, first=math.pi, ratio=112 ** (1 / max(num_bands - 1, 1)))


def _alternating_bands(dim: int) -> Tensor:
    """Each band for both axes, one after the other."""
    return geometric_bands(dim // 4).repeat_interleave(2)


def _ltx_bands(dim: int) -> Tensor:
    """From a quarter of a cycle to 10,000 times as much, each band for all axes in turn."""
    num_bands = dim // 6
    bands = ratio_bands(num_bands, first=math.pi / 2, ratio=1e4 ** (1 / max(num_bands - 1, 1)))
    return bands.repeat_interleave(3)


def _pixtral_bands(dim: int) -> list[Tensor]:
    # One series of bands: rows take the even ones, columns the odd ones.
    bands = geometric_bands(dim // 2)
    return [bands[::2], bands[1::2]]


def _cosmos_bands(dim: int) -> list[Tensor]:
    # rope_scale (2, 1, 1): NTK scaling by 2 along the frames alone.
    frames, rows, columns = _wan_widths(dim)
    return [
        ntk_bands(frames, factor=2.0),
        geometric_bands(rows // 2),
        geometric_bands(columns // 2),
    ]


_TRANSFORMERS = "transformers, models/"
_DIFFUSERS = "diffusers, models/"

ROTARY: PresetTable[RotaryPreset] = PresetTable(
    {
        **LANGUAGE,
        "stable-audio": _row(
            64,
            f"{_DIFFUSERS}attention_processor.py, StableAudioAttnProcessor2_0",
            positions.sequence,
            aliases=("matcha-tts",),
            axis_dims=lambda dim: (dim // 2,),
            pairing="half",
        ),
        "pixtral": _row(
            64,
            f"{_TRANSFORMERS}pixtral, of the image; also Mistral 3",
            positions.rows_and_columns,
            2,
            frequencies=_pixtral_bands,
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
            frequencies=_dinov3_bands,
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
            aliases=("prx",),
        ),
        "timm-pixel": _row(
            64,
            "timm, layers/pos_embed_sincos.py, RotaryEmbeddingCat(in_pixels=True), max_res 224",
            positions.ends_at_one,
            2,
            frequencies=_geometric_pixel_bands,
        ),
        "rotary-embedding-torch-pixel": _row(
            64,
            "rotary_embedding_torch.py, RotaryEmbedding(dim / 2, freqs_for='pixel', max_freq=256)",
            positions.ends_at_one,
            2,
            frequencies=_linear_pixel_bands,
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
            aliases=("edgetam",),
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
            frequencies=_alternating_bands,
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
            frequencies=_alternating_bands,
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
            aliases=("chroma", "bria", "flux.1", "flux-kontext"),
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
            # An image of 512 x 512 pixels has 32 x 32 patches.
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
            frequencies=_alternating_bands,
        ),
        "ltx-video": _row(
            2048,
            f"{_DIFFUSERS}transformers/transformer_ltx.py; all heads as one, 25 frames a second",
            positions.seconds_and_pixels,
            3,
            pair_axes=lambda dim: (0, 1, 2) * (dim // 6),
            frequencies=_ltx_bands,
            trailing=True,
        ),
        "hunyuan-video": _row(
            128,
            "Tencent/HunyuanVideo, hyvideo/modules/posemb_layers.py",
            positions.frames,
            3,
            aliases=("hunyuan-video-1.5", "motif-video", "joyimage"),
            axis_dims=_flux_widths,
            base=256.0,
        ),
        "wan": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_wan.py",
            positions.frames,
            3,
            aliases=("skyreels-v2", "wan2.1", "wan2.2"),
            axis_dims=_wan_widths,
        ),
        "chronoedit": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_chronoedit.py; the second of two frames is 7",
            positions.first_and_eighth_frame,
            3,
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
            # A frame of 480 x 720 pixels has 30 x 45 patches.
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
            aliases=("nucleus-image",),
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
            aliases=("kandinsky6",),
            axis_dims=_cogvideox_widths,
        ),
        "cosmos": _row(
            128,
            f"{_DIFFUSERS}transformers/transformer_cosmos.py, with its scales 2, 1, 1",
            positions.frames,
            3,
            axis_dims=_wan_widths,
            frequencies=_cosmos_bands,
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
[MixedRotaryEncoder][nerf_posenc_attention.MixedRotaryEncoder].
"""
