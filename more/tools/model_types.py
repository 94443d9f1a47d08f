"""Write the table of model types that `RotaryEncoder.from_config` reads.

``python -m more.tools.model_types`` asks every configuration class of the installed transformers
what it fills in where a ``config.json`` is silent: base, share, widths, types of layers. What a
class of a rotation then makes of them is measured by its bands.
"""

import copy
import importlib
import inspect
import itertools
import json
import re
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers
from torch import nn

from nerf_posenc_attention.rotary_config import BASE, PARTS, SHARE, USUAL

TABLE = Path(__file__).parents[1] / "nerf_posenc_attention" / "model_types.json"
_ROTATES = re.compile(r"\brope|_rope|RoPE|Rotary|rotary|rotate_half|freqs_cis")
_CLASS = re.compile(r"Rotary|RoPE|RopePosition")
_NO_CLASS = re.compile("Attention|Layer|Block|Model|For[A-Z]")
_SIZES = ("hidden_size", "num_attention_heads", "max_position_embeddings")
# Further keys that the reader looks at.
_KEPT = (
    *("rope_interleave", "position_embedding_type", "alibi", "qk_rope_head_dim", "embed_dim"),
    *("memory_attention_hidden_size", "memory_attention_num_attention_heads"),
    "memory_attention_downsample_rate",
)
# Models whose older spelling nothing here reads.
_NEW_ALONE = ("deepseek_v4", "dots3_note_text")
# Neighbors form a pair in these models, as their functions of rotation say.
_NEIGHBORS = re.compile(
    r"(axk1|axk2|bailing_hybrid|blt_global_transformer|blt_local_decoder|blt_local_encoder|"
    r"blt_patcher|cohere|cohere2|cohere2_moe|deepseek_v2|deepseek_v3|deepseek_v32|"
    r"deepseek_v4|dots3_note_text|ernie4_5|ernie4_5_moe|glm|glm4|glm4v_text|glm_ocr_text|"
    r"glm_moe_dsa|helium|hy_v4_vl_text|kimi_k2|llama4_text|longcat_flash|mistral_large4_text|"
    r"moonshine|moonshine_streaming|openai_privacy_filter|pe_audio_encoder|"
    r"pe_audio_video_encoder|pe_video_encoder)$"
)
# Presets of several axes; image encoders that are not here have Qwen2-VL's order.
_PRESETS = {
    "dinov3_vit": "dinov3",
    "edgetam_video": "sam2",
    "eomt_dinov3": "dinov3",
    "ernie4_5_vl_moe_text": "ernie4.5-vl-text",
    "gemma4_vision": "gemma4-vision",
    "inkling2_vision": "rope-vit-axial",
    "kimi_k25_vision": "kimi-k2.5-vision",
    "llama4_vision_model": "llama4-vision",
    "minimax_m3_vl_vision": "minimax-m3-vision",
    "pixtral": "pixtral",
    "sam2_video": "sam2",
    "sam3_tracker_video": "sam2",
    "sam3_vit_model": "sam3",
    "sapiens2": "dinov3",
}
# Models without a class of their rotation, and code on hubs, as read in their sources.
_BY_HAND: dict[str, dict[str, Any]] = {
    "roformer": {"rope_theta": 10_000.0, "pairing": "interleaved"},
    "granitemoehybrid": {"position_embedding_type": "none"},
    "efficientloftr": {"refused": "RotaryEncoder.preset('efficient-loftr', hidden_size)"},
    # The share depends on how the scaling is spelled.
    "mistral4": {"refused": "RotaryEncoder(64, frequencies=yarn_bands(64, ...))"},
    "llama4_vision_model": {
        **{"hidden_size": 768, "num_attention_heads": 16, "rope_theta": 10_000.0},
        "preset": "llama4-vision",
    },
    # Columns of the image before its rows.
    "step3p5_vision": {"axis_order": [1, 0]},
    "gptj": {"rope_theta": 10_000.0, "rotary_dim": 64, "pairing": "interleaved"},
    "codegen": {"rope_theta": 10_000.0, "rotary_dim": 64, "pairing": "interleaved"},
    "chatglm": {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5, "pairing": "interleaved"},
}
# Width of a head and number of heads that tell what a class computes from them.
_PROBED = 1152, 4


def types() -> Iterator[tuple[Any, Any, list[Any], bool]]:
    """Configuration classes that can be built from nothing.

    Yields:
        The class, its default, classes that may rotate by it, and whether any in its folder does.
    """
    for folder in sorted(Path(transformers.__file__).parent.joinpath("models").iterdir()):
        texts = [file.read_text() for file in folder.glob("modeling_*.py")]
        may_rotate = any(_ROTATES.search(text) for text in texts)
        classes = list(_rotations(folder)) if may_rotate else []
        for kind in _configurations(folder):
            try:
                made = kind()
            except Exception:
                continue
            yield kind, made, _likely(kind, made, classes), may_rotate


