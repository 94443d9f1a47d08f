"""Embeddings with the configurations of released models of language, images, video and weather.

``positions`` are given to the library where it takes them; elsewhere it counts for itself, and the
preset's own positions are tested with them.
"""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from more.tools.vectors.coordinates import Record, lonlat, points
from more.tools.vectors.harness import Arrays, Libraries, before, definitions, entry, grid


def _transformer(libraries: Libraries, name: str) -> Any:
    return libraries.installed(f"diffusers.models.transformers.transformer_{name}")


def _by_tables(libraries: Libraries, query: Tensor, tables: Any, pairs: int = -1) -> Tensor:
    """Rotation of diffusers by cosines and sines."""
    apply = libraries.installed("diffusers.models.embeddings").apply_rotary_emb
    rotated: Tensor = apply(query[None, None], tables, use_real_unbind_dim=pairs)[0, 0]
    return rotated


def _by_complex(query: Tensor, table: Tensor) -> Tensor:
    """Rotation of diffusers by complex numbers."""
    pairs = torch.view_as_complex(query.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * table).flatten(-2)


@entry("flux2", "float32")
def flux2(libraries: Libraries) -> Arrays:
    """Flux2PosEmbed(2000, [32, 32, 32, 32]) of 4 x 5 patches; apply_rotary_emb."""
    embed = _transformer(libraries, "flux2").Flux2PosEmbed(2000, [32, 32, 32, 32])
    positions = F.pad(grid(4, 5), (1, 1))
    return dict(positions=positions, after=_by_tables(libraries, before(20, 128), embed(positions)))


@entry("z-image", "float32")
def z_image(libraries: Libraries) -> Arrays:
    """RopeEmbedder(256.0, [32, 48, 48], [1536, 512, 512]) of an image of 3 x 5 patches."""
    embed = _transformer(libraries, "z_image").RopeEmbedder(256.0, [32, 48, 48], [1536, 512, 512])
    positions = grid(1, 3, 5)
    return dict(positions=positions, after=_by_complex(before(15, 128), embed(positions)))


@entry("lumina2", "float32")
def lumina2(libraries: Libraries) -> Arrays:
    """Lumina2RotaryPosEmbed(10_000, [32, 32, 32]).freqs_cis of an image of 3 x 5 patches."""
    embed = _transformer(libraries, "lumina2").Lumina2RotaryPosEmbed(10_000, [32, 32, 32])
    positions = grid(1, 3, 5)
    table = torch.cat([embed.freqs_cis[i][positions[:, i]] for i in range(3)], dim=-1)
    return dict(positions=positions, after=_by_complex(before(15, 96), table))


@entry("qwen-image", "float32")
def qwen_image(libraries: Libraries) -> Arrays:
    """QwenEmbedRope(10_000, [16, 56, 56], scale_rope=True)([(1, 5, 6)])."""
    embed = _transformer(libraries, "qwenimage").QwenEmbedRope
    image, _ = embed(10_000, [16, 56, 56], scale_rope=True)([(1, 5, 6)], max_txt_seq_len=4)
    return dict(shape=torch.tensor([5, 6]), after=_by_complex(before(30, 128), image))


@entry("cogview4", "float32")
def cogview4(libraries: Libraries) -> Arrays:
    """CogView4RotaryPosEmbed(128, 2, (256, 256)) of 5 x 6 patches of two pixels."""
    embed = _transformer(libraries, "cogview4").CogView4RotaryPosEmbed(128, 2, (256, 256))
    tables = embed(torch.zeros(1, 16, 10, 12))
    after = _by_tables(libraries, before(30, 128), tables, -2)
    return dict(shape=torch.tensor([5, 6]), after=after)


