"""Rotary embeddings, rotations by cameras, and relative biases.

``after`` is what a library makes of the query `before`; ``positions`` has one row per token in the
order in which the library counts them.
"""

import math
import types
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from more.tools.vectors.coordinates import points
from more.tools.vectors.harness import Arrays, Libraries, before, entry, grid

CAST = "float64, then cast to float32"
# What torchtune imports beside what is run.
_TORCHTUNE_UNUSED = (
    "torchao",
    "torchvision",
    "datasets",
    "torchdata",
    "omegaconf",
    "sentencepiece",
    "tiktoken",
)


class _Query(TorchFunctionMode):
    """Keeps the query that reaches scaled_dot_product_attention."""

    query: Tensor

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            self.query = args[0] if args else kwargs["query"]
        return func(*args, **kwargs)


# Image and video generation.


@entry("flux", CAST)
def flux(libraries: Libraries) -> Arrays:
    """FluxPosEmbed(10000, [16, 56, 56])(ids); apply_rotary_emb(q, tables, sequence_dim=1)."""
    model = libraries.installed("diffusers.models.transformers.transformer_flux")
    ids = torch.cat((grid(1, 7, 9), grid(2, 3, 4) + torch.tensor([1, 0, 0])))
    tables = model.FluxPosEmbed(10000, [16, 56, 56])(ids)
    after = model.apply_rotary_emb(before(len(ids), 128)[None, :, None], tables, sequence_dim=1)
    return dict(positions=ids, after=after[0, :, 0])


@entry("flux-repo", "dtype of ids, here float64, then cast to float32")
def flux_repo(libraries: Libraries) -> Arrays:
    """rope(ids[..., i], width, 10000) for each axis, joined as EmbedND does; apply_rope(q, q)."""
    math_ = libraries.file("black-forest-labs/flux", "src/flux/math.py")
    ids, query = grid(3, 4, 5), before(1, 1, 60, 128)
    parts = [math_.rope(ids[None, :, i].double(), w, 10000) for i, w in enumerate((16, 56, 56))]
    after = math_.apply_rope(query, query, torch.cat(parts, dim=-3)[:, None])[0]
    return dict(positions=ids, after=after[0, 0])


@entry("wan", CAST)
def wan(libraries: Libraries) -> Arrays:
    """WanRotaryPosEmbed(128, patch_size=(1, 2, 2), max_seq_len=1024)(latent of 3 x 8 x 10).

    Then WanAttnProcessor with identities as projections and norms, and the query that reaches
    scaled_dot_product_attention.
    """
    model = libraries.installed("diffusers.models.transformers.transformer_wan")
    tables = model.WanRotaryPosEmbed(128, (1, 2, 2), 1024)(torch.zeros(1, 16, 3, 8, 10))
    same = torch.nn.Identity()
    names = ("to_q", "to_k", "to_v", "norm_q", "norm_k")
    attention = types.SimpleNamespace(
        add_k_proj=None, fused_projections=False, heads=1, to_out=[same, same],
        **dict.fromkeys(names, same),
    )  # fmt: skip
    with _Query() as mode:
        model.WanAttnProcessor()(attention, before(1, 60, 128), rotary_emb=tables)
    return dict(positions=grid(3, 4, 5), after=mode.query.view(60, 128))


@entry("hunyuan-video", "float32")
def hunyuan_video(libraries: Libraries) -> Arrays:
    """HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56], 256.0)(latent of 3 x 8 x 10).

    Then apply_rotary_emb(q, tables, sequence_dim=1).
    """
    name = "diffusers.models.transformers.transformer_hunyuan_video"
    rope = libraries.installed(name).HunyuanVideoRotaryPosEmbed
    tables = rope(2, 1, [16, 56, 56], 256.0)(torch.zeros(1, 16, 3, 8, 10))
    apply = libraries.installed("diffusers.models.embeddings").apply_rotary_emb
    after = apply(before(60, 128)[None, :, None], tables, sequence_dim=1)
    return dict(positions=grid(3, 4, 5), after=after[0, :, 0])