def table() -> dict[str, Any]:
    """The whole table: types that rotate, parts of composite types, types that do not rotate."""
    rotates: dict[str, Any] = {}
    parts: dict[str, list[str]] = {}
    others = ["mpt", "jamba", "kimi_linear"]  # Rotation is mentioned beside them.
    for kind, made, classes, may_rotate in types():
        name, part = kind.model_type, _text_part(made)
        if part is not None:
            parts[name] = part
            continue
        row = next((row for row in (_row(kind, one) for one in classes) if row), None)
        if row is not None:
            rotates.setdefault(name, row)
        elif not may_rotate:
            others.append(name)
    for name, row in _BY_HAND.items():
        rotates[name] = rotates.get(name, {}) | row
    others = sorted(set(others) - set(rotates) - set(parts))
    return {"rotates": dict(sorted(rotates.items())), "parts": parts, "others": others}


def _modules(folder: Path, start: str) -> Iterator[Any]:
    for file in sorted(folder.glob(f"{start}_*.py")):
        try:
            yield importlib.import_module(f"transformers.models.{folder.name}.{file.stem}")
        except Exception:  # What a module needs may not be installed.
            continue


def _configurations(folder: Path) -> Iterator[Any]:
    """Configuration classes of a folder, each before those that contain it."""
    for module in _modules(folder, "configuration"):
        for one in vars(module).values():
            is_kind = inspect.isclass(one) and issubclass(one, transformers.PreTrainedConfig)
            if is_kind and one.__module__ == module.__name__ and one.model_type:
                yield one