@entry("kandinsky5", "float32")
def kandinsky5(libraries: Libraries) -> Arrays:
    """Kandinsky5RoPE3D([16, 24, 24]) of 2 x 3 x 4 patches with scale factors 1, 2, 2."""
    embed = _transformer(libraries, "kandinsky").Kandinsky5RoPE3D([16, 24, 24])
    axes = [torch.arange(size) for size in (2, 3, 4)]
    matrices = embed((1, 2, 3, 4), axes, (1.0, 2.0, 2.0)).flatten(1, 3)[0, :, 0]
    after = (matrices * before(24, 64).unflatten(-1, (-1, 1, 2))).sum(-1).flatten(-2)
    return dict(shape=torch.tensor([2, 3, 4]), after=after)


@entry("cosmos", "float32")
def cosmos(libraries: Libraries) -> Arrays:
    """CosmosRotaryPosEmbed(128) of 2 x 3 x 4 patches."""
    embed = _transformer(libraries, "cosmos").CosmosRotaryPosEmbed(128)
    tables = embed(torch.zeros(1, 16, 2, 6, 8))
    after = _by_tables(libraries, before(24, 128), tables, -2)
    return dict(shape=torch.tensor([2, 3, 4]), after=after)


@entry("hidream-image", "float32")
def hidream_image(libraries: Libraries) -> Arrays:
    """HiDreamImageEmbedND(10_000, [64, 32, 32]) of an image of 3 x 5 patches; apply_rope."""
    module = _transformer(libraries, "hidream_image")
    positions = grid(1, 3, 5)
    matrices = module.HiDreamImageEmbedND(10_000, [64, 32, 32])(positions[None].double())
    after, _ = module.apply_rope(*[before(15, 128)[None, :, None]] * 2, matrices)
    return dict(positions=positions, after=after[0, :, 0])


@entry("krea2", "float32")
def krea2(libraries: Libraries) -> Arrays:
    """Krea2RotaryPosEmbed(1000, [32, 48, 48]) of an image of 3 x 5 patches; apply_rotary_emb."""
    embed = _transformer(libraries, "krea2").Krea2RotaryPosEmbed(1000, [32, 48, 48])
    positions = grid(1, 3, 5)
    return dict(positions=positions, after=_by_tables(libraries, before(15, 128), embed(positions)))


@entry("hunyuan-image", "float32")
def hunyuan_image(libraries: Libraries) -> Arrays:
    """HunyuanImageRotaryPosEmbed((1, 1), (64, 64), 256.0) of 3 x 5 patches; apply_rotary_emb."""
    embed = _transformer(libraries, "hunyuanimage").HunyuanImageRotaryPosEmbed
    tables = embed((1, 1), (64, 64), 256.0)(torch.zeros(1, 4, 3, 5))
    return dict(positions=grid(3, 5), after=_by_tables(libraries, before(15, 128), tables))


@entry("hunyuan-dit", "float32")
def hunyuan_dit(libraries: Libraries) -> Arrays:
    """get_2d_rotary_pos_embed(88, get_resize_crop_region_for_grid((5, 7), 32), (5, 7))."""
    file = Path(libraries.installed("diffusers").__file__).parent
    crop = definitions(
        file / "pipelines/hunyuandit/pipeline_hunyuandit.py", "get_resize_crop_region_for_grid"
    ).get_resize_crop_region_for_grid
    embed = libraries.installed("diffusers.models.embeddings").get_2d_rotary_pos_embed
    tables = embed(88, crop((5, 7), 32), (5, 7))
    after = _by_tables(libraries, before(35, 88), tables)
    return dict(shape=torch.tensor([5, 7]), after=after)


@entry("lumina-next", "float32")
def lumina_next(libraries: Libraries) -> Arrays:
    """get_2d_rotary_pos_embed_lumina(96, 3, 5); apply_rotary_emb(..., use_real=False)."""
    embed = libraries.installed("diffusers.models.embeddings").get_2d_rotary_pos_embed_lumina
    after = _by_complex(before(15, 96), embed(96, 3, 5).flatten(0, 1))
    return dict(positions=grid(3, 5), after=after)