def _cogvideox(libraries: Libraries, axes: list[Tensor], **options: Any) -> Arrays:
    library = libraries.installed("diffusers.models.embeddings")
    tables = library.get_3d_rotary_pos_embed(64, grid_size=(4, 5), temporal_size=3, **options)
    after = library.apply_rotary_emb(before(1, 1, 60, 64), tables)
    positions = torch.cartesian_prod(*(axis.double() for axis in axes))
    return dict(positions=positions, after=after[0, 0])


@entry("cogvideox-rope", "float32")
def cogvideox_rope(libraries: Libraries) -> Arrays:
    """get_3d_rotary_pos_embed(64, crops, (4, 5), 3), as the pipeline of CogVideoX 1.0 5B.

    Here crops = get_resize_crop_region_for_grid((4, 5), 45, 30). Then apply_rotary_emb(q, tables).
    """
    name = "diffusers.pipelines.cogvideo.pipeline_cogvideox"
    crops = libraries.installed(name).get_resize_crop_region_for_grid((4, 5), 45, 30)
    (top, left), (bottom, right) = crops
    rows, columns = torch.linspace(top, bottom * 3 / 4, 4), torch.linspace(left, right * 4 / 5, 5)
    arrays = _cogvideox(libraries, [torch.arange(3), rows, columns], crops_coords=crops)
    return {**arrays, "crops": torch.tensor(crops)}


@entry("cogvideox-1.5-rope", "float32")
def cogvideox_15_rope(libraries: Libraries) -> Arrays:
    """get_3d_rotary_pos_embed(64, None, (4, 5), 3, grid_type="slice", max_size=(30, 45)).

    So the pipeline of CogVideoX 1.5 does. Then apply_rotary_emb(q, tables).
    """
    options = dict(crops_coords=None, grid_type="slice", max_size=(30, 45))
    return _cogvideox(libraries, [torch.arange(n) for n in (3, 4, 5)], **options)


@entry("cogvideox-sincos", "float64 of float32 positions")
def cogvideox_sincos(libraries: Libraries) -> Arrays:
    """get_3d_sincos_pos_embed(96, (5, 4), 3, 1.875, 1.0), CogVideoX 2B with 96 of 1920 columns."""
    library = libraries.installed("diffusers.models.embeddings")
    output = library.get_3d_sincos_pos_embed(96, (5, 4), 3, 1.875, 1.0).flatten(0, 1)
    return dict(positions=grid(3, 4, 5) / torch.tensor([1.0, 1.875, 1.875]), output=output)


# Language models.


def _llama(libraries: Libraries, limit: int, rope: dict[str, Any]) -> Arrays:
    """LlamaRotaryEmbedding(config)(q, positions); apply_rotary_pos_emb(q, q, cos, sin).

    inv_freq and attention_factor are the module's after this, inv_freq_at_start before it.
    """
    model = libraries.model("llama")
    sizes = dict(hidden_size=4096, num_attention_heads=32, max_position_embeddings=limit)
    config = libraries.config("llama", "LlamaConfig", rope_parameters=dict(rope), **sizes)
    rotary, query = model.LlamaRotaryEmbedding(config), before(1, 1, 64, 128)
    positions = torch.arange(64)
    cos, sin = rotary(query, positions[None])
    after = model.apply_rotary_pos_emb(query, query, cos, sin)[0]
    return dict(positions=positions, after=after[0, 0], inv_freq=rotary.inv_freq,
                inv_freq_at_start=rotary.original_inv_freq,
                attention_factor=torch.tensor(rotary.attention_scaling))  # fmt: skip


_LONG = dict(rope_type="longrope", rope_theta=10000.0,
             short_factor=[1 + 0.01 * i for i in range(64)],
             long_factor=[1 + 0.5 * i for i in range(64)])  # fmt: skip
