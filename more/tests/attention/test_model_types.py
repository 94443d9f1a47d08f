"""What published configurations leave out, and which models do not rotate at all."""

import importlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from nerf_posenc import geometric_bands
from nerf_posenc_attention import RotaryEncoder
from nerf_posenc_attention.rotary_config import PARTS
from tests.optional import needs

GEMMA3 = {"model_type": "gemma3", "vision_config": {"patch_size": 14}}
GEMMA3["text_config"] = {
    **{"model_type": "gemma3_text", "hidden_size": 3840, "num_attention_heads": 16},
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
QWEN_IMAGES = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16}
# Configurations as they are published, a type of layers, and the width of a head, the rotated
# columns and the base by the cards of the models.
SILENT: dict[str, tuple[dict[str, Any], str | None, int, int, float]] = {
    "persimmon": ({"hidden_size": 4096, "num_attention_heads": 64}, None, 64, 32, 25_000.0),
    "phi": ({"hidden_size": 2048, "num_attention_heads": 32}, None, 64, 32, 1e4),
    "stablelm": ({"hidden_size": 2560, "num_attention_heads": 32}, None, 80, 20, 1e4),
    "glm4": ({"hidden_size": 4096, "num_attention_heads": 32}, None, 128, 64, 1e4),
    "gpt_neox": ({"hidden_size": 6144, "num_attention_heads": 64}, None, 96, 24, 1e4),
    "mixtral": ({"hidden_size": 4096, "num_attention_heads": 32}, None, 128, 128, 1e6),
    "cohere": ({"hidden_size": 8192, "num_attention_heads": 64}, None, 128, 128, 5e5),
    "qwen3": ({"hidden_size": 2560, "num_attention_heads": 32}, None, 128, 128, 1e4),
    "gemma": ({"hidden_size": 3072, "num_attention_heads": 16}, None, 256, 256, 1e4),
    "gptj": ({"n_embd": 4096, "n_head": 16, "rotary": True}, None, 256, 64, 1e4),
    "chatglm": ({"hidden_size": 4096, "num_attention_heads": 32}, None, 128, 64, 1e4),
    "olmo3": ({"rope_theta": 5e5}, "sliding_attention", 128, 128, 5e5),
    "nomic_bert": ({"n_embd": 768, "n_head": 12, "rotary_emb_fraction": 1.0}, None, 64, 64, 1e3),
}


