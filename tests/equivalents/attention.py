"""Recipes of encoders of positions, rotary embeddings, biases and cameras."""

from torch import Tensor

from nerf_posenc import presets
from tests.equivalents.equivalent import FLOAT32, ROUNDED, Equivalent
from tests.equivalents.vectors import arrays, released

# Entry of the vectors, where it has another name than the preset.
ROTARY_ENTRIES = {
    "croco": "rope2d",
    "vggt": "rope2d",
    "timm-rope": "timm-axial",
    "timm-pixel": "timm-axial-pixel",
    "cogvideox": "cogvideox-1.5-rope",
    "cogvideox-1.0": "cogvideox-rope",
}


def preset_positions(name: str) -> Tensor:
    """Positions that a library was given, or those of its preset where it counts for itself."""
    entry = ROTARY_ENTRIES.get(name, name)
    if f"{entry}/positions" in arrays():
        return arrays()[f"{entry}/positions"]
    return presets.ROTARY[name].positions(arrays()[f"{entry}/shape"].tolist())


def _positions(name: str) -> str:
    """The code of `preset_positions`."""
    shape = arrays().get(f"{name}/shape")
    return "positions" if shape is None else f'ROTARY["{name}"].positions({tuple(shape.tolist())})'


_LLAMA = 'RotaryEncoder(128, bands={bands}, pairing="half"{scale}).rotate(q, positions)'
_YARN = "yarn_bands(128, factor={factor}, trained_length=4096{more})"
_LONG = "[1 + 0.5 * i for i in range(64)]"

# Of those whose positions, times their float32 bands, are large.
_TOLERANCES = {"timm-pixel": 6e-5, "cogview4": 2e-5, "ltx-video": 6e-3}

