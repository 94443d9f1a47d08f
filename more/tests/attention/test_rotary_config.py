"""Rotary embeddings from configurations: both spellings, every scaling, keys that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nerf_posenc import geometric_bands
from nerf_posenc_attention import (
    RotaryEncoder,
    dynamic_ntk_bands,
    llama3_bands,
    longrope_bands,
    longrope_scale,
    ntk_bands,
    p_rope_bands,
    yarn_bands,
    yarn_scale,
)

SIZES: dict[str, Any] = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 32768,
}
FACTORS = [1.0 + 0.25 * i for i in range(64)]
YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 8.0,
    "original_max_position_embeddings": 4096,
}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONGROPE: dict[str, Any] = {"type": "su", "short_factor": FACTORS, "long_factor": FACTORS[::-1]}
CASES: dict[str, Any] = {
    "linear": ({"type": "linear", "factor": 4.0}, None, geometric_bands(64) / 4, 1.0),
    "dynamic, as trained": ({"rope_type": "dynamic", "factor": 4.0}, None, geometric_bands(64), 1),
    "dynamic, longer": (
        {"rope_type": "dynamic", "factor": 4.0},
        65536,
        dynamic_ntk_bands(128, length=65536, trained_length=32768, factor=4.0),
        1.0,
    ),
    "dynamic with alpha": (
        {"type": "dynamic", "factor": 1.0, "alpha": 1000.0, "beta_fast": 32, "mscale": 1.0},
        None,
        ntk_bands(128, factor=1000.0),
        1.0,
    ),
    "yarn": (YARN, None, yarn_bands(128, factor=8.0, trained_length=4096), yarn_scale(8.0)),
    "yarn with mscale": (
        YARN | {"mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 16, "truncate": False},
        None,
        yarn_bands(128, factor=8.0, trained_length=4096, fast_cycles=16.0, truncate=False),
        yarn_scale(8.0) / yarn_scale(8.0, strength=0.5),
    ),
    "yarn without factor": (
        {k: v for k, v in YARN.items() if k != "factor"} | {"attention_factor": 1.25},
        None,
        yarn_bands(128, factor=8.0, trained_length=4096),
        1.25,
    ),
    "llama3": (LLAMA3, None, llama3_bands(128, base=1e4), 1.0),
    "longrope, short": (
        LONGROPE | {"original_max_position_embeddings": 4096},
        4096,
        longrope_bands(128, FACTORS),
        longrope_scale(8.0, 4096),
    ),
    "longrope, long": (
        LONGROPE | {"original_max_position_embeddings": 4096},
        4097,
        longrope_bands(128, FACTORS[::-1]),
        longrope_scale(8.0, 4096),
    ),
    "longrope with factors of its lists": (
        LONGROPE
        | {"original_max_position_embeddings": 4096, "short_mscale": 1.1, "long_mscale": 1.2},
        4097,
        longrope_bands(128, FACTORS[::-1]),
        1.2,
    ),
    "proportional": (
        {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        None,
        p_rope_bands(128, fraction=0.25),
        1.0,
    ),
}


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("case", CASES)
def test_config_gives_bands_and_scale_of_its_scaling(case: str, spelling: str) -> None:
    parameters, length, bands, scale = CASES[case]
    given = SIZES | {"rope_theta": 10_000.0, spelling: parameters}
    encoder = RotaryEncoder.from_config(given, length=length)
    torch.testing.assert_close(encoder.frequency_bands[:, 0], bands, rtol=1e-15, atol=0)
    assert encoder.scale == pytest.approx(scale, rel=1e-15)
    assert (encoder.dim, encoder.rotary_dim, encoder.pairing) == (128, 128, "half")


def test_both_spellings_of_the_base_are_read() -> None:
    old = RotaryEncoder.from_config(SIZES | {"rope_theta": 5e5})
    new = RotaryEncoder.from_config(SIZES | {"rope_parameters": {"rope_theta": 5e5}})
    assert old.base == new.base == 5e5
    assert torch.equal(old.frequency_bands[:, 0], geometric_bands(64, base=5e5))


@pytest.mark.parametrize(
    "config",
    [
        {"head_dim": 64, "partial_rotary_factor": 0.25},
        {"head_dim": 64, "rope_parameters": {"partial_rotary_factor": 0.25}},
        {"hidden_size": 512, "num_attention_heads": 8, "rotary_pct": 0.25},
        {"n_embd": 512, "n_head": 8, "rotary_dim": 16},
    ],
)
def test_partial_width_is_of_the_head(config: dict[str, Any]) -> None:
    encoder = RotaryEncoder.from_config(config | {"rope_base": 10_000})
    assert (encoder.dim, encoder.rotary_dim) == (64, 16)


def test_odd_partial_width_is_rounded_up() -> None:
    encoder = RotaryEncoder.from_config(
        {"head_dim": 42, "partial_rotary_factor": 0.5, "rope_theta": 10_000}
    )
    assert encoder.rotary_dim == 22
    expected = 1e4 ** (-torch.arange(0, 21, 2, dtype=torch.float64) / 21)
    torch.testing.assert_close(encoder.frequency_bands[:, 0], expected, rtol=1e-14, atol=0)


def test_layer_types_have_parameters_of_their_own() -> None:
    config = SIZES | {
        "rope_parameters": {
            "sliding_attention": {"rope_theta": 1e4},
            "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0},
        }
    }
    full = RotaryEncoder.from_config(config, layer_type="full_attention")
    assert torch.equal(full.frequency_bands[:, 0], geometric_bands(64, base=1e6) / 8)
    assert RotaryEncoder.from_config(config, layer_type="sliding_attention").base == 1e4
    with pytest.raises(ValueError, match="layer_type, one of 'sliding_attention'"):
        RotaryEncoder.from_config(config)
    with pytest.raises(ValueError, match="got 'chunked'"):
        RotaryEncoder.from_config(config, layer_type="chunked")


def test_older_local_base_is_read() -> None:
    config: dict[str, Any] = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
    config["model_type"] = "gemma3_text"
    config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    local = RotaryEncoder.from_config(config, layer_type="sliding_attention")
    assert torch.equal(local.frequency_bands[:, 0], geometric_bands(128))
    full = RotaryEncoder.from_config(config, layer_type="full_attention")
    assert torch.equal(full.frequency_bands, RotaryEncoder.preset("gemma3").frequency_bands)


def test_width_of_a_layer_overrides_that_of_the_model() -> None:
    config = {
        "head_dim": 256,
        "rope_theta": 10_000,
        "layer_types": ["sliding_attention", "full_attention"],
        "per_layer_config": {"01": {"head_dim": 512}},
    }
    assert RotaryEncoder.from_config(config, layer_type="full_attention").dim == 512
    assert RotaryEncoder.from_config(config, layer_type="sliding_attention").dim == 256


@pytest.mark.parametrize(
    ("config", "preset"),
    [
        ({"head_dim": 128, "model_type": "cohere", "rope_theta": 8e6}, "cohere"),
        ({"head_dim": 64, "model_type": "pixtral", "rope_theta": 1e4}, "pixtral"),
        ({"head_dim": 72, "model_type": "qwen3_vl_vision"}, "qwen3-vl-vision"),
        ({"model_type": "dinov3_vit"}, "dinov3"),
        ({"head_dim": 72, "model_type": "kimi_k25_vision"}, "kimi-k2.5-vision"),
        ({"head_dim": 64, "model_type": "gemma4_vision", "rope_theta": 100.0}, "gemma4-vision"),
    ],
)
def test_config_gives_the_preset(config: dict[str, Any], preset: str) -> None:
    if "vision" in config["model_type"] or config["model_type"] == "pixtral":
        config = config | {"rope_parameters": {"rope_type": "axial"}}
    made, expected = RotaryEncoder.from_config(config), RotaryEncoder.preset(preset)
    assert (made.pairing, made.pair_axes) == (expected.pairing, expected.pair_axes)
    torch.testing.assert_close(made.frequency_bands, expected.frequency_bands, rtol=1e-14, atol=0)


def test_axial_base_reaches_every_band() -> None:
    config = {"head_dim": 64, "model_type": "pixtral", "rope_parameters": {"rope_theta": 500.0}}
    bands = RotaryEncoder.from_config(config).frequency_bands[:, 0]
    expected = geometric_bands(32, base=500.0)
    torch.testing.assert_close(bands, torch.cat([expected[::2], expected[1::2]]))


def test_mrope_sections_give_axes_of_pairs() -> None:
    parameters: dict[str, Any] = {"type": "mrope", "mrope_section": [16, 24, 24]}
    encoder = RotaryEncoder.from_config(
        SIZES | {"rope_theta": 1e6, "rope_scaling": parameters, "model_type": "qwen2_vl_text"}
    )
    assert encoder.pair_axes == RotaryEncoder.preset("qwen2-vl-text").pair_axes
    parameters = {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
    encoder = RotaryEncoder.from_config(SIZES | {"rope_theta": 5e6, "rope_scaling": parameters})
    assert encoder.pair_axes == RotaryEncoder.preset("qwen3-vl-text").pair_axes


def test_rotated_part_of_latent_attention_stands_alone() -> None:
    config = {"qk_rope_head_dim": 64, "hidden_size": 7168, "rope_theta": 10_000}
    encoder = RotaryEncoder.from_config(config | {"rope_interleave": True})
    assert (encoder.dim, encoder.rotary_dim, encoder.pairing) == (64, 64, "interleaved")


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 4.0, "beta_fast": 32}}, "beta_fast"),
        ({"rope_scaling": {"type": "linear"}}, "factor"),
        ({"rope_scaling": {"type": "sqrt", "factor": 4.0}}, "sqrt"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "'factor'"),
        ({"head_dim": 127}, "even; got 127"),
        ({"rope_theta": 10**400}, "of another kind"),
        ({"model_type": ["llama"]}, "of another kind"),
        ({"memory_attention_hidden_size": 64}, "of another kind"),
        ({"rope_parameters": {"full": {"rope_theta": 1e4}, "speed": 2}}, "speed"),
        ({"rotary_compress": 2.0}, "rotary_compress"),
    ],
)
def test_key_that_is_not_understood_is_named(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        RotaryEncoder.from_config({"rope_theta": 10_000, **SIZES, **config})


def test_config_may_be_a_file_a_folder_or_an_object(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": SIZES | {"rope_theta": 5e5}}))

    class Config:
        def to_dict(self) -> dict[str, Any]:
            """The configuration."""
            return SIZES | {"rope_theta": 5e5}

    for given in (tmp_path, tmp_path / "config.json", str(tmp_path), Config()):
        assert RotaryEncoder.from_config(given).base == 5e5
    with pytest.raises(TypeError, match="got int"):
        RotaryEncoder.from_config(3)
    with pytest.raises(ValueError, match="'head_dim'"):
        RotaryEncoder.from_config({"rope_theta": 1e4})
