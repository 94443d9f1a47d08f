"""Recipes of encoders of coordinates: fields, images and boxes, the globe, time."""

from tests.equivalents.equivalent import FLOAT32, ROUNDED, Equivalent


def _nerfstudio(name: str, in_dim: int, entry: str) -> Equivalent:
    return Equivalent(
        f"nerfstudio, {entry}",
        f'FourierEncoder.preset("nerfstudio-{name}", {in_dim})(points)',
        f"library/nerfstudio-{entry}/output_features",
    )


_X = "torch.tensor([[0.1, -0.7, 0.33]])"

FIELDS = [
    Equivalent(
        f"{library}, positional encoding",
        f'FourierEncoder.preset("{preset}", 3, 3{more})({_X})',
        f"encoding/{vector}",
        remark=ROUNDED,
    )
    for library, preset, more, vector in [
        ("nerf-pytorch", "nerf-pytorch", "", "nerf-pytorch.Embedder"),
        ("torch-ngp", "torch-ngp", "", "torch-ngp.FreqEncoder"),
        ("FINER", "finer", "", "finer.PositionalEncoding"),
        ("mipnerf", "mipnerf", "", "mipnerf.pos_enc"),
        ("nerfacc", "nerfacc", "", "nerfacc.SinusoidalEncoder"),
        ("PyTorch3D", "pytorch3d", "", "pytorch3d.HarmonicEmbedding"),
        ("BARF", "barf", ", include_input=None", "barf.positional_encoding"),
        ("tiny-cuda-nn, Frequency", "tiny-cuda-nn", "", "tcnn.Frequency"),
        (
            "nerfstudio, NeRFEncoding",
            "nerfstudio",
            ', include_input="back"',
            "nerfstudio.NeRFEncoding",
        ),
    ]
] + [
    _nerfstudio("vanilla", 3, "vanilla-position"),
    _nerfstudio("vanilla-direction", 3, "vanilla-direction"),
    _nerfstudio("vanilla", 1, "vanilla-time"),
    _nerfstudio("mipnerf", 3, "mipnerf"),
    _nerfstudio("tensorf", 3, "tensorf"),
    _nerfstudio("nerfacto", 3, "nerfacto"),
    _nerfstudio("sdf", 3, "sdf-position"),
    _nerfstudio("sdf-direction", 3, "sdf-direction"),
    _nerfstudio("background", 3, "surface-background"),
    Equivalent(
        "nerfstudio, mipnerf with covariances",
        'FourierEncoder.preset("nerfstudio-mipnerf", 3)(points, covariance=covs)',
        "library/nerfstudio-mipnerf/output_integrated",
    ),
    Equivalent(
        "nerfstudio, RFFEncoding",
        "torch.cat([GaussianEncoder(3, matrix=basis.T)(points), points], -1)",
        "library/nerfstudio-rff/output_features",
    ),
    Equivalent(
        "torch-ngp, linear bands",
        'FourierEncoder.preset("torch-ngp", 3, bands=linear_bands(4, first=1.0, last=2.0**3))'
        "(points)",
        "library/torch-ngp-frequency/output_linear",
    ),
    Equivalent(
        "multinerf, integrated_pos_enc on the lifted basis",
        'FourierEncoder.preset("mipnerf", 3, 4, basis=icosahedron_basis(2), include_input=None)'
        "(points, covariance=covs)",
        "library/mipnerf360-ipe/output_lifted",
    ),
    Equivalent(
        "multinerf, contract", "contract(points)", "library/mipnerf360-contract/output_contracted"
    ),
    Equivalent(
        "multinerf, inv_contract",
        "uncontract(contract(points))",
        "library/mipnerf360-contract/output_inverse",
    ),
    Equivalent(
        "multinerf, track_linearize(contract)",
        "contract_gaussian(points, covs)[1]",
        "library/mipnerf360-contract/output_covs",
    ),
    Equivalent(
        "multinerf, generate_basis('icosahedron', 2)",
        "icosahedron_basis(2)",
        "library/mipnerf360-basis/output_icosahedron_2",
    ),
    Equivalent(
        "Ref-NeRF, generate_ide_fn(5)",
        "IntegratedDirectionalEncoder(5)(directions, roughness=kappa_inv)",
        "library/refnerf-ide/output_ide_5",
    ),
    Equivalent(
        "Ref-NeRF, generate_dir_enc_fn(4)",
        "IntegratedDirectionalEncoder(4)(directions)",
        "library/refnerf-ide/output_dir_enc_4",
    ),
    Equivalent(
        "rff, gaussian_encoding",
        "GaussianEncoder(3, matrix=torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]]), "
        f'phases=("cos", "sin"))({_X})',
        "encoding/rff.gaussian_encoding",
        remark=ROUNDED,
    ),
    Equivalent(
        "Fourier features (Tancik et al.), input_mapping",
        f"GaussianEncoder(3, matrix=torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]]))({_X})",
        "encoding/tancik.input_mapping",
        remark=ROUNDED,
    ),
    Equivalent(
        "Boltz, FourierEmbedding (AlphaFold 3)",
        "GaussianEncoder(1, matrix=matrix, offsets=offsets)(times)",
        "library/boltz/output_features",
    ),
    Equivalent(
        "PhysicsNeMo, FourierPositionalEmbedding",
        'FourierEncoder.preset("physicsnemo", 3, 4)(points)',
        "library/physicsnemo/output_positional",
    ),
    Equivalent(
        "PhysicsNeMo, SinusoidalTimestepEmbedding",
        'FourierEncoder(1, bands=linear_bands(5, first=pi, last=5 * pi), layout="pak", '
        'phases=("cos", "sin"))(times[:, None])',
        "library/physicsnemo/output_times",
    ),
    Equivalent(
        "PhysicsNeMo, FourierLayer of axes and diagonal",
        "GaussianEncoder(3, matrix=matrix)(points)",
        "library/physicsnemo/output_layer",
    ),
    Equivalent(
        "PhysicsNeMo, RotaryEmbedding2DTables",
        'torch.stack(RotaryEncoder(24, 2).tables(grid_positions((3, 5)), form="interleaved"))',
        "library/physicsnemo/output_tables",
    ),
    Equivalent(
        "EDM2, MPFourier",
        "2**0.5 * GaussianEncoder(1, matrix=freqs[:, None] / (2 * pi), "
        "offsets=phases / (2 * pi))(noise)",
        "library/edm2/output_features",
        tolerance=5e-6,
        remark="computed in float32 there",
    ),
    Equivalent(
        "light field networks, plucker_embedding",
        "plucker_rays(origins, directions)",
        "library/plucker-lfn/output_rays",
        setup="focal, center = intrinsics[:, None, :2], intrinsics[:, None, 2:]\n"
        "local = torch.cat([(pixels - center) / focal, torch.ones_like(pixels[..., :1])], -1)\n"
        "directions = local @ poses[:, :3, :3].mT\n"
        "origins = poses[:, None, :3, 3].expand_as(directions)",
    ),
]