_YARN = dict(rope_type="yarn", rope_theta=10000.0, original_max_position_embeddings=4096)
_LLAMA: dict[str, tuple[int, dict[str, Any]]] = {
    "llama": (4096, dict(rope_type="default", rope_theta=10000.0)),
    "llama3": (131072, dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
                            low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=8192)),
    "llama3-one-limit": (10485760, dict(rope_type="llama3", rope_theta=500000.0, factor=16.0,
                                        low_freq_factor=1.0, high_freq_factor=1.0,
                                        original_max_position_embeddings=8192)),
    "linear": (4096, dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "dynamic-ntk": (32, dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0)),
    "yarn": (16384, dict(_YARN, factor=4.0)),
    "yarn-mscale": (163840, dict(_YARN, factor=40.0, mscale=1.0, mscale_all_dim=0.5)),
    "yarn-no-truncate": (131072, dict(_YARN, rope_theta=150000.0, factor=32.0, truncate=False)),
    "yarn-one-limit": (131072, dict(_YARN, rope_theta=50000.0, factor=32.0, beta_fast=1.0,
                                    beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)),
    "longrope": (256, dict(_LONG, original_max_position_embeddings=32)),
    "longrope-short": (256, dict(_LONG, original_max_position_embeddings=64)),
}  # fmt: skip
for _name, (_limit, _rope) in _LLAMA.items():
    _run = partial(_llama, limit=_limit, rope=_rope)
    _config = f" The config has max_position_embeddings={_limit}, rope_parameters={_rope}."
    entry(_name, "float32", f"{_llama.__doc__}{_config}")(_run)


@entry("gpt-neox", "float32")
def gpt_neox(libraries: Libraries) -> Arrays:
    """GPTNeoXRotaryEmbedding(GPTNeoXConfig())(q, positions); apply_rotary_pos_emb(q, q)."""
    model, query = libraries.model("gpt_neox"), before(1, 1, 64, 96)
    rotary = model.GPTNeoXRotaryEmbedding(libraries.config("gpt_neox", "GPTNeoXConfig"))
    after = model.apply_rotary_pos_emb(query, query, *rotary(query, torch.arange(64)[None]))[0]
    return dict(positions=torch.arange(64), after=after[0, 0])


@entry("gptj", "default dtype, here float64")
def gptj(libraries: Libraries) -> Arrays:
    """create_sinusoidal_positions(64, rotary_dim=64); apply_rotary_pos_emb(q[..., :64])."""
    model, query = libraries.model("gptj"), before(64, 256)[None, :, None]
    sin, cos = model.create_sinusoidal_positions(64, 64)[None].chunk(2, dim=-1)
    rotated = model.apply_rotary_pos_emb(query[..., :64], sin, cos)
    after = torch.cat((rotated, query[..., 64:]), dim=-1)
    return dict(positions=torch.arange(64), after=after[0, :, 0])


@entry("roformer", CAST)
def roformer(libraries: Libraries) -> Arrays:
    """RoFormerSinusoidalPositionalEmbedding(64, 64) with create_weight() as its weight.

    Then RoFormerSelfAttention.apply_rotary_position_embeddings(embedding(shape), q, q).
    """
    model, query = libraries.model("roformer"), before(1, 1, 64, 64)
    embedding = model.RoFormerSinusoidalPositionalEmbedding(64, 64)
    embedding.weight.data = embedding.create_weight()
    apply = model.RoFormerSelfAttention.apply_rotary_position_embeddings
    after = apply(embedding(torch.Size((1, 64)))[None, None], query, query)[0]
    return dict(positions=torch.arange(64), after=after[0, 0])


@entry("torchtune", "float32")
def torchtune(libraries: Libraries) -> Arrays:
    """RotaryPositionalEmbeddings(dim=128)(q)."""
    library = libraries.installed("torchtune.modules.position_embeddings", *_TORCHTUNE_UNUSED)
    after = library.RotaryPositionalEmbeddings(128)(before(64, 128)[None, :, None])
    return dict(positions=torch.arange(64), after=after[0, :, 0])


@entry("torchtune-vision", "float32")
def torchtune_vision(libraries: Libraries) -> Arrays:
    """VisionRotaryPositionalEmbeddings(patch_size=14, tile_size=112, max_num_tiles=1, dim=44)(q).

    The head dim is 88 and append_cls_token is true. The class token is not rotated.
    """
    library = libraries.installed("torchtune.modules.position_embeddings", *_TORCHTUNE_UNUSED)
    rotary = library.VisionRotaryPositionalEmbeddings(14, 112, 1, 44)
    positions = torch.cat((grid(8, 8) + 1, torch.zeros(1, 2, dtype=torch.long)))
    return dict(positions=positions, after=rotary(before(65, 88)[None, :, None])[0, :, 0])


