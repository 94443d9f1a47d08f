"""Rotary embeddings from the ``config.json`` of a model, in the spelling of transformers 4 or 5."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nerf_posenc.core.bands import bands_of_width
from nerf_posenc_attention.presets.language import mrope_axes
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rope_scaling import (
    dynamic_ntk_bands,
    llama3_bands,
    longrope_bands,
    longrope_scale,
    ntk_bands,
    p_rope_bands,
    yarn_bands,
    yarn_scale,
)

# Names of one quantity in the configurations of different models, the decisive one first.
# Widest head that is taken for one: counted before bands of it are made.
_WIDEST = 1 << 16
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
_WIDTH = ("embed_dim", "hidden_size", "n_embd", "d_model", "dim", "encoder_hidden_size")
_NUM_HEADS = (
    "num_attention_heads",
    "n_head",
    "num_heads",
    "n_heads",
    "encoder_num_attention_heads",
)
_BASE = ("rope_theta", "rotary_emb_base", "rotary_embedding_base", "rope_base", "global_rope_theta")
_SHARE = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percentage")
# Base of the sliding layers where transformers 4 keeps it beside the other one.
_LOCAL_BASE = ("rope_local_base_freq", "local_rope_theta")
# Keys about which layers rotate, dropout and sizes of other modules: they change no angle.
_ELSEWHERE = (
    "rope_parameters",
    "rope_scaling",
    "rotary_dim",
    "rope_interleave",
    "rope_interleaved",
    "rope_scaling_layers",
)
# Parts of a configuration that hold a language model's own.
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder", "encoder")

_COMMON = (
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
    # Factors of queries by their position: attention has them beside the rotation.
    "llama_4_scaling_beta",
    "max_position_embeddings",
)
_TRAINED = "original_max_position_embeddings"
_YARN = frozenset({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
# Neighbors form a pair in these models; in all others columns that are half of the width apart.
_NEIGHBORS = """
axk1 axk2 bailing_hybrid codegen cohere cohere2 cohere2_moe deepseek_v2 deepseek_v3 deepseek_v32
deepseek_v4 dots3_note_text ernie4_5 ernie4_5_moe glm glm4 glm4v_text glm_ocr_text glm_moe_dsa gptj
helium hy_v4_vl_text kimi_k2 llama4_text longcat_flash mistral_large4_text moonshine
moonshine_streaming openai_privacy_filter pe_audio_encoder pe_audio_video_encoder
pe_video_encoder roformer
"""
_INTERLEAVED = frozenset(_NEIGHBORS.split())
# Presets with several axes, by the type of the model.
_OF_MODEL = {
    "dinov3_vit": "dinov3",
    "edgetam_video": "sam2",
    "eomt_dinov3": "dinov3",
    "ernie4_5_vl_moe_text": "ernie4.5-vl-text",
    "gemma4_vision": "gemma4-vision",
    "kimi_k25_vision": "kimi-k2.5-vision",
    "llama4_vision_model": "llama4-vision",
    "minimax_m3_vl_vision": "minimax-m3-vision",
    "pixtral": "pixtral",
    "sam2_video": "sam2",
    "sam3_tracker_video": "sam2",
    "sam3_vit_model": "sam3",
}


@dataclass(frozen=True)
class _Series:
    """What the bands of a model depend on.

    Attributes:
        parameters: the model's rope parameters.
        head_dim: width of a head.
        dim: number of its columns that are rotated, which may be odd.
        base: ratio of the longest wavelength to the shortest.
        trained_length: length used in training, before any scaling; None if not given.
        max_length: longest sequence that the model is meant for; None if not given.
        length: length of the sequences to encode; None is the trained length.
    """

    parameters: Mapping[str, Any]
    head_dim: int
    dim: int
    base: float
    trained_length: int | None
    max_length: int | None
    length: int | None

    def required(self, key: str) -> Any:
        """A parameter that the scaling cannot do without."""
        value = self.parameters.get(key)
        if value is None:
            raise ValueError(f"the rope parameters have no {key!r}, which this scaling needs")
        return value

    def number(self, key: str) -> float:
        """A required parameter that is a number, which a config may write without a point."""
        return float(self.required(key))

    @property
    def before_scaling(self) -> int:
        """Length used in training, which YaRN, Llama 3 and LongRoPE need."""
        found = self.parameters.get(_TRAINED) or self.max_length
        found = self.trained_length or found
        if found is None:
            raise ValueError(f"the config needs {_TRAINED!r} or 'max_position_embeddings'")
        return found

    @property
    def factor(self) -> float:
        """Ratio of the longest sequence to the trained length."""
        given = self.parameters.get("factor")
        if given is not None:
            return float(given)
        return (self.max_length or self.before_scaling) / self.before_scaling


def _linear(series: _Series) -> tuple[Tensor, float]:
    return bands_of_width(series.dim, base=series.base) / series.number("factor"), 1.0


def _dynamic(series: _Series) -> tuple[Tensor, float]:
    alpha = series.parameters.get("alpha")
    if alpha:  # HunYuan: a fixed factor, under the name of the growing one.
        return ntk_bands(series.dim, factor=float(alpha), base=series.base), 1.0
    trained = series.max_length or series.before_scaling
    length = max(series.length or trained, trained)
    factor = series.number("factor")
    return dynamic_ntk_bands(
        series.dim, length=length, trained_length=trained, factor=factor, base=series.base
    ), 1.0


def _yarn(series: _Series) -> tuple[Tensor, float]:
    given, factor = series.parameters, series.factor
    bands = yarn_bands(
        series.dim,
        factor=factor,
        trained_length=series.before_scaling,
        base=series.base,
        fast_cycles=float(given.get("beta_fast") or 32),
        slow_cycles=float(given.get("beta_slow") or 1),
        truncate=given.get("truncate", True),
    )
    scale = given.get("attention_factor")
    if scale is None:
        scale = yarn_scale(factor)
        over, under = (float(given.get(key) or 0) for key in ("mscale", "mscale_all_dim"))
        if over and under:
            scale = yarn_scale(factor, strength=over) / yarn_scale(factor, strength=under)
    return bands, float(scale)


def _llama3(series: _Series) -> tuple[Tensor, float]:
    return llama3_bands(
        series.dim,
        factor=series.number("factor"),
        trained_length=series.before_scaling,
        base=series.base,
        slow_cycles=series.number("low_freq_factor"),
        fast_cycles=series.number("high_freq_factor"),
    ), 1.0


def _longrope(series: _Series) -> tuple[Tensor, float]:
    trained = series.before_scaling
    is_long = series.length is not None and series.length > trained
    factors = series.required("long_factor" if is_long else "short_factor")
    scale = series.parameters.get("attention_factor")
    if scale is None:  # Phi-3.5 MoE has a factor for each list.
        scale = series.parameters.get("long_mscale" if is_long else "short_mscale")
    if scale is None:
        scale = longrope_scale(max(series.factor, 1.0), trained)
    return longrope_bands(series.dim, factors, base=series.base), float(scale)


def _proportional(series: _Series) -> tuple[Tensor, float]:
    share = float(series.parameters.get("partial_rotary_factor", 1))
    bands = p_rope_bands(series.head_dim, fraction=share, base=series.base)
    return bands / float(series.parameters.get("factor", 1)), 1.0


# The bands and the factor of cosines and sines of each scaling, and the keys that it reads.
_SCALINGS: dict[str, tuple[Callable[[_Series], tuple[Tensor, float]], frozenset[str]]] = {
    "linear": (_linear, frozenset({"factor"})),
    "dynamic": (_dynamic, frozenset({"factor", "alpha"})),
    "yarn": (_yarn, _YARN | {"factor", _TRAINED, "attention_factor", "truncate"}),
    "llama3": (_llama3, frozenset({"factor", _TRAINED, "low_freq_factor", "high_freq_factor"})),
    "longrope": (
        _longrope,
        frozenset({"factor", _TRAINED, "attention_factor", "short_factor", "long_factor"})
        | {"short_mscale", "long_mscale"},
    ),
    "proportional": (_proportional, frozenset({"factor"})),
}
# What older configurations call the same.
_ALIASES = {"su": "longrope", "mrope": "default", "deepseek_yarn": "yarn"}


def rotary_arguments(
    config: Mapping[str, Any] | str | Path | Any,
    *,
    layer_type: str | None = None,
    length: int | None = None,
) -> dict[str, Any]:
    """Arguments of [RotaryEncoder][nerf_posenc.RotaryEncoder] that a configuration describes.

    Args:
        config: mapping, path of a ``config.json`` or of the folder with it, or an object with
            ``to_dict``.
        layer_type: key of the rope parameters where each type of layer has its own.
        length: length of the sequences, for scalings that depend on it.

    Raises:
        ValueError: If a key is missing or not understood.
    """
    config = read_config(config)
    given = _rope_parameters(config, layer_type)
    resolved = rope_parameters(config, layer_type=layer_type)
    kind, base = resolved["rope_type"], resolved["rope_theta"]
    _require_known(config, given, kind)
    config |= _layer_overrides(config, layer_type)
    model = config.get("model_type", "")
    if model in _OF_MODEL or kind == "axial":
        # Qwen's order of rows and columns is that of all image encoders that have no row above.
        return _of_model(_OF_MODEL.get(model, "qwen2-vl-vision"), config, given, base)
    head_dim, dim = _columns(config, given)
    if not 0 < head_dim <= _WIDEST or not 0 <= dim <= _WIDEST:
        raise ValueError(f"heads of {head_dim} columns, {dim} of them rotated, are not plausible")
    trained, longest = config.get(_TRAINED), config.get("max_position_embeddings")
    series = _Series(given, head_dim, dim, base, trained, longest, length)
    arguments: dict[str, Any] = {"pairing": _pairing(config)}
    if kind == "default" and dim % 2 == 0:
        arguments["base"], num_pairs = base, dim // 2
    else:
        scaled = _SCALINGS.get(kind, (_unscaled, frozenset()))[0]
        arguments["frequencies"], scale = scaled(series)
        arguments |= {} if scale == 1 else {"scale": scale}
        num_pairs = len(arguments["frequencies"])
    if model == "nanochat":  # It rotates the other way.
        arguments["frequencies"] = -arguments.get("frequencies", bands_of_width(dim, base=base))
    # An odd width is rounded up; one above the head's, as of EfficientLoFTR, spans several heads.
    arguments["dim"] = max(head_dim, 2 * num_pairs)
    sections = given.get("mrope_section")
    if sections is not None:
        axes = mrope_axes(sections, interleaved=bool(given.get("mrope_interleaved")))
        return arguments | {"num_axes": len(sections), "pair_axes": axes}
    if 2 * num_pairs < arguments["dim"]:
        arguments["axis_dims"] = (2 * num_pairs,)
        arguments |= {"trailing": True} if model == "deepseek_v4" else {}
    return arguments


def rope_parameters(
    config: Mapping[str, Any] | str | Path | Any, *, layer_type: str | None = None
) -> dict[str, Any]:
    """Rope parameters of a configuration, with ``rope_type`` and ``rope_theta``, in one spelling.

    Args:
        config: mapping, path of a ``config.json`` or of the folder with it, or an object with
            ``to_dict``.
        layer_type: type of the layers, where each has rope parameters of its own.

    Raises:
        ValueError: If the layer type is missing or unknown.
    """
    config = read_config(config)
    given = _rope_parameters(config, layer_type)
    kind = given.get("rope_type") or given.get("type") or "default"
    base = float(_first(given, _BASE) or _base(config, layer_type))
    return {**given, "rope_type": _ALIASES.get(kind, kind), "rope_theta": base}


def read_config(config: Mapping[str, Any] | str | Path | Any) -> dict[str, Any]:
    """Read a configuration as a dict; of a composite one, the part of its language model.

    Args:
        config: mapping, path of a ``config.json`` or of the folder with it, or an object with
            ``to_dict``.

    Raises:
        TypeError: If it is neither a mapping, a path nor an object with ``to_dict``.
    """
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        config = json.loads(path.read_text(encoding="utf-8"))
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a dict, a path of a config.json or an object with to_dict(); got "
            f"{type(config).__name__}"
        )
    if any(_first(config, names) is not None for names in (_HEAD_DIM, _WIDTH, _BASE)):
        return dict(config)
    part = next((config[name] for name in _PARTS if isinstance(config.get(name), Mapping)), None)
    return dict(config) if part is None else read_config(part)


def _rope_parameters(config: Mapping[str, Any], layer_type: str | None) -> dict[str, Any]:
    """Rope parameters of a type of layers, in either spelling; empty if there are none."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"the rope parameters must be a mapping; got {given!r}")
    nested = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    if not nested:
        # transformers 4: the scaling is of the full layers, beside a base of the sliding ones.
        is_local = layer_type == "sliding_attention" and _first(config, _LOCAL_BASE) is not None
        return {} if is_local else dict(given)
    types = [key for key, value in given.items() if isinstance(value, Mapping) or value is None]
    strangers = set(given) - set(types) - {"rope_type", "rope_theta", "partial_rotary_factor"}
    if strangers:
        raise ValueError(f"the key {min(strangers)!r} of the rope parameters is not understood")
    if layer_type is None and len({json.dumps(one, sort_keys=True) for one in nested.values()}) > 1:
        raise ValueError(f"give layer_type, one of {', '.join(map(repr, nested))}")
    found = nested.get(next(iter(nested)) if layer_type is None else layer_type)
    if found is None:
        raise ValueError(
            f"layer_type must be one that is rotated, {', '.join(map(repr, nested))}; "
            f"got {layer_type!r}"
        )
    return dict(found)