IMAGES = [
    Equivalent(
        "timm, build_sincos2d_pos_embed",
        'GridSinusoidalEncoder.preset("timm", 8).table((2, 3)).flatten(0, 1)',
        "encoding/timm.sincos2d",
        remark=ROUNDED,
    ),
    Equivalent(
        "diffusers, get_2d_sincos_pos_embed, 14 x 14",
        'GridSinusoidalEncoder.preset("diffusers", 16).table((14, 14)).flatten(0, 1)',
        "library/diffusers-2d-sincos/output_14_14_16_1",
        remark=FLOAT32,
    ),
    Equivalent(
        "diffusers, get_2d_sincos_pos_embed, 7 x 9",
        'GridSinusoidalEncoder.preset("diffusers", 16).table((7, 9)).flatten(0, 1)',
        "library/diffusers-2d-sincos/output_7_9_16_1",
        remark=FLOAT32,
    ),
    Equivalent(
        "PixArt (base_size 64, interpolation_scale 2)",
        'GridSinusoidalEncoder.preset("diffusers", 16, base_size=64, position_scale=2)'
        ".table((8, 8)).flatten(0, 1)",
        "library/diffusers-2d-sincos/output_8_8_64_2",
        remark=FLOAT32,
    ),
    Equivalent(
        "CogVideoX, get_3d_sincos_pos_embed",
        'GridSinusoidalEncoder.preset("cogvideox-sincos", 96, 3, '
        "position_scale=(1.0, 1.875, 1.875)).table((3, 4, 5)).flatten(0, 2)",
        "library/cogvideox-sincos/output",
        remark=FLOAT32,
    ),
    Equivalent(
        "DETR, normalized",
        'GridSinusoidalEncoder.preset("detr-normalized", 32).table((5, 6)).movedim(-1, 0)[None]',
        "library/detr-sine/output_detr",
    ),
    Equivalent(
        "DETR, normalized, with padding",
        'GridSinusoidalEncoder.preset("detr-normalized", 32).masked_table(mask > 0).movedim(-1, 1)',
        "library/detr-sine/output_detr_masked",
    ),
    Equivalent(
        "Deformable DETR",
        'GridSinusoidalEncoder.preset("deformable-detr", 32).table((5, 6)).movedim(-1, 0)[None]',
        "library/detr-sine/output_deformable_detr",
    ),
    Equivalent(
        "DAB-DETR, with padding",
        'GridSinusoidalEncoder.preset("dab-detr", 32).masked_table(mask > 0).movedim(-1, 1)',
        "library/detr-sine/output_dab_detr_masked",
    ),
    Equivalent(
        "Grounding DINO, with padding",
        'GridSinusoidalEncoder.preset("grounding-dino", 32).masked_table(mask > 0).movedim(-1, 1)',
        "library/detr-sine/output_grounding_dino_masked",
        remark=FLOAT32,
    ),
    Equivalent(
        "EDM, ADM architecture",
        'SinusoidalEncoder.preset("edm-adm", 32)(labels)',
        "library/edm/output_adm",
        remark=FLOAT32,
    ),
    Equivalent(
        "EDM, DDPM++ architecture",
        'SinusoidalEncoder.preset("edm-ddpm++", 32)(labels)',
        "library/edm/output_song",
        remark=FLOAT32,
    ),
    Equivalent(
        "TensoRF, positional_encoding",
        'FourierEncoder.preset("tensorf", 3, 6)(points)',
        "library/tensorf/output",
    ),
    Equivalent(
        "Prithvi-EO, patches",
        'GridSinusoidalEncoder.preset("prithvi", 64, 3).table((2, 3, 4)).flatten(0, -2)',
        "library/prithvi/output_grid",
    ),
    Equivalent(
        "Prithvi-EO, years and days",
        'GridSinusoidalEncoder(64, 2, layout="apk")(times)',
        "library/prithvi/output_times",
        tolerance=3e-4,
        remark=FLOAT32,
    ),
    Equivalent(
        "Clay",
        'GridSinusoidalEncoder.preset("clay", 32, position_scale=0.1).table((3, 5)).flatten(0, 1)',
        "library/clay/output_grid",
    ),
    Equivalent(
        "PETR, points",
        "GridSinusoidalEncoder(48, 3, axis_order=(1, 0, 2))(2 * pi * points)",
        "library/petr/output_features",
        tolerance=4e-6,
        remark=FLOAT32,
    ),
    Equivalent(
        "Conditional DETR and DAB-DETR, boxes (cx, cy, w, h)",
        "GridSinusoidalEncoder(64, 4)(2 * pi * boxes[..., [1, 0, 2, 3]])",
        "library/detr-anchors/output_boxes",
        tolerance=4e-6,
        remark=FLOAT32,
    ),
    Equivalent(
        "Deformable DETR, proposals",
        "GridSinusoidalEncoder(64, 4)(2 * pi * logits.sigmoid())",
        "library/detr-anchors/output_proposals",
        tolerance=4e-6,
        remark=FLOAT32,
    ),
    Equivalent(
        "GLIGEN, boxes (x0, y0, x1, y1)",
        'FourierEncoder.preset("gligen", 4, bands=ratio_bands(8, first=1.0, ratio=100 ** (1 / 8)))'
        "(boxes)",
        "library/gligen-boxes/output_features",
        tolerance=4e-6,
        remark=FLOAT32,
    ),
    Equivalent(
        "SAM, random features of an image's grid",
        "GaussianEncoder(2, matrix=matrix.T)(patch_centers((5, 5), dtype=matrix.dtype).flip(-1))"
        ".movedim(-1, 0)[None]",
        "library/sam/output_grid",
    ),
    Equivalent(
        "LoFTR, PositionEncodingSine (temp_bug_fix=True)",
        'GridSinusoidalEncoder.preset("loftr", 16).table((5, 6)).movedim(-1, 0)[None]',
        "library/loftr/output_fixed",
    ),
    Equivalent(
        "LoFTR, PositionEncodingSine with the bug",
        "FourierEncoder(2, bands=ratio_bands(4, first=1.0, ratio=torch.tensor(-2.0).exp().item()), "
        'layout="kap")(grid_positions((5, 6)).flip(-1) + 1.0).movedim(-1, 0)[None]',
        "library/loftr/output_buggy",
    ),
    Equivalent(
        "transformers ViT and CLIP, resized table",
        "LearnedGridEncoder.from_table(table, (4, 4)).table((6, 7))[None]",
        "library/position-table-transformers/output_vit",
    ),
    Equivalent(
        "timm, resample_abs_pos_embed",
        "LearnedGridEncoder.from_table(table, (4, 4)).table((6, 7), antialias=True)[None]",
        "library/position-table-timm/output_6_7_antialias",
        remark=FLOAT32,
    ),
    Equivalent(
        "DINOv2, first release (offset 0.1)",
        "LearnedGridEncoder.from_table(table, (4, 4)).table((6, 7), scale_offset=0.1)[None]",
        "library/position-table-dinov2/output_6_7_offset_0.1",
    ),
    Equivalent(
        "Qwen3-VL, resized table",
        "LearnedGridEncoder.from_table(table, (4, 4))"
        '.table((6, 7), mode="bilinear", align_corners=True)[1:]',
        "library/position-table-qwen3-vl/output",
        remark=FLOAT32,
    ),
    Equivalent(
        "SAM and MViTv2, get_rel_pos",
        "encoder.table(9, interpolate=True, align_corners=False)"
        "[torch.arange(5)[:, None] - torch.arange(5) + 4]",
        "library/position-table-sam/output",
        setup="encoder = LearnedPositionEncoder(5, 3)\nencoder.codes.data = table",
    ),
    Equivalent(
        "K-Planes in nerfstudio, space and time",
        "encoder(points_4d)",
        "library/nerfstudio-kplanes/output_product_4d",
        setup="encoder = KPlanesEncoder(4, 3, resolution=(4, 5, 6, 3))\n"
        "for a, b in encoder.pairs:\n"
        "    encoder.set_plane((a, b), globals()['plane_4d_' + 'xyzt'[a] + 'xyzt'[b]])",
    ),
    Equivalent(
        "HexPlane",
        "encoder(torch.cat([points, time], -1))",
        "library/hexplane/output_features",
        setup="encoder = KPlanesEncoder(4, 2, resolution=(4, 5, 6, 3), reduce='hexplane')\n"
        "for a, b in encoder.pairs:\n"
        "    if b < 3:\n"
        "        encoder.set_plane((a, b), globals()['plane_' + 'xyz'[a] + 'xyz'[b]][0])\n"
        "    else:\n"
        "        encoder.set_plane((a, b), globals()['plane_t' + 'xyz'[a]][0].mT)",
        remark="inside the bounds; outside, HexPlane fades to 0",
    ),
]