@entry("ltx-video", "float32")
def ltx_video(libraries: Libraries) -> Arrays:
    """LTXVideoRotaryPosEmbed(2048)(..., 2, 3, 2, (8 / 25, 32, 32)); apply_rotary_emb."""
    module = _transformer(libraries, "ltx")
    embed = module.LTXVideoRotaryPosEmbed(2048)
    tables = embed(torch.zeros(1, 12, 1), 2, 3, 2, (8 / 25, 32, 32))
    after = module.apply_rotary_emb(before(12, 2048)[None], tables)[0]
    return dict(shape=torch.tensor([2, 3, 2]), after=after)


@entry("ltx-2", "float32")
def ltx_2(libraries: Libraries) -> Arrays:
    """LTX2AudioVideoRotaryPosEmbed(4096, rope_type="split", num_attention_heads=32), 32 heads.

    Of 2 x 2 x 3 latents, 24 frames a second; apply_split_rotary_emb. Positions are the middles of
    the latents, as shares of 20 s and 2,048 pixels, in [-1, 1].
    """
    module = _transformer(libraries, "ltx2")
    embed = module.LTX2AudioVideoRotaryPosEmbed(
        4096, rope_type="split", num_attention_heads=32, double_precision=True
    )
    spans = embed.prepare_video_coords(1, 2, 2, 3, "cpu", fps=24.0)
    after = module.apply_split_rotary_emb(before(12, 4096)[None], embed(spans))[0]
    shares = spans[0].double().mean(-1).T / torch.tensor([20.0, 2048.0, 2048.0])
    return dict(positions=2 * shares - 1, after=after)


@entry("mochi", "float32")
def mochi(libraries: Libraries) -> Arrays:
    """MochiRoPE()(frequencies, 2, 3, 4) of 3 heads of 16 columns, rotated as complex numbers."""
    frequencies = torch.sin(torch.arange(3 * 3 * 8.0)).view(3, 3, 8).float()
    cosine, sine = _transformer(libraries, "mochi").MochiRoPE()(
        frequencies, 2, 3, 4, dtype=torch.float32
    )
    query = before(3, 24, 16)
    table = torch.complex(cosine, sine).movedim(0, 1)
    return dict(frequencies=frequencies, after=_by_complex(query, table))


@entry("stable-audio", "float32")
def stable_audio(libraries: Libraries) -> Arrays:
    """get_1d_rotary_pos_embed(32, 20); StableAudioAttnProcessor2_0.apply_partial_rotary_emb."""
    embeddings = libraries.installed("diffusers.models.embeddings")
    tables = embeddings.get_1d_rotary_pos_embed(32, 20, use_real=True, repeat_interleave_real=False)
    processor = libraries.installed("diffusers.models.attention_processor")
    rotate = processor.StableAudioAttnProcessor2_0().apply_partial_rotary_emb
    after = rotate(before(20, 64)[None, None], tables)[0, 0]
    return dict(positions=torch.arange(20), after=after)


@entry("deepseek-v4", "float32")
def deepseek_v4(libraries: Libraries) -> Arrays:
    """DeepseekV4RotaryEmbedding(DeepseekV4Config()), layer_type="main"; apply_rotary_pos_emb."""
    model = libraries.model("deepseek_v4")
    embed = model.DeepseekV4RotaryEmbedding(libraries.config("deepseek_v4", "DeepseekV4Config"))
    positions = torch.arange(20)
    tables = embed(torch.zeros(1), positions[None], layer_type="main")
    after = model.apply_rotary_pos_emb(before(20, 512)[None, None], *tables)[0, 0]
    return dict(positions=positions, after=after)


def _rope(**values: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", **values}}


# Preset: class of the configuration, its options, class of the embedding, grid and width of a head.
_LANGUAGE: dict[str, tuple[str, dict[str, Any], str, tuple[int, ...], int]] = {
    "gemma3": (
        "Gemma3TextConfig",
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            }
        },
        "Gemma3RotaryEmbedding",
        (20,),
        256,
    ),
    "glm4.1v-text": (
        "Glm4vTextConfig",
        _rope(rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[8, 12, 12]),
        "Glm4vTextRotaryEmbedding",
        (2, 3, 4),
        128,
    ),
    "ernie4.5-vl-text": (
        "Ernie4_5_VLMoeTextConfig",
        _rope(rope_theta=5e5, mrope_section=[22, 22, 20]),
        "Ernie4_5_VLMoeTextRotaryEmbedding",
        (2, 3, 4),
        128,
    ),
    "qwen3.5-text": (
        "Qwen3_5TextConfig",
        _rope(rope_theta=1e7, partial_rotary_factor=0.25, mrope_section=[11, 11, 10]),
        "Qwen3_5TextRotaryEmbedding",
        (2, 3, 4),
        256,
    ),
    "pixtral": ("PixtralVisionConfig", {}, "PixtralVisionRotaryEmbedding", (4, 5), 64),
}