def _require_known(config: Mapping[str, Any], given: Mapping[str, Any], kind: str) -> None:
    """Raise if a key about the rotation is not understood."""
    if kind not in (*_SCALINGS, "default", "axial"):
        raise ValueError(f"rope_type must be default, axial, {', '.join(_SCALINGS)}; got {kind!r}")
    known = set(_COMMON)
    if kind in _SCALINGS:
        known |= _SCALINGS[kind][1]
    if given.get("alpha"):
        known |= _YARN  # HunYuan's files have them beside alpha, and its code reads none.
    for key, value in given.items():
        if key not in known and value is not None:
            raise ValueError(
                f"the key {key!r} of the rope parameters is not understood with rope_type "
                f"{kind!r}; the values say {value!r}"
            )
    known = {*_ELSEWHERE, *_BASE, *_SHARE, *_LOCAL_BASE}
    for key, value in config.items():
        if key.startswith(("rope_", "rotary_")) and key not in known and value is not None:
            raise ValueError(f"the key {key!r} of the config, {value!r}, is not understood")


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Value of the first name that a configuration has a number for."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def _layer_overrides(config: Mapping[str, Any], layer_type: str | None) -> Mapping[str, Any]:
    """Values of the first layer of a type that has values of its own, as Gemma 4's global ones."""
    own = config.get("per_layer_config") or {}
    for index, kind in enumerate(config.get("layer_types") or ()):
        # Keys are indices, in some files with a zero in front.
        found = own.get(f"{index:02d}") or own.get(str(index)) or own.get(index)
        if kind == layer_type and found:
            return dict(found)
    return {}


