"""Rotations of the models of ``mlx_lm``, also with scalings that their configurations may ask for.

These models hold their rotation as ``rope`` in an attention layer. A layer is built from small
sizes, and the rotation is asked as any other; where the configuration has ``rope_scaling``, it is
asked again with a scaling, and compared with what the scaling means.
"""

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_audit.asking import ask
from nerf_posenc_audit.checking import check
from nerf_posenc_audit.probe import NotAskableError
from nerf_posenc_audit.rows import Row, brief

SCALINGS: dict[str, dict[str, Any]] = {
    "linear by 4": {"rope_type": "linear", "type": "linear", "factor": 4.0},
    "YaRN by 4": {
        "rope_type": "yarn",
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32_768,
    },
}
"""Scalings that configurations of models ask for, in both spellings of their type."""

# Layers among which those of every type are.
_FIRST_LAYERS = 8
# Small sizes of required fields, by the words in their names.
_FIELDS: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "rope_theta": 10_000.0,
    "rms_norm_eps": 1e-6,
    "layer_norm_eps": 1e-6,
    "max_position_embeddings": 131_072,
    "vocab_size": 64,
    "n_embd": 256,
    "n_head": 4,
    "d_model": 256,
    "n_heads": 4,
    "partial_rotary_factor": 0.5,
    "rotary_pct": 0.25,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 32,
    "v_head_dim": 64,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
}
_BY_TYPE: dict[Any, Any] = {int: 4, float: 1.0, str: "", bool: False, list: [], dict: {}}


def audit_models(library: str, folder: Path) -> Iterator[Row]:
    """Ask every rotation of the models in a folder.

    Args:
        library: package of the modules, such as ``mlx_lm.models``.
        folder: folder of their sources.

    Yields:
        One row for each attention layer, and one for each scaling of its configuration.
    """
    for file in sorted(folder.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "ModelArgs" not in text or "rope" not in text:
            continue
        name = f"{library}.{file.stem}"
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # Some leave the program at an import.
            yield Row(name, f"not imported: {brief(error)}", "not built")
            continue
        for key, layer in list(vars(module).items()):
            own = inspect.isclass(layer) and layer.__module__ == name
            if own and "Attention" in key and "self.rope" in inspect.getsource(layer):
                yield from _of_layer(f"{name}.{key}", layer, module)


def _of_layer(name: str, layer: type, module: Any) -> Iterator[Row]:
    """Rows of one attention layer."""
    arguments = getattr(module, "TextArgs", None) or module.ModelArgs
    try:
        rotate = _rotation(layer, _arguments(arguments))
        found = ask(rotate)
    except NotAskableError as error:
        yield Row(name, f"not asked: {error}", "not asked")
        return
    except Exception as error:
        yield Row(name, f"not built: {brief(error)}", "not built")
        return
    yield Row(name, str(found), "unnamed" if found.series is None else "named")
    fields = {field.name for field in dataclasses.fields(arguments)}
    if "rope_scaling" not in fields or found.series is None or found.series.kind != "default":
        return
    for title, scaling in SCALINGS.items():
        config = {
            "head_dim": 2 * len(found.measured.bands),
            "rope_theta": found.series.base,
            "rope_scaling": scaling,
        }
        yield _with_scaling(f"{name} with {title}", layer, arguments, config)


def _with_scaling(name: str, layer: type, arguments: type, config: dict[str, Any]) -> Row:
    """Compare a layer with a scaling that its configuration asks for.

    Some models scale the layers of one type alone, so that any of the first layers may have it.
    """
    scaling = config["rope_scaling"]
    # Where a configuration has both spellings, the newer one counts.
    newer = {"rope_parameters": scaling | {"rope_theta": config["rope_theta"]}}
    try:
        own = _arguments(arguments, rope_scaling=scaling, **newer)
        for index in range(_FIRST_LAYERS):
            rotate = _rotation(layer, own, index)
            series = ask(rotate).series
            if series is not None and series.kind == scaling["rope_type"]:
                # Layers of another type may have a base of their own.
                config = config | {"rope_theta": series.base}
            verdict = check(rotate, against=config)
            if not any("not applied" in one for one in verdict.differences):
                break
    except NotAskableError as error:
        return Row(name, f"not asked: {error}", "not asked")
    except Exception as error:
        return Row(name, f"refused: {brief(error)}", "refused")
    pairing = "columns are paired"  # A choice of the model, which no configuration says.
    differences = [one for one in verdict.differences if not one.startswith(pairing)]
    return Row(name, "; ".join(differences) or "as the configuration says", "named")


def _arguments(made: Any, **given: Any) -> Any:
    """A configuration of small sizes."""
    hints = typing.get_type_hints(made)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(made):
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if field.name in given:
            values[field.name] = given[field.name]
        elif field.name in _FIELDS and not has_default:
            values[field.name] = _FIELDS[field.name]
        elif not has_default:
            kind = hints.get(field.name)
            values[field.name] = _BY_TYPE.get(typing.get_origin(kind) or kind)
    return made(**values)


def _rotation(layer: Any, arguments: Any, index: int = 0) -> Callable[..., Tensor]:
    """The rotation of a layer, as a function of queries and positions in torch."""
    needed = [
        p for p in inspect.signature(layer.__init__).parameters.values() if p.default is p.empty
    ]
    # After self: the configuration, and for some the index of the layer.
    built = layer(arguments, *(index for _ in needed[2:]))
    mx: Any = importlib.import_module("mlx.core")

    def rotate(x: Tensor, position_ids: Tensor) -> Tensor:
        """Rotate queries ``(1, 1, length, width)``, one position at a time."""
        positions = position_ids.flatten().tolist()
        if x.ndim != 4 or x.shape[2] != len(positions):
            raise ValueError("x must have shape (1, 1, length, width)")
        rows = [
            torch.tensor(built.rope(mx.array(x[:, :, i : i + 1].numpy()), offset=at).tolist())
            for i, at in enumerate(positions)
        ]
        return torch.cat(rows, dim=2)

    rope = built.rope
    width = getattr(rope, "dims", None) or getattr(arguments, "head_dim", None) or 64
    rotate.dim = RotaryEncoder(int(width)).dim  # type: ignore[attr-defined]
    return rotate
