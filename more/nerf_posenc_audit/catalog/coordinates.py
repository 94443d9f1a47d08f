"""Lines for encoders of coordinates: fields, images and boxes, the globe, time."""

from nerf_posenc_audit.catalog.equivalent import FLOAT32, Equivalent

FIELDS = [
    Equivalent("Fourier features (Tancik et al.), input_mapping",
        "GaussianEncoder(3, matrix=matrix)(x)", "encoding/tancik.input_mapping",
        setup="matrix = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])"),
    Equivalent("random-fourier-features-pytorch (rff), GaussianEncoding",
        'GaussianEncoder(3, matrix=matrix, phases=("cos", "sin"))(x)',
        "encoding/rff.gaussian_encoding",
        setup="matrix = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])"),
    Equivalent("nerfstudio, FFEncoding", "GaussianEncoder(3, matrix=matrix.T)(x)",
        "encoding/nerfstudio.FFEncoding",
        setup="matrix = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5], [0.25, 0.25, 1.0]])"),
    Equivalent("nerfstudio, RFFEncoding",
        "torch.cat([GaussianEncoder(3, matrix=basis.T)(points), points], -1)",
        "library/nerfstudio-rff/output_features"),
    Equivalent("AlphaFold 3, Boltz, FourierEmbedding of noise levels; RoMa",
        "GaussianEncoder(1, matrix=matrix, offsets=offsets)(times)",
        "library/boltz/output_features"),
    Equivalent("EDM2, MPFourier",
        "2**0.5 * GaussianEncoder(1, matrix=freqs[:, None] / (2 * pi), offsets=phases / (2 * "
        "pi))(noise)", "library/edm2/output_features", tolerance=5e-6,
        remark="the library computes in float32"),
    Equivalent("PhysicsNeMo FourierLayer, FourierMLP", "GaussianEncoder(3, matrix=matrix)(points)",
        "library/physicsnemo/output_layer"),
    Equivalent("PhysicsNeMo SinusoidalTimestepEmbedding (ModAFNO)",
        'FourierEncoder(1, frequencies=linear_bands(5, first=pi, last=5 * pi), layout="pak", '
        'phases=("cos", "sin"))(times[:, None])', "library/physicsnemo/output_times"),
    Equivalent("PhysicsNeMo RotaryEmbedding2DTables, RotaryEmbedding1DTables",
        'torch.stack(RotaryEncoder(24, 2).tables(grid_positions((3, 5)), form="interleaved"))',
        "library/physicsnemo/output_tables"),
    Equivalent("mip-NeRF 360, integrated encoding on the lifted basis; multinerf",
        'preset("multinerf", 3, 4, basis=icosahedron_basis(2), include_input=None)'
        "(points, covariance=covariances)", "library/mipnerf360-ipe/output_lifted",
        setup="covariances = covs"),
    Equivalent("multinerf, generate_basis('icosahedron', 2)", "icosahedron_basis(2)",
        "library/mipnerf360-basis/output_icosahedron_2"),
    Equivalent("mip-NeRF 360, ZipNeRF: contraction of unbounded scenes; multinerf",
        "contract(points)", "library/mipnerf360-contract/output_contracted"),
    Equivalent("multinerf, inv_contract", "uncontract(contract(points))",
        "library/mipnerf360-contract/output_inverse"),
    Equivalent("multinerf, track_linearize(contract)", "contract_gaussian(points, covs)[1]",
        "library/mipnerf360-contract/output_covs"),
    Equivalent("mip-NeRF 360, contraction in float16", "contract(x.half()).to(x.dtype)",
        "released/mip-NeRF 360 contract, float16", tolerance=1e-3,
        remark="coordinates are float16"),
    Equivalent("nerfstudio, SceneContraction", "contract(x)",
        "encoding/nerfstudio.SceneContraction.L2"),
    Equivalent("nerfstudio, SceneContraction(order=inf)", "contract(x, order=math.inf)",
        "encoding/nerfstudio.SceneContraction.Linf"),
    Equivalent("Ref-NeRF, integrated directional encoding",
        "IntegratedDirectionalEncoder(5)(directions, roughness=roughness)",
        "library/refnerf-ide/output_ide_5", setup="roughness = kappa_inv"),
    Equivalent("Ref-NeRF, generate_dir_enc_fn(4)", "IntegratedDirectionalEncoder(4)(directions)",
        "library/refnerf-ide/output_dir_enc_4"),
    Equivalent("Instant-NGP, tiny-cuda-nn HashGrid from a checkpoint",
        'HashGridEncoder.from_tcnn(3, {"n_levels": 5, "per_level_scale": 1.381912879967776}, '
        "parameters)(x)", "released/tiny-cuda-nn HashGrid (Instant-NGP growth)", tolerance=2e-5,
        remark="the numbers are float32"),
    Equivalent("torch-ngp, gridencoder of a checkpoint",
        "HashGridEncoder.from_torch_ngp(3, embeddings, num_levels=3, per_level_scale=1.5, "
        "log2_hashmap_size=15, bounds=(0.0, 1.0))(x)", "released/torch-ngp gridencoder",
        tolerance=1e-5, remark="the numbers are float32"),
    Equivalent("nerfstudio, HashEncoding", "encoder(x)",
        "released/nerfstudio HashEncoding defaults",
        setup="encoder = HashGridEncoder(3, 16, log2_table_size=10, base_resolution=16, "
        'max_resolution=1024, convention="nerfstudio", bounds=(0.0, 1.0))\n'
        "encoder.load_state_dict(dict(table=table))", tolerance=2e-4,
        remark="the library's cells are float32"),
    Equivalent("nerfstudio, HashEncoding of nerfacto", "encoder(x)",
        "released/nerfstudio HashEncoding nerfacto",
        setup="encoder = HashGridEncoder(3, 16, log2_table_size=10, base_resolution=16, "
        'max_resolution=2048, convention="nerfstudio", bounds=(0.0, 1.0))\n'
        "encoder.load_state_dict(dict(table=table))", tolerance=2e-4,
        remark="the library's cells are float32"),
    Equivalent("nerfstudio, HashEncoding of the first proposals", "encoder(x)",
        "released/nerfstudio HashEncoding nerfacto proposal 1",
        setup="encoder = HashGridEncoder(3, 5, log2_table_size=10, base_resolution=16, "
        'max_resolution=128, convention="nerfstudio", bounds=(0.0, 1.0))\n'
        "encoder.load_state_dict(dict(table=table))", tolerance=2e-5,
        remark="the library's cells are float32"),
    Equivalent("nerfstudio, HashEncoding of two levels", "encoder(x)",
        "encoding/nerfstudio.HashEncoding.torch",
        setup="encoder = HashGridEncoder(3, 2, base_resolution=4, growth=2.0, "
        'log2_table_size=5, bounds=(0.0, 1.0), convention="nerfstudio")\n'
        "encoder.load_state_dict(dict(table=1e-3 * torch.arange(128.0).view(64, 2)))"),
    Equivalent("K-Planes", "encoder(space_times)", "library/nerfstudio-kplanes/output_product_4d",
        setup="features, resolution, space_times = 3, (4, 5, 6, 3), points_4d\n"
        "encoder = KPlanesEncoder(4, features, resolution=resolution)\n"
        "for a, b in encoder.pairs:\n"
        "    encoder.set_plane((a, b), globals()['plane_4d_' + 'xyzt'[a] + 'xyzt'[b]])",
        remark="the model has features=32 and resolution=(64, 64, 64, 25)"),
    Equivalent("HexPlane", "encoder(space_times)", "library/hexplane/output_features",
        setup="features, resolution = 2, (4, 5, 6, 3)\n"
        "space_times = torch.cat([points, time], -1)\n"
        'encoder = KPlanesEncoder(4, features, resolution=resolution, reduce="hexplane")\n'
        "for a, b in encoder.pairs:\n"
        "    if b < 3:\n"
        "        encoder.set_plane((a, b), globals()['plane_' + 'xyz'[a] + 'xyz'[b]][0])\n"
        "    else:\n"
        "        encoder.set_plane((a, b), globals()['plane_t' + 'xyz'[a]][0].mT)",
        remark="inside the bounds; outside, HexPlane fades to 0"),
    Equivalent("DVGO, Plenoxels: a dense grid", "encoder(points)",
        "released/plain voxel grid (DVGO)",
        setup="resolution, features, points = 5, 2, x\n"
        "encoder = DenseGridEncoder(3, base_resolution=resolution, "
        "features_per_level=features)\n"
        "encoder.load_state_dict(dict(table=grid.T))"),
    Equivalent("CameraCtrl, Plücker rays", "plucker_rays(od, dd, moment_first=True)",
        "released/CameraCtrl, rays"),
    Equivalent("Zero123, relative camera",
        "torch.cat([x[:, :1], sincos(x[:, 1:2], torch.ones(1)), x[:, 2:]], -1)",
        "released/Zero123 relative camera"),
    Equivalent("Plücker rays: light field networks, ray maps",
        "plucker_rays(origins, directions)", "library/plucker-lfn/output_rays",
        setup="focal, center = intrinsics[:, None, :2], intrinsics[:, None, 2:]\n"
        "local = torch.cat([(pixels - center) / focal, torch.ones_like(pixels[..., "
        ":1])], -1)\n"
        "directions = local @ poses[:, :3, :3].mT\n"
        "origins = poses[:, None, :3, 3].expand_as(directions)"),
    Equivalent("jaxpi, PeriodEmbs of one axis of two",
        'torch.cat([x[:, :1], FourierEncoder(1, 1, phases=("cos", "sin"))(x[:, 1:])], -1)',
        "released/jaxpi PeriodEmbs, axis 1 of 2"),
]  # fmt: skip

