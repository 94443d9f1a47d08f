"""Lines for embeddings of sequences, rotary embeddings, biases and cameras."""

from nerf_posenc_audit.catalog.equivalent import FLOAT32, Equivalent

SEQUENCES = [
    Equivalent("Reformer, axial positions of two widths",
        "encoder.table((4, 5)).flatten(0, 1)",
        "released/Reformer, axial positions of widths 4 and 12",
        setup="encoder = LearnedAxialEncoder((4, 5), 16, axis_dims=(4, 12))\n"
        "encoder.load_state_dict({'codes.0': rx, 'codes.1': ry})"),
    Equivalent("timm, NaFlex ViT, factorized positions at another size",
        "encoder.table((4, 9), resample=True)",
        "released/NaFlex ViT, factorized positions at another size",
        setup="encoder = LearnedAxialEncoder((7, 7), 8, reduce=\"sum\")\n"
        "encoder.load_state_dict({'codes.0': fy, 'codes.1': fx})"),
    Equivalent("RDT-1B, image conditions",
        "torch.cat([SinusoidalEncoder(32, split=True)(torch.tensor([2])).expand(24, -1), "
        'GridSinusoidalEncoder(32, 2, layout="apk").table((2, 3)).flatten(0, 1)'
        ".repeat_interleave(4, 0)], -1)", "released/RDT-1B, image conditions"),
    Equivalent("positional-encodings (tatp22), 1-D", "SinusoidalEncoder(6).table(3)",
        "encoding/tatp22.PE1D"),
    Equivalent("positional-encodings (tatp22), odd width",
        "SinusoidalEncoder(5, frequencies=geometric_bands(3)).table(3)",
        "encoding/tatp22.PE1D.odd"),
    Equivalent("x-transformers, ScaledSinusoidalEmbedding",
        "SinusoidalEncoder(6, split=True).table(3) * 6**-0.5",
        "encoding/x_transformers.ScaledSinusoidal"),
    Equivalent("diffusers, get_timestep_embedding", "SinusoidalEncoder.timestep(6)(x)",
        "encoding/diffusers.timestep.default"),
    Equivalent("Stable Diffusion, timesteps",
        "SinusoidalEncoder.timestep(6, flip_sin_to_cos=True, downscale_freq_shift=0)(x)",
        "encoding/diffusers.timestep.sd", tolerance=4e-6,
        remark="the library's float32 bands are off in the eighth digit, times 999"),
    Equivalent("diffusers, get_1d_sincos_pos_embed", "SinusoidalEncoder(6, split=True)(x)",
        "encoding/diffusers.1d_sincos"),
    Equivalent("Zipformer, compact relative positions",
        'torch.cat([SinusoidalEncoder(48, frequencies=torch.arange(1.0, 25), phases=("cos", "sin"))'
        "((2 * pi / 48**0.5 * x.sign() * (1 + x.abs() / 48**0.5).log()).atan())[:, :-1], "
        "torch.ones(17, 1)], -1)", "released/Zipformer compact relative positions",
        setup="x = torch.arange(-8.0, 9)"),
    Equivalent("HyenaDNA, positions of filters",
        "torch.cat([torch.linspace(0, 1, 11)[:, None], FourierEncoder(1, "
        'frequencies=torch.tensor([1e-4, 1.0]), layout="pka", phases=("cos", "sin"))'
        "(2 * pi * torch.arange(11.0)[:, None] / 11) * torch.tensor([1.0, 1, -1, -1])], -1)",
        "released/HyenaDNA filter positions"),
    Equivalent("Genie, sinusoidal encoding",
        "GaussianEncoder(1, matrix=(256.0 ** (-2 * torch.tensor([2 * (j // 2) + 2 * (j % 2) "
        "for j in range(34)]) / 34) / 2)[:, None], offsets=torch.tensor([0.0, -0.25])"
        ".repeat(17))(x.float()[:, None])", "released/Genie sinusoidal encoding", tolerance=3e-4,
        remark=FLOAT32),
]  # fmt: skip

