"""Numbers of other libraries, and what the lines of the catalog give in their place.

The documentation's page of equivalents and the tests read them.
"""

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nerf_posenc
import nerf_posenc_attention as attention
import nerf_posenc_attention.presets.positions
from nerf_posenc import core, encoders, networks, presets
from nerf_posenc_audit.catalog.equivalent import Equivalent

DATA = Path(__file__).parents[1] / "tests" / "data"
SHORT = Path(__file__).parents[2] / "tests" / "data" / "encoding_vectors.json"


@functools.cache
def arrays() -> dict[str, Tensor]:
    """What `tools.vectors` has computed, by ``entry/array``, in float64 or integers."""
    with np.load(DATA / "library_vectors.npz") as stored:
        tensors = {name: torch.from_numpy(stored[name]) for name in stored.files}
    return {
        name: tensor.double() if tensor.is_floating_point() else tensor.long()
        for name, tensor in tensors.items()
    }


@functools.cache
def small_vectors() -> dict[str, dict[str, Any]]:
    """The short vectors of ``encoding_vectors.json``, which name library, call and path."""
    stored = json.loads(SHORT.read_text(encoding="utf-8"))
    return {vector["id"]: vector for vector in stored["vectors"]}


@functools.cache
def released() -> dict[str, dict[str, Any]]:
    """Encodings of released configurations and of odd sizes."""
    stored = json.loads((DATA / "released.json").read_text(encoding="utf-8"))
    return {vector["name"]: vector for vector in stored}


def _tensor(stored: dict[str, Any]) -> Tensor:
    if "sines" in stored:
        count = math.prod(stored["shape"])
        data = torch.sin(stored["sines"] * torch.arange(count, dtype=torch.float64))
    else:
        data = torch.tensor(stored["data"], dtype=getattr(torch, stored["dtype"]))
    return data.view(stored["shape"])


def expected(vector: str) -> Tensor:
    """What the library gave, by ``file/entry/array``."""
    file, entry = vector.split("/", 1)
    if file == "encoding":
        return torch.tensor(small_vectors()[entry]["output"], dtype=torch.float64)
    if file == "released":
        return _tensor(released()[entry]["y"]).double()
    entry, _, first = entry.partition("[")
    result = arrays()[entry]
    return result[..., int(first.removesuffix(":]")) :] if first else result


def given(vector: str) -> dict[str, Tensor]:
    """What the library was given: arrays by their names, and queries as ``q``."""
    file, name = vector.split("/", 1)
    if file == "encoding":
        found = small_vectors()[name]["input"]
        return {"x": torch.tensor(found, dtype=torch.float64)} if isinstance(found, list) else {}
    if file == "released":
        found = released()[name]
        stored = {"x": found["x"], **found["args"]}
        return {key: _tensor(value) for key, value in stored.items() if value}
    entry = name.rsplit("/", 1)[0]
    own = {
        key.removeprefix(f"{entry}/").removeprefix("input_"): value
        for key, value in arrays().items()
        if key.startswith(f"{entry}/")
    }
    # A model that counts its tokens itself was given the shape of the grid.
    if "shape" in own and entry in attention.ROTARY:
        own["positions"] = attention.ROTARY[entry].positions(own["shape"].tolist())
    result = arrays()[name.partition("[")[0]]
    queries = torch.sin(0.37 * torch.arange(result.numel(), dtype=torch.float64) + 0.1)
    return {**own, "q": queries.reshape(result.shape)}


def evaluate(row: Equivalent, inputs: Mapping[str, Tensor], dtype: torch.dtype) -> Any:
    """What a line gives for inputs of this type: a tensor, or an encoder."""
    names: dict[str, Any] = {"torch": torch, "math": math, "pi": math.pi, "F": torch.nn.functional}
    for module in (nerf_posenc, core, encoders, networks, presets, attention):
        names |= {name: getattr(module, name) for name in dir(module)}
    names["positions"] = attention.presets.positions
    for name, value in inputs.items():
        names[name] = value.to(dtype) if value.is_floating_point() else value
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        exec(row.setup, names)
        return eval(row.line, names)
    finally:
        torch.set_default_dtype(default)


def error(row: Equivalent, dtype: torch.dtype) -> float:
    """Largest difference of a line from the library's numbers, with or without a batch of one."""
    ours = evaluate(row, given(row.vector), dtype).detach().double().squeeze(0)
    theirs = expected(row.vector).squeeze(0)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours - theirs).abs().max())


def source(vector: str) -> str:
    """Library and version, or repository and commit, that the numbers come from."""
    file, name = vector.split("/", 1)
    if file in ("encoding", "released"):
        entry = (small_vectors() if file == "encoding" else released())[name]
        return f"{entry['library']} {entry['version']}".strip()
    stored = json.loads((DATA / "library_vectors.json").read_text(encoding="utf-8"))
    listed = name.rsplit("/", 1)[0]
    entry = next(entry for entry in stored["entries"] if entry["id"] == listed)
    where, _, commit = entry["from"][0].split(", ")[0].partition(" @ ")
    return f"{where} {commit[:8]}".strip()
