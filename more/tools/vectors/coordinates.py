"""Encodings of coordinates: fields, images, the globe, time, tables of positions, rays."""

import ast
import importlib.metadata
import itertools
import math
import tempfile
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from more.tools.vectors.harness import Arrays, Libraries, definitions, entry


def multinerf(libraries: Libraries, name: str) -> Any:
    """Import a module of multinerf, in 64-bit JAX; numpy 2 has no np.math, which it uses."""
    importlib.import_module("jax").config.update("jax_enable_x64", True)
    vars(np).setdefault("math", math)
    return libraries.module("google-research/multinerf", "", f"internal.{name}")


Record = types.SimpleNamespace


def tensor(values: Any) -> torch.Tensor:
    """Return a float64 tensor."""
    return torch.as_tensor(np.asarray(values), dtype=torch.float64)


def points(seed: int, *shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    """Return uniform random float64 points."""
    return tensor(np.random.default_rng(seed).uniform(low, high, shape))


def covariances(seed: int, count: int, scale: float) -> torch.Tensor:
    """Return full random covariance matrices [count, 3, 3]."""
    root = points(seed, count, 3, 3) * scale
    return root @ root.mT


def lonlat() -> torch.Tensor:
    """Return longitudes and latitudes in degrees, with the poles and the date line among them."""
    special = [[0.0, 0.0], [180.0, 0.0], [-180.0, 45.0], [90.0, -90.0], [-45.0, 90.0], [12.5, 41.9]]
    rng = np.random.default_rng(5)
    others = np.stack([rng.uniform(-180, 180, 10), rng.uniform(-90, 90, 10)], -1)
    return tensor(np.concatenate([np.array(special), others]))


def cameras() -> tuple[torch.Tensor, torch.Tensor]:
    """Return intrinsics [2, 4] (fx, fy, cx, cy) and camera-to-world matrices [2, 4, 4]."""
    cos, sin = math.cos(0.4), math.sin(0.4)
    poses = np.stack([np.eye(4), np.eye(4)])
    poses[1, :3, :3] = [[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]]
    poses[:, :3, 3] = [[0.1, -0.2, 0.3], [1.0, 2.0, -0.5]]
    return tensor([[5.0, 6.0, 2.0, 1.5], [4.0, 4.0, 2.5, 1.0]]), tensor(poses)


# Every configuration of NeRFEncoding in nerfstudio: in_dim, num_frequencies, min_freq_exp,
# max_freq_exp, include_input.
NERFSTUDIO = {
    "nerfstudio_vanilla_position": (3, 10, 0.0, 8.0, True),  # models/vanilla_nerf.py
    "nerfstudio_vanilla_direction": (3, 4, 0.0, 4.0, True),  # and models/mipnerf.py
    "nerfstudio_vanilla_time": (1, 10, 0.0, 8.0, True),  # field_components/temporal_distortions.py
    "nerfstudio_mipnerf": (3, 16, 0.0, 16.0, True),  # models/mipnerf.py
    "nerfstudio_tensorf": (3, 2, 0, 2, False),  # models/tensorf.py, directions
    "nerfstudio_nerfacto": (3, 2, 0, 1, False),  # fields/nerfacto_field.py
    "nerfstudio_sdf_position": (3, 6, 0.0, 5.0, False),  # fields/sdf_field.py
    "nerfstudio_sdf_direction": (3, 4, 0.0, 3.0, True),  # and models/base_surface_model.py
    "nerfstudio_surface_background": (3, 10, 0.0, 9.0, True),  # models/base_surface_model.py
}


def nerfstudio(libraries: Libraries) -> Any:
    """Import nerfstudio's encodings."""
    return libraries.installed("nerfstudio.field_components.encodings", "viser")


def nerfstudio_frequencies(libraries: Libraries, options: dict[str, Any]) -> Arrays:
    """Features of points, and of Gaussians in three dimensions."""
    encoding = nerfstudio(libraries).NeRFEncoding(**options)
    x, covs = points(1, 6, options["in_dim"]), covariances(2, 6, 0.02)
    arrays: Arrays = dict(input_points=x, output_features=encoding(x))
    if options["in_dim"] == 3:
        arrays |= dict(input_covs=covs, output_integrated=encoding(x, covs=covs))
    return arrays


for _name, _values in NERFSTUDIO.items():
    _keys = ("in_dim", "num_frequencies", "min_freq_exp", "max_freq_exp", "include_input")
    _options = dict(zip(_keys, _values, strict=True))
    _text = ", ".join(f"{key}={value}" for key, value in _options.items())
    _call = f"NeRFEncoding({_text})(points), (points, covs=covs)"
    entry(_name.replace("_", "-"), call=_call)(partial(nerfstudio_frequencies, options=_options))


@entry("nerfstudio-rff")
def nerfstudio_rff(libraries: Libraries) -> Arrays:
    """RFFEncoding(3, 8, scale=2.0, include_input=True)(points, covs=covs).

    Also PolyhedronFFEncoding(2, 0.0, 1.0, "icosahedron", 2).
    """
    torch.manual_seed(0)
    encoding = nerfstudio(libraries).RFFEncoding(3, 8, scale=2.0, include_input=True)
    x, covs = points(1, 6, 3), covariances(2, 6, 0.02)
    polyhedron = nerfstudio(libraries).PolyhedronFFEncoding(2, 0.0, 1.0, "icosahedron", 2).double()
    inputs = dict(input_points=x, input_covs=covs, input_basis=encoding.b_matrix)
    return inputs | dict(
        output_features=encoding(x),
        output_integrated=encoding(x, covs=covs),
        output_polyhedron_basis=polyhedron.b_matrix,
        output_polyhedron=polyhedron(x, covs=covs),
    )


@entry("nerfstudio-kplanes")
def nerfstudio_kplanes(libraries: Libraries) -> Arrays:
    """KPlanesEncoding(resolution, num_components=3, reduce='product' or 'sum')(points)."""
    arrays: Arrays = {}
    for resolution in ((4, 5, 6), (4, 5, 6, 3)):
        n = len(resolution)
        x = points(3, 10, n, low=-1.1, high=1.1)
        arrays[f"input_points_{n}d"] = x
        for reduce in ("product", "sum"):
            encoding = nerfstudio(libraries).KPlanesEncoding(
                resolution, num_components=3, reduce=reduce
            )
            for i, plane in enumerate(encoding.plane_coefs):
                pair = "".join("xyzt"[axis] for axis in encoding.coo_combs[i])
                plane.data = points(10 + i, *plane.shape, low=0.1, high=1.5)
                arrays[f"input_plane_{n}d_{pair}"] = plane.data
            arrays[f"output_{reduce}_{n}d"] = encoding(x)
    return arrays


@entry("hexplane")
def hexplane(libraries: Libraries) -> Arrays:
    """HexPlane.compute_densityfeature with the default fusion and an identity density_basis_mat."""
    path, name = "hexplane/model/HexPlane.py", "HexPlane.compute_densityfeature"
    method = libraries.definitions("Caoang327/HexPlane", path, name).compute_densityfeature
    pairs, singles, sizes, arrays = [[0, 1], [0, 2], [1, 2]], [2, 1, 0], (4, 5, 6), {}
    for i, (a, b) in enumerate(pairs):
        arrays[f"input_plane_{'xyz'[a]}{'xyz'[b]}"] = points(20 + i, 1, 2, sizes[b], sizes[a])
        line = points(30 + i, 1, 2, sizes[singles[i]], 3)
        arrays[f"input_plane_t{'xyz'[singles[i]]}"] = line
    model = Record(matMode=pairs, vecMode=singles, align_corners=True)
    planes = list(arrays.values())
    model.density_plane, model.density_line_time = planes[::2], planes[1::2]
    model.fusion_one, model.fusion_two = "multiply", "concat"
    model.density_basis_mat = lambda features: features
    x, time = points(3, 8, 3), points(4, 8, 1)
    return arrays | dict(input_points=x, input_time=time, output_features=method(model, x, time))


@entry("diffusers-2d-sincos", "positions float32, the rest float64; PatchEmbed rounds to float32")
def diffusers_2d_sincos(libraries: Libraries) -> Arrays:
    """get_2d_sincos_pos_embed(16, (H, W), base_size=, interpolation_scale=).

    They are stored as output_H_W_base_scale. As in SD3: PatchEmbed(16, 16, 2, 4, 16,
    pos_embed_max_size=12).cropped_pos_embed(10, 12).
    """
    module = libraries.installed("diffusers.models.embeddings")
    arrays: Arrays = {}
    for height, width, base, scale in ((14, 14, 16, 1), (7, 9, 16, 1), (8, 8, 64, 2)):
        arrays[f"output_{height}_{width}_{base}_{scale}"] = module.get_2d_sincos_pos_embed(
            16, (height, width), base_size=base, interpolation_scale=scale
        )
    patch = module.PatchEmbed(16, 16, 2, 4, 16, pos_embed_max_size=12)
    return arrays | dict(output_sd3_crop_5_6=patch.cropped_pos_embed(10, 12))


@entry("gligen-boxes")
def gligen_boxes(libraries: Libraries) -> Arrays:
    """get_fourier_embeds_from_boundingbox(8, boxes xyxy in [0, 1])."""
    function = libraries.installed(
        "diffusers.models.embeddings"
    ).get_fourier_embeds_from_boundingbox
    boxes = points(6, 1, 5, 4, low=0.0)
    return dict(input_boxes=boxes, output_features=function(8, boxes))


@entry("detr-sine", "float64; DAB-DETR float32")
def detr_sine(libraries: Libraries) -> Arrays:
    """{Detr,DeformableDetr}SinePositionEmbedding(16, normalize=...)(shape, mask=...).

    The shape is (1, 3, 5, 6); the mask is 1 where valid. Also {DabDetr,GroundingDino}... with
    temperature 20.
    """
    mask = torch.zeros(1, 5, 6, dtype=torch.bool)
    mask[:, :3, :4] = True
    arrays: Arrays = dict(input_mask=mask)
    shape, options = torch.Size((1, 3, 5, 6)), dict(device="cpu", dtype=torch.float64)
    for name, prefix in (("detr", "Detr"), ("deformable_detr", "DeformableDetr")):
        kind = getattr(libraries.model(name), f"{prefix}SinePositionEmbedding")
        for suffix, normalize in (("", True), ("_unnormalized", False)):
            sine = kind(16, normalize=normalize)
            arrays[f"output_{name}{suffix}"] = sine(shape, **options)
            arrays[f"output_{name}_masked{suffix}"] = sine(shape, **options, mask=mask)
    config = Record(hidden_size=32, temperature_height=20, temperature_width=20)
    config.sine_position_embedding_scale = None
    dab = libraries.model("dab_detr").DabDetrSinePositionEmbedding(config)
    config = Record(d_model=32, positional_embedding_temperature=20)
    dino = libraries.model("grounding_dino").GroundingDinoSinePositionEmbedding(config)
    arrays["output_grounding_dino_masked"] = dino(torch.zeros(1), mask)
    return arrays | dict(output_dab_detr_masked=dab(torch.zeros(1), mask))


@entry("detr-anchors", "bands float32, the rest float64; proposals float32")
def detr_anchors(libraries: Libraries) -> Arrays:
    """encode_sinusoidal_position_embedding(boxes cxcywh or points in [0, 1], num_pos_feats=16).

    Those of dab_detr and grounding_dino; and DeformableDetrModel.get_proposal_pos_embed(logits)
    with d_model=32.
    """
    encode = libraries.model("dab_detr").encode_sinusoidal_position_embedding
    dino = libraries.model("grounding_dino").encode_sinusoidal_position_embedding
    proposals = libraries.model("deformable_detr").DeformableDetrModel.get_proposal_pos_embed
    boxes, logits = points(7, 1, 6, 4, low=0.0), points(8, 1, 6, 4, low=-3.0, high=3.0)
    return dict(
        input_boxes=boxes,
        input_logits=logits,
        output_points=encode(boxes[..., :2], num_pos_feats=16),
        output_boxes=encode(boxes, num_pos_feats=16),
        output_one=encode(boxes[..., :1], num_pos_feats=16),
        output_grounding_dino=dino(boxes, num_pos_feats=16),
        output_proposals=proposals(Record(config=Record(d_model=32)), logits),
    )


@entry("sam")
def sam(libraries: Libraries) -> Arrays:
    """SamModel.get_image_wide_positional_embeddings() with image_embedding_size=5.

    Also, as in _embed_points, SamPositionalEmbedding(pixels + 0.5, (height 48, width 64)).
    """
    module = libraries.model("sam")
    embedding = module.SamPositionalEmbedding(Record(scale=1.0, num_pos_feats=8))
    matrix = points(9, 2, 8, low=-2.0, high=2.0)
    embedding.positional_embedding.data = matrix
    config = Record(prompt_encoder_config=Record(image_embedding_size=5))
    model = Record(shared_image_embedding=embedding, config=config)
    pixels = points(10, 1, 2, 4, 2, low=0.0, high=47.0)
    grid = module.SamModel.get_image_wide_positional_embeddings(model)
    features = embedding(pixels + 0.5, (48, 64))
    arrays = dict(input_matrix=matrix, input_pixels=pixels)
    return arrays | dict(output_grid=grid, output_points=features)


@entry("boltz", "default dtype, here float64")
def boltz(libraries: Libraries) -> Arrays:
    """FourierEmbedding(32)(times), as AlphaFold 3's algorithm 22."""
    name = "boltz.model.modules.encoders"
    module = libraries.module("jwohlwend/boltz", "src", name, "fairscale")
    embedding, times = module.FourierEmbedding(32), points(16, 9, low=-3.0, high=3.0)
    matrix, offsets = embedding.proj.weight, embedding.proj.bias
    return dict(
        input_times=times[:, None],
        input_matrix=matrix,
        input_offsets=offsets,
        output_features=embedding(times),
    )


@entry("edm2", "float32")
def edm2(libraries: Libraries) -> Arrays:
    """MPFourier(32, bandwidth=0.5)(noise)."""
    module = libraries.module("NVlabs/edm2", "", "training.networks_edm2")
    embedding, noise = module.MPFourier(32, bandwidth=0.5), points(17, 9, low=-3.0, high=3.0)
    return dict(
        input_noise=noise[:, None],
        input_freqs=embedding.freqs,
        input_phases=embedding.phases,
        output_features=embedding(noise),
    )


@entry("loftr")
def loftr(libraries: Libraries) -> Arrays:
    """PositionEncodingSine(16, (5, 6), temp_bug_fix=True or False).pe."""
    module = libraries.file("zju3dv/LoFTR", "src/loftr/utils/position_encoding.py")
    table = {fix: module.PositionEncodingSine(16, (5, 6), temp_bug_fix=fix).pe for fix in (1, 0)}
    return dict(output_fixed=table[1], output_buggy=table[0])


@entry("mipnerf360-basis")
def mipnerf360_basis(libraries: Libraries) -> Arrays:
    """geopoly.generate_basis(shape, tesselation), [n, 3]."""
    generate = multinerf(libraries, "geopoly").generate_basis
    cases = (("icosahedron", 1), ("icosahedron", 2), ("octahedron", 1), ("octahedron", 2))
    arrays = {f"output_{shape}_{n}": generate(shape, n) for shape, n in cases}
    return arrays | dict(output_octahedron_2_both=generate("octahedron", 2, False))


@entry("mipnerf360-contract")
def mipnerf360_contract(libraries: Libraries) -> Arrays:
    """coord.contract(points), inv_contract(contract(points)), track_linearize(contract, ...)."""
    module = multinerf(libraries, "coord")
    x = np.concatenate([points(11, 6, 3, low=-0.5, high=0.5), points(12, 10, 3, low=-6, high=6)])
    x[0] = 0.0
    covs = covariances(13, 16, 0.3).numpy()
    z = module.contract(x)
    means, out = module.track_linearize(module.contract, x, covs)
    outputs = dict(output_contracted=z, output_mean=means, output_covs=out)
    return outputs | dict(input_points=x, input_covs=covs, output_inverse=module.inv_contract(z))


@entry("mipnerf360-ipe")
def mipnerf360_ipe(libraries: Libraries) -> Arrays:
    """lift_and_diagonalize(means, covs, generate_basis('icosahedron', 2).T).

    Then integrated_pos_enc(mean, variance, 0, 4). Also pos_enc(points, 0, 4).
    """
    module = multinerf(libraries, "coord")
    basis = np.ascontiguousarray(multinerf(libraries, "geopoly").generate_basis("icosahedron", 2).T)
    x, covs = points(14, 6, 3, low=-2, high=2).numpy(), covariances(15, 6, 0.3).numpy()
    means, variances = module.lift_and_diagonalize(x, covs, basis)
    diagonal = np.diagonal(covs, axis1=-2, axis2=-1)
    outputs = dict(output_lifted_mean=means, output_lifted_variance=variances)
    return outputs | dict(
        input_points=x,
        input_covs=covs,
        output_lifted=module.integrated_pos_enc(means, variances, 0, 4),
        output_diagonal=module.integrated_pos_enc(x, diagonal, 0, 4),
        output_plain=module.pos_enc(x, 0, 4),
    )


@entry("refnerf-ide")
def refnerf_ide(libraries: Libraries) -> Arrays:
    """ref_utils.generate_ide_fn(n)(directions, kappa_inv) for n = 1...5, generate_dir_enc_fn(4)."""
    module = multinerf(libraries, "ref_utils")
    x = points(16, 8, 3).numpy()
    x = np.concatenate([x / np.linalg.norm(x, axis=-1, keepdims=True), np.eye(3), -np.eye(3)[2:]])
    kappa_inv = np.linspace(1.5, 0.0, len(x))[:, None]
    arrays: Arrays = dict(input_directions=x, input_kappa_inv=kappa_inv)
    for n in range(1, 6):
        arrays[f"output_ide_{n}"] = module.generate_ide_fn(n)(x, kappa_inv)
        arrays[f"output_order_and_degree_{n}"] = module.get_ml_array(n)
    return arrays | dict(output_dir_enc_4=module.generate_dir_enc_fn(4)(x))


@entry("torch-ngp-frequency")
def torch_ngp_frequency(libraries: Libraries) -> Arrays:
    """FreqEncoder(3, max_freq_log2=3, N_freqs=4, log_sampling=False or True)(points)."""
    encoder = libraries.file("ashawkey/torch-ngp", "encoding.py").FreqEncoder
    x = points(1, 6, 3)
    linear, log = (encoder(3, 3, 4, log_sampling=value)(x) for value in (False, True))
    return dict(input_points=x, output_linear=linear, output_log=log)


@entry("satclip-spherical-harmonics")
def satclip_spherical_harmonics(libraries: Libraries) -> Arrays:
    """SH(m, l, radians(lon + 180), radians(lat + 90)) for l < L and m = -l...l.

    The closed form has L = 10, and 40 for every third point; the analytic form (calc_ylm of the
    generator of spherical_harmonics_ylm.py) has L = 10.
    """
    repository, folder = "microsoft/satclip", "satclip/positional_encoding"
    closed = libraries.file(repository, f"{folder}/spherical_harmonics_closed_form.py").SH
    sympy = importlib.import_module("sympy")
    path, names = f"{folder}/spherical_harmonics_generate_ylms.py", "theta phi calc_ylm"
    given = {name: getattr(sympy, name) for name in sympy.__all__}
    generator = libraries.definitions(repository, path, names, **given)

    def analytic(m: int, degree: int, phi: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
        text = str(generator.calc_ylm(degree, m).evalf())
        space = dict(theta=theta, phi=phi, cos=torch.cos, sin=torch.sin)
        value: torch.Tensor = eval(text, space) * torch.ones_like(phi)
        return value

    def encode(function: Callable[..., torch.Tensor], polys: int, x: torch.Tensor) -> torch.Tensor:
        phi, theta = torch.deg2rad(x[:, 0] + 180), torch.deg2rad(x[:, 1] + 90)
        pairs = ((m, degree) for degree in range(polys) for m in range(-degree, degree + 1))
        return torch.stack([function(m, degree, phi, theta) for m, degree in pairs], -1)

    x = lonlat()
    return dict(
        input_lonlat=x,
        output_closed_form_10=encode(closed, 10, x),
        output_closed_form_40=encode(closed, 40, x[::3]),
        output_analytic_10=encode(analytic, 10, x),
    )


@entry("torchspatial-encoders")
def torchspatial_encoders(libraries: Libraries) -> Arrays:
    """The position encoders' make_output_embeds(values [n, 1, 2]) of (lon, lat) in degrees.

    With frequency_num=4, min_radius=0.01, max_radius=360.
    """
    module = libraries.module("seai-lab/TorchSpatial", "main", "SpatialRelationEncoder", "paths")
    x = lonlat().numpy()
    arrays: Arrays = dict(input_lonlat=x, input_rbf_anchors=x[::2] + 3.0)

    def encode(name: str, *values: Any, **options: Any) -> Any:
        encoder = getattr(module, f"{name}SpatialRelationPositionEncoder")
        # A copy, since wrap normalizes its argument in place.
        return encoder(*values, device="cpu", **options).make_output_embeds(x[:, None].copy())[:, 0]

    names = dict(grid="GridCell", theory="TheoryGridCell", spherec="Sphere", dft="DFT")
    names |= dict(spherecplus="SphereGird", spherem="SphereMixScale")
    names |= dict(spheremplus="SphereGridMixScale")
    for name, prefix in names.items():
        value = encode(prefix, frequency_num=4, min_radius=0.01, max_radius=360)
        arrays[f"output_{name}"] = value
    arrays["output_nerf"] = encode("NERF", frequency_num=4)
    arrays["output_xyz"] = encode("XYZ")
    arrays["output_wrap"] = encode("AodhaFFT", (-180, 180, -90, 90), do_pos_enc=True)
    rbf = dict(num_rbf_anchor_pts=8, rbf_kernel_size=40.0, rbf_anchor_pt_ids=list(range(8)))
    return arrays | dict(output_rbf=encode("RBF", "global", arrays["input_rbf_anchors"], **rbf))


@entry("geoclip")
def geoclip(libraries: Libraries) -> Arrays:
    """equal_earth_projection((lat, lon) in degrees); gaussian_encoding(projected, matrix * sigma).

    Also positional_encoding(projected, 2.0, 4) of rff/functional.py.
    """
    repository, folder = "VicenteVivan/geo-clip", "geoclip/model"
    names = "A1 A2 A3 A4 SF equal_earth_projection"
    file = libraries.definitions(repository, f"{folder}/location_encoder.py", names)
    functional = libraries.file(repository, f"{folder}/rff/functional.py")
    latlon, matrix = lonlat().flip(-1), points(17, 5, 2, low=-2.0, high=2.0)
    projected = file.equal_earth_projection(latlon)
    arrays: Arrays = dict(input_latlon=latlon, input_matrix=matrix, output_projected=projected)
    for sigma in (2**0, 2**4, 2**8):
        arrays[f"output_gaussian_{sigma}"] = functional.gaussian_encoding(projected, matrix * sigma)
    return arrays | dict(output_positional=functional.positional_encoding(projected, 2.0, 4))


@entry("calendar")
def calendar(libraries: Libraries) -> Arrays:
    """CyclicalFeatures(max_values=None or {hour: 24, weekday: 7, dayofyear: 365}).fit_transform."""
    times = dict(hour=[0, 1, 6, 13, 23], weekday=[0, 1, 3, 5, 6], dayofyear=[1, 59, 60, 200, 365])
    frame = importlib.import_module("pandas").DataFrame(times)
    make = libraries.installed(
        "feature_engine.creation", distribution="feature-engine"
    ).CyclicalFeatures
    periods = dict(hour=24, weekday=7, dayofyear=365)
    given = make(max_values=periods, drop_original=True).fit_transform(frame.copy())
    fitted = make(drop_original=True).fit_transform(frame.copy())
    return dict(input_times=frame, output_given=given, output_fitted=fitted)


@entry("position-table-transformers", "ViT and CLIP float64, DINOv2 float32")
def position_table_transformers(libraries: Libraries) -> Arrays:
    """{ViT,Dinov2,CLIPVision}Embeddings.interpolate_pos_encoding, 4x4 to 6x7."""
    table = points(19, 1, 17, 3)
    arrays: Arrays = dict(input_table=table)
    sizes = dict(hidden_size=3, num_attention_heads=1)
    for name, prefix in dict(vit="ViT", dinov2="Dinov2", clip="CLIPVision").items():
        config = getattr(libraries.model(name), f"{prefix}Config")
        kind = getattr(libraries.model(name), f"{prefix}Embeddings")
        layer = kind(config(image_size=16, patch_size=4, **sizes))
        if name == "clip":
            layer.position_embedding.weight.data = table[0]
        else:
            layer.position_embeddings.data = table
        arrays[f"output_{name}"] = layer.interpolate_pos_encoding(torch.zeros(1, 43, 3), 24, 28)
    return arrays


@entry("position-table-timm", "float32")
def position_table_timm(libraries: Libraries) -> Arrays:
    """resample_abs_pos_embed(table, size, antialias=True or False), 4x4 to 6x7 and 3x2."""
    table = points(19, 1, 17, 3)
    resample = libraries.installed("timm.layers.pos_embed", "torchvision").resample_abs_pos_embed
    arrays: Arrays = dict(input_table=table)
    for (height, width), antialias in itertools.product(((6, 7), (3, 2)), (True, False)):
        name = f"output_{height}_{width}" + "_antialias" * antialias
        arrays[name] = resample(table, [height, width], antialias=antialias)
    return arrays


@entry("position-table-dinov2", "float32")
def position_table_dinov2(libraries: Libraries) -> Arrays:
    """DinoVisionTransformer.interpolate_pos_encoding, 4x4 to 6x7 and 3x2.

    With interpolate_offset 0.1 or 0.0 and interpolate_antialias False or True.
    """
    path, name = "dinov2/models/vision_transformer.py", "DinoVisionTransformer"
    names = f"{name}.interpolate_pos_encoding"
    method = libraries.definitions("facebookresearch/dinov2", path, names).interpolate_pos_encoding
    table = points(19, 1, 17, 3)
    arrays: Arrays = dict(input_table=table)
    for offset, antialias, size in itertools.product((0.1, 0.0), (True, False), ((6, 7), (3, 2))):
        model = Record(pos_embed=table, patch_size=4)
        model.interpolate_offset, model.interpolate_antialias = offset, antialias
        tokens = torch.zeros(1, 1 + size[0] * size[1], 3)
        name = f"output_{size[0]}_{size[1]}_offset_{offset:g}" + "_antialias" * antialias
        arrays[name] = method(model, tokens, 4 * size[0], 4 * size[1])
    return arrays


@entry("fope", "float32")
def fope(libraries: Libraries) -> Arrays:
    """FourierEmbedding(config)(queries, 16) with the settings of the released configurations.

    But d_model=48, n_heads=2, max_sequence_length=1024; seeded coefficients.
    """
    given = dict(ModelConfig=object, BufferCache=dict)
    module = libraries.definitions(
        "TsinghuaC3I/Fourier-Position-Embedding",
        "olmo/model.py",
        "RotaryEmbedding FourierEmbedding",
        _non_meta_init_device=lambda config: torch.device("cpu"),
        **given,
    )
    false = """rope_no_pos rope_no_repetition rope_learnable rope_include_neg_freq len_extra
        rope_clamp_upper_freq rope_clamp_to_linear fourier_learnable fourier_norm"""
    true = """rope_full_precision rope_clamp_floor_freq rope_clamp_floor_to_zero fourier
        rope_clamp_upper_to_zero fourier_separate_basis fourier_separate_head fourier_ignore_zero"""
    config = Record(**dict.fromkeys(false.split(), False), **dict.fromkeys(true.split(), True))
    config.rope_init_distribution, config.rope_theta = "exponential", 10_000
    config.rope_init_floor_freq, config.rope_init_upper_freq = 0.0, 1.0
    config.rope_floor_freq_ratio, config.rope_upper_freq_ratio = 1.0, 1.0
    config.rope_clamp_to_linear_mode, config.rope_zero_freq_ratio = "ceil", -1.0
    config.fourier_init, config.fourier_init_norm_gain = "eye_xavier_norm", 0.3
    config.fourier_dim, config.d_model, config.n_heads, config.max_sequence_length = 0, 48, 2, 1024
    torch.manual_seed(0)
    layer = module.FourierEmbedding(config, {})
    queries = points(21, 1, 2, 16, 24)
    arrays = dict(input_sin_coef=layer.sin_coef, input_cos_coef=layer.cos_coef)
    arrays |= dict(input_queries=queries, output_queries=layer(queries, 16))
    return arrays | dict(output_frequencies=layer.inv_freq)


@entry("plucker-cameractrl")
def plucker_cameractrl(libraries: Libraries) -> Arrays:
    """ray_condition(intrinsics, poses, 3, 4, 'cpu')."""
    intrinsics, poses = cameras()

    def custom_meshgrid(*values: torch.Tensor) -> Any:
        return torch.meshgrid(*values, indexing="ij")

    path, given = "cameractrl/data/dataset.py", dict(custom_meshgrid=custom_meshgrid)
    module = libraries.definitions("hehao13/CameraCtrl", path, "ray_condition", **given)
    rays = module.ray_condition(intrinsics[None], poses[None], 3, 4, "cpu")
    return dict(input_intrinsics=intrinsics, input_poses=poses, output_rays=rays[0])


@entry("plucker-diffusers")
def plucker_diffusers(libraries: Libraries) -> Arrays:
    """pipelines/sana_wm/cam_utils.py: compute_raymap(intrinsics, poses, 3, 4)."""
    path = Path(libraries.installed("diffusers").__file__).parent / "pipelines/sana_wm/cam_utils.py"
    intrinsics, poses = cameras()
    rays = definitions(path, "compute_raymap").compute_raymap(intrinsics, poses, 3, 4)
    return dict(input_intrinsics=intrinsics, input_poses=poses, output_rays=rays)


@entry("plucker-lfn")
def plucker_lfn(libraries: Libraries) -> Arrays:
    """geometry.plucker_embedding(poses, pixels, intrinsics as matrices)."""
    names = "get_ray_origin expand_as parse_intrinsics lift world_from_xy_depth"
    names += " get_ray_directions plucker_embedding"
    module = libraries.definitions("vsitzmann/light-field-networks", "geometry.py", names)
    intrinsics, poses = cameras()
    matrices = torch.eye(4).repeat(2, 1, 1)
    matrices[:, 0, 0], matrices[:, 1, 1] = intrinsics[:, 0], intrinsics[:, 1]
    matrices[:, :2, 2] = intrinsics[:, 2:]
    pixels = points(22, 2, 6, 2, low=0.0, high=3.0)
    rays = module.plucker_embedding(poses, pixels, matrices)
    arrays = dict(input_intrinsics=intrinsics, input_poses=poses, input_pixels=pixels)
    return arrays | dict(output_rays=rays)


@entry("physicsnemo", "float32 frequencies")
def physicsnemo(libraries: Libraries) -> Arrays:
    """FourierPositionalEmbedding(3, 4), SinusoidalTimestepEmbedding(10), and two more.

    FourierLayer(3, ["axis,diagonal", [0, 1, 2]]) and RotaryEmbedding2DTables(24, (3, 5)).
    """
    distribution = importlib.metadata.distribution("nvidia-physicsnemo")
    libraries.used.append(f"nvidia-physicsnemo {distribution.version}")
    folder = Path(str(distribution.locate_file("physicsnemo/nn/module")))
    given = dict(Module=torch.nn.Module, Float=Record())
    names = "SinusoidalTimestepEmbedding FourierPositionalEmbedding"
    embedding = _plain(folder / "embedding_layers.py", names, **given)
    layers = _plain(folder / "fourier_layers.py", "FourierLayer", **given)
    tables = _plain(folder / "rope.py", "build_axial_rope_cos_sin_2d", **given)
    x, times = points(31, 7, 3), points(32, 7)
    layer = layers.FourierLayer(3, ["axis,diagonal", [0.0, 1.0, 2.0]])
    cosine, sine = tables.build_axial_rope_cos_sin_2d(3, 5, 24)
    arrays = dict(input_points=x, input_times=times, input_matrix=layer.frequencies.T)
    return arrays | dict(
        output_positional=embedding.FourierPositionalEmbedding(3, 4)(x),
        output_times=embedding.SinusoidalTimestepEmbedding(10)(times),
        output_layer=layer(x),
        output_tables=torch.stack([cosine, sine]),
    )


@entry("e3nn")
def e3nn(libraries: Libraries) -> Arrays:
    """_spherical_harmonics(5, x, y, z) of unit vectors, which is normalization='component'."""
    distribution = importlib.metadata.distribution("e3nn")
    libraries.used.append(f"e3nn {distribution.version}")
    path = Path(str(distribution.locate_file("e3nn/o3/_spherical_harmonics.py")))
    directions = F.normalize(points(33, 9, 3), dim=-1)
    module = _plain(path, "_spherical_harmonics")
    harmonics = module._spherical_harmonics(5, *directions.unbind(-1))
    return dict(input_directions=directions, output_component=harmonics)


def _plain(path: Path, names: str, **given: Any) -> Any:
    """Definitions without the types of their arguments, which name what is not imported."""
    source = ast.parse(path.read_text())
    for node in ast.walk(source):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in node.args.args + node.args.kwonlyargs:
                argument.annotation = None
            node.decorator_list = [
                each for each in node.decorator_list if "script" not in ast.dump(each)
            ]
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / path.name
        stripped.write_text(ast.unparse(source))
        return definitions(stripped, names, **given)