@entry("sam3", "float32")
def sam3(libraries: Libraries) -> Arrays:
    """Sam3ViTRotaryEmbedding of 12 x 12 patches; apply_rotary_pos_emb_2d."""
    model, query = libraries.model("sam3"), before(144, 64)
    config = libraries.config("sam3", "Sam3ViTConfig", image_size=168)
    given = model.Sam3ViTLayer.precompute_positions(config, 0)
    tables = model.Sam3ViTRotaryEmbedding(config)(query, given)
    after = model.apply_rotary_pos_emb_2d(query[None], query[None], *tables)[0]
    return dict(shape=torch.tensor([12, 12]), after=after[0])


@entry("llama4-vision", "float32")
def llama4_vision(libraries: Libraries) -> Arrays:
    """Llama4VisionRotaryEmbedding(config of the released vision encoder, 5 x 5 patches)."""
    model, query = libraries.model("llama4"), before(25, 88)
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    sizes = dict(hidden_size=1408, num_attention_heads=16, image_size=70, patch_size=14)
    config = libraries.config("llama4", "Llama4VisionConfig", rope_parameters=rope, **sizes)
    table = model.Llama4VisionRotaryEmbedding(config)(query)[:25]
    after = model.vision_apply_rotary_emb(query[None, :, None], query[None, :, None], table)[0]
    return dict(shape=torch.tensor([5, 5]), after=after[0, :, 0])


@entry("gemma4-vision", "float32")
def gemma4_vision(libraries: Libraries) -> Arrays:
    """Gemma4VisionRotaryEmbedding(Gemma4VisionConfig()) at (x, y); apply_multidimensional_rope."""
    model, query = libraries.model("gemma4"), before(20, 64)[None, :, None]
    places = grid(4, 5).flip(-1)[None]
    embed = model.Gemma4VisionRotaryEmbedding(libraries.config("gemma4", "Gemma4VisionConfig"))
    after = model.apply_multidimensional_rope(query, *embed(query, places), places)
    return dict(shape=torch.tensor([4, 5]), after=after[0, :, 0])


@entry("kimi-k2.5-vision", "float32")
def kimi_vision(libraries: Libraries) -> Arrays:
    """Kimi_K25VisionRotaryEmbedding(config) of 4 x 5 patches; apply_rotary_pos_emb_vision."""
    model, query = libraries.model("kimi_k25"), before(20, 72)[:, None]
    rope = {"rope_type": "axial", "rope_theta": 10_000.0}
    config = libraries.config("kimi_k25", "Kimi_K25VisionConfig", rope_parameters=rope)
    tables = model.Kimi_K25VisionRotaryEmbedding(config)(query, grid(4, 5))
    after = model.apply_rotary_pos_emb_vision(query, query, *tables)[0]
    return dict(shape=torch.tensor([4, 5]), after=after[:, 0])


@entry("minimax-m3-vision", "float32")
def minimax_vision(libraries: Libraries) -> Arrays:
    """MiniMaxM3VLVisionRotaryEmbedding(config), 2 x 3 x 4 patches; apply_rotary_pos_emb_vision."""
    model, query = libraries.model("minimax_m3_vl"), before(24, 80)[:, None]
    rope = {"rope_type": "axial", "rope_theta": 10_000.0}
    config = libraries.config("minimax_m3_vl", "MiniMaxM3VLVisionConfig", rope_parameters=rope)
    tables = model.MiniMaxM3VLVisionRotaryEmbedding(config)(query, grid(2, 3, 4))
    after = model.apply_rotary_pos_emb_vision(query, query, *tables)[0]
    return dict(shape=torch.tensor([2, 3, 4]), after=after[:, 0])