def _head_dim(config: Mapping[str, Any]) -> int:
    """Width of a head: what is written, else the model's width over the number of heads."""
    if config.get("memory_attention_hidden_size"):  # The memory of SAM 2's videos.
        heads = config["memory_attention_num_attention_heads"]
        rate = config.get("memory_attention_downsample_rate", 1)
        return int(config["memory_attention_hidden_size"] // (heads * rate))
    own = _first(config, _HEAD_DIM)
    if own is not None:
        return int(own)
    width, num_heads = _first(config, _WIDTH), _first(config, _NUM_HEADS)
    if width is None or num_heads is None:
        raise ValueError("the config needs 'head_dim', or 'hidden_size' and 'num_attention_heads'")
    return int(width // num_heads)


def _base(config: Mapping[str, Any], layer_type: str | None) -> float:
    """Base beside the rope parameters, 10,000 where none is given."""
    local = _first(config, _LOCAL_BASE) if layer_type == "sliding_attention" else None
    return float(local or _first(config, _BASE) or 10_000.0)


def _columns(config: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[int, int]:
    """Width of what the encoder is given, and how many of its columns are rotated."""
    alone = config.get("qk_rope_head_dim")
    share = given.get("partial_rotary_factor") or _first(config, _SHARE) or 1.0
    if config.get("rotary_dim"):
        return _head_dim(config), int(config["rotary_dim"])
    if alone is None:
        head_dim = _head_dim(config)
        return head_dim, int(head_dim * share)
    # The rotated part of a head of MLA stands alone; only DeepSeek V4 keeps it in its head.
    if config.get("model_type") == "deepseek_v4":
        return int(config["head_dim"]), int(alone)
    return int(alone), int(alone)


def _pairing(config: Mapping[str, Any]) -> str:
    if config.get("rope_interleave") or config.get("rope_interleaved"):
        return "interleaved"
    return "interleaved" if config.get("model_type") in _INTERLEAVED else "half"


def _unscaled(series: _Series) -> tuple[Tensor, float]:
    return bands_of_width(series.dim, base=series.base), 1.0


def _of_model(
    name: str, config: Mapping[str, Any], given: Mapping[str, Any], base: float
) -> dict[str, Any]:
    """Arguments of a preset at the width and the base of a configuration."""
    arguments = ROTARY[name].arguments_with(dim=_head_dim(config))
    sections = given.get("mrope_section")
    if sections is not None:
        axes = arguments.get("pair_axes", ())
        if sorted(sections) != sorted(axes.count(axis) for axis in set(axes)):
            raise ValueError(f"the 'mrope_section' of {name} must fit its model; got {sections}")
    if "frequencies" not in arguments:
        return arguments | {"base": base}
    # Powers of the preset's base, times the first band: another base has another power.
    own = 100.0 if name == "dinov3" else 10_000.0
    power = math.log(base) / math.log(own)
    bands = arguments["frequencies"]
    parts = bands if isinstance(bands, list) else [bands]
    parts = [part[0] * (part / part[0]) ** power for part in parts]
    if name == "pixtral":  # Its second axis begins with the second band of one series.
        parts[1] = parts[1] / parts[1][0] * base ** (-2 / arguments["dim"])
    return arguments | {"frequencies": parts if isinstance(bands, list) else parts[0]}
