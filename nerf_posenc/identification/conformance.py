"""Vectors of presets as JSON for ports to other languages, and checks of files from any program.

A vector says what a preset computes as plain numbers, so that it can be implemented without reading
any Python:

```text
format      "nerf_posenc vector 1"
preset      family and name: "rotary/llama", "grid/mae", "fourier/nerf"
source      place of the encoding in its library
code        line of Python that computes the output
rotary      pairs: [column a, column b, axis, band]; the angle t is band * positions[axis], and
            a' = a cos t - b sin t, b' = a sin t + b cos t; other columns stay, all times scale
grid,       columns: [axis, band, phase in radians]; each is sin(band * positions[axis] + phase),
fourier     or where the band is null the coordinate itself
inputs      positions, and x of a rotation: shape and data, row by row
output      likewise, computed in float64
tolerance   largest difference of an implementation in float32
```
"""

import contextlib
import importlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.core.columns import column_labels
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.identification.search import Match, identify
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import FOURIER, GRID, ROTARY, Preset

FORMAT = "nerf_posenc vector 1"
FAMILIES: Mapping[str, Mapping[str, Preset]] = {"rotary": ROTARY, "grid": GRID, "fourier": FOURIER}
"""Tables of presets by the family that their names begin with."""

# Different sizes along every axis tell orders of axes apart.
_SHAPES = ((7,), (3, 5), (2, 3, 4))
_WIDTH, _NUM_BANDS = 48, 5
_TOLERANCE = 1e-5
_ARRAYS = ("output", "x", "positions")


def find_presets(text: str = "") -> list[tuple[str, Preset]]:
    """Presets whose name, source or note contains a text, in any case.

    Args:
        text: part of the name of a model or a library; empty for all.

    Returns:
        Family and name, as ``"rotary/llama"``, and the preset.

    Examples:
        >>> [name for name, _ in find_presets("dust3r")]
        ['rotary/croco']
    """
    rows = [
        (f"{family}/{name}", preset)
        for family, table in FAMILIES.items()
        for name, preset in table.items()
    ]
    wanted = text.lower()
    return [
        (name, preset)
        for name, preset in rows
        if wanted in f"{name} {preset.source} {preset.note}".lower()
    ]


def make_vector(name: str) -> dict[str, Any]:
    """Make the vector of a preset.

    Args:
        name: family and name, as ``"rotary/llama"``.

    Raises:
        ValueError: If there is no such preset, or its bands are the caller's to give.
    """
    family, _, short = name.partition("/")
    if short not in FAMILIES.get(family, {}):
        near = [known for known, _ in find_presets(short or family)]
        raise ValueError(f"no preset {name!r}; did you mean {near[:5] or 'rotary/llama'}?")
    preset = FAMILIES[family][short]
    if family != "rotary" and "bands" in preset.arguments and preset.arguments["bands"] is None:
        raise ValueError(f"{name} has the bands of its configuration: {preset.note}")
    make = {"rotary": _rotary, "grid": _grid, "fourier": _fourier}[family]
    return {"format": FORMAT, "preset": name, "source": preset.source, **make(short, preset)}


def _rotary(name: str, preset: Preset) -> dict[str, Any]:
    encoder = RotaryEncoder.preset(name)
    if encoder.pairing == "tiled":
        raise ValueError(f"rotary/{name} is no rotation of pairs: see its source")
    positions = _first_positions(preset).double()
    x = torch.randn(len(positions), encoder.dim, generator=torch.Generator().manual_seed(0))
    # The pair of each column: its first column is a, its second b.
    pair_of_column = encoder.to_columns(torch.arange(len(encoder.pair_axes))).tolist()
    pairs = [
        [*(column for column, p in enumerate(pair_of_column) if p == pair), axis, band]
        for pair, (axis, band) in enumerate(
            zip(encoder.pair_axes, encoder.frequency_bands[:, 0].tolist(), strict=True)
        )
    ]
    return {
        "code": f'RotaryEncoder.preset("{name}").rotate(x, positions)',
        "pairs": pairs,
        "scale": encoder.scale,
        "inputs": {"positions": _stored(positions), "x": _stored(x)},
        "output": _stored(encoder.rotate(x.double(), positions)),
        "tolerance": _TOLERANCE,
    }


def _first_positions(preset: Preset) -> Tensor:
    for shape in _SHAPES:
        with contextlib.suppress(ValueError):  # The model's grid has other sizes, or even ones.
            return preset.positions(shape)
    return preset.positions((4, 6))


def _grid(name: str, preset: Preset) -> dict[str, Any]:
    for shape in _SHAPES[1:]:
        with contextlib.suppress(ValueError):  # The model's grid has another number of axes.
            encoder = GridSinusoidalEncoder.preset(name, _WIDTH, len(shape))
            break
    positions = encoder.positions(shape).flatten(0, -2).double()
    parts: list[Any] = [encoder] if encoder.axis_dims is None else [*encoder.axes]
    columns = [
        [encoder.axis_order[first + axis], band, phase]
        for first, part in enumerate(parts)
        for axis, band, phase in _columns(part.sincos)
    ]
    return {
        "code": f'GridSinusoidalEncoder.preset("{name}", {_WIDTH}, {len(shape)})(positions)',
        "columns": columns[:_WIDTH],
        "inputs": {"positions": _stored(positions)},
        "output": _stored(encoder(positions)),
        "tolerance": _TOLERANCE,
    }


