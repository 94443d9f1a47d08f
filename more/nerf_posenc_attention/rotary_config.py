"""Rotary embeddings from the ``config.json`` of a model, in the spelling of transformers 4 or 5."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nerf_posenc.core.bands import bands_of_width
from nerf_posenc_attention.presets.language import mrope_axes
from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rope_types import SCALINGS, TRAINED, YARN, Series, positive, whole

# What the classes of transformers fill in, written by ``python -m more.tools.model_types``.
_TABLE = Path(__file__).with_name("model_types.json")
# Widest head that is taken for one: counted before bands of it are made.
_WIDEST = 1 << 16
# Names of one quantity in the configurations of different models, the decisive one first.
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
_WIDTH = ("embed_dim", "hidden_size", "n_embd", "d_model", "dim", "encoder_hidden_size")
_NUM_HEADS = (
    "num_attention_heads",
    "n_head",
    "num_heads",
    "n_heads",
    "decoder_num_attention_heads",
    "encoder_num_attention_heads",
)
BASE = (
    *("rope_theta", "rotary_emb_base", "rotary_embedding_base", "rope_base"),
    # Those of one type of layers.
    *("global_rope_theta", "rope_local_base_freq", "local_rope_theta", "swa_rope_theta"),
    "compress_rope_theta",
)
SHARE = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rotary_percentage",
    "rotary_emb_fraction",
)
_POSITIONS = ("position_embedding_type", "position_embeddings_type", "positional_embedding_type")
# Keys about which layers rotate, dropout and sizes of other modules: they change no angle.
_ELSEWHERE = (
    "rope_parameters",
    "rope_scaling",
    "rotary_dim",
    "rope_interleave",
    "rope_interleaved",
    "rotary_emb_interleaved",
    "rope_scaling_layers",
)
# Parts of a configuration that hold a language model's own.
PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder", "encoder")

# Names of base and share that a class of transformers reads unless the table says others.
USUAL = ("rope_theta", "partial_rotary_factor")
# Keys of the rope parameters of every rope_type.
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
    # A remark that the weights were trained with the scaling.
    "finetuned",
)
# What a class fills in for all types of layers alike.
_FILLED = ("rope_theta", "partial_rotary_factor", "reads")
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
        ValueError: If a key is missing or not understood, or a value is of another kind.
    """
    config = read_config(config)
    try:
        return _arguments(config, layer_type, length)
    except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a value of the configuration is of another kind: {error!r}") from error


def _arguments(
    config: Mapping[str, Any], layer_type: str | None, length: int | None
) -> dict[str, Any]:
    """Arguments that the part of a configuration that rotates describes."""
    config, given = _resolved(config, layer_type)
    kind, base, model = given["rope_type"], given["rope_theta"], config.get("model_type", "")
    if "preset" in config:
        order = {"axis_order": tuple(config["axis_order"])} if "axis_order" in config else {}
        return _of_model(config["preset"], config, given, base) | order
    head_dim, dim = _columns(config, given)
    if not 0 < head_dim <= _WIDEST or not 0 < dim <= _WIDEST:
        raise ValueError(f"heads of {head_dim} columns, {dim} of them rotated, are not plausible")
    if head_dim % 2:
        raise ValueError(f"the width of a head must be even; got {head_dim}")
    sizes = (config.get(key) for key in (TRAINED, "max_position_embeddings"))
    trained, longest = (None if size is None else whole(size, TRAINED) for size in sizes)
    series = Series(given, head_dim, dim, base, trained, longest, length)
    arguments: dict[str, Any] = {"pairing": _pairing(config)}
    if kind == "default" and dim % 2 == 0:
        arguments["base"], num_pairs = base, dim // 2
    else:
        arguments["frequencies"], scale = SCALINGS[kind][0](series)
        arguments |= {} if scale == 1 else {"scale": scale}
        num_pairs = len(arguments["frequencies"])
    if model == "nanochat":  # It rotates the other way.
        arguments["frequencies"] = -arguments.get("frequencies", bands_of_width(dim, base=base))
    # An odd width is rounded up; one above the head's, as of EfficientLoFTR, spans several heads.
    arguments["dim"] = max(head_dim, 2 * num_pairs)
    sections = given.get("mrope_section")
    if sections is not None:
        if not isinstance(sections, list | tuple) or not all(isinstance(n, int) for n in sections):
            raise ValueError(f"mrope_section must be a list of integers; got {sections!r}")
        axes = mrope_axes(sections, interleaved=bool(given.get("mrope_interleaved")))
        if len(axes) != num_pairs:
            raise ValueError(
                f"the sections {sections} of mrope_section must add up to {num_pairs}, the number "
                "of rotated pairs"
            )
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
    return _resolved(config, layer_type)[1]