def _mrope(model: Any, rotary: Any) -> Arrays:
    ends = torch.tensor([[0, 0, 0], [1, 1, 1]])
    positions = torch.cat((ends, grid(3, 4, 5) + 2, ends + 7))
    query = before(1, 1, 64, 128)
    cos, sin = rotary(query, positions.T[:, None])
    after = model.apply_rotary_pos_emb(query, query, cos, sin)[0]
    return dict(positions=positions, after=after[0, 0], inv_freq=rotary.inv_freq)


@entry("qwen2-vl-text", "float32")
def qwen2_vl_text(libraries: Libraries) -> Arrays:
    """Qwen2VLRotaryEmbedding(config)(q, (t, h, w)); apply_rotary_pos_emb(q, q, cos, sin)."""
    model = libraries.model("qwen2_vl")
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    config = libraries.config("qwen2_vl", "Qwen2VLTextConfig", rope_parameters=rope)
    return _mrope(model, model.Qwen2VLRotaryEmbedding(config))


@entry("qwen3-vl-text", "float32")
def qwen3_vl_text(libraries: Libraries) -> Arrays:
    """Qwen3VLTextRotaryEmbedding of config.json of Qwen3-VL 8B; apply_rotary_pos_emb."""
    model = libraries.model("qwen3_vl")
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]}
    rope["mrope_interleaved"] = True
    config = libraries.config("qwen3_vl", "Qwen3VLTextConfig", rope_parameters=rope)
    return _mrope(model, model.Qwen3VLTextRotaryEmbedding(config))


def _qwen_vision(libraries: Libraries, model: Any, rotary: Any, head_dim: int) -> Arrays:
    vision = libraries.installed("transformers.vision_utils")
    positions = vision.get_vision_position_ids(torch.tensor([[1, 6, 10]]), 2)
    query = before(60, head_dim)[:, None]
    after = model.apply_rotary_pos_emb_vision(query, query, *rotary(query, positions))[0]
    return dict(positions=positions, after=after[:, 0])


@entry("qwen2-vl-vision", "float32")
def qwen2_vl_vision(libraries: Libraries) -> Arrays:
    """get_vision_position_ids([[1, 6, 10]], 2); Qwen2VLVisionRotaryEmbedding(config)(q, ids).

    Then apply_rotary_pos_emb_vision(q, q, cos, sin).
    """
    model, config = libraries.model("qwen2_vl"), libraries.config("qwen2_vl", "Qwen2VLVisionConfig")
    return _qwen_vision(libraries, model, model.Qwen2VLVisionRotaryEmbedding(config), 80)


@entry("qwen3-vl-vision", "float32")
def qwen3_vl_vision(libraries: Libraries) -> Arrays:
    """get_vision_position_ids([[1, 6, 10]], 2); Qwen3VLVisionRotaryEmbedding(config)(q, ids).

    Then apply_rotary_pos_emb_vision(q, q, cos, sin).
    """
    model, config = libraries.model("qwen3_vl"), libraries.config("qwen3_vl", "Qwen3VLVisionConfig")
    return _qwen_vision(libraries, model, model.Qwen3VLVisionRotaryEmbedding(config), 72)


# Vision transformers.


def _centers(rows: float, columns: float) -> Tensor:
    """Centers of 7 x 9 patches, from -1 to 1 over so many rows and columns."""
    return 2 * (grid(7, 9) + 0.5) / torch.tensor([rows, columns], dtype=torch.float64) - 1


@entry("dinov3", "float32")
def dinov3(libraries: Libraries) -> Arrays:
    """DINOv3ViTRopePositionEmbedding(config)(image of 112 x 144); apply_rotary_pos_emb(q, q)."""
    model, query = libraries.model("dinov3_vit"), before(1, 1, 63, 64)
    config = libraries.config("dinov3_vit", "DINOv3ViTConfig", hidden_size=1024, rope_theta=100.0,
                              num_attention_heads=16, patch_size=16)  # fmt: skip
    rope = model.DINOv3ViTRopePositionEmbedding(config).eval()
    after = model.apply_rotary_pos_emb(query, query, *rope(torch.zeros(1, 3, 112, 144)))[0]
    return dict(positions=_centers(7, 9), after=after[0, 0])