ATTENTION = [
    Equivalent("rotary-embedding-torch, float64 bands", "RotaryEncoder(64).rotate(q, positions)",
        "library/rotary-embedding-torch/after_float64_freqs"),
    Equivalent("rotary-embedding-torch, partial",
        "RotaryEncoder(64, axis_dims=(32,)).rotate(q, positions)",
        "library/rotary-embedding-torch-partial/after_float64_freqs"),
    Equivalent("x-transformers, rotary", "RotaryEncoder(4).rotate(x, torch.arange(2))",
        "encoding/x_transformers.rotary"),
    Equivalent("diffusers, get_1d_rotary_pos_embed",
        "torch.stack(RotaryEncoder(4)(torch.arange(2)))", "encoding/diffusers.1d_rope"),
    Equivalent("transformers, linear scaling",
        'RotaryEncoder(128, frequencies=geometric_bands(64) / 4, pairing="half")'
        ".rotate(q, positions)", "library/linear/after", tolerance=5e-6, remark=FLOAT32),
    Equivalent("transformers, dynamic NTK",
        "RotaryEncoder(128, frequencies=dynamic_ntk_bands(128, length=64, trained_length=32, "
        'factor=4.0), pairing="half").rotate(q, positions)', "library/dynamic-ntk/after",
        tolerance=5e-6, remark=FLOAT32),
    Equivalent("transformers, YaRN",
        "RotaryEncoder(128, frequencies=yarn_bands(128, factor=4.0, trained_length=4096), "
        'pairing="half", scale=yarn_scale(4.0)).rotate(q, positions)', "library/yarn/after",
        tolerance=5e-6, remark=FLOAT32),
    Equivalent("transformers, YaRN with mscale",
        "RotaryEncoder(128, frequencies=yarn_bands(128, factor=40.0, trained_length=4096), "
        'pairing="half", scale=yarn_scale(40.0) / yarn_scale(40.0, strength=0.5))'
        ".rotate(q, positions)", "library/yarn-mscale/after", tolerance=5e-6, remark=FLOAT32),
    Equivalent("transformers, YaRN without truncation",
        "RotaryEncoder(128, frequencies=yarn_bands(128, factor=32.0, trained_length=4096, "
        'base=150_000.0, truncate=False), pairing="half", scale=yarn_scale(32.0))'
        ".rotate(q, positions)", "library/yarn-no-truncate/after", tolerance=5e-6, remark=FLOAT32),
    Equivalent("transformers, LongRoPE",
        "RotaryEncoder(128, frequencies=longrope_bands(128, [1 + 0.5 * i for i in range(64)]), "
        'pairing="half", scale=longrope_scale(8.0, 32)).rotate(q, positions)',
        "library/longrope/after", tolerance=1e-5, remark=FLOAT32),
    Equivalent("DeepSeek V3, DeepSeek R1",
        'torch.cat([RotaryEncoder.preset("deepseek-v2").rotate(q, positions)[:, i::2] for i in (0, '
        "1)], -1)",
        "library/deepseek-v3/after", tolerance=5e-6, remark=FLOAT32),
    Equivalent("Kimi K2",
        'torch.cat([RotaryEncoder.preset("deepseek-v2", frequencies=yarn_bands(64, factor=32.0, '
        "trained_length=4096, base=5e4, fast_cycles=1.0)).rotate(q, positions)[:, i::2] for i "
        "in (0, 1)], -1)", "library/kimi-k2/after", tolerance=1e-5, remark=FLOAT32),
    Equivalent("ERNIE-Image",
        'RotaryEncoder(128, pairing="half").rotate_with(x, *RotaryEncoder(128, 3, '
        "axis_dims=(32, 48, 48), base=256.0)(ids))", "released/ernie-image"),
    Equivalent("MusicFlamingo, rotary time",
        "RotaryEncoder(64, 2, base=1200.0).rotate(x, torch.stack([wp.expand(5), "
        "torch.arange(5) / 1200 * 2 * pi], -1) * (-ts[0] * 2 * pi)[:, None])",
        "released/MusicFlamingo rotary time", tolerance=3e-6, remark="the numbers are float32"),
    Equivalent("DINOv3, normalize_coords='max'",
        'RotaryEncoder.preset("dinov3").rotate(q, ((2 * grid_positions((7, 9)) + 1) / 9 - 1)'
        ".flatten(0, 1))", "library/dinov3-repo-max/after"),
    Equivalent("DINOv3, min_period 0.1 and max_period 10",
        "RotaryEncoder(64, 2, frequencies=ratio_bands(16, first=20 * pi, ratio=0.01 ** (1 / 15)), "
        'pairing="half").rotate(q, positions)', "library/dinov3-repo-periods/after"),
    Equivalent("RoPE-ViT, mixed",
        "MixedRotaryEncoder(64, num_heads=3, matrix=freqs.movedim(0, -1).flip(-1))"
        ".rotate(q, positions)", "library/rope-vit-mixed/after"),
    Equivalent("Mochi, trained frequencies",
        "MixedRotaryEncoder(16, 3, num_heads=3, matrix=frequencies.permute(1, 2, 0))"
        ".rotate(q, positions)", "library/mochi/after",
        setup="positions = positions.centered_area((2, 3, 4))", tolerance=3e-5, remark=FLOAT32),
    Equivalent("LightGlue: learnable Fourier encoding",
        "MixedRotaryEncoder(64, matrix=weight).rotate(q, positions)", "library/lightglue/after"),
    Equivalent(
        "LTX-2: rotary bands that all heads share out, from the matrix (heads, columns / 2, 3)",
        "encoder.rotate(queries, positions, sequence_dim=-3).flatten(1)", "library/ltx-2/after",
        setup="queries = q.view(12, 32, 128)\n"
        "bands = ratio_bands(682, first=pi / 2, ratio=1e4 ** (1 / 681))\n"
        "matrix = torch.zeros(2048, 3, dtype=torch.float64)\n"
        "matrix[torch.arange(2, 2048), torch.arange(2046) % 3] = "
        "bands.repeat_interleave(3)\n"
        "matrix = matrix.view(32, 64, 3)\n"
        "encoder = MixedRotaryEncoder(128, 3, num_heads=32, matrix=matrix, "
        'pairing="half")', tolerance=2e-3, remark=FLOAT32),
    Equivalent("GTA, rotations by rows and columns",
        "RotaryEncoder(32, 2, pair_axes=(0, 1) * 8, frequencies=2 * pi * 2.0 ** "
        "(torch.arange(-7, 1).repeat_interleave(2))).rotate(q[:, 32:], positions)",
        "library/gta/after[32:]"),
    Equivalent("xPos, LeX; rotary-embedding-torch, queries",
        "XPosEncoder(64, center=32.0).rotate(q, positions)", "library/xpos/after"),
    Equivalent("RetNet (torchscale), rotation of queries and keys",
        "RotaryEncoder(64, frequencies=geometric_bands(32, shift=1)).rotate(x, "
        "torch.arange(50))", "released/RetNet, rotation of queries", tolerance=4e-6,
        remark=FLOAT32),
    Equivalent("Toto, time-aware xPos, queries",
        "RotaryEncoder(64).rotate(x, torch.arange(12)) * (((torch.arange(0, 64, 2) + 25.6) / "
        "89.6) ** ((torch.arange(12.0)[:, None] - 5) / 512)).repeat(1, 2)",
        "released/Toto, time-aware xPos, queries", tolerance=4e-6,
        remark="it scales columns side by side and turns them by pairs"),
    Equivalent("rotary-embedding-torch, xPos, keys",
        "XPosEncoder(64, center=32.0).rotate_keys(q, positions)", "library/xpos/after_key"),
    Equivalent("PoPE", "PoPEEncoder(64, 1).rotate(queries, positions)", "library/pope/after",
        setup="queries = q[:32].view(1, 64, 64)"),
    Equivalent("PoPE-pytorch, keys", "encoder.rotate_keys(keys, positions)",
        "library/pope/after_key",
        setup="keys = q[:32].view(1, 64, 64)\n"
        "encoder = PoPEEncoder(64, 1)\n"
        "encoder.phases.data.copy_(weight)"),
    Equivalent("FoPE (Hua et al.), FourierEmbedding", "encoder.rotate(queries, torch.arange(16))",
        "library/fope/output_queries",
        setup="encoder = FourierSeriesRotaryEncoder(24, 2, trained_length=1024)\n"
        "encoder.load_state_dict(dict(sine_coefficients=sin_coef, "
        "cosine_coefficients=cos_coef))"),
    Equivalent("EscherNet, CaPE 6-DoF, queries",
        "transformed_by_camera(q[None], torch.linalg.inv(poses))", "library/cape-6dof/after"),
    Equivalent("EscherNet, CaPE 6-DoF, keys", "transformed_by_camera(q[None], poses.mT)",
        "library/cape-6dof/after_key"),
    Equivalent("EscherNet, CaPE 4-DoF",
        "RotaryEncoder(64, 4, frequencies=torch.ones(8)).rotate(q, poses)",
        "library/cape-4dof/after"),
    Equivalent("T5, relative position buckets", "T5RelativeBias(1).buckets(offsets)",
        "library/t5/bidirectional", tolerance=0.0),
    Equivalent("T5, relative position buckets of decoders",
        "T5RelativeBias(1, bidirectional=False).buckets(offsets)", "library/t5/causal",
        tolerance=0.0),
    Equivalent("Swin, BEiT, MaxViT: window bias", "encoder()", "released/MaxViT TF relative bias",
        setup="num_heads, window = 4, (3, 5)\n"
        "encoder = WindowBias(num_heads, window)\n"
        "encoder.load_state_dict(dict(table=rt.flip(1, 2).flatten(1).T))"),
    Equivalent("Video Swin: window bias", "encoder()", "released/Video Swin 3-D window bias",
        setup="num_heads, window = 4, (2, 3, 3)\n"
        "encoder = WindowBias(num_heads, window)\n"
        "encoder.load_state_dict(dict(table=tabl))"),
    Equivalent("BEiT, with the class token", "encoder()", "library/beit/output",
        setup="encoder = WindowBias(2, (3, 3), has_class_token=True)\n"
        "encoder.table.data = table"),
    Equivalent("Swin V2, coordinates of the log-spaced bias", "LogCPBBias(3).coordinates((7, 7))",
        "library/swinv2/table"),
    Equivalent("Swin V2, pretrained at another window",
        "LogCPBBias(3, pretrained_window=(6, 6)).coordinates((12, 12))",
        "library/swinv2-pretrained/table"),
    Equivalent("OpenFold, AlphaFold 2, relative positions of residues", "encoder(20).mT",
        "released/OpenFold, AlphaFold 2: relative positions",
        setup="encoder = ClippedRelativeBias(4, ends=(-32, 32))\n"
        "encoder.bias.load_state_dict(dict(weight=Wr))"),
    Equivalent("AlphaFold 3, Boltz, Chai: relative residues, one-hot, chains apart",
        "F.one_hot(torch.where(ch[:, None] == ch, ClippedRelativeBias(1, ends=(-4, 4)).buckets("
        "ri[:, None] - ri), 9), 10)",
        "released/AlphaFold 3, Boltz, Chai: relative residues, one-hot, chains apart"),
    Equivalent("Boltz-2, residues of a cyclic peptide",
        "F.one_hot(ClippedRelativeBias(1, ends=(-4, 4)).buckets(offsets - 6 * (offsets / 6)"
        ".round().long()), 10)", "released/Boltz-2, cyclic peptides of 6",
        setup="offsets = ri[:, None] - ri"),
    Equivalent("ProteinMPNN, relative positions",
        "torch.where(m[..., None] > 0, (pw.T + pb)[ClippedRelativeBias(16, ends=(-32, 32))"
        ".buckets(x)], pw.T[65] + pb)", "released/ProteinMPNN relative positions"),
    Equivalent("SpeechT5, relative positions", "encoder(9).permute(2, 1, 0)",
        "released/SpeechT5 relative positions",
        setup="encoder = ClippedRelativeBias(8, ends=(-5, 4))\n"
        "encoder.bias.load_state_dict(dict(weight=tab))"),
    Equivalent("ALiBi (Press et al.), MPT, BLOOM", "alibi_bias(num_heads, length)",
        "encoding/x_transformers.alibi_bias", setup="num_heads, length = 2, 3"),
]  # fmt: skip