@entry("efficient-loftr", "float32")
def efficient_loftr(libraries: Libraries) -> Arrays:
    """EfficientLoFTRRotaryEmbedding(EfficientLoFTRConfig()) of 4 x 5 cells of 4 x 4 features."""
    model, query = libraries.model("efficientloftr"), before(20, 256)
    config = libraries.config("efficientloftr", "EfficientLoFTRConfig")
    tables = model.EfficientLoFTRRotaryEmbedding(config)(torch.zeros(1, 256, 16, 20))
    by_cell = query.view(1, 4, 5, 256)
    after = model.apply_rotary_pos_emb(by_cell, by_cell, *tables, unsqueeze_dim=0)[0]
    return dict(shape=torch.tensor([4, 5]), after=after.reshape(20, 256))


def _register(name: str) -> None:
    config_class, options, embedding, shape, width = _LANGUAGE[name]

    def run(libraries: Libraries) -> Arrays:
        config = getattr(importlib.import_module("transformers"), config_class)(**options)
        module = libraries.model(type(config).__module__.split(".")[-2])
        query, positions = before(len(grid(*shape)), width), grid(*shape)
        # One row of numbers for a sequence, one for each axis for multimodal ones.
        given = {1: positions.T, 3: positions.T[:, None]}.get(len(shape), positions)
        layer = ["full_attention"] if name == "gemma3" else []
        tables = getattr(module, embedding)(config)(query[None], given, *layer)
        more = {"unsqueeze_dim": 0} if name == "pixtral" else {}
        after = module.apply_rotary_pos_emb(query[None, None], query[None, None], *tables, **more)
        return dict(positions=positions.squeeze(-1), after=after[0][0, 0])

    entry(name, "float32", f"{embedding}({config_class}(**{options})); apply_rotary_pos_emb.")(run)


for _name in _LANGUAGE:
    _register(_name)


@entry("prithvi", "float64, times float32")
def prithvi(libraries: Libraries) -> Arrays:
    """get_3d_sincos_pos_embed(64, (2, 3, 4)); TemporalEncoder(64)(years and days of the year)."""
    module = libraries.definitions(
        "IBM/terratorch",
        "terratorch/models/backbones/prithvi_mae.py",
        "get_3d_sincos_pos_embed get_1d_sincos_pos_embed_from_grid "
        "_get_1d_sincos_embed_from_grid_torch TemporalEncoder",
    )
    times = torch.tensor([[[2018.0, 26.0], [2018.0, 106.0], [2021.0, 365.0]]])
    return dict(
        output_grid=module.get_3d_sincos_pos_embed(64, (2, 3, 4)),
        input_times=times,
        output_times=module.TemporalEncoder(64)(times.float()),
    )


@entry("clay")
def clay(libraries: Libraries) -> Arrays:
    """posemb_sincos_2d_with_gsd(3, 5, 32, gsd=10 meters)."""
    module = libraries.file("Clay-foundation/model", "claymodel/utils.py")
    table = module.posemb_sincos_2d_with_gsd(3, 5, 32, gsd=torch.tensor(10.0), dtype=torch.float64)
    return dict(output_grid=table)


@entry("petr", "bands float32, the rest float64")
def petr(libraries: Libraries) -> Arrays:
    """pos2posemb3d(points in [0, 1], num_pos_feats=16)."""
    path = "projects/mmdet3d_plugin/models/dense_heads/petr_head.py"
    module = libraries.definitions("megvii-research/PETR", path, "pos2posemb3d")
    x = points(18, 6, 3, low=0.0)
    return dict(input_points=x, output_features=module.pos2posemb3d(x, num_pos_feats=16))