def _dinov3(libraries: Libraries, size: tuple[float, float], options: dict[str, Any]) -> Arrays:
    """RopePositionEmbedding(1024, num_heads=16, ...)(H=7, W=9); rope_apply(q, sin, cos)."""
    path = "dinov3/layers/{}.py"
    rope = libraries.file("facebookresearch/dinov3", path.format("rope_position_encoding"))
    attention = libraries.file("facebookresearch/dinov3", path.format("attention"), "dinov3")
    module = rope.RopePositionEmbedding(1024, num_heads=16, dtype=torch.float64, **options).eval()
    after = attention.rope_apply(before(63, 64), *module(H=7, W=9))
    return dict(positions=_centers(*size), after=after, periods=module.periods)


_PERIODS = dict(base=None, min_period=0.1, max_period=10.0, normalize_coords="min")
for _name, _size, _options in (
    ("dinov3-repo-max", (9, 9), dict(base=100.0, normalize_coords="max")),
    ("dinov3-repo-periods", (7, 7), _PERIODS),
):
    _run = partial(_dinov3, size=_size, options=_options)
    entry(_name, "dtype=, here float64", f"{_dinov3.__doc__} Options: {_options}.")(_run)


def _timm(libraries: Libraries, positions: Tensor, bands: Tensor, kind: dict[str, Any]) -> Arrays:
    """RotaryEmbeddingCat(64, feat_shape=[7, 9], ...).get_embed(); apply_rot_embed_cat(q, embed).

    after_float64_bands comes from build_rotary_pos_embed with float64 bands, on a float32 grid.
    """
    library, query = (
        libraries.installed("timm.layers.pos_embed_sincos", "torchvision"),
        before(63, 64),
    )
    rotary = library.RotaryEmbeddingCat(64, feat_shape=[7, 9], **kind)
    tables = library.build_rotary_pos_embed([7, 9], bands=bands, dtype=torch.float64, **kind)
    return dict(positions=positions, after=library.apply_rot_embed_cat(query, rotary.get_embed()),
                after_float64_bands=library.apply_rot_embed(query, *tables))  # fmt: skip


_SIZE = torch.tensor([7.0, 9.0], dtype=torch.float64)
_BANDS = 10000.0 ** -(torch.arange(16, dtype=torch.float64) / 16)
_PIXEL_BANDS = torch.pi * 2 ** torch.linspace(0, math.log2(224) - 1, 16, dtype=torch.float64)
_KINDS: dict[str, tuple[Tensor, Tensor, dict[str, Any]]] = {
    "eva02": (grid(7, 9) * (16 / _SIZE), _BANDS, dict(in_pixels=False, ref_feat_shape=[16, 16])),
    "timm-axial": (grid(7, 9), _BANDS, dict(in_pixels=False)),
    "timm-axial-pixel": (2 * grid(7, 9) / (_SIZE - 1) - 1, _PIXEL_BANDS, dict(in_pixels=True)),
}  # fmt: skip
for _name, (_positions, _bands, _kind) in _KINDS.items():
    _run = partial(_timm, positions=_positions, bands=_bands, kind=_kind)
    entry(_name, "float32", f"{_timm.__doc__} Options: {_kind}.")(_run)


def _rope_vit(libraries: Libraries) -> Any:
    return libraries.file("naver-ai/rope-vit", "models/vit_rope.py", "timm", "deit")


@entry("rope-vit-axial", "float32")
def rope_vit_axial(libraries: Libraries) -> Arrays:
    """compute_axial_cis(64, end_x=9, end_y=7, theta=100.0); apply_rotary_emb(q, q, cis)."""
    library, query = _rope_vit(libraries), before(1, 1, 63, 64)
    tables = library.compute_axial_cis(64, end_x=9, end_y=7, theta=100.0)
    after = library.apply_rotary_emb(query, query, tables)[0]
    return dict(positions=grid(7, 9), after=after[0, 0])


