"""Encodings of other libraries that are no preset, each with the line that gives its numbers.

In the lines `points`, `lonlat`, `boxes`, `times` and so on are inputs, `matrix`, `offsets` and
`table` what a checkpoint has, `pi` is `math.pi`, `F` is `torch.nn.functional`.
"""

from typing import NamedTuple


class Recipe(NamedTuple):
    """A line of code and the models whose numbers it gives.

    Attributes:
        names: models, libraries and functions, with commas between.
        line: the line.
    """

    names: str
    line: str


RECIPES = (
    Recipe(
        "Fourier features (Tancik et al.), Gaussian; nerfstudio RFFEncoding",
        "GaussianEncoder(3, 256, sigma=10.0)(points)",
    ),
    Recipe(
        "random-fourier-features-pytorch (rff), GaussianEncoding",
        'GaussianEncoder(3, matrix=matrix, phases=("cos", "sin"))(points)',
    ),
    Recipe(
        "AlphaFold 3, Boltz, FourierEmbedding of noise levels; RoMa",
        "GaussianEncoder(1, matrix=matrix, offsets=offsets)(times)",
    ),
    Recipe(
        "StyleGAN3 SynthesisInput, sines of random frequencies and phases",
        "GaussianEncoder(2, matrix=matrix, offsets=offsets - 0.25)(pixels) * amplitudes",
    ),
    Recipe("PhysicsNeMo FourierLayer, FourierMLP", "GaussianEncoder(3, matrix=matrix)(points)"),
    Recipe(
        "PhysicsNeMo SinusoidalTimestepEmbedding (ModAFNO)",
        'FourierEncoder(1, bands=linear_bands(32, first=pi, last=32 * pi), layout="pak", '
        'phases=("cos", "sin"))(times)',
    ),
    Recipe(
        "PhysicsNeMo RotaryEmbedding2DTables, RotaryEmbedding1DTables",
        'RotaryEncoder(64, 2).tables(grid_positions((8, 12)), form="interleaved")',
    ),
    Recipe(
        "e3nn spherical_harmonics, normalization='component'",
        "(4 * pi) ** 0.5 * SphericalHarmonicsEncoder(4, condon_shortley=False)"
        "(directions[..., [2, 0, 1]])",
    ),
    Recipe(
        "FreeNeRF, frequency regularization: a factor for each column",
        'preset("nerf-pytorch", 3, 10)(points) * mask',
    ),
    Recipe(
        "mip-NeRF 360, integrated encoding on the lifted basis",
        'preset("multinerf", 3, 12, basis=icosahedron_basis(2), '
        "include_input=None)(points, covariance=covariances)",
    ),
    Recipe(
        "Ref-NeRF, integrated directional encoding",
        "IntegratedDirectionalEncoder(5)(directions, roughness=roughness)",
    ),
    Recipe(
        "ZipNeRF, hash grid of 10 levels, without its downweighting by size",
        "HashGridEncoder(3, 10, log2_table_size=21, features_per_level=4, base_resolution=16, "
        "growth=2.0)(points)",
    ),
    Recipe("mip-NeRF 360, ZipNeRF: contraction of unbounded scenes", "contract(points)"),
    Recipe(
        "Instant-NGP, tiny-cuda-nn HashGrid from a checkpoint",
        'HashGridEncoder.from_tcnn(3, {"n_levels": 5, "per_level_scale": 1.38}, parameters)',
    ),
    Recipe(
        "Neuralangelo, hash grid of 16 levels from 32 to 2048 cells",
        "HashGridEncoder(3, 16, log2_table_size=22, features_per_level=8, base_resolution=32, "
        "growth=64 ** (1 / 15))(points)",
    ),
    Recipe("K-Planes", "KPlanesEncoder(4, 32, resolution=(64, 64, 64, 25))(space_times)"),
    Recipe("HexPlane", 'KPlanesEncoder(4, 24, reduce="hexplane")(space_times)'),
    Recipe("EG3D, tri-planes", 'KPlanesEncoder(3, 32, resolution=256, reduce="sum")(points)'),
    Recipe("TensoRF, vector-matrix factors", "VectorMatrixEncoder(16)(points)"),
    Recipe("DVGO, Plenoxels: a dense grid", "DenseGridEncoder(3)(points)"),
    Recipe("SIREN", "siren(2, 3)(points[:, :2])"),
    Recipe("FINER", "finer(2, 3)(points[:, :2])"),
    Recipe("WIRE", "wire(2, 3)(points[:, :2])"),
    Recipe(
        "Plücker rays: CameraCtrl, light field networks, ray maps",
        "plucker_rays(origins, directions)",
    ),
    Recipe(
        "GeoCLIP, random features of sigma 16 on the Equal Earth projection",
        'GaussianEncoder(2, matrix=16 * matrix, phases=("cos", "sin"))(equal_earth(lonlat))',
    ),
    Recipe(
        "SatCLIP, spherical harmonics of 40 degrees",
        "SphericalHarmonicsEncoder(40)(-directions_from_degrees(lonlat))",
    ),
    Recipe(
        "Sphere2Vec, TorchSpatial",
        'Sphere2VecEncoder(16, unit="degrees", kind="sphereC+", min_radius=1.0, '
        "max_radius=360.0)(lonlat)",
    ),
    Recipe(
        "GraphCast, GenCast: spatial features of nodes",
        'FourierEncoder(3, bands=ratio_bands(10, first=1.0, ratio=1.2), layout="apk")'
        '(sincos(lonlat * (pi / 180), torch.ones(1), layout="pka")[..., [1, 2, 0]])',
    ),
    Recipe(
        "PETR, PETRv2, StreamPETR, pos2posemb3d of reference points in [0, 1]",
        "GridSinusoidalEncoder(384, 3, axis_order=(1, 0, 2))(2 * pi * points)",
    ),
    Recipe(
        "Conditional DETR, DAB-DETR, DINO: boxes (cx, cy, w, h) of queries",
        "GridSinusoidalEncoder(512, 4)(2 * pi * boxes[..., [1, 0, 2, 3]])",
    ),
    Recipe(
        "SAM, random features of an image's grid and of its points",
        "GaussianEncoder(2, matrix=matrix)(patch_centers((64, 64)).flip(-1))",
    ),
    Recipe(
        "BEVFormer, DETR: learned rows and columns",
        "LearnedAxialEncoder((50, 50), 256, axis_order=(1, 0)).table((25, 34))",
    ),
    Recipe(
        "RegTR, PositionEmbeddingCoordsSine: zeros behind the columns",
        "F.pad(GridSinusoidalEncoder(252, 3)(2 * pi * points), (0, 4))",
    ),
    Recipe(
        "UniDepthV2, rays by sines alone",
        'FourierEncoder(2, bands=ratio_bands(256, first=pi, ratio=320 ** (1 / 255)), layout="pak", '
        'phases=("sin",))(pixels)',
    ),
    Recipe(
        "perceiver-pytorch, each coordinate behind its own waves",
        'FourierEncoder(2, bands=linear_bands(6, first=pi, last=5 * pi), layout="apk", '
        'include_input="each")(pixels)',
    ),
    Recipe(
        "ViT, CLIP, SigLIP, DINOv2, InternViT (InternVL): learned positions of a checkpoint, "
        "at another size",
        "LearnedGridEncoder.from_table(table, (14, 14)).table((16, 20))",
    ),
    Recipe("timm resample_abs_pos_embed", "resize_positions(table, (16, 20), antialias=True)"),
    Recipe("BERT, GPT-2, OPT: learned positions", "LearnedPositionEncoder(512, 768).table(128)"),
    Recipe("Time2Vec", "Time2VecEncoder(16)(times)"),
    Recipe("T5, Flan-T5, UL2: relative position bias", "T5RelativeBias(8)(10)"),
    Recipe("Swin, BEiT, Video Swin: window bias", "WindowBias(4, (7, 7))()"),
    Recipe("LeViT: window bias of absolute offsets", "WindowBias(4, (7, 7), is_absolute=True)()"),
    Recipe("Swin V2: log-spaced continuous window bias", "LogCPBBias(4)((7, 7))"),
    Recipe(
        "OpenFold, AlphaFold 2, ESMFold: relative positions up to 32 residues",
        "ClippedRelativeBias(128, ends=(-32, 32))(100)",
    ),
    Recipe("ALiBi (Press et al.), MPT", "alibi_bias(8, 100)"),
    Recipe(
        "BLOOM, Falcon: ALiBi by the keys' positions",
        "alibi_slopes(8)[:, None, None] * torch.arange(100)",
    ),
    Recipe(
        "CROMA: ALiBi of distances in two dimensions",
        "-alibi_slopes(16)[:, None, None] * torch.cdist(*[grid_positions((5, 5)).flatten(0, 1)"
        ".float()] * 2)",
    ),
    Recipe("Kerple", "KerpleBias(8)(100)"),
    Recipe("FIRE", "FireBias(8)(100)"),
    Recipe("xPos, RetNet, LeX", "XPosEncoder(64).rotate(queries, positions)"),
    Recipe("PoPE", "PoPEEncoder(64, 1).rotate(queries[None], positions)"),
    Recipe(
        "LightGlue: learnable Fourier encoding",
        "MixedRotaryEncoder(64, matrix=weight).rotate(queries, pixels)",
    ),
    Recipe(
        "LTX-2: rotary bands that all heads share out, from the matrix (heads, columns / 2, 3)",
        'MixedRotaryEncoder(128, 3, num_heads=32, matrix=bands_of_heads, pairing="half")',
    ),
    Recipe("Phi-4 (14B)", 'preset("llama", base=250_000.0)'),
    Recipe("FLUX.3, Flux3PosEmbed as diffusers has it", "RotaryEncoder(128, 4)"),
    Recipe("Llama 3.2, 1B and 3B", 'preset("llama3", bands=llama3_bands(128, factor=32.0))'),
    Recipe(
        "Cosmos-Predict2, Cosmos-Predict2.5: rope_scale (1, 3, 3) of Video2World 2B",
        'preset("cosmos", bands=[geometric_bands(44), ntk_bands(42, factor=3.0), '
        "ntk_bands(42, factor=3.0)])",
    ),
)
