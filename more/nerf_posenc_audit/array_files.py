"""Arrays of any program, read from files to be identified."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nerf_posenc_audit.search import Match, identify

_ARRAYS = ("output", "x", "positions")


def read_arrays(path: Path) -> dict[str, Any]:
    """Read arrays of another program: .json, .npy, .npz or .safetensors.

    Args:
        path: file of arrays named ``output``, ``x`` (or ``before``) and ``positions``; a .npy file
            is the output alone. In JSON an array is nested lists, or an object of its ``shape``
            and ``data``, row by row.

    Returns:
        Tensors by name, and the other values of a JSON file as they are.

    Raises:
        ValueError: If the file is of another kind or has no ``output``.
    """
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    kind = path.suffix.lower()
    values: dict[str, Any]
    if kind == ".json":
        values = _from_json(path)
    elif kind == ".npy":
        values = {"output": torch.from_numpy(np.load(path, allow_pickle=False))}
    elif kind == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            values = {name: torch.from_numpy(stored[name]) for name in stored.files}
    elif kind == ".safetensors":
        values = importlib.import_module("safetensors.torch").load_file(path)
    else:
        raise ValueError(f"{path} must be .json, .npy, .npz or .safetensors")
    # The name that `identify` has for it.
    if "before" in values:
        values["x"] = values.pop("before")
    if "output" not in values:
        raise ValueError(f"{path} has no array named output; it has {', '.join(values) or 'none'}")
    return values


def _from_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except ValueError as error:  # Of the text or its encoding.
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict) or not isinstance(values.get("inputs", {}), dict):
        raise ValueError(f"{path} must be an object with the array output")
    values = {**values, **values.get("inputs", {})}
    return values | {
        n: _tensor(value, f"{path}: {n}") for n, value in values.items() if n in _ARRAYS
    }


def _tensor(value: Any, name: str) -> Tensor:
    try:
        if isinstance(value, dict):
            return torch.tensor(value["data"], dtype=torch.float64).reshape(value["shape"])
        return torch.tensor(value, dtype=torch.float64)
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{name} must be nested lists of numbers, or shape and data that fit; a NaN of "
            "JavaScript is written as null"
        ) from None


def identify_file(
    path: Path, *, shape: Sequence[int] | None = None, expected: str | None = None
) -> list[Match]:
    """Find the preset that gives the output of a file, as `identify` does.

    Args:
        path: file of arrays; see `read_arrays`.
        shape: sizes of the grid of the tokens, if the file has no ``positions``.
        expected: name of a preset; the matches then say what differs from it.

    Raises:
        ValueError: If the arrays do not fit, or nothing of this width is known.
    """
    values = read_arrays(path)
    positions = None if shape is not None else values.get("positions")
    return identify(
        values["output"],
        before=values.get("x"),
        shape=shape,
        positions=positions,
        expected=expected,
    )