@pytest.mark.parametrize("model_type", SILENT)
def test_what_a_file_leaves_out_is_its_models(model_type: str) -> None:
    config, layer, head_dim, rotated, base = SILENT[model_type]
    config = {"model_type": model_type, **config}
    config |= {"rope_theta": base} if model_type == "persimmon" else {}
    encoder = RotaryEncoder.from_config(config, layer_type=layer)
    assert (encoder.dim, encoder.rotary_dim, encoder.scale) == (head_dim, rotated, 1.0)
    bands = encoder.frequency_bands[:, 0]
    torch.testing.assert_close(bands, geometric_bands(rotated // 2, base=base))


def test_layers_of_a_composite_file_have_their_own(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GEMMA3 | {"hidden_size": 64, "head_dim": 8}), encoding="utf-8-sig")
    full = RotaryEncoder.from_config(path, layer_type="full_attention")
    assert torch.equal(full.frequency_bands, RotaryEncoder.preset("gemma3").frequency_bands)
    sliding = RotaryEncoder.from_config(path, layer_type="sliding_attention")
    assert torch.equal(sliding.frequency_bands[:, 0], geometric_bands(128))
    for layer in (None, "banana", "sliding"):
        with pytest.raises(ValueError, match="layer_type"):
            RotaryEncoder.from_config(path, layer_type=layer)


def test_images_have_two_axes_by_the_type_of_their_model() -> None:
    given = QWEN_IMAGES | {"model_type": "qwen2_vl", "patch_size": 14}
    made, preset = RotaryEncoder.from_config(given), RotaryEncoder.preset("qwen2-vl-vision")
    assert (made.dim, made.pair_axes) == (80, preset.pair_axes)
    assert torch.equal(made.frequency_bands, preset.frequency_bands)
    with pytest.raises(ValueError, match="model_type None is not known as one of images"):
        RotaryEncoder.from_config(QWEN_IMAGES | {"patch_size": 14})


WIDTHS = {"hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 1e4}


@pytest.mark.parametrize(
    "config",
    [
        *(
            {"model_type": name}
            for name in ["bert", "gpt2", "opt", "t5", "bloom", "vit", "siglip_vision_model"]
        ),
        {"model_type": "falcon", "alibi": True},
        {"model_type": "mpt", "attn_config": {"alibi": True}},
        {"model_type": "granitemoehybrid", "position_embedding_type": "nope"},
        {"model_type": "granitemoehybrid"},
        {"model_type": "esm", "position_embedding_type": "absolute"},
        {"model_type": "kimi_linear", "mla_use_nope": True},
    ],
)
def test_models_without_a_rotation_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not rotate"):
        RotaryEncoder.from_config(WIDTHS | config)


LLAMA = {"model_type": "llama", "hidden_size": 1024, "num_attention_heads": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "strange"}, "needs 'rope_theta'"),
        *(
            ({"rope_theta": bad}, "rope_theta")
            for bad in (0, -1, math.nan, math.inf, "1", [1], True)
        ),
        ({"head_dim": 10**9}, "not plausible"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}, "differ"),
        ({"rope_scaling": YARN, "rope_parameters": YARN | {"factor": 2.0}}, "differ"),
        ({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}, "two types"),
        ({"rope_scaling": YARN | {"factor": math.nan}}, "factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor"),
        ({"rope_scaling": "linear"}, "mapping"),
        ({"partial_rotary_factor": 0.5}, "rotate all"),
        ({"model_type": "gpt_neox", "rope_theta": 5e5}, "does not read this"),
        ({"model_type": "phi", "partial_rotary_factor": 0.0}, "partial_rotary_factor"),
        ({"model_type": "qwen2_vl", "rope_scaling": {"mrope_section": [8, 8, 8]}}, "add up to 32"),
        ({"layer_types": 3}, "layer_types"),
        ({"model_type": "qwen", "rope_theta": 1e4, "use_dynamic_ntk": True}, "use_dynamic_ntk"),
    ],
)
def test_what_cannot_be_meant_is_an_error(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RotaryEncoder.from_config(LLAMA | config)
    with pytest.raises(ValueError, match="there is no file"):
        RotaryEncoder.from_config("meta-llama/Llama-3.1-8B")


def test_a_remark_on_training_changes_nothing() -> None:
    plain = RotaryEncoder.from_config(LLAMA | {"rope_scaling": YARN})
    tuned = RotaryEncoder.from_config(LLAMA | {"rope_scaling": YARN | {"finetuned": True}})
    assert torch.equal(plain.frequency_bands, tuned.frequency_bands)
    assert plain.scale == tuned.scale


@pytest.mark.slow
def test_the_table_has_what_the_classes_of_transformers_compute() -> None:
    needs("transformers")
    tool = importlib.import_module("more.tools.model_types")
    judged = 0
    files: tuple[dict[str, Any], ...] = (
        {},
        {"rope_theta": 54_321.0},
        {"hidden_size": 1152, "num_attention_heads": 4},
    )
    for (kind, made, classes, _), file in itertools.product(tool.types(), files):
        if set(made.sub_configs) & set(PARTS):  # The language model's part is asked by itself.
            continue
        found = (tool.bands_of(kind, one, **file) for one in classes)
        theirs: dict[str, list[float]] = next((bands for bands in found if bands), {})
        for layer, bands in theirs.items():
            try:
                given = {"model_type": kind.model_type, **file}
                ours = RotaryEncoder.from_config(given, layer_type=layer or None)
            except ValueError:
                continue
            own = ours.frequency_bands[:, 0].abs().float()
            if ours.in_dim == 1:
                torch.testing.assert_close(own, torch.tensor(bands), rtol=1e-5, atol=0)
                judged += 1
    assert judged > 400