ROTARY = [
    Equivalent(
        f"{preset.source.split(',')[0]}, {name}",
        f'RotaryEncoder.preset("{name}").rotate(q, {_positions(name)})',
        f"library/{ROTARY_ENTRIES.get(name, name)}/after",
        tolerance=_TOLERANCES.get(name, 5e-6),
        remark=FLOAT32,
    )
    for name, preset in presets.ROTARY.items()
] + [
    Equivalent(what, line, f"library/{vector}", tolerance=tolerance, setup=setup, remark=remark)
    for what, line, vector, tolerance, setup, remark in [
        (
            "rotary-embedding-torch, float64 bands",
            "RotaryEncoder(64).rotate(q, positions)",
            "rotary-embedding-torch/after_float64_freqs",
            1e-6,
            "",
            "",
        ),
        (
            "rotary-embedding-torch, partial",
            "RotaryEncoder(64, axis_dims=(32,)).rotate(q, positions)",
            "rotary-embedding-torch-partial/after_float64_freqs",
            1e-6,
            "",
            "",
        ),
        (
            "transformers, linear scaling",
            _LLAMA.format(bands="geometric_bands(128) / 4", scale=""),
            "linear/after",
            5e-6,
            "",
            FLOAT32,
        ),
        (
            "transformers, dynamic NTK",
            _LLAMA.format(
                bands="dynamic_ntk_bands(128, length=64, trained_length=32, factor=4.0)", scale=""
            ),
            "dynamic-ntk/after",
            5e-6,
            "",
            FLOAT32,
        ),
        (
            "transformers, YaRN",
            _LLAMA.format(bands=_YARN.format(factor=4.0, more=""), scale=", scale=yarn_scale(4.0)"),
            "yarn/after",
            5e-6,
            "",
            FLOAT32,
        ),
        (
            "BEiT, with the class token",
            "bias()[None]",
            "beit/output",
            1e-6,
            "bias = WindowBias(2, (3, 3), has_class_token=True)\nbias.table.data = table",
            "",
        ),
        (
            "LTX-2, 32 heads with bands of their own",
            "encoder.rotate(q.view(12, 32, 128), positions, sequence_dim=-3).flatten(1)",
            "ltx-2/after",
            2e-3,
            "bands = ratio_bands(682, first=pi / 2, ratio=1e4 ** (1 / 681))\n"
            "matrix = torch.zeros(2048, 3, dtype=torch.float64)\n"
            "matrix[torch.arange(2, 2048), torch.arange(2046) % 3] = bands.repeat_interleave(3)\n"
            "matrix = matrix.view(32, 64, 3)\n"
            "encoder = MixedRotaryEncoder(128, 3, num_heads=32, matrix=matrix, pairing='half')",
            FLOAT32,
        ),
        (
            "DeepSeek V3",
            "torch.cat((rotated[:, ::2], rotated[:, 1::2]), dim=-1)",
            "deepseek-v3/after",
            5e-6,
            'rotated = RotaryEncoder.preset("deepseek-v2").rotate(q, positions)',
            FLOAT32,
        ),
        (
            "Kimi K2",
            "torch.cat((rotated[:, ::2], rotated[:, 1::2]), dim=-1)",
            "kimi-k2/after",
            1e-5,
            "bands = yarn_bands(64, factor=32.0, trained_length=4096, base=5e4, fast_cycles=1.0)\n"
            'rotated = RotaryEncoder.preset("deepseek-v2", bands=bands).rotate(q, positions)',
            FLOAT32,
        ),
        (
            "transformers, YaRN with mscale",
            _LLAMA.format(
                bands=_YARN.format(factor=40.0, more=""),
                scale=", scale=yarn_scale(40.0) / yarn_scale(40.0, strength=0.5)",
            ),
            "yarn-mscale/after",
            5e-6,
            "",
            FLOAT32,
        ),
        (
            "transformers, YaRN without truncation",
            _LLAMA.format(
                bands=_YARN.format(factor=32.0, more=", base=150_000.0, truncate=False"),
                scale=", scale=yarn_scale(32.0)",
            ),
            "yarn-no-truncate/after",
            5e-6,
            "",
            FLOAT32,
        ),
        (
            "transformers, LongRoPE",
            _LLAMA.format(
                bands=f"longrope_bands(128, {_LONG})", scale=", scale=longrope_scale(8.0, 32)"
            ),
            "longrope/after",
            1e-5,
            "",
            FLOAT32,
        ),
        (
            "DINOv3, normalize_coords='max'",
            'RotaryEncoder.preset("dinov3").rotate(q, patch_centers((7, 9), normalize="longer", '
            "dtype=q.dtype).flatten(0, 1))",
            "dinov3-repo-max/after",
            1e-6,
            "",
            "",
        ),
        (
            "DINOv3, min_period 0.1 and max_period 10",
            "RotaryEncoder(64, 2, bands=ratio_bands(16, first=20 * pi, ratio=0.01 ** (1 / 15)), "
            'pairing="half").rotate(q, positions)',
            "dinov3-repo-periods/after",
            1e-6,
            "",
            "",
        ),
        (
            "RoPE-ViT, mixed",
            "MixedRotaryEncoder(64, num_heads=3, matrix=freqs.movedim(0, -1).flip(-1))"
            ".rotate(q, positions)",
            "rope-vit-mixed/after",
            1e-6,
            "",
            "",
        ),
        (
            "Mochi, trained frequencies",
            "MixedRotaryEncoder(16, 3, num_heads=3, matrix=frequencies.permute(1, 2, 0))"
            ".rotate(q, positions.centered_area((2, 3, 4)))",
            "mochi/after",
            3e-5,
            "",
            FLOAT32,
        ),
        (
            "LightGlue, learnable Fourier encoding",
            "MixedRotaryEncoder(64, matrix=weight).rotate(q, positions)",
            "lightglue/after",
            1e-6,
            "",
            "",
        ),
        (
            "rotary-embedding-torch, xPos, queries",
            "XPosEncoder(64, center=32.0).rotate(q, positions)",
            "xpos/after",
            1e-6,
            "",
            "",
        ),
        (
            "rotary-embedding-torch, xPos, keys",
            "XPosEncoder(64, center=32.0).rotate_keys(q, positions)",
            "xpos/after_key",
            1e-6,
            "",
            "",
        ),
        (
            "PoPE-pytorch, queries",
            "PoPEEncoder(64, 1).rotate(q[:32].view(1, 64, 64), positions)[0]",
            "pope/after",
            1e-6,
            "",
            "",
        ),
        (
            "PoPE-pytorch, keys",
            "pope.rotate_keys(q[:32].view(1, 64, 64), positions)[0]",
            "pope/after_key",
            1e-6,
            "pope = PoPEEncoder(64, 1); pope.phases.data.copy_(weight)",
            "",
        ),
        (
            "EscherNet, CaPE 6-DoF, queries",
            "transformed_by_camera(q[None], torch.linalg.inv(poses))[0]",
            "cape-6dof/after",
            1e-6,
            "",
            "",
        ),
        (
            "EscherNet, CaPE 6-DoF, keys",
            "transformed_by_camera(q[None], poses.mT)[0]",
            "cape-6dof/after_key",
            1e-6,
            "",
            "",
        ),
        (
            "EscherNet, CaPE 4-DoF",
            "RotaryEncoder(64, 4, bands=torch.ones(8)).rotate(q, poses)",
            "cape-4dof/after",
            1e-6,
            "",
            "",
        ),
        (
            "GTA, rotations by rows and columns",
            "RotaryEncoder(32, 2, pair_axes=(0, 1) * 8, bands=2 * pi * 2.0 ** (torch.arange(-7, 1)"
            ".repeat_interleave(2))).rotate(q[:, 32:], positions)",
            "gta/after[32:]",
            1e-6,
            "",
            FLOAT32,
        ),
        (
            "T5, relative position buckets",
            "T5RelativeBias(1).buckets(offsets)",
            "t5/bidirectional",
            0.0,
            "",
            "",
        ),
        (
            "T5, relative position buckets of decoders",
            "T5RelativeBias(1, bidirectional=False).buckets(offsets)",
            "t5/causal",
            0.0,
            "",
            "",
        ),
        (
            "Swin V2, coordinates of the log-spaced bias",
            "LogCPBBias(3).coordinates((7, 7))",
            "swinv2/table",
            1e-6,
            "",
            "",
        ),
        (
            "Swin V2, pretrained at another window",
            "LogCPBBias(3, pretrained_window=(6, 6)).coordinates((12, 12))",
            "swinv2-pretrained/table",
            1e-6,
            "",
            "",
        ),
    ]
]