def _fourier(name: str, preset: Preset) -> dict[str, Any]:
    encoder = FourierEncoder.preset(name, 3, _NUM_BANDS)
    x = 2 * torch.rand(8, 3, generator=torch.Generator().manual_seed(0)).double() - 1
    raw: list[list[Any]] = [[axis, None, 0.0] for axis in range(3)]
    columns = _columns(encoder.sincos)
    if encoder.include_input is not None:
        columns = raw + columns if encoder.include_input == "front" else columns + raw
    return {
        "code": f'FourierEncoder.preset("{name}", 3, {_NUM_BANDS})(positions)',
        "columns": columns,
        "inputs": {"positions": _stored(x)},
        "output": _stored(encoder(x)),
        "tolerance": _TOLERANCE,
    }


def _columns(sincos: SinCos) -> list[list[Any]]:
    """Axis, band and phase of each column."""
    labels = column_labels(sincos.in_dim, sincos.num_bands, sincos.layout, sincos.phases)
    return [
        [axis, float(sincos.bands[band, axis]), 0.0 if phase == "sin" else math.pi / 2]
        for band, phase, axis in labels
    ]


def _stored(value: Tensor) -> dict[str, Any]:
    return {"shape": list(value.shape), "data": value.flatten().tolist()}


def read_arrays(path: Path) -> dict[str, Any]:
    """Read arrays of another program: .json, .npy, .npz or .safetensors.

    Args:
        path: a vector as this module writes it, or arrays named ``output``, ``x`` and
            ``positions``; a .npy file is the output alone.

    Returns:
        Tensors by name, and the other values of a JSON file as they are.

    Raises:
        ValueError: If the file is of another kind or has no ``output``.
    """
    kind = path.suffix.lower()
    values: dict[str, Any]
    if kind == ".json":
        values = json.loads(path.read_text())
        values = {**values, **values.get("inputs", {})} if isinstance(values, dict) else {}
        arrays = {name: _tensor(value) for name, value in values.items() if name in _ARRAYS}
        values |= arrays
    elif kind == ".npy":
        values = {"output": torch.from_numpy(np.load(path, allow_pickle=False))}
    elif kind == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            values = {name: torch.from_numpy(stored[name]) for name in stored.files}
    elif kind == ".safetensors":
        values = importlib.import_module("safetensors.torch").load_file(path)
    else:
        raise ValueError(f"{path} must be .json, .npy, .npz or .safetensors")
    if "output" not in values:
        raise ValueError(f"{path} has no array named output; it has {', '.join(values) or 'none'}")
    return values


def _tensor(value: Any) -> Tensor:
    if isinstance(value, dict):
        return torch.tensor(value["data"], dtype=torch.float64).reshape(value["shape"])
    return torch.tensor(value, dtype=torch.float64)


def identify_file(
    path: Path, *, shape: Sequence[int] | None = None, expected: str | None = None
) -> list[Match]:
    """Find the preset that gives the output of a file, as `identify` does.

    Args:
        path: file of arrays; see `read_arrays`.
        shape: sizes of the grid of the tokens, if the file has no ``positions``.
        expected: name of a preset without its family; the matches then say what differs from it.

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


def check_file(path: Path) -> tuple[bool, str]:
    """Compare the output of a port with the preset that it names.

    Args:
        path: a vector that `make_vector` made, with the port's own ``output`` in it.

    Returns:
        Whether the output is right, and a line that says how far it is off and, if it is wrong,
        what differs.

    Raises:
        ValueError: If the file names no preset, or its arrays do not fit.
    """
    values = read_arrays(path)
    name, output = str(values.get("preset")), values["output"].double()
    exact = make_vector(name)
    inputs = {key: values[key] for key in exact["inputs"] if key in values}
    family, short = name.split("/")
    if inputs.keys() != exact["inputs"].keys():
        raise ValueError(f"{path} must have the arrays {', '.join(exact['inputs'])}")
    positions = inputs["positions"].double()
    if family == "rotary":
        x = inputs["x"].double()
        ours = RotaryEncoder.preset(short, dim=x.shape[-1]).rotate(x, positions)
    elif family == "grid":
        width, axes = output.shape[-1], positions.shape[-1]
        ours = GridSinusoidalEncoder.preset(short, width, axes)(positions)
    else:
        ours = FourierEncoder.preset(short, positions.shape[-1], _NUM_BANDS)(positions)
    if ours.shape != output.shape:
        raise ValueError(f"output must have shape {tuple(ours.shape)}; got {tuple(output.shape)}")
    tolerance = float(values.get("tolerance", _TOLERANCE))
    error = float((ours - output).abs().max())
    if error <= tolerance:
        return True, f"{name}: right, largest difference {error:.1e}"
    try:
        best = identify_file(path, expected=short)[0]
    except ValueError:
        best = None
    reason = "nothing like it is known"
    if best is not None and best.is_exact and best.changes:
        reason = f"it has {', '.join(best.changes)}"
    elif best is not None:
        column = int((ours - output).abs().amax(0).argmax())
        reason = f"column {column} differs most"
    return False, f"{name}: wrong, largest difference {error:.1e}: {reason}"
