"""Vectors of presets as JSON for ports to other languages, and checks of files from any program.

A vector says what a preset computes as plain numbers, so that it can be implemented without reading
any Python:

```text
format      "nerf_posenc vector 1"
preset      its name: "llama", "mae", "nerf"
source      place of the encoding in its library
code        line of Python that computes the output
rotary      pairs: [column a, column b, axis, band]; the angle t is band * positions[axis], and
            a' = a cos t - b sin t, b' = a sin t + b cos t, both times scale; other columns stay
grid,       columns: [axis, band, phase in radians]; each is sin(band * positions[axis] + phase),
fourier     or where the band is null the coordinate itself
inputs      positions, and x of a rotation: shape and data, row by row
expected    the output likewise, computed in float64; a port adds its own as output
tolerance   largest difference of an implementation in float32, for each row of the output
```
"""

import contextlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.catalog.presets import PRESETS, encoder_of
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import Preset
from nerf_posenc_audit.search import Match, identify
from nerf_posenc_audit.tables import Column, Pair, rotation_pairs, sinusoid_columns

FORMAT = "nerf_posenc vector 1"

# Different sizes along every axis tell orders of axes apart.
_SHAPES = ((7,), (3, 5), (2, 3, 4))
# Divisible by 2, 3 and 4 axes, and by pairs of each.
_WIDTH = 48
# Odd, so that halves and pairs of bands differ.
_NUM_BANDS = 5
# Late positions, as of long texts, show what early ones do not.
_FAR = (4095, 131_071)
_TOLERANCE = 1e-5
_ARRAYS = ("output", "x", "positions")


def make_vector(name: str) -> dict[str, Any]:
    """Make the vector of a preset.

    Args:
        name: name of the preset.

    Raises:
        ValueError: If there is no such preset, or its bands are the caller's to give.
    """
    name = PRESETS.canonical(name)
    preset = PRESETS[name]
    if "bands" in preset.arguments and preset.arguments["bands"] is None:
        raise ValueError(f"it has the bands of its configuration: {preset.note}")
    make = {
        RotaryEncoder: _rotary,
        GridSinusoidalEncoder: _grid,
        SinusoidalEncoder: _sequence,
        FourierEncoder: _fourier,
    }[encoder_of(name)]
    return {"format": FORMAT, "preset": name, "source": preset.source, **make(name, preset)}


def _rotary(name: str, preset: Preset) -> dict[str, Any]:
    encoder = RotaryEncoder.preset(name)
    pairs = rotation_pairs(encoder)
    positions = _first_positions(preset).double()
    if positions.ndim == 1:
        positions[-len(_FAR) :] = torch.tensor(_FAR)
    x = torch.randn(len(positions), encoder.dim, generator=torch.Generator().manual_seed(0))
    return {
        "code": f'RotaryEncoder.preset("{name}").rotate(x, positions)',
        "pairs": pairs,
        "scale": encoder.scale,
        "inputs": {"positions": _stored(positions), "x": _stored(x)},
        "expected": _stored(encoder.rotate(x.double(), positions)),
        "tolerance": _tolerance(pairs, positions, float(x.abs().max())),
    }


def _tolerance(
    waves: Sequence[Pair] | Sequence[Column], positions: Tensor, size: float = 1.0
) -> list[float]:
    """Rounding error of float32 at the largest angle of each row, above that of sines."""
    reach = positions.reshape(len(positions), -1).abs()
    fastest = torch.zeros(reach.shape[1], dtype=torch.float64)
    for wave in waves:
        fastest[wave.axis] = max(float(fastest[wave.axis]), abs(wave.band or 0.0))
    largest = (reach * fastest).amax(dim=1)
    return (_TOLERANCE + torch.finfo(torch.float32).eps * size * largest).tolist()


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
    code = f'GridSinusoidalEncoder.preset("{name}", {_WIDTH}, {len(shape)})(positions)'
    return _embedding(encoder, code, positions)