@entry("rope-vit-mixed", "float64, q is cast to float32")
def rope_vit_mixed(libraries: Libraries) -> Arrays:
    """init_random_2d_freqs(64, num_heads=3, theta=10.0) with seed 0, as float64.

    Then compute_mixed_cis(freqs, *init_t_xy(9, 7), num_heads=3); apply_rotary_emb(q, q, cis).
    """
    library, query = _rope_vit(libraries), before(1, 3, 63, 64)
    torch.manual_seed(0)
    freqs = library.init_random_2d_freqs(64, num_heads=3, theta=10.0).double()
    t_x, t_y = (t.double() for t in library.init_t_xy(9, 7))
    tables = library.compute_mixed_cis(freqs.view(2, 1, -1), t_x, t_y, num_heads=3)[0]
    after = library.apply_rotary_emb(query, query, tables)[0]
    return dict(positions=grid(7, 9), after=after[0], freqs=freqs)


@entry("sam2", "float32")
def sam2(libraries: Libraries) -> Arrays:
    """compute_axial_cis(256, end_x=9, end_y=7, theta=10000.0); apply_rotary_enc(q, q, cis)."""
    library = libraries.file("facebookresearch/sam2", "sam2/modeling/position_encoding.py")
    tables = library.compute_axial_cis(256, end_x=9, end_y=7, theta=10000.0)
    query = before(1, 1, 63, 256)
    after = library.apply_rotary_enc(query, query, tables)[0]
    return dict(positions=grid(7, 9), after=after[0, 0])


@entry("rope2d", "float32 angles, their sine in the dtype of q")
def rope2d(libraries: Libraries) -> Arrays:
    """RoPE2D(freq=100.0)(q, (row, column)), the version in PyTorch."""
    library = libraries.file("naver/croco", "models/pos_embed.py")
    after = library.RoPE2D(freq=100.0)(before(1, 1, 63, 64), grid(7, 9)[None])
    return dict(positions=grid(7, 9), after=after[0, 0])


@entry("vjepa2", "dtype of q, here float64")
def vjepa2(libraries: Libraries) -> Arrays:
    """VJEPA2RopeAttention(hidden_size=64, 1 head).apply_rotary_embeddings(q, (t, h, w))."""
    model = libraries.model("vjepa2")
    attention = model.VJEPA2RopeAttention(libraries.config("vjepa2", "VJEPA2Config"), 64, 1)
    after = attention.apply_rotary_embeddings(before(1, 1, 60, 64), grid(3, 4, 5).double().T)
    return dict(positions=grid(3, 4, 5), after=after[0, 0])


# Points and cameras.


@entry("lightglue", "default dtype, here float64")
def lightglue(libraries: Libraries) -> Arrays:
    """normalize_keypoints(keypoints, (640, 480)).

    Then LearnableFourierPositionalEncoding(2, 64, 64)(positions) with seed 0;
    apply_cached_rotary_emb(encoding, q).
    """
    library = libraries.file("cvg/LightGlue", "lightglue/lightglue.py")
    torch.manual_seed(0)
    encoding = library.LearnableFourierPositionalEncoding(2, 64, 64)
    step = torch.arange(64, dtype=torch.float64)
    keypoints = torch.stack((640 * (step * 0.37 % 1), 480 * (step * 0.23 % 1)), dim=-1)[None]
    positions = library.normalize_keypoints(keypoints, torch.tensor([[640.0, 480.0]]))
    after = library.apply_cached_rotary_emb(encoding(positions), before(1, 1, 64, 64))
    return dict(positions=positions[0], keypoints=keypoints[0], after=after[0, 0],
                weight=encoding.Wr.weight)  # fmt: skip


@entry("cape-6dof", "float64")
def cape_6dof(libraries: Libraries) -> Arrays:
    """CaPE_6DoF().cape_embed(q, inverse(pose).mT), cape_embed(k, pose), as in attn_with_CaPE."""
    library, query = libraries.file("kxhit/EscherNet", "CaPE.py"), before(8, 64)
    values = [(10 * i, 25 - 7 * i, 3 * i * i, 0.3 * i, 1 - 0.2 * i, 0.1 * i * i) for i in range(8)]
    poses = torch.stack([torch.tensor(library.euler_to_matrix(*value)) for value in values])
    embed = library.CaPE_6DoF().cape_embed
    after = embed(query, torch.inverse(poses).mT)
    return dict(poses=poses, after=after, after_key=embed(query, poses))


