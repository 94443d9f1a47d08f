"""Defaults that a paper or a table of measurements gives, each with its source."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nerf_posenc as ne
from app import config
from app.options import Options
from nerf_posenc.networks import MLP, activations, implicit
from nerf_posenc.radiance import field_training, fields, occupancy, renderers
from nerf_posenc.radiance import recipes as fields_by_name
from nerf_posenc.training import image_model, optimizers, recipes, schedules

DEFAULTS: list[tuple[Callable[..., Any], str, Any, str]] = [
    (activations.Sine, "omega", 30.0, "SIREN (Sitzmann et al. 2020), section 3.2: omega_0 = 30"),
    (implicit.siren, "omega", 30.0, "SIREN, section 3.2"),
    (implicit.finer, "omega", 30.0, "FINER (Liu et al. 2024): omega_0 = 30, as in SIREN"),
    (implicit.gauss, "scale", 30.0, "FINER, comparison: Gaussian activations with s = 30"),
    (implicit.wire, "omega", 20.0, "WIRE (Saragadam et al. 2023): omega_0 = 20 for images"),
    (implicit.wire, "scale", 10.0, "WIRE: s_0 = 10 for images"),
    (
        implicit.MultiplicativeFilterNetwork,
        "input_scale",
        256.0,
        "MFN (Fathony et al. 2021), the authors' code: input_scale 256",
    ),
    (MLP, "width", 256, "Fourier features (Tancik et al. 2020), section 6: 4 layers of 256"),
    (MLP, "depth", 4, "Fourier features, section 6"),
    (ne.FourierEncoder, "num_bands", 10, "NeRF (Mildenhall et al. 2020), section 5.1: L = 10"),
    (ne.GaussianEncoder, "num_features", 256, "Fourier features, section 6: 256 frequencies"),
    (ne.GaussianEncoder, "sigma", 10.0, "Fourier features, section 6: sigma 10 for photographs"),
    (ne.SinusoidalEncoder, "base", 10_000.0, "Transformer (Vaswani et al. 2017), section 3.5"),
    (ne.RotaryEncoder, "base", 10_000.0, "RoFormer (Su et al. 2021), section 3.2.2"),
    (ne.XPosEncoder, "scale_base", 512.0, "xPos (Sun et al. 2023), the authors' code: 512"),
    (ne.XPosEncoder, "gamma", 0.4, "xPos, the authors' code: 0.4"),
    (ne.MixedRotaryEncoder, "base", 10.0, "RoPE-ViT (Heo et al. 2024), code: rope_theta 10"),
    (ne.FourierSeriesRotaryEncoder, "gain", 0.3, "FoPE (Hua et al. 2024), the released settings"),
    (ne.PRoPEEncoder, "base", 100.0, "PRoPE (Li et al. 2025), the authors' code: freq_base 100"),
    (ne.T5RelativeBias, "num_buckets", 32, "T5 (Raffel et al. 2020), section 2.1: 32"),
    (ne.T5RelativeBias, "max_distance", 128, "T5, section 2.1: offsets of 128"),
    (ne.FireBias, "width", 32, "FIRE (Li et al. 2024), code of the paper: mlp_width 32"),
    (ne.LogCPBBias, "width", 512, "Swin V2 (Liu et al. 2022), the authors' code: 512"),
    (ne.llama3_bands, "factor", 8.0, "Llama 3.1, rope_scaling of its configuration"),
    (ne.llama3_bands, "trained_length", 8192, "Llama 3.1, rope_scaling"),
    (ne.llama3_bands, "base", 500_000.0, "Llama 3 (2024), section 3.2: 500,000"),
    (ne.llama3_bands, "slow_cycles", 1.0, "Llama 3.1, rope_scaling: low_freq_factor"),
    (ne.llama3_bands, "fast_cycles", 4.0, "Llama 3.1, rope_scaling: high_freq_factor"),
    (ne.yarn_bands, "fast_cycles", 32.0, "YaRN (Peng et al. 2023), section 3.2: beta = 32"),
    (ne.yarn_bands, "slow_cycles", 1.0, "YaRN, section 3.2: alpha = 1"),
    (ne.IntegratedDirectionalEncoder, "num_degrees", 5, "Ref-NeRF (Verbin et al. 2022): 5"),
    (ne.LearnedGridEncoder, "std", 0.02, "ViT in timm and transformers: std 0.02"),
    (ne.LearnedPositionEncoder, "std", 0.02, "BERT (Devlin et al. 2019): initial std 0.02"),
    (ne.TemporalEncoder, "std", 0.1, "MemN2N (Sukhbaatar et al. 2015), section 4.2: sigma 0.1"),
    (ne.HashGridEncoder, "num_levels", 16, "instant-NGP (Müller et al. 2022), table 1: L = 16"),
    (ne.HashGridEncoder, "features_per_level", 2, "instant-NGP, table 1: F = 2"),
    (ne.HashGridEncoder, "log2_table_size", 19, "instant-NGP, table 1: T up to 2^19 for NeRF"),
    (ne.HashGridEncoder, "base_resolution", 16, "instant-NGP, table 1: N_min = 16"),
    (fields.RadianceField, "head_width", 64, "instant-NGP, section 5.4: layers of 64 neurons"),
    (fields.hash_field, "finest_resolution", 2048, "instant-NGP, section 5.4: N_max = 2048"),
    (fields.nerf_field, "num_bands", 10, "NeRF, section 5.1: L = 10 for positions"),
    (fields.nerf_field, "num_direction_bands", 4, "NeRF, section 5.1: L = 4 for directions"),
    (fields.nerf_field, "width", 256, "NeRF, section 5.3"),
    (fields.nerf_field, "depth", 8, "NeRF, section 5.3"),
    (fields.mip_field, "num_bands", 16, "mip-NeRF (Barron et al. 2021), code: max_deg_point 16"),
    (renderers.HierarchicalRenderer, "num_coarse", 64, "NeRF, section 5.3: N_c = 64"),
    (renderers.HierarchicalRenderer, "num_fine", 128, "NeRF, section 5.3: N_f = 128"),
    (renderers.photometric_loss, "coarse_weight", 1.0, "NeRF, equation 6: both passes alike"),
    (occupancy.OccupancyGrid, "threshold", 0.01, "instant-NGP, appendix C: opacity 0.01 of a step"),
    (schedules.cosine_decay, "final", 0.01, "docs/experiments.md"),
    (image_model.ImageModel, "width", 256, "Fourier features, section 6"),
    (image_model.ImageModel, "depth", 4, "Fourier features, section 6"),
    (image_model.ImageModel, "num_bands", 10, "NeRF, section 5.1: L = 10"),
    (recipes.make_encoder, "num_bands", 10, "NeRF, section 5.1: L = 10"),
    (recipes.EncoderOptions, "num_bands", 10, "NeRF, section 5.1: L = 10"),
    (fields_by_name.FieldOptions, "num_bands", 10, "NeRF, section 5.1: L = 10 for positions"),
    (ne.yarn_bands, "fast_cycles", 32.0, "YaRN (Peng et al. 2023), section 3.2: beta = 32"),
    (ne.yarn_bands, "base", 10_000.0, "RoFormer, section 3.2.2"),
    (ne.ntk_bands, "base", 10_000.0, "RoFormer, section 3.2.2"),
    (ne.geometric_bands, "base", 10_000.0, "Transformer, section 3.5"),
    (fields.mip_field, "num_direction_bands", 4, "mip-NeRF, code: deg_view 4"),
    (fields.mip_field, "width", 256, "mip-NeRF, section 4: the network of NeRF"),
    (fields.mip_field, "depth", 8, "mip-NeRF, section 4: the network of NeRF"),
    (fields.hash_field, "num_levels", 16, "instant-NGP, table 1: L = 16"),
    (fields.hash_field, "log2_table_size", 19, "instant-NGP, table 1: T up to 2^19 for NeRF"),
    (occupancy.OccupancyGrid, "resolution", 128, "instant-NGP, appendix C: 128^3 cells"),
]


@pytest.mark.parametrize(
    ("function", "name", "value", "source"),
    DEFAULTS,
    ids=[f"{function.__name__}.{name}" for function, name, _, _ in DEFAULTS],
)
def test_it_is_that_of_its_source(
    function: Callable[..., Any], name: str, value: Any, source: str
) -> None:
    assert inspect.signature(function).parameters[name].default == value, source


def test_siren_multiplies_the_first_layer_by_30_and_initializes_for_it() -> None:
    # Sitzmann et al. 2020, section 3.2: sin(30 (Wx + b)), weights of later layers within
    # sqrt(6 / n) / 30.
    x = torch.tensor([0.1])
    torch.testing.assert_close(activations.Sine()(x), torch.sin(30 * x))
    network = implicit.siren(2, 3, width=64, depth=2, generator=torch.Generator().manual_seed(0))
    first, second = [m for m in network.modules() if isinstance(m, nn.Linear)][:2]
    assert float(first.weight.detach().abs().max()) == pytest.approx(1 / 2, rel=0.05)
    assert float(second.weight.detach().abs().max()) == pytest.approx(
        (6 / 64) ** 0.5 / 30, rel=0.05
    )


def moments(group: optimizers.OptimizerGroup) -> list[tuple[float, float]]:
    return [part.defaults["betas"] for part in group.optimizers if "betas" in part.defaults]


def test_the_optimizers_have_the_moments_of_their_sources() -> None:
    network = MLP(2, 3, width=8, depth=2)
    # Kingma and Ba 2015, section 2; epsilon of Müller et al. 2022, section 4.
    plain = optimizers.adam(network)
    assert moments(plain) == [(0.9, 0.999)]
    assert [part.defaults["eps"] for part in plain.optimizers] == [1e-15]
    # A short second moment beside Muon (docs/experiments.md), and Muon as published: Jordan et
    # al. 2024, momentum 0.95 with Nesterov, 5 steps of the quintic iteration.
    group = recipes.make_optimizer(network, "muon", 0.05)
    assert moments(group) == [(0.9, 0.95)]
    muon = group.optimizers[0].defaults
    assert (muon["momentum"], muon["nesterov"], muon["ns_steps"]) == (0.95, True, 5)
    assert muon["ns_coefficients"] == (3.4445, -4.775, 2.0315)
    assert muon["weight_decay"] == 0


def test_the_learning_rates_are_those_of_the_experiments() -> None:
    # docs/experiments.md.
    rates = {name: dict(by_optimizer) for name, by_optimizer in recipes.NETWORK_LRS.items()}
    assert rates == {
        "relu": {"muon": 0.05, "adam": 3e-3},
        "siren": {"muon": 2e-3, "adam": 1e-3},
        "finer": {"muon": 2e-3, "adam": 3e-4},
        "gauss": {"muon": 2e-3, "adam": 3e-3},
        "wire": {"adam": 5e-3},
        "mfn": {"muon": 1e-2, "adam": 1e-2},
    }
    assert optimizers.MUON_ADAM_LR == 1e-2
    hashed = recipes.ENCODINGS["hash"]
    assert dict(hashed.lrs or {}) == {"muon": 0.03, "adam": 0.01}
    assert (hashed.muon_adam_lr, hashed.muon_lr_power, hashed.layers) == (7e-3, 2.0, (64, 2))
    # Fourier features (Tancik et al. 2020), section 6: 4 layers of 256.
    for name in ("none", "fourier", "gaussian"):
        row = recipes.ENCODINGS[name]
        assert (row.layers, row.lrs, row.muon_adam_lr, row.muon_lr_power) == (
            (256, 4),
            None,
            1e-2,
            1,
        )
    held_out = recipes.HeldOutRecipe()
    assert (held_out.lr, held_out.adam_lr, held_out.ema_decay) == (0.01, 1e-3, 0.97)
    assert dict(field_training.FIELD_LRS) == {"muon": 0.02, "adam": 5e-4}


def test_behind_a_hash_grid_the_rate_of_muon_falls_with_the_square_of_the_schedule() -> None:
    # docs/experiments.md: it only converges if Muon's rate falls faster than Adam's.
    encoder = recipes.make_encoder("hash", 2, resolution=64)
    model = nn.Sequential(encoder, MLP(encoder.out_dim, 3, width=16, depth=2))
    for encoding, power in (("hash", 2), ("fourier", 1)):
        group = recipes.make_optimizer(model, "muon", 0.04, encoding=encoding)
        before = [part.param_groups[0]["lr"] for part in group.optimizers]
        group.scale_lrs(0.3)
        after = [part.param_groups[0]["lr"] for part in group.optimizers]
        assert after[0] == pytest.approx(before[0] * 0.3**power)
        assert after[1] == pytest.approx(before[1] * 0.3)


def test_sigma_is_that_of_the_protocol_at_its_resolution() -> None:
    # Tancik et al. 2020, section 6: sigma 10 for photographs and 14 for text at 256 samples.
    assert recipes.default_sigma(512) == pytest.approx(0.09 * 128)
    assert 10 < recipes.default_sigma(512) < 14


def test_a_hash_grid_of_an_image_goes_from_16_nodes_to_one_per_pixel() -> None:
    # 8 levels of 4 features (docs/experiments.md).
    encoder = recipes.make_encoder("hash", 2, resolution=512)
    assert isinstance(encoder, ne.HashGridEncoder)
    assert (encoder.num_levels, encoder.out_dim) == (8, 32)
    assert encoder.resolutions[0] == 16
    # Rounding of the growth may add one.
    assert encoder.resolutions[-1] in (512, 513)
    assert recipes.make_encoder("gaussian", 2, resolution=64).out_dim == 2 * 128


@pytest.mark.parametrize(
    ("is_scene", "on_gpu", "steps", "batch_size"),
    [
        (False, False, 600, 8192),
        (False, True, 2000, 65536),
        (True, False, 700, 1024),
        (True, True, 5000, 8192),
    ],
)
def test_the_length_of_a_run_is_that_which_help_promises(
    is_scene: bool, on_gpu: bool, steps: int, batch_size: int
) -> None:
    device = torch.device("cuda" if on_gpu else "cpu")
    options = Options(scene="spheres") if is_scene else Options(image="cat")
    training = config.resolve(options, 100, device).training
    assert (training.steps, training.batch_size) == (steps, batch_size)


def test_the_fields_have_the_samples_of_their_papers() -> None:
    # NeRF, section 5.3: 64 and 128 more; mip-NeRF, section 4: 128 for each of two passes, whose
    # coarse loss counts a tenth.
    nerf = fields_by_name.renderer_for(fields_by_name.FieldOptions("nerf", width=8), 8)
    mip = fields_by_name.renderer_for(fields_by_name.FieldOptions("mip", width=8), 8)
    assert isinstance(nerf, renderers.HierarchicalRenderer)
    assert isinstance(mip, renderers.HierarchicalRenderer)
    assert (nerf.num_coarse, nerf.num_fine, nerf.cones) == (64, 128, False)
    assert (mip.num_coarse, mip.num_fine, mip.cones) == (128, 128, True)
    small = fields_by_name.FieldOptions()
    assert small.layers == (128, 4)
    assert fields_by_name.FieldOptions("nerf").layers == (256, 8)
    loss = field_training.make_loss(fields_by_name.FieldOptions("mip"))
    assert loss.keywords["coarse_weight"] == 0.1  # type: ignore[attr-defined]