@entry("position-table-qwen3-vl", "float32")
def position_table_qwen3_vl(libraries: Libraries) -> Arrays:
    """get_vision_interpolation_indices_and_weights("bilinear", align_corners=True), 4x4 to 6x7."""
    table = points(19, 1, 17, 3)
    utils = libraries.installed("transformers.vision_utils")
    index, weight = utils.get_vision_interpolation_indices_and_weights(
        torch.tensor([[1, 6, 7]]), 4, "bilinear", align_corners=True
    )
    return dict(input_table=table, output=(table[0, 1:][index] * weight[..., None]).sum(1))


@entry("position-table-sam")
def position_table_sam(libraries: Libraries) -> Arrays:
    """SamVisionAttention.get_rel_pos(5, 5, table) of 5 rows."""
    table = points(20, 5, 3)
    attention = libraries.model("sam").SamVisionAttention
    return dict(input_table=table, output=attention.get_rel_pos(None, 5, 5, table))


@entry("edm", "bands float32")
def edm(libraries: Libraries) -> Arrays:
    """PositionalEmbedding(32)(labels) of DhariwalUNet; and of SongUNet, sine and cosine swapped."""
    names = libraries.definitions(
        "NVlabs/edm",
        "training/networks.py",
        "PositionalEmbedding",
        persistence=Record(persistent_class=lambda cls: cls),
    )
    labels = torch.linspace(-2.0, 1.5, 7)
    song = names.PositionalEmbedding(32, endpoint=True)(labels)
    return dict(
        input_labels=labels,
        output_adm=names.PositionalEmbedding(32)(labels),
        output_song=song.reshape(7, 2, -1).flip(1).reshape(7, 32),
    )


@entry("tensorf", "bands float32")
def tensorf(libraries: Libraries) -> Arrays:
    """positional_encoding(points, 6)."""
    encode = libraries.definitions(
        "apchenstu/TensoRF", "models/tensorBase.py", "positional_encoding"
    ).positional_encoding
    where = points(24, 6, 3)
    return dict(input_points=where, output=encode(where, 6))


# Language models, by the names of their presets: model, prefix of its classes, and what its
# released configuration says of the head and of the rotation.
_TEXT: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "mistral": ("mistral", "Mistral", dict(head_dim=128), dict(rope_theta=1e6)),
    "cohere": ("cohere", "Cohere", dict(hidden_size=8192, num_attention_heads=64),
               dict(rope_theta=8e6)),
    "glm4": ("glm4", "Glm4", dict(head_dim=128), dict(rope_theta=1e4, partial_rotary_factor=0.5)),
    "glm4.5": ("glm4_moe", "Glm4Moe", dict(head_dim=128),
               dict(rope_theta=1e6, partial_rotary_factor=0.5)),
    "ernie4.5": ("ernie4_5", "Ernie4_5", dict(head_dim=128), dict(rope_theta=5e5)),
    "gpt-oss": ("gpt_oss", "GptOss", {},
                dict(rope_type="yarn", rope_theta=150_000.0, factor=32.0, beta_fast=32.0,
                     beta_slow=1.0, truncate=False, original_max_position_embeddings=4096)),
    "deepseek-v2": ("deepseek_v2", "DeepseekV2", {},
                    dict(rope_type="yarn", rope_theta=1e4, factor=40.0, beta_fast=32, beta_slow=1,
                         mscale=0.707, mscale_all_dim=0.707,
                         original_max_position_embeddings=4096)),
    "deepseek-v3": ("deepseek_v3", "DeepseekV3", {},
                    dict(rope_type="yarn", rope_theta=1e4, factor=40.0, beta_fast=32, beta_slow=1,
                         mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=4096)),
    "kimi-k2": ("deepseek_v3", "DeepseekV3", {},
                dict(rope_type="yarn", rope_theta=5e4, factor=32.0, beta_fast=1, beta_slow=1,
                     mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=4096)),
    "llama4-scout": ("llama4", "Llama4Text", dict(head_dim=128),
                     dict(rope_type="llama3", rope_theta=5e5, factor=16.0, low_freq_factor=1.0,
                          high_freq_factor=1.0, original_max_position_embeddings=8192)),
    "modernbert": ("modernbert", "ModernBert", {}, {}),
}  # fmt: skip