def rotating_types() -> list[str]:
    """Model types of transformers whose ``config.json`` can be read."""
    return [name for name, row in _table()["rotates"].items() if "refused" not in row]


def image_preset(config: Mapping[str, Any] | str | Path | Any) -> str | None:
    """Name of the preset that says how the model of a configuration counts its patches.

    Args:
        config: mapping, path of a ``config.json`` or of the folder with it, or an object with
            ``to_dict``.

    Returns:
        The name; None for a language model.
    """
    row = _row(read_config(config))
    return row.get("preset") or ("qwen2-vl-vision" if "image" in row else None)


def read_config(config: Mapping[str, Any] | str | Path | Any) -> dict[str, Any]:
    """Read a configuration as a dict; of a composite one, the part of its language model.

    Args:
        config: mapping, path of a ``config.json`` or of the folder with it, or an object with
            ``to_dict``.

    Raises:
        TypeError: If it is neither a mapping, a path nor an object with ``to_dict``.
        ValueError: If there is no such file, or it holds no configuration.
    """
    if isinstance(config, str | Path):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        if not path.is_file():
            raise ValueError(
                f"there is no file {str(path)!r}; of a model on a hub, give the path of its "
                "config.json or transformers' AutoConfig.from_pretrained(name)"
            )
        try:
            config = json.loads(path.read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise ValueError(f"{path} is no JSON file: {error}") from None
        if not isinstance(config, dict):
            raise ValueError(f"{path} must hold an object; it holds a {type(config).__name__}")
    elif hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a dict, a path of a config.json or an object with to_dict(); got "
            f"{type(config).__name__}"
        )
    found = [name for name in PARTS if isinstance(config.get(name), Mapping) and config[name]]
    if not found:
        return dict(config)
    part = dict(config[found[0]])
    if found == ["decoder", "encoder"] and _about_rotation(part) != _about_rotation(
        config["encoder"]
    ):
        raise ValueError("encoder and decoder differ: give config['encoder'] or config['decoder']")
    # The type of a part that does not say it is its model's.
    known = _table()["parts"].get(config.get("model_type"), ("", None))
    if known[0] == found[0] and known[1]:
        part.setdefault("model_type", known[1])
    return read_config(part)


def _about_rotation(config: Mapping[str, Any]) -> dict[str, Any]:
    keys = (*_HEAD_DIM, *_WIDTH, *_NUM_HEADS, *BASE, *SHARE, "rope_parameters", "rope_scaling")
    return {key: config[key] for key in keys if key in config}


@functools.cache
def _table() -> dict[str, Any]:
    """What is known of model types."""
    table: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return table