def _fourier(name: str, preset: Preset) -> dict[str, Any]:
    x = 2 * torch.rand(8, 3, generator=torch.Generator().manual_seed(0)).double() - 1
    code = f'FourierEncoder.preset("{name}", 3, {_NUM_BANDS})(positions)'
    return _embedding(FourierEncoder.preset(name, 3, _NUM_BANDS), code, x)


def _sequence(name: str, preset: Preset) -> dict[str, Any]:
    positions = torch.arange(_SHAPES[0][0]).double()[:, None]
    code = f'SinusoidalEncoder.preset("{name}", {_WIDTH})(positions[:, 0])'
    return _embedding(SinusoidalEncoder.preset(name, _WIDTH), code, positions)


def _embedding(
    encoder: FourierEncoder | GridSinusoidalEncoder | SinusoidalEncoder,
    code: str,
    positions: Tensor,
) -> dict[str, Any]:
    is_sequence = isinstance(encoder, SinusoidalEncoder)
    columns = sinusoid_columns(encoder)
    return {
        "code": code,
        "columns": columns,
        "inputs": {"positions": _stored(positions)},
        "expected": _stored(encoder(positions[:, 0] if is_sequence else positions)),
        "tolerance": _tolerance(columns, positions),
    }


def _stored(value: Tensor) -> dict[str, Any]:
    return {"shape": list(value.shape), "data": value.flatten().tolist()}


def read_arrays(path: Path) -> dict[str, Any]:
    """Read arrays of another program: .json, .npy, .npz or .safetensors.

    Args:
        path: a vector as this module writes it, or arrays named ``output``, ``x`` (or
            ``before``) and ``positions``; a .npy file is the output alone.

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
    if values.get("format") != FORMAT or "preset" not in values:
        raise ValueError(f"{path} is not a test vector: it lacks the format {FORMAT!r} or a preset")
    name, output = str(values["preset"]), values["output"].double()
    exact = make_vector(name)
    inputs = {key: values[key] for key in exact["inputs"] if key in values}
    if inputs.keys() != exact["inputs"].keys():
        raise ValueError(f"{path} must have the arrays {', '.join(exact['inputs'])}")
    positions, kind = inputs["positions"].double(), encoder_of(name)
    if kind is RotaryEncoder:
        x = inputs["x"].double()
        ours = RotaryEncoder.preset(name, x.shape[-1]).rotate(x, positions)
    elif kind is GridSinusoidalEncoder:
        width, axes = output.shape[-1], positions.shape[-1]
        ours = GridSinusoidalEncoder.preset(name, width, axes)(positions)
    elif kind is SinusoidalEncoder:
        ours = SinusoidalEncoder.preset(name, output.shape[-1])(positions[:, 0])
    else:
        ours = FourierEncoder.preset(name, positions.shape[-1], _NUM_BANDS)(positions)
    if ours.shape != output.shape:
        raise ValueError(
            f"{path}: output must have shape {tuple(ours.shape)}; got {tuple(output.shape)}"
        )
    if not bool(output.isfinite().all()):
        return False, f"{name}: wrong, output has NaN or infinity"
    error = float((ours - output).abs().max())
    off = (ours - output).abs().flatten(1).amax(dim=1)
    if bool((off <= torch.tensor(exact["tolerance"], dtype=torch.float64)).all()):
        return True, f"{name}: right, largest difference {error:.1e}"
    if kind is RotaryEncoder and float((x - output).abs().max()) <= _TOLERANCE:
        return False, f"{name}: wrong, largest difference {error:.1e}: nothing is rotated"
    column = int((ours - output).abs().amax(0).argmax())
    reason = f"column {column} differs most"
    # The farthest row tells errors, and no bands. With the preset's own variations, then as any.
    near = positions.reshape(len(positions), -1).abs().amax(dim=1) <= _FAR[0]
    before = values["x"][near] if "x" in values else None
    for expected in (name, None):
        with contextlib.suppress(ValueError):
            best = identify(
                values["output"][near],
                before=before,
                positions=values["positions"][near],
                expected=expected,
            )[0]
            if best.is_exact and (best.changes or best.name != name):
                reason = f"it has {', '.join(best.changes)}" if expected else f"it is {best.line}"
                break
    return False, f"{name}: wrong, largest difference {error:.1e}: {reason}"