GEOGRAPHY = [
    Equivalent(
        f"TorchSpatial, Sphere2Vec {kind}",
        f'Sphere2VecEncoder(4, unit="degrees", kind="{kind}", min_radius={least}, '
        "max_radius=360.0)(lonlat)",
        f"library/torchspatial-encoders/output_{name}",
        remark=remark,
    )
    for kind, name, least, remark in [
        ("sphereC", "spherec", 0.01, ""),
        ("sphereC+", "spherecplus", 0.01, ""),
        ("sphereM", "spherem", 0.01, ""),
        ("sphereM+", "spheremplus", 1.0, "the library ignores min_radius here"),
        ("dfs", "dft", 1.0, "the library ignores min_radius here"),
    ]
] + [
    Equivalent(
        "TorchSpatial, Space2Vec grid",
        'FourierEncoder.preset("space2vec-grid", 2, bands=ratio_bands(4, first=1 / 0.01, '
        "ratio=(0.01 / 360) ** (1 / 3)))(lonlat)",
        "library/torchspatial-encoders/output_grid",
    ),
    Equivalent(
        "TorchSpatial, Space2Vec theory",
        'FourierEncoder.preset("space2vec-theory", 2, bands=ratio_bands(4, first=1 / 0.01, '
        "ratio=(0.01 / 360) ** (1 / 3)))(lonlat)",
        "library/torchspatial-encoders/output_theory",
    ),
    Equivalent(
        "SatCLIP, spherical harmonics (closed form), 10",
        "SphericalHarmonicsEncoder(10)(-directions_from_degrees(lonlat))",
        "library/satclip-spherical-harmonics/output_closed_form_10",
    ),
    Equivalent(
        "SatCLIP, spherical harmonics (closed form), 40",
        "SphericalHarmonicsEncoder(40)(-directions_from_degrees(lonlat[::3]))",
        "library/satclip-spherical-harmonics/output_closed_form_40",
    ),
    Equivalent(
        "GraphCast, nodes with sine_cosine_encoding",
        "FourierEncoder(3, bands=ratio_bands(10, first=1.0, ratio=1.2), layout='apk')("
        "sincos(lonlat * (pi / 180), torch.ones(1), layout='pka')[..., [1, 2, 0]])",
        "library/graphcast/output_nodes",
    ),
    Equivalent(
        "GenCast, logarithms of noise levels",
        "FourierEncoder(1, bands=linear_bands(32, first=pi / 8, last=4 * pi), "
        "phases=('cos', 'sin'), layout='apk')(values[:, None])",
        "library/graphcast/output_noise",
    ),
    Equivalent(
        "GeoCLIP, Equal Earth projection",
        "equal_earth(latlon.flip(-1))",
        "library/geoclip/output_projected",
    ),
    Equivalent(
        "GeoCLIP, random features of sigma 16",
        'GaussianEncoder(2, matrix=16 * matrix, phases=("cos", "sin"))'
        "(equal_earth(latlon.flip(-1)))",
        "library/geoclip/output_gaussian_16",
    ),
    Equivalent(
        "e3nn, spherical_harmonics(normalization='component')",
        "(4 * pi) ** 0.5 * SphericalHarmonicsEncoder(6, condon_shortley=False)"
        "(directions[..., [2, 0, 1]])",
        "library/e3nn/output_component",
    ),
]