def _rotations(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Classes of a rotation in a folder, and the configuration that each is annotated with."""
    for module in _modules(folder, "modeling"):
        for name, one in vars(module).items():
            own = getattr(one, "__module__", None) == module.__name__
            is_rotation = bool(_CLASS.search(name)) and not _NO_CLASS.search(name)
            if own and is_rotation and inspect.isclass(one) and issubclass(one, nn.Module):
                yield one, typing.get_type_hints(one.__init__).get("config")


def _text_part(made: Any) -> list[str] | None:
    """Key and type of the language model in a composite configuration."""
    for key in (*PARTS, *made.sub_configs):
        inner = getattr(made, key, None)
        if key in PARTS and inner is not None and hasattr(inner, "model_type"):
            return [key, inner.model_type]
    return None


def _likely(kind: Any, made: Any, classes: list[tuple[Any, Any]]) -> list[Any]:
    """Classes that may rotate by a configuration: its own, else those of its family."""
    own = [one for one, annotated in classes if annotated is kind]
    known = made.to_dict()
    is_rotated = bool(known.get("rope_parameters") or known.get("rope_theta"))
    is_image = any(word in kind.model_type for word in ("vision", "audio"))
    family = [
        one
        for one, _ in classes
        if is_image == any(word in one.__name__ for word in ("Vision", "Audio"))
    ]
    return own or (family if is_rotated else [])


def bands_of(kind: Any, rotation: Any, **given: Any) -> dict[str, list[float]] | None:
    """Bands of each type of layers that a class has for a configuration.

    Args:
        kind: class of the configuration.
        rotation: class of the rotation.
        given: values of the configuration.

    Returns:
        Bands by the type of layers, of which there may be one without a name; None if the
        configuration is refused.
    """
    try:
        config = kind(**given)
        keys = inspect.signature(rotation.__init__).parameters
        made = rotation(config, **({"layer_type": None} if "layer_type" in keys else {}))
    except Exception:
        return None
    return {
        name.removesuffix("inv_freq").rstrip("_"): buffer.flatten().tolist()
        for name, buffer in made.named_buffers()
        if name.endswith("inv_freq") and "original" not in name
    }


def _row(kind: Any, rotation: Any) -> dict[str, Any] | None:
    """What a configuration class fills in; None if its rotation cannot be built."""
    default = bands_of(kind, rotation)
    if not default:
        return None
    made = kind()
    known = made.to_dict()
    row = {name: known.get(name) or _attribute(made, name) for name in _SIZES}
    row |= {"pairing": "interleaved"} if _NEIGHBORS.match(kind.model_type) else {}
    row |= {"preset": _PRESETS[kind.model_type]} if kind.model_type in _PRESETS else {}
    for key in _KEPT if kind.model_type != "deepseek_v4" else ():
        row |= {key: known[key]} if known.get(key) else {}
    rope = known.get("rope_parameters") or {"rope_theta": known.get("rope_theta")}
    rope = dict(sorted(rope.items()))  # Types of layers come out of a set.
    layers = {
        name: value for name, value in rope.items() if isinstance(value, dict) or value is None
    }
    # A head that does not follow the width is given by itself.
    width, heads = _PROBED
    sized = bands_of(kind, rotation, hidden_size=width, num_attention_heads=heads)
    sized = sized or bands_of(kind, rotation, hidden_size=width)
    head = known.get("head_dim") or _attribute(made, "head_dim")
    if sized == default and "qk_rope_head_dim" not in row and head:
        row["head_dim"] = head
    rope_of = {name: {"rope_type": "default", "rope_theta": 1e4} for name in layers or [""]}
    wide = {key: value | {"partial_rotary_factor": 0.75} for key, value in rope_of.items()}
    given = [one if layers else one[""] for one in (rope_of, wide)]
    plain, shared = (bands_of(kind, rotation, rope_parameters=one) for one in given)
    linear = {"rope_type": "linear", "factor": 2.0}
    row["ignores"] = [
        key
        for key in ("head_dim", "rotary_dim")
        if bands_of(kind, rotation, **{key: 22}) == default
    ]
    row["is_whole"] = plain == shared and rope.get("partial_rotary_factor", 1) == 1
    if (
        row["is_whole"]
        and sized
        and sized != default
        and 2 * len(sized.get("", ())) * heads == 2 * width
    ):
        row["wider"] = 2
    row["is_unscaled"] = not layers and bands_of(kind, rotation, rope_scaling=linear) == default
    if list(default) == [""]:
        return {
            key: value
            for key, value in (row | _flat(kind, rotation, rope)).items()
            if (value and value != list(USUAL)) or (key == "reads" and value == [])
        }
    row["layers"] = {name: _layer(kind, rotation, name, rope) for name in layers}
    own = known.get("per_layer_config") or {}
    for index, name in enumerate(known.get("layer_types") or ()):
        wider = own.get(f"{index:02d}", {}).get("head_dim")
        if wider and row["layers"].get(name):
            row["layers"][name]["head_dim"] = wider
    if any(_kind(value) != "default" for value in layers.values() if value):
        row["rope_parameters"] = rope
    return {key: value for key, value in row.items() if value}


def _attribute(made: Any, name: str) -> Any:
    """An attribute; None where types of layers have their own."""
    try:
        return getattr(made, name, None)
    except Exception:
        return None


def _kind(rope: dict[str, Any]) -> str:
    return str(rope.get("rope_type") or rope.get("type") or "default")


def _flat(kind: Any, rotation: Any, rope: dict[str, Any]) -> dict[str, Any]:
    """Base and share of a configuration whose layers rotate alike."""
    try:
        linear = kind(rope_parameters={"rope_type": "linear", "factor": 2.0}).rope_parameters
    except Exception:
        linear = rope
    row: dict[str, Any] = {"rope_theta": linear.get("rope_theta") or rope.get("rope_theta")}
    row["partial_rotary_factor"] = linear.get("partial_rotary_factor")
    row |= _reads(kind, None)
    if _kind(rope) == "axial":
        row["image"] = True
    elif _kind(rope) != "default" or any(
        rope.get(key) not in (None, row.get(key)) for key in (*row, "mrope_section")
    ):
        row["rope_parameters"] = rope
    return row


def _reads(kind: Any, layer: str | None) -> dict[str, list[str]]:
    """The names beside the rope parameters of which a class reads base and share."""
    # Numbers that nothing else has.
    numbers = {key: 1_001.0 + index for index, key in enumerate(BASE)}
    numbers |= {key: (1 + index) / 64 for index, key in enumerate(SHARE)}
    # Some classes read them only beside a scaling, others only without.
    scaling = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    read = []
    for (key, value), given in itertools.product(numbers.items(), ({}, scaling)):
        try:
            made = kind(**{key: value}, **copy.deepcopy(given)).to_dict()
            rope = made.get("rope_parameters") or made
            rope = rope[layer] if layer else rope
        except Exception:
            continue
        is_read = value in (rope.get("rope_theta"), rope.get("partial_rotary_factor"))
        if is_read and key not in read:
            read.append(key)
    return {"reads": read}


def _layer(kind: Any, rotation: Any, name: str, rope: dict[str, Any]) -> dict[str, Any] | None:
    """Base and share of one type of layers, and the keys that older files give them with."""
    if rope[name] is None:
        return None
    row = {
        "rope_theta": rope[name].get("rope_theta"),
        "partial_rotary_factor": rope[name].get("partial_rotary_factor"),
    }
    if kind.model_type not in _NEW_ALONE:
        row |= _reads(kind, name)
        try:
            scaling = {"rope_type": "linear", "factor": 3.0}
            row["scaled"] = _kind(kind(rope_scaling=scaling).rope_parameters[name]) == "linear"
        except Exception:
            row["scaled"] = False
    row.setdefault("reads", [])
    return {key: value for key, value in row.items() if value or key == "reads"}


def main() -> None:
    """Write the table, one row in a line."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    made = table()
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in made["rotates"].items()]
    text = ",\n".join(rows)
    parts, others = (json.dumps(made[key]) for key in ("parts", "others"))
    TABLE.write_text(
        f'{{"transformers": "{transformers.__version__}", "rotates": {{\n{text}\n}},\n'
        f'"parts": {parts},\n"others": {others}}}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