def _text(libraries: Libraries, name: str) -> Arrays:
    """{0}RotaryEmbedding of {0}Config, then the rotation of its attention."""
    model, prefix, sizes, parameters = _TEXT[name]
    if parameters:
        rotation = {"rope_type": "default", **parameters}
        sizes = {**sizes, "rope_parameters": rotation}
    config = libraries.config(model, f"{prefix}Config", **sizes)
    module, positions = libraries.model(model), torch.arange(64)
    rotary = getattr(module, f"{prefix}RotaryEmbedding")(config)
    dim = getattr(config, "qk_rope_head_dim", None) or getattr(config, "head_dim", None)
    query = before(1, 1, 64, dim or config.hidden_size // config.num_attention_heads).float()
    # ModernBERT's global layers.
    layers = ("full_attention",) if model == "modernbert" else ()
    tables = rotary(query, positions[None], *layers)
    if isinstance(tables, Tensor):  # As complex numbers; Llama 4 has the heads after the length.
        heads = (1, 2) if model == "llama4" else (1, 1)
        query = query.transpose(*heads)
        after = module.apply_rotary_emb(query, query, tables)[0].transpose(*heads)
    else:
        apply = getattr(module, "apply_rotary_pos_emb_interleave", module.apply_rotary_pos_emb)
        after = apply(query, query, *tables)[0]
    return dict(positions=positions, after=after[0, 0])


for _name, (_, _prefix, _sizes, _parameters) in _TEXT.items():
    _call = (_text.__doc__ or "").format(_prefix)
    entry(_name, "float32", f"{_call} Released: {_sizes}, {_parameters}.")(
        partial(_text, name=_name)
    )


@entry("chronoedit", "float32")
def chronoedit(libraries: Libraries) -> Arrays:
    """ChronoEditRotaryPosEmbed(128, (1, 2, 2), 1024) of 2 frames of 4 x 6 patches."""
    embed = _transformer(libraries, "chronoedit").ChronoEditRotaryPosEmbed(128, (1, 2, 2), 1024)
    cosines, sines = embed(torch.zeros(1, 16, 2, 8, 12))
    query = before(48, 128)[None, :, None]
    first, second = query.unflatten(-1, (-1, 2)).unbind(-1)
    # The attention of the model: pairs side by side, tables with each value twice.
    cos, sin = cosines[..., 0::2], sines[..., 1::2]
    after = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(
        -2
    )
    return dict(shape=torch.tensor([2, 4, 6]), after=after[0, :, 0])


@entry("graphcast")
def graphcast(libraries: Libraries) -> Arrays:
    """get_graph_spatial_features(...)[0] of latitudes and longitudes, with its default bands.

    Also fourier_features(values, 16.0, 32), with the defaults of the noise encoder of GenCast.
    """
    file = libraries.definitions(
        "google-deepmind/graphcast",
        "weathernext/utils/model_utils.py",
        "get_graph_spatial_features fourier_features lat_lon_deg_to_spherical",
        jnp=np,
        NumpyInterface=Any,
    )
    places, values = lonlat(), points(19, 6, low=-4.0, high=4.0)
    lon, lat = places.numpy().T
    # Latitude and longitude of the nodes; edges and positions in space are not wanted.
    left_out = dict.fromkeys(("add_node_positions", "add_relative_positions"), False)
    local = [f"relative_{name}_local_coordinates" for name in ("latitude", "longitude")]
    wanted = dict.fromkeys(("add_node_latitude", "add_node_longitude", *local), True)
    edge = dict(senders=np.array([0]), receivers=np.array([1]), sine_cosine_encoding=True)
    nodes, _ = file.get_graph_spatial_features(
        node_lat=lat, node_lon=lon, **edge, **left_out, **wanted
    )
    noise = file.fourier_features(values.numpy(), 16.0, 32)
    return dict(input_lonlat=places, output_nodes=nodes, input_values=values, output_noise=noise)