IMAGES = [
    Equivalent("MoGe, coordinates of the view plane",
        "grid_positions((6, 9), units='longer', xy=True) * 9 / (6**2 + 9**2) ** 0.5",
        "released/MoGe view plane uv"),
    Equivalent("neuraloperator, GridEmbedding2D",
        "grid_positions((5, 4)).flatten(0, 1) / torch.tensor([5.0, 4.0])",
        "released/neuraloperator GridEmbedding2D"),
    Equivalent("OPE-SR, orthogonal position encoding",
        "(axes[:, 0, :, None] * axes[:, 1, None]).flatten(1)",
        "released/OPE-SR orthogonal position encoding",
        setup="waves = FourierEncoder(1, frequencies=linear_bands(3, first=pi, last=3 * pi), "
        'layout="akp", phases=("cos", "sin"))(x[..., None])\n'
        "axes = F.pad(2**0.5 * waves, (1, 0), value=1.0)"),
    Equivalent("SAM 2, prompts that are boxes",
        "torch.cat([GridSinusoidalEncoder(64)(2 * pi * x[:, [1, 0]]), x[:, [3, 2]]], -1)",
        "released/SAM 2 prompts as boxes (encode_boxes)"),
    Equivalent("SAM 2, Hiera: a table for all plus tiles of a window",
        "LearnedGridEncoder.from_table(big[0].flatten(1).T, (3, 3)).table((8, 8)) + win.tile((1, "
        "1, 2, 2))[0].flatten(1).T", "released/SAM 2 Hiera, window and global positions"),
    Equivalent("PixArt (base_size 64, interpolation_scale 2)",
        'preset("diffusers", 16, base_size=64, position_scale=2).table((8, 8)).flatten(0, 1)',
        "library/diffusers-2d-sincos/output_8_8_64_2"),
    Equivalent("Prithvi-EO, years and days", 'GridSinusoidalEncoder(64, 2, layout="apk")(times)',
        "library/prithvi/output_times", tolerance=3e-4, remark=FLOAT32),
    Equivalent("PETR, PETRv2, StreamPETR, pos2posemb3d of reference points in [0, 1]",
        "GridSinusoidalEncoder(dim, 3, axis_order=(1, 0, 2))(2 * pi * points)",
        "library/petr/output_features", setup="dim = 48", tolerance=4e-6, remark=FLOAT32),
    Equivalent("Conditional DETR, DAB-DETR, DINO: boxes (cx, cy, w, h) of queries",
        "GridSinusoidalEncoder(dim, 4)(2 * pi * boxes[..., [1, 0, 2, 3]])",
        "library/detr-anchors/output_boxes", setup="dim = 64", tolerance=4e-6, remark=FLOAT32),
    Equivalent("Deformable DETR, proposals",
        "GridSinusoidalEncoder(64, 4)(2 * pi * logits.sigmoid())",
        "library/detr-anchors/output_proposals", tolerance=4e-6, remark=FLOAT32),
    Equivalent("SAM, random features of an image's grid and of its points",
        "GaussianEncoder(2, matrix=matrix)(grid_positions(shape, units='box', xy=True))"
        ".movedim(-1, 0)",
        "library/sam/output_grid", setup="matrix, shape = matrix.T, (5, 5)"),
    Equivalent("BEVFormer, DETR: learned rows and columns", "encoder.table(shape)",
        "released/DETR / BEVFormer learned rows and columns",
        setup="dim, shape = 16, (3, 5)\n"
        "encoder = LearnedAxialEncoder((50, 50), dim, axis_order=(1, 0))\n"
        'encoder.load_state_dict({"codes.0": rr, "codes.1": ce})'),
    Equivalent("UniDepthV2, rays by sines alone",
        "FourierEncoder(2, frequencies=ratio_bands(256, first=pi, ratio=320 ** (1 / 255)), "
        'layout="pak", phases=("sin",))(x)', "released/UniDepthV2 ray embedding, sines alone",
        tolerance=1e-3, remark=FLOAT32),
    Equivalent("perceiver-pytorch, each coordinate behind its own waves",
        'FourierEncoder(2, frequencies=linear_bands(6, first=pi, last=5 * pi), layout="apk", '
        'include_input="each")(x)', "released/perceiver-pytorch fourier_encode", tolerance=3e-6,
        remark="the numbers are float32"),
    Equivalent("LTE, local texture features",
        "coef * sincos((x[:, :, None] * freq.unflatten(-1, (-1, 2)).movedim(-1, -2))"
        '.sum(-2) + cellp, torch.tensor([pi]), layout="pka", phases=("cos", "sin"))',
        "released/LTE local texture features"),
    Equivalent("LoFTR, PositionEncodingSine with the bug",
        "FourierEncoder(2, frequencies=ratio_bands(4, first=1.0, ratio=torch.tensor(-2.0).exp()"
        '.item()), layout="kap")(grid_positions((5, 6)).flip(-1) + 1.0).movedim(-1, 0)',
        "library/loftr/output_buggy"),
    Equivalent(
        "ViT, CLIP, SigLIP, DINOv2, InternViT (InternVL): learned positions of a checkpoint, "
        "at another size", "LearnedGridEncoder.from_table(table, trained_shape).table(shape)",
        "library/position-table-transformers/output_vit",
        setup="trained_shape, shape = (4, 4), (6, 7)"),
    Equivalent("timm resample_abs_pos_embed", "resize_positions(table, shape, antialias=True)",
        "library/position-table-timm/output_6_7_antialias", setup="shape = (6, 7)"),
    Equivalent("DINOv2, first release (offset 0.1)",
        "LearnedGridEncoder.from_table(table, (4, 4)).table((6, 7), scale_offset=0.1)",
        "library/position-table-dinov2/output_6_7_offset_0.1"),
    Equivalent("Qwen3-VL, resized table",
        'LearnedGridEncoder.from_table(table, (4, 4)).table((6, 7), mode="bilinear", '
        "align_corners=True)[1:]", "library/position-table-qwen3-vl/output"),
    Equivalent("SAM and MViTv2, get_rel_pos",
        "encoder.table(9, interpolate=True, align_corners=False)[torch.arange(5)[:, None] - "
        "torch.arange(5) + 4]", "library/position-table-sam/output",
        setup="encoder = LearnedPositionEncoder(5, 3)\n"
        "encoder.codes.data = table"),
]  # fmt: skip