ROTARY.append(
    Equivalent(
        "FoPE (Hua et al.), FourierEmbedding",
        "encoder.rotate(queries, torch.arange(16))",
        "library/fope/output_queries",
        setup="encoder = FourierSeriesRotaryEncoder(24, 2, trained_length=1024)\n"
        "encoder.load_state_dict(dict(sine_coefficients=sin_coef, "
        "cosine_coefficients=cos_coef))",
    )
)

_Q = "torch.arange(1.0, 9.0).reshape(1, 1, 2, 4)"

SEQUENCES = [
    Equivalent(what, line, f"encoding/{vector}", tolerance=tolerance, remark=ROUNDED)
    for what, line, vector, tolerance in [
        (
            "positional-encodings (tatp22), 1-D",
            "SinusoidalEncoder(6).table(3)[None]",
            "tatp22.PE1D",
            1e-6,
        ),
        (
            "positional-encodings (tatp22), odd width",
            "SinusoidalEncoder(5, bands=geometric_bands(6)).table(3)[None]",
            "tatp22.PE1D.odd",
            1e-6,
        ),
        (
            "x-transformers, ScaledSinusoidalEmbedding",
            "SinusoidalEncoder(6, split=True).table(3) * 6**-0.5",
            "x_transformers.ScaledSinusoidal",
            1e-6,
        ),
        ("x-transformers, ALiBi", "alibi_bias(2, 3)", "x_transformers.alibi_bias", 1e-6),
        (
            "x-transformers, rotary",
            f"RotaryEncoder(4).rotate({_Q}, torch.arange(2))",
            "x_transformers.rotary",
            1e-6,
        ),
        (
            "diffusers, get_timestep_embedding",
            "SinusoidalEncoder.timestep(6)(torch.tensor([0.0, 1.0, 999.0]))",
            "diffusers.timestep.default",
            1e-6,
        ),
        (
            "Stable Diffusion, timesteps",
            "SinusoidalEncoder.timestep(6, flip=True)(torch.tensor([0.0, 1.0, 999.0]))",
            "diffusers.timestep.sd",
            4e-6,
        ),
        (
            "diffusers, get_1d_sincos_pos_embed",
            "SinusoidalEncoder(6, split=True)(torch.tensor([0, 1, 2.5]))",
            "diffusers.1d_sincos",
            1e-6,
        ),
    ]
]

RELEASED = [
    Equivalent(
        f"{vector['library']}, {name}",
        vector["line"],
        f"released/{name}",
        tolerance=max(vector["tolerance"], 2e-5),
        remark="a released configuration, in float32",
    )
    for name, vector in released().items()
]