@entry("cape-4dof", "float64")
def cape_4dof(libraries: Libraries) -> Arrays:
    """CaPE_4DoF().cape_embed(q, k, poses, poses); keys are rotated as queries are."""
    library, query = libraries.file("kxhit/EscherNet", "CaPE.py"), before(1, 8, 64)
    step = torch.arange(8, dtype=torch.float64)
    poses = torch.stack((0.3 + 0.2 * step, 0.5 * step, 1 + 0.1 * step, 0 * step), dim=-1)
    after, _ = library.CaPE_4DoF().cape_embed(query, query, poses[None], poses[None])
    return dict(poses=poses, after=after[0])


@entry("gta", "float64, make_2dcoord is float32")
def gta(libraries: Libraries) -> Arrays:
    """multihead_geometric_transform_attention(q, q, q, f, {se3: 32, so2: 32}, reps, 0.01).

    The coordinates are make_2dcoord(3, 4), reps are made of make_SO2mats(coordinates, 8, [1, 1])
    and the extrinsics as source/encoder.py does. The attention function f returns ``before``, of
    which the function makes ``output``.
    """
    cape = libraries.file("kxhit/EscherNet", "CaPE.py")
    library = libraries.file("autonomousvision/gta", "source/utils/gta.py")
    values = [(20 * i, 15 - 9 * i, 5 * i, 0.5 * i, 1 - i, 2.0) for i in range(2)]
    extrinsics = torch.stack([torch.tensor(cape.euler_to_matrix(*value)) for value in values])
    coordinates = torch.from_numpy(library.make_2dcoord(3, 4)).double().view(-1, 2).repeat(2, 1)
    so2 = library.make_SO2mats(coordinates[None], nfreqs=8, max_freqs=[1, 1]).flatten(-4, -3)
    se3 = torch.linalg.inv(extrinsics)[None]
    reps = dict(
        so2rep_q=so2, so2rep_k=so2, se3rep_q=se3, se3rep_k=se3, inv_se3rep_q=extrinsics[None],
        so2fn=lambda a, x: torch.einsum("btcij,bhtcj->bhtci", a, x),
        se3fn=lambda a, x: torch.einsum("bnij,bhntcj->bhntci", a, x),
    )  # fmt: skip
    seen: list[Tensor] = []

    def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
        seen.extend((q, k, v))
        return before(*v.shape), None

    query, widths = before(1, 1, 24, 64), {"se3": 32, "so2": 32}
    apply = library.multihead_geometric_transform_attention
    output, _ = apply(query, query, query, attention, widths, reps, trans_coeff=0.01)
    names = ("after", "after_key", "after_value", "output")
    arrays = {name: x[0, 0] for name, x in zip(names, (*seen, output), strict=True)}
    return dict(arrays, extrinsics=extrinsics, positions=coordinates)


# rotary-embedding-torch and x-transformers.


def _lucidrains(libraries: Libraries, dim: int) -> Arrays:
    """RotaryEmbedding(dim).rotate_queries_or_keys(q) with head dim 64.

    after_float64_freqs has float64 custom_freqs, which are 10000^(-2i / dim).
    """
    library = libraries.installed("rotary_embedding_torch", distribution="rotary-embedding-torch")
    freqs, query = 10000.0 ** -(torch.arange(0, dim, 2) / dim), before(1, 1, 64, 64)
    after = library.RotaryEmbedding(dim).rotate_queries_or_keys(query)
    given = library.RotaryEmbedding(dim, custom_freqs=freqs).rotate_queries_or_keys(query)
    return dict(positions=torch.arange(64), after=after[0, 0], after_float64_freqs=given[0, 0])


for _name, _dim in (("rotary-embedding-torch", 64), ("rotary-embedding-torch-partial", 32)):
    _run = partial(_lucidrains, dim=_dim)
    entry(_name, "float32 frequencies", f"{_lucidrains.__doc__} Here dim is {_dim}.")(_run)