TIME = [
    Equivalent(
        "Time2Vec-PyTorch, SineActivation",
        "encoder(tau)",
        "library/time2vec/output_sine",
        setup="encoder = Time2VecEncoder(5, 2, linear_last=True)\n"
        "weights = dict(weight=torch.cat([w0, w], 1).T, bias=torch.cat([b0, b]))\n"
        "encoder.load_state_dict(weights)",
    ),
    Equivalent(
        "feature-engine, CyclicalFeatures",
        "FourierEncoder(3, bands=period_bands(24, 7, 365))(times)",
        "library/calendar/output_given",
    ),
]

WAVES = [
    Equivalent(what, line, f"encoding/{vector}", remark=ROUNDED)
    for what, line, vector in [
        ("tiny-cuda-nn, TriangleWave", f"TriangleWaveEncoder(3, 3)({_X})", "tcnn.TriangleWave"),
        (
            "tiny-cuda-nn, OneBlob",
            "OneBlobEncoder(3, 4)(torch.tensor([[0.1, 0.7, 0.33]]))",
            "tcnn.OneBlob",
        ),
        (
            "tiny-cuda-nn and torch-ngp, SphericalHarmonics",
            "SphericalHarmonicsEncoder(3)(torch.tensor([[0.8, 0.5, 0.9]]) * 2 - 1)",
            "tcnn.SphericalHarmonics",
        ),
        (
            "nerfstudio, SHEncoding",
            "SphericalHarmonicsEncoder(3, condon_shortley=False)(torch.tensor([[0.6, 0.0, 0.8]]))",
            "nerfstudio.SHEncoding",
        ),
    ]
]
