"""Sinusoidal embeddings of image patches and feature maps."""

import math

from torch import Tensor

from nerf_posenc.core.bands import geometric_bands, ratio_bands
from nerf_posenc.presets.row import Preset, PresetTable

_WIDTH_FIRST = dict(layout="apk", axis_order=(1, 0))
# Libraries of two axes whose halves have a sine and a cosine of each band.
_IN_FOURS = {2: 4}
_TRANSFORMERS = "transformers, models/"


def _clay_bands(dim: int, num_axes: int) -> Tensor:
    """Clay's bands, which are almost equal.

    Its code divides the exponent by the width a second time, so the ratio of the last band to the
    first is 1e4 ** (-2 / dim) instead of 1e-4.
    """
    count = dim // (2 * num_axes)
    return ratio_bands(count, first=1.0, ratio=1e4 ** (-2 / (dim * max(count - 1, 1))))


GRID = PresetTable(
    {
        "detr": Preset(
            "facebookresearch/detr, models/position_encoding.py, normalize=False",
            dict(layout="akp", start=1),
            "With padding, ``masked_table``. The defaults of mmdet's SinePositionalEncoding.",
            multiple_of=_IN_FOURS,
        ),
        "detr-normalized": Preset(
            "facebookresearch/detr, models/position_encoding.py, normalize=True; images of ACT",
            dict(layout="akp", start=1, span=2 * math.pi),
            "With padding, ``masked_table``.",
            aliases=("mask2former", "mmdet-detr", "mmdet-mask2former"),
            multiple_of=_IN_FOURS,
        ),
        "deformable-detr": Preset(
            f"{_TRANSFORMERS}deformable_detr",
            dict(layout="akp", start=0.5, span=2 * math.pi),
            "Positions half a cell earlier than DETR's: ``offset=-0.5`` of mmdet, whose other "
            "models have rows of their own.",
            aliases=("mmdet-deformable-detr",),
            multiple_of=_IN_FOURS,
        ),
        "dab-detr": Preset(
            f"{_TRANSFORMERS}dab_detr and grounding_dino; DINO",
            # DAB-DETR has a temperature of 20 where DETR has 10,000.
            dict(layout="akp", start=1, span=2 * math.pi, base=20.0),
            "With padding, ``masked_table``.",
            aliases=("dino-detr", "grounding-dino", "mmdet-dino"),
            multiple_of=_IN_FOURS,
        ),
        "timm": Preset(
            "timm, layers/pos_embed_sincos.py, build_sincos2d_pos_embed",
            dict(layout="pak"),
            multiple_of=_IN_FOURS,
        ),
        "timm-interleaved": Preset(
            "timm, layers/pos_embed_sincos.py, interleave_sin_cos=True",
            dict(layout="apk"),
            "Of RT-DETR as transformers has it; its authors count columns first, "
            "``table((columns, rows))``. BROS embeds the 8 numbers of a box: ``num_axes=8``.",
            aliases=("rt-detr", "rt-detrv2", "d-fine", "bros"),
            multiple_of=_IN_FOURS,
        ),
        "mae": Preset(
            "facebookresearch/mae, util/pos_embed.py; DiT; frequencies and times of HT Demucs",
            _WIDTH_FIRST,
            aliases=("aimv2", "climax", "dit"),
            multiple_of=_IN_FOURS,
        ),
        "diffusers": Preset(
            "diffusers, models/embeddings.py, get_2d_sincos_pos_embed, at every size",
            dict(**_WIDTH_FIRST, base_size=16),
            "Override ``base_size`` (PixArt: sample size over patch size) and ``position_scale`` "
            "(its ``interpolation_scale``).",
            multiple_of=_IN_FOURS,
        ),
        "cogvideox-sincos": Preset(
            "diffusers, models/embeddings.py, get_3d_sincos_pos_embed",
            dict(
                layout="apk",
                axis_order=(0, 2, 1),
                axis_dims=lambda dim, _: (dim // 4, 3 * dim // 8, 3 * dim // 8),
            ),
            "Three axes, (frames, rows, columns): a quarter of the width for frames, the rest for "
            "columns and rows; ``position_scale`` one for each axis. CogVideoX 1.0 2B has it.",
        ),
        "monai": Preset(
            "monai, networks/blocks/pos_embed_utils.py, build_sincos_position_embedding",
            dict(layout="apk", axis_order=lambda _, num_axes: (1, 0, 2)[:num_axes]),
            "Axes are height, width and depth; the columns are of width, height, depth.",
            multiple_of={2: 4, 3: 6},
        ),
        "simple-vit": Preset(
            "google-research/big_vision, models/vit.py, posemb_sincos_2d; vit-pytorch, SimpleViT",
            dict(
                layout="apk",
                axis_order=lambda _, num_axes: range(num_axes)[::-1],
                frequencies=lambda dim, num_axes: geometric_bands(dim // (2 * num_axes), shift=1),
            ),
            "The longest wavelength is reached: 10000 ** (k / (n - 1)) for n bands. Columns that "
            "the axes do not share evenly are 0 (vit-pytorch in 3-D).",
            multiple_of=_IN_FOURS,
        ),
        "trellis": Preset(
            "microsoft/TRELLIS, trellis/modules/transformer/blocks.py, AbsolutePositionEmbedder",
            dict(
                layout="apk",
                frequencies=lambda dim, num_axes: geometric_bands(dim // (2 * num_axes)),
            ),
            "Columns that the axes do not share evenly are 0.",
        ),
        "prithvi": Preset(
            "IBM/terratorch, terratorch/models/backbones/prithvi_mae.py",
            dict(
                layout="apk",
                axis_order=(2, 1, 0),
                axis_dims=lambda dim, _: (dim // 16 * 6, dim // 16 * 6, dim // 16 * 4),
            ),
            "Three axes, (frames, rows, columns). Years and days of the year, or latitudes and "
            "longitudes, are ``GridSinusoidalEncoder(dim, 2, layout='apk')``.",
        ),
        "clay": Preset(
            "Clay-foundation/model, claymodel/utils.py, posemb_sincos_2d_with_gsd",
            dict(**_WIDTH_FIRST, frequencies=_clay_bands),
            "For pixels of ``gsd`` meters ``position_scale=1 / gsd``.",
        ),
        "tatp22": Preset("positional-encodings, torch_encodings.py", dict(layout="akp")),
        "loftr": Preset(
            "zju3dv/LoFTR, src/loftr/utils/position_encoding.py",
            dict(layout="kap", start=1, axis_order=(1, 0)),
            "With the bug of its temperature mended.",
            multiple_of=_IN_FOURS,
        ),
    }
)
"""Arguments of ``GridSinusoidalEncoder`` that give each library's numbers.

Axes are named as an array's: rows (height) first.
"""