@entry("rotary-embedding-torch-pixel", "default dtype, here float64")
def rotary_embedding_torch_pixel(libraries: Libraries) -> Arrays:
    """RotaryEmbedding(32, freqs_for="pixel", max_freq=256).get_axial_freqs(7, 9).

    Then apply_rotary_emb(freqs, q).
    """
    library = libraries.installed("rotary_embedding_torch", distribution="rotary-embedding-torch")
    rotary = library.RotaryEmbedding(32, freqs_for="pixel", max_freq=256)
    after = library.apply_rotary_emb(rotary.get_axial_freqs(7, 9), before(1, 7, 9, 64))
    return dict(positions=2 * grid(7, 9) / (_SIZE - 1) - 1, after=after.reshape(63, 64))


@entry("xpos", "float64")
def xpos(libraries: Libraries) -> Arrays:
    """RotaryEmbedding(64, use_xpos=True, custom_freqs in float64).rotate_queries_and_keys(q, q)."""
    library = libraries.installed("rotary_embedding_torch", distribution="rotary-embedding-torch")
    freqs, query = 10000.0 ** -(torch.arange(0, 64, 2) / 64), before(1, 1, 64, 64)
    rotary = library.RotaryEmbedding(64, use_xpos=True, custom_freqs=freqs)
    q, k = rotary.rotate_queries_and_keys(query, query)
    return dict(positions=torch.arange(64), after=q[0, 0], after_key=k[0, 0])


@entry("pope", "float64")
def pope(libraries: Libraries) -> Arrays:
    """PoPE(64, heads=1, inv_freqs in float64), its bias set; apply_pope_to_qk(pope(64), q, q)."""
    library = libraries.installed("PoPE_pytorch.pope", distribution="PoPE-pytorch")
    freqs, query = 10000.0 ** -(torch.arange(64) / 64), before(1, 1, 64, 64)
    embedding = library.PoPE(64, heads=1, inv_freqs=freqs)
    # Some of them beyond the range that the library clamps to.
    embedding.bias.data = 4 * before(1, 64) - 3
    q, k = library.apply_pope_to_qk(embedding(64), query, query)
    weight = embedding.bias
    return dict(positions=torch.arange(64), weight=weight, after=q[0, 0], after_key=k[0, 0])


# Relative biases.


@entry("t5", "float32 logarithms")
def t5(libraries: Libraries) -> Arrays:
    """T5Attention._relative_position_bucket(key - query, bidirectional, 32, 128)."""
    bucket = libraries.model("t5").T5Attention._relative_position_bucket
    offsets = torch.arange(-300, 301)
    sides = {"bidirectional": True, "causal": False}
    return dict(offsets=offsets, **{name: bucket(offsets, x, 32, 128) for name, x in sides.items()})


def _swinv2(libraries: Libraries, window: int, pretrained: int) -> Arrays:
    """Swinv2SelfAttention(config, 96, 3 heads, window, [pretrained, pretrained]), its buffers."""
    attention = libraries.model("swinv2").Swinv2SelfAttention
    config = libraries.config("swinv2", "Swinv2Config")
    layer = attention(config, 96, 3, window, [pretrained, pretrained])
    return dict(table=layer.relative_coords_table[0], index=layer.relative_position_index)


for _name, _sizes in (("swinv2", (7, 0)), ("swinv2-pretrained", (12, 6))):
    _run = partial(_swinv2, window=_sizes[0], pretrained=_sizes[1])
    entry(_name, "float32", f"{_swinv2.__doc__} Windows: {_sizes}.")(_run)


@entry("beit", "float64")
def beit(libraries: Libraries) -> Arrays:
    """BeitRelativePositionBias(config)((3, 3)) of 2 heads, and its table."""
    sizes = dict(hidden_size=4, num_attention_heads=2, image_size=12, patch_size=4)
    config = libraries.config("beit", "BeitConfig", **sizes)
    bias = libraries.model("beit").BeitRelativePositionBias(config)
    bias.relative_position_bias_table.data = points(41, 28, 2)
    return dict(input_table=bias.relative_position_bias_table, output=bias((3, 3)))