GEOGRAPHY = [
    Equivalent("CorrDiff, PhysicsNeMo SongUNetPosEmbd: sinusoidal grid",
        'FourierEncoder(2, frequencies=ratio_bands(3, first=1.0, ratio=2**1.5), layout="kpa")'
        '(pi * (1 + torch.stack(torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 4), '
        'indexing="xy"), -1))).movedim(-1, 0)',
        "released/PhysicsNeMo SongUNetPosEmbd, sinusoidal grid (CorrDiff)", tolerance=5e-6,
        remark="the library computes in float32"),
    Equivalent("Sphere2Vec, TorchSpatial",
        'Sphere2VecEncoder(4, unit="degrees", kind="sphereC+", min_radius=0.01, '
        "max_radius=360.0)(lonlat)", "library/torchspatial-encoders/output_spherecplus"),
    Equivalent("Sphere2Vec, TorchSpatial: sphereC",
        'Sphere2VecEncoder(4, unit="degrees", kind="sphereC", min_radius=0.01, '
        "max_radius=360.0)(lonlat)", "library/torchspatial-encoders/output_spherec"),
    Equivalent("Sphere2Vec, TorchSpatial: sphereM",
        'Sphere2VecEncoder(4, unit="degrees", kind="sphereM", min_radius=0.01, '
        "max_radius=360.0)(lonlat)", "library/torchspatial-encoders/output_spherem"),
    Equivalent("Sphere2Vec, TorchSpatial: sphereM+",
        'Sphere2VecEncoder(4, unit="degrees", kind="sphereM+", min_radius=1.0, '
        "max_radius=360.0)(lonlat)", "library/torchspatial-encoders/output_spheremplus",
        remark="the library ignores min_radius here"),
    Equivalent("Sphere2Vec, TorchSpatial: dfs",
        'Sphere2VecEncoder(4, unit="degrees", kind="dfs", min_radius=1.0, max_radius=360.0)'
        "(lonlat)", "library/torchspatial-encoders/output_dft",
        remark="the library ignores min_radius here"),
    Equivalent("e3nn spherical_harmonics, normalization='component'",
        "(4 * pi) ** 0.5 * SphericalHarmonicsEncoder(6, condon_shortley=False)(directions[..., "
        "[2, 0, 1]])", "library/e3nn/output_component"),
    Equivalent("SatCLIP, spherical harmonics of 40 degrees",
        "SphericalHarmonicsEncoder(40)(-directions_from_degrees(lonlat))",
        "library/satclip-spherical-harmonics/output_closed_form_40", setup="lonlat = lonlat[::3]"),
    Equivalent("SatCLIP, spherical harmonics of 10 degrees",
        "SphericalHarmonicsEncoder(10)(-directions_from_degrees(lonlat))",
        "library/satclip-spherical-harmonics/output_closed_form_10"),
    Equivalent("GraphCast, GenCast: spatial features of nodes",
        'FourierEncoder(3, frequencies=ratio_bands(10, first=1.0, ratio=1.2), layout="apk")'
        '(sincos(lonlat * (pi / 180), torch.ones(1), layout="pka")[..., [1, 2, 0]])',
        "library/graphcast/output_nodes"),
    Equivalent("GenCast, logarithms of noise levels",
        'FourierEncoder(1, frequencies=linear_bands(32, first=pi / 8, last=4 * pi), phases=("cos", '
        '"sin"), layout="apk")(values[:, None])', "library/graphcast/output_noise"),
    Equivalent("GeoCLIP, random features of sigma 16 on the Equal Earth projection",
        'GaussianEncoder(2, matrix=16 * matrix, phases=("cos", "sin"))(equal_earth(lonlat))',
        "library/geoclip/output_gaussian_16", setup="lonlat = latlon.flip(-1)"),
    Equivalent("GeoCLIP, Equal Earth projection", "equal_earth(lonlat)",
        "library/geoclip/output_projected", setup="lonlat = latlon.flip(-1)"),
]  # fmt: skip

TIME = [
    Equivalent("Galileo, months",
        "FourierEncoder(1, frequencies=period_bands(12))(torch.arange(12.0)[:, None])"
        ".repeat_interleave(4, -1)", "released/Galileo, months"),
    Equivalent("PINA, PeriodicBoundaryEmbedding",
        'F.pad(FourierEncoder(2, frequencies=period_bands(2, 5), layout="pka", phases=("cos", '
        '"sin"))(x), (2, 0), value=1.0)', "released/PINA PeriodicBoundaryEmbedding"),
    Equivalent("feature-engine, CyclicalFeatures",
        "FourierEncoder(3, frequencies=period_bands(24, 7, 365))(times)",
        "library/calendar/output_given"),
]  # fmt: skip

WAVES = [
    Equivalent("tiny-cuda-nn and torch-ngp, SphericalHarmonics",
        "SphericalHarmonicsEncoder(3)(2 * x - 1)", "encoding/tcnn.SphericalHarmonics"),
    Equivalent("nerfstudio, SHEncoding", "SphericalHarmonicsEncoder(3, condon_shortley=False)(x)",
        "encoding/nerfstudio.SHEncoding"),
]  # fmt: skip