def _row(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the model's class fills in for missing keys; empty for an unknown type.

    Raises:
        ValueError: If models of this type do not rotate.
    """
    name, table = config.get("model_type"), _table()
    if name in table["parts"]:
        # One file for the whole model, as of Qwen2-VL, or the part of its images.
        name = name if "patch_size" in config else table["parts"][name][1]
    is_image = "patch_size" in config and "vocab_size" not in config
    ends = ("", "_vision", "_vision_encoder", "_vision_model") if is_image else ("",)
    rows = [table["rotates"].get(f"{name}{end}") for end in ends]
    row: dict[str, Any] = next((one for one in rows[::-1] if one), {})
    reason = ""
    known = row | {key: value for key, value in config.items() if value is not None}
    if name in table["others"]:
        reason = f"models of type {name!r} do not"
    for key in _POSITIONS:
        if known.get(key) is not None and not str(known[key]).startswith(("rot", "rope")):
            reason = f"{key} is {known[key]!r}"
    attention = known.get("attn_config")
    for key, value in {
        "alibi": True,
        "use_alibi": True,
        "mla_use_nope": True,
        "use_rope": False,
    }.items():
        inner = attention.get(key) if isinstance(attention, Mapping) else None
        if value in (known.get(key), inner):
            reason = f"{key} is {value}"
    if reason:
        raise ValueError(f"the model does not rotate queries and keys: {reason}")
    if "refused" in row:
        raise ValueError(f"no configuration of {name!r} is read: use {row['refused']}")
    if is_image and not {"image", "preset"} & row.keys():
        raise ValueError(f"model_type {name!r} is not known as one of images with a rotation")
    return row


def _resolved(config: Any, layer_type: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A configuration with what its class fills in, and its rope parameters in one spelling."""
    config = read_config(config)
    row = _row(config)
    given, layer = _rope_parameters(config, row, layer_type)
    kinds = {given[key] for key in ("rope_type", "type") if given.get(key) is not None}
    if len({_ALIASES.get(kind, kind) for kind in kinds}) > 1:
        raise ValueError(f"the rope parameters have two types, {', '.join(map(repr, kinds))}")
    kind = str(given.get("rope_type") or given.get("type") or "default")
    kind = _ALIASES.get(kind, kind)
    kind = "axial" if "image" in row and kind == "default" else kind
    _require_known(config, given, kind)
    if kind == "axial" and not {"image", "preset"} & row.keys():
        raise ValueError(
            "the order of the axes is the model's: the config needs a known 'model_type'"
        )
    config = {key: value for key, value in config.items() if key not in row.get("ignores", ())}
    # Names that the other types of layers read.
    others = [one for one in (row.get("layers") or {}).values() if one and one is not layer]
    theirs = {key for one in others for key in one.get("reads", ())} - {*layer.get("reads", ())}
    names = [key for key in BASE if key not in theirs]
    read = layer.get("reads", USUAL if row else (*names, *SHARE))
    spelled = {key: config[key] for key in (*names, *SHARE) if config.get(key) is not None}
    base, share = (
        _one_of(
            {key: value for key, value in spelled.items() if key in keys},
            [key for key in keys if key in read],
            given.get(name),
            layer.get(name, default),
        )
        for name, keys, default in ((BASE[0], names, None), (SHARE[0], SHARE, 1.0))
    )
    if row.get("is_whole") and share != 1:
        raise ValueError(
            f"the share of rotated columns is {share}, but models of type "
            f"{config.get('model_type')!r} rotate all"
        )
    if base is None:
        raise ValueError(
            "the config needs 'rope_theta', the base, which nothing is known of for model_type "
            f"{config.get('model_type')!r}; most often it is 10000"
        )
    resolved = {**given, "rope_type": kind, "rope_theta": positive(base, "rope_theta")}
    resolved["partial_rotary_factor"] = positive(share, "partial_rotary_factor")
    own = {"head_dim": layer["head_dim"]} if "layers" in row and "head_dim" in layer else {}
    overrides = dict(_layer_overrides(config, layer_type, own))
    config = _filled(config, {**row, **own}) | overrides
    config |= {"preset": "qwen2-vl-vision"} if kind == "axial" and "preset" not in row else {}
    return config, resolved


def _filled(config: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the sizes of its class in place of missing ones, under any name."""
    own = (
        "preset",
        "pairing",
        "wider",
        "axis_order",
    )  # No file has them; the table alone says them.
    filled = {key: value for key, value in config.items() if value is not None and key not in own}
    sizes = {"hidden_size": _WIDTH, "embed_dim": _WIDTH, "num_attention_heads": _NUM_HEADS}
    for key, value in row.items():
        names = sizes.get(key, (key,)) if key != "head_dim" else _HEAD_DIM
        if not any(name in filled for name in names) or (key in sizes and key == "embed_dim"):
            filled.setdefault(key, value)
    return filled


def _one_of(values: Mapping[str, Any], read: Sequence[str], inner: Any, default: Any) -> Any:
    """The value of one quantity that has several names.

    Args:
        values: numbers beside the rope parameters, by name.
        read: names that the model's class reads; the others must say the same.
        inner: number in the rope parameters; None if there is none.
        default: number that the class fills in; None if it is not known.
    """
    given = dict(values) if inner is None else {**values, "the rope parameters": inner}
    known = [key for key in given if key in read or key not in values]
    found = given[known[0]] if known else default
    if any(positive(value, key) != found for key, value in given.items()):
        filled = "" if known else f"; the model's class has {found} and does not read this"
        raise ValueError(f"values of one quantity differ: {given}{filled}")
    return found


def _rope_parameters(
    config: Mapping[str, Any], row: Mapping[str, Any], layer_type: str | None
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Rope parameters of a type of layers, in either spelling, and what its class fills in."""
    spelled = [config[key] for key in ("rope_scaling", "rope_parameters") if config.get(key)]
    if any(not isinstance(one, Mapping) for one in spelled):
        raise ValueError(f"the rope parameters must be a mapping; got {spelled!r}")
    if len(spelled) > 1 and any(
        spelled[1][key] != value for key, value in spelled[0].items() if key in spelled[1]
    ):
        raise ValueError(f"rope_scaling and rope_parameters differ: {spelled[0]} and {spelled[1]}")
    given = {key: value for one in spelled for key, value in one.items()}
    given = given or row.get("rope_parameters") or {}
    layers: Mapping[str, Any] = row.get("layers") or {}
    nested = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    strangers = set(given) - set(nested) - {"rope_type", "type", "rope_theta"}
    strangers -= {key for key, value in given.items() if value is None} | {"partial_rotary_factor"}
    if nested and strangers:
        raise ValueError(f"the key {min(strangers)!r} of the rope parameters is not understood")
    known = config.get("layer_types") or ()
    if not isinstance(known, list | tuple):
        raise ValueError(f"layer_types must be a list of names; got {known!r}")
    known = {**nested, **layers} if layers or nested else dict.fromkeys(known)
    rotated = [name for name in known if (nested.get(name) if nested else layers.get(name, True))]
    listed = ", ".join(map(repr, rotated))
    if layer_type is not None and layer_type not in rotated:
        wanted = (
            f"one that is rotated, {listed}" if rotated else "left out: all layers rotate alike"
        )
        raise ValueError(f"layer_type must be {wanted}; got {layer_type!r}")
    if nested and row and not layers:
        raise ValueError(
            f"models of type {config['model_type']!r} have one rotation for all layers"
        )
    if spelled and row.get("is_unscaled"):
        raise ValueError(f"models of type {config['model_type']!r} ignore a scaling; got {given}")
    if not layers and not nested:
        return dict(given), row

    def one(name: str) -> tuple[dict[str, Any], Mapping[str, Any]]:
        layer = layers.get(name) or {key: row[key] for key in _FILLED if key in row}
        if nested:
            return dict(nested[name]), layer
        is_old = config.get("rope_scaling") and any(layers[one].get("scaled") for one in rotated)
        if given and not (is_old and "rope_type" in given):
            raise ValueError(
                f"the rope parameters need a mapping for each of {listed}, or rope_type"
            )
        return (dict(given) if layer.get("scaled") else {}), layer

    if layer_type is None and len({json.dumps(one(name), sort_keys=True) for name in rotated}) > 1:
        raise ValueError(f"give layer_type, one of {listed}")
    return one(rotated[0] if layer_type is None else layer_type)


def _require_known(config: Mapping[str, Any], given: Mapping[str, Any], kind: str) -> None:
    """Raise if a key about the rotation is not understood."""
    if kind not in (*SCALINGS, "axial"):
        raise ValueError(f"rope_type must be axial, {', '.join(SCALINGS)}; got {kind!r}")
    known = {*_COMMON, *(SCALINGS[kind][1] if kind in SCALINGS else ())}
    if given.get("alpha"):
        known |= YARN  # HunYuan's files have them beside alpha, and its code reads none.
    for key, value in given.items():
        if key not in known and value is not None:
            raise ValueError(
                f"the key {key!r} of the rope parameters is not understood with rope_type "
                f"{kind!r}; the values say {value!r}"
            )
    known = {*_ELSEWHERE, *BASE, *SHARE}
    config = {key: value for key, value in config.items() if value not in (None, False)}
    for key, value in config.items():
        if key.startswith(("rope_", "rotary_", "use_dynamic_ntk")) and key not in known:
            raise ValueError(f"the key {key!r} of the config, {value!r}, is not understood")


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Value of the first name that a configuration has a number for."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def _layer_overrides(
    config: Mapping[str, Any], layer_type: str | None, own: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Values of the first layer of a type that has values of its own, as Gemma 4's global ones."""
    overrides = config.get("per_layer_config") or {}
    for index, kind in enumerate(config.get("layer_types") or ()):
        # Keys are indices, in some files with a zero in front.
        found = overrides.get(f"{index:02d}") or overrides.get(str(index)) or overrides.get(index)
        if kind == layer_type and found:
            return dict(found)
    wider = config.get("global_head_dim") if own else None
    return own if wider is None else {"head_dim": wider}


def _head_dim(config: Mapping[str, Any]) -> int:
    """Width of a head: what is written, else the model's width over the number of heads."""
    if config.get("memory_attention_hidden_size"):  # The memory of SAM 2's videos.
        heads = config["memory_attention_num_attention_heads"]
        rate = config.get("memory_attention_downsample_rate", 1)
        return int(config["memory_attention_hidden_size"] // (heads * rate))
    own = _first(config, _HEAD_DIM)
    if own is not None:
        return whole(own, "head_dim")
    width, num_heads = _first(config, _WIDTH), _first(config, _NUM_HEADS)
    if width is None or num_heads is None:
        raise ValueError("the config needs 'head_dim', or 'hidden_size' and 'num_attention_heads'")
    # Zamba 2's attention has twice the width of the model.
    width = whole(width, "hidden_size") * int(config.get("wider", 1))
    return width // whole(num_heads, "num_attention_heads")


def _columns(config: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[int, int]:
    """Width of what the encoder is given, and how many of its columns are rotated."""
    alone = config.get("qk_rope_head_dim")
    own = config.get("head_dim")
    if alone is not None and own not in (None, alone) and config.get("model_type") != "deepseek_v4":
        raise ValueError(
            f"head_dim is {own} and qk_rope_head_dim {alone}: the rotated part is either"
        )
    if alone is not None and given.get("partial_rotary_factor", 1) not in (
        1,
        alone / (own or alone),
    ):
        raise ValueError("a share of the columns does not go with qk_rope_head_dim")
    if alone is not None:
        # The rotated part of a head of MLA stands alone; only DeepSeek V4 keeps it in its head.
        alone = whole(alone, "qk_rope_head_dim")
        return (_head_dim(config) if config.get("model_type") == "deepseek_v4" else alone), alone
    head_dim = _head_dim(config)
    if config.get("rotary_dim"):
        return head_dim, whole(config["rotary_dim"], "rotary_dim")
    return head_dim, int(head_dim * given.get("partial_rotary_factor", 1.0))


def _pairing(config: Mapping[str, Any]) -> str:
    own = ("rope_interleave", "rope_interleaved", "rotary_emb_interleaved")
    return "interleaved" if any(config.get(key) for key in own) else config.get("pairing", "half")


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
