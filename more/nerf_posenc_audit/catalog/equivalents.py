"""The table of equivalents: lines that give the numbers of other libraries and models.

In the lines ``dim``, ``shape`` and so on are sizes of the model, and other sizes are those of the
numbers.
"""

from nerf_posenc_attention import ROTARY
from nerf_posenc_audit.catalog.attention import ATTENTION, SEQUENCES
from nerf_posenc_audit.catalog.coordinates import FIELDS, GEOGRAPHY, IMAGES, TIME, WAVES
from nerf_posenc_audit.catalog.equivalent import FLOAT32, Equivalent

# Entries of the numbers that have another name than their preset.
_ENTRIES = {
    "croco": "rope2d",
    "vggt": "rope2d",
    "timm-rope": "timm-axial",
    "timm-pixel": "timm-axial-pixel",
    "cogvideox": "cogvideox-1.5-rope",
    "cogvideox-1.0": "cogvideox-rope",
}
_ROTARY_LINES = [
    (
        f"library/{_ENTRIES.get(name, name)}/after",
        f'RotaryEncoder.preset("{name}").rotate(q, positions)',
    )
    for name in ROTARY
]
# Numbers of presets, each with the line that gives them.
_PRESET_LINES = [
    ("encoding/nerf-pytorch.Embedder", 'preset("nerf-pytorch", 3, 3)(x)'),
    ("encoding/torch-ngp.FreqEncoder", 'preset("torch-ngp", 3, 3)(x)'),
    ("encoding/finer.PositionalEncoding", 'preset("finer", 3, 3)(x)'),
    ("encoding/mipnerf.pos_enc", 'preset("mipnerf", 3, 3)(x)'),
    ("encoding/nerfacc.SinusoidalEncoder", 'preset("nerfacc", 3, 3)(x)'),
    ("encoding/pytorch3d.HarmonicEmbedding", 'preset("pytorch3d", 3, 3)(x)'),
    ("encoding/barf.positional_encoding", 'preset("barf", 3, 3, include_input=None)(x)'),
    ("encoding/tcnn.Frequency", 'preset("tiny-cuda-nn", 3, 3)(x)'),
    ("encoding/nerfstudio.NeRFEncoding", 'preset("nerfstudio", 3, 3, include_input="back")(x)'),
    ("library/nerfstudio-vanilla-position/output_features",
        'preset("nerfstudio-vanilla", 3)(points)'),
    ("library/nerfstudio-vanilla-direction/output_features",
        'preset("nerfstudio-vanilla-direction", 3)(points)'),
    ("library/nerfstudio-vanilla-time/output_features", 'preset("nerfstudio-vanilla", 1)(points)'),
    ("library/nerfstudio-mipnerf/output_features", 'preset("nerfstudio-mipnerf", 3)(points)'),
    ("library/nerfstudio-tensorf/output_features", 'preset("nerfstudio-tensorf", 3)(points)'),
    ("library/nerfstudio-nerfacto/output_features", 'preset("nerfstudio-nerfacto", 3)(points)'),
    ("library/nerfstudio-sdf-position/output_features", 'preset("nerfstudio-sdf", 3)(points)'),
    ("library/nerfstudio-sdf-direction/output_features",
        'preset("nerfstudio-sdf-direction", 3)(points)'),
    ("library/nerfstudio-surface-background/output_features",
        'preset("nerfstudio-background", 3)(points)'),
    ("library/nerfstudio-mipnerf/output_integrated",
        'preset("nerfstudio-mipnerf", 3)(points, covariance=covs / (2 * pi) ** 2)'),
    ("library/torch-ngp-frequency/output_linear",
        'preset("torch-ngp", 3, frequencies=linear_bands(4, first=1.0, last=2.0**3))(points)'),
    ("library/physicsnemo/output_positional", 'preset("physicsnemo", 3, 4)(points)'),
    ("encoding/timm.sincos2d", 'preset("timm", 8).table((2, 3)).flatten(0, 1)'),
    ("library/diffusers-2d-sincos/output_14_14_16_1",
        'preset("diffusers", 16).table((14, 14)).flatten(0, 1)'),
    ("library/diffusers-2d-sincos/output_7_9_16_1",
        'preset("diffusers", 16).table((7, 9)).flatten(0, 1)'),
    ("library/cogvideox-sincos/output",
        'preset("cogvideox-sincos", 96, 3, position_scale=(1.0, 1.875, 1.875)).table((3, 4, '
        "5)).flatten(0, 2)"),
    ("library/detr-sine/output_detr", 'preset("detr-normalized", 32).table((5, 6)).movedim(-1, 0)'),
    ("library/detr-sine/output_detr_masked",
        'preset("detr-normalized", 32).masked_table(mask > 0).movedim(-1, 1)'),
    ("library/detr-sine/output_deformable_detr",
        'preset("deformable-detr", 32).table((5, 6)).movedim(-1, 0)'),
    ("library/detr-sine/output_dab_detr_masked",
        'preset("dab-detr", 32).masked_table(mask > 0).movedim(-1, 1)'),
    ("library/detr-sine/output_grounding_dino_masked",
        'preset("grounding-dino", 32).masked_table(mask > 0).movedim(-1, 1)'),
    ("library/edm/output_adm", 'preset("edm-adm", 32)(labels)'),
    ("library/edm/output_song", 'preset("edm-ddpm++", 32)(labels)'),
    ("library/tensorf/output", 'preset("tensorf", 3, 6)(points)'),
    ("library/prithvi/output_grid", 'preset("prithvi", 64, 3).table((2, 3, 4)).flatten(0, -2)'),
    ("library/clay/output_grid",
        'preset("clay", 32, position_scale=0.1).table((3, 5)).flatten(0, 1)'),
    ("library/gligen-boxes/output_features",
        'preset("gligen", 4, frequencies=ratio_bands(8, first=1.0, ratio=100 ** (1 / 8)))(boxes)'),
    ("library/loftr/output_fixed", 'preset("loftr", 16).table((5, 6)).movedim(-1, 0)'),
    ("library/torchspatial-encoders/output_grid",
        'preset("space2vec-grid", 2, frequencies=ratio_bands(4, first=1 / 0.01, ratio=(0.01 / 360) '
        "** (1 / 3)))(lonlat)"),
    ("library/torchspatial-encoders/output_theory",
        'preset("space2vec-theory", 2, frequencies=ratio_bands(4, first=1 / 0.01, ratio=(0.01 / '
        "360) ** (1 / 3)))(lonlat)"),
    ("released/Qwen3-VL checkpoints (rope_theta 5e6)",
        'RotaryEncoder.preset("qwen3-vl-text").rotate(x, ids)'),
    ("released/MONAI 3-D sincos", 'preset("monai", 24, 3).table((2, 3, 4)).flatten(0, -2)'),
    ("released/mmdet SinePositionalEncoding of DINO", 'preset("mmdet-dino", 64).table((5, 7))'),
    ("encoding/nerfstudio.NeRFEncoding.covs",
        'preset("nerfstudio", 3, 3, include_input=None)(x, variance=torch.tensor([[0.01, 0.02, '
        "0.03]]) / (2 * pi) ** 2)"),
    ("encoding/pytorch3d.HarmonicEmbedding.diag_cov",
        'preset("pytorch3d", 3, 3, include_input=None)(x, variance=torch.tensor([[0.01, 0.02, '
        "0.03]]))"),
    ("encoding/mipnerf.ipe",
        'preset("mipnerf", 3, 3, include_input=None)(x, variance=torch.tensor([[0.01, 0.02, '
        "0.03]]))"),
    ("encoding/rotary_embedding_torch.rotate",
        'RotaryEncoder.preset("rotary-embedding-torch", 4).rotate(x, torch.arange(2))'),
    ("encoding/transformers.llama_rope",
        'RotaryEncoder.preset("llama", 4).rotate(x, torch.arange(2))'),
    ("encoding/transformers.detr_sine.plain", 'preset("detr", 8).table((2, 3)).movedim(-1, 0)'),
    ("encoding/transformers.detr_sine.normalized",
        'preset("detr-normalized", 8).table((2, 3)).movedim(-1, 0)'),
    ("encoding/timm.rope_cat",
        'torch.cat(RotaryEncoder.preset("timm-rope", 8)(ROTARY["timm-rope"].positions((2, '
        "2)))[::-1], -1)"),
]  # fmt: skip
# Positions that these models multiply their float32 bands by are large.
_TOLERANCES = {
    "timm-pixel": 6e-5,
    "cogview4": 2e-5,
    "ltx-video": 6e-3,
    "qwen3-vl-text": 1e-5,
    "gligen": 4e-6,
}


def _of_preset(vector: str, line: str, tolerance: float) -> Equivalent:
    """The row of a preset, under the name that its line has."""
    name = line.partition('preset("')[2].partition('"')[0]
    tolerance = _TOLERANCES.get(name, tolerance)
    remark = FLOAT32 if tolerance > 1e-6 else ""
    return Equivalent(name, line, vector, tolerance=tolerance, remark=remark)


SECTIONS = {
    "Neural fields": FIELDS,
    "The globe": GEOGRAPHY,
    "Images and boxes": IMAGES,
    "Time": TIME,
    "Directions and other waves": WAVES,
    "Sequences": SEQUENCES,
    "Attention: rotary embeddings, biases, cameras": ATTENTION,
}
"""Rows of what is no preset, by the titles of the documentation's page."""
PRESET_ROWS = [
    *(_of_preset(vector, line, 1e-6) for vector, line in _PRESET_LINES),
    *(_of_preset(vector, line, 5e-6) for vector, line in _ROTARY_LINES),
]
"""Rows of presets, which the search finds by the presets' own tables."""
EQUIVALENTS = [*(row for rows in SECTIONS.values() for row in rows), *PRESET_ROWS]
"""All rows."""
