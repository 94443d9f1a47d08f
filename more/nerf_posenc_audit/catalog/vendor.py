"""Presets as single files of plain torch, for projects that take no dependency."""

from __future__ import annotations

import itertools
import math
import textwrap
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_audit.catalog.presets import PRESETS, AnyEncoder, preset

_WIDTH = 99
# Positions of the vector of a sequence, the last one as of a long text.
_SEQUENCE = (0, 1, 2, 17, 4095, 131071)
# Columns of the vector, at most.
_MOST_COLUMNS = 6
# Largest width or number of bands: a file lists its columns.
_LARGEST = 1 << 16


def vendor(name: str, *sizes: int, **overrides: Any) -> str:
    """Write a preset as one file of plain torch, with the same bits in float32 and a test.

    Args:
        name: name or alias of a preset.
        sizes: sizes of its encoder, as `preset` takes them: ``3, 10`` for coordinates and bands.
        overrides: arguments that differ from the preset's, such as ``frequencies``.

    Returns:
        Text of the file. Run as a program it compares itself with its vector.

    Raises:
        ValueError: If the name is unknown, or the sizes do not fit or are above 65,536.

    Examples:
        >>> vendor("nerf", 3, 10).splitlines()[-3:]
        ['if __name__ == "__main__":', '    test()', '    print("right")']
    """
    if sizes and not 0 < min(sizes) <= max(sizes) <= _LARGEST:
        listed = ", ".join(f"{size:,}" for size in sizes)
        raise ValueError(f"sizes of a file are 1 to {_LARGEST:,}; got {listed}")
    encoder = preset(name, *sizes, **overrides)
    is_rotary = isinstance(encoder, RotaryEncoder)
    body = _rotary(encoder) if is_rotary else _columns(encoder)  # type: ignore[arg-type]
    parts = [_header(name, encoder), *body, _vector(encoder)]
    return "\n".join(parts).rstrip() + "\n"


def _header(name: str, encoder: AnyEncoder) -> str:
    try:
        release = f" {version('nerf_posenc')}"
    except PackageNotFoundError:
        release = ""
    about = textwrap.fill(
        f'"""The encoding {name} ({PRESETS[name].source}) in plain torch: '
        f"{' '.join(repr(encoder).split())}.",
        _WIDTH,
        break_on_hyphens=False,
    )
    return (
        f"{about}\n\nWritten by nerf_posenc{release}. Run this file to test it.\n"
        "Copyright (c) 2026 The nerf_posenc authors, MIT license: keep this line.\n"
        '"""\n\nimport math\n\nimport torch\nfrom torch import Tensor\n'
    )


def _rotary(encoder: RotaryEncoder) -> list[str]:
    """Constants, the table and the rotation of a rotary embedding."""
    bands = encoder.frequency_bands[:, 0]
    constants = [f"# Radians per unit of position of each pair.\nBANDS = {_series(bands)}"]
    constants.append(
        "# All sines, then all cosines, which are sines a quarter of a cycle ahead.\n"
        "QUARTER = torch.arange(2.0, dtype=torch.float64).repeat_interleave(len(BANDS))"
    )
    pick = "positions[..., None]"
    if encoder.in_dim > 1:
        constants.append(
            f"# Axis of the positions that each pair takes.\nAXES = {_short(encoder.pair_axes)}"
        )
        pick = "positions[..., AXES]"
    shape = "(*batch,)" if encoder.in_dim == 1 else f"(*batch, {encoder.in_dim})"
    scaled = f"\n    waves = waves * {encoder.scale!r}" if encoder.scale != 1 else ""
    is_exact = encoder.sincos.is_exact
    constants.append(_core(is_exact=is_exact))
    if encoder.in_dim > 1:
        pick += ".repeat(*[1] * (positions.ndim - 1), 2)"
    table = f'''
def pairs(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each pair, (*batch, {len(bands)}); positions are {shape}."""
    along = {pick}
    waves = sines(along, BANDS.repeat(2), QUARTER){scaled}
    sine, cosine = waves.chunk(2, -1)
    return cosine, sine
'''
    return ["\n".join(constants), table, _rotation(encoder)]


def _rotation(encoder: RotaryEncoder) -> str:
    """The function that rotates queries or keys."""
    width, rest = encoder.rotary_dim, encoder.dim - encoder.rotary_dim
    part = "wide = x.to(torch.promote_types(x.dtype, torch.float32))"
    back = "return rotated.to(x.dtype)"
    if rest and encoder.trailing:
        part += f"\n    rest, wide = wide.split([{rest}, {width}], -1)"
        back = "return torch.cat([rest, rotated], -1).to(x.dtype)"
    elif rest:
        part += f"\n    wide, rest = wide.split([{width}, {rest}], -1)"
        back = "return torch.cat([rotated, rest], -1).to(x.dtype)"
    if encoder.pairing == "interleaved":
        turn = """    # Columns 2i and 2i + 1 are one complex number.
    numbers = torch.view_as_complex(wide.contiguous().unflatten(-1, (-1, 2)))
    rotated = torch.view_as_real(numbers * torch.complex(cosine, sine)).flatten(-2)"""
    elif encoder.pairing == "tiled":
        turn = f"""    # Neighbors are rotated by the tables of halves, as the original code has it.
    cosine, sine = (torch.cat([b for b in t.split({_halves(encoder)}, -1) for _ in (0, 1)], -1)
                    for t in (cosine, sine))
    a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
    rotated = wide * cosine + torch.stack([-b, a], -1).flatten(-2) * sine"""
    else:
        halves = _halves(encoder)
        turn = f"""    # In each block a column of the first half is paired with one of the second.
    blocks = wide.split({[2 * half for half in halves]}, -1)
    halves = []
    for block, c, s in zip(blocks, cosine.split({halves}, -1), sine.split({halves}, -1)):
        a, b = block.chunk(2, -1)
        halves += [torch.addcmul(a * c, b, s, value=-1), torch.addcmul(b * c, a, s)]
    rotated = torch.cat(halves, -1)"""
    return f'''
def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate queries or keys (*batch, length, {encoder.dim}), in float32 or better."""
    cosine, sine = pairs(positions)
    {part}
{turn}
    {back}
'''


def _halves(encoder: RotaryEncoder) -> list[int]:
    return [width // 2 for width in encoder._blocks]


def _core(*, is_exact: bool, is_projected: bool = False) -> str:
    """The function that computes sines, with all digits at any position."""
    given = ", out: torch.dtype" if is_projected else ""
    out = "\n    out = x.dtype if x.is_floating_point() else torch.float32"
    out = "" if is_projected else out
    if is_exact:
        kind = "x.dtype if x.dtype == torch.float64 else torch.float32"
        why = "# Cycles of bands that are powers of two are exact in float32."
    else:
        kind, why = "torch.float64", "# float32 has no digits left for the cycles of far positions."
    return f'''

def sines(x: Tensor, bands: Tensor, quarter: Tensor{given}) -> Tensor:
    """sin(bands * x + quarter * pi / 2), for integers in float32."""
    {why}
    exact = {kind}
    cycles = x.to(exact) * (bands / (2 * math.pi)).to(x.device, exact)
    # Whole cycles are taken away before the product with 2 pi would round them.
    fraction = cycles - cycles.round()
    offset = (quarter * (math.pi / 2)).to(x.device, exact)
    angles = torch.add(offset, fraction, alpha=2 * math.pi){out}
    return angles.to(torch.promote_types(out, torch.float32)).sin().to(out)
'''


def _columns(encoder: FourierEncoder | GridSinusoidalEncoder | SinusoidalEncoder) -> list[str]:
    """Constants and the function of features of single axes."""
    order = tuple(range(encoder.in_dim))
    if isinstance(encoder, GridSinusoidalEncoder):
        order = encoder.axis_order
        if encoder.axis_dims is not None:
            parts = zip(encoder.axes, order, strict=True)
            return _encode(encoder, [(part.sincos, (axis,)) for part, axis in parts])
    return _encode(encoder, [(encoder.sincos, order)])


def _encode(encoder: Any, tables: list[tuple[Any, tuple[int, ...]]]) -> list[str]:
    """The file's constants and its function ``encode`` from tables of sines and their axes."""
    is_shared = all(bool((t.frequencies == t.frequencies[:, :1]).all()) for t, _ in tables)
    if not is_shared:
        raise ValueError("one file has the same bands on every axis; make one for each axis")
    series = [_series(table.frequencies[:, 0]) for table, _ in tables]
    joined = series[0]
    if len(series) > 1:
        joined = "torch.cat(\n    [\n        " + ",\n        ".join(series) + ",\n    ]\n)"
    basis = getattr(encoder, "basis", None)
    lines, first = [], 0
    for table, axes in tables:
        count = table.num_bands
        directions = range(len(basis)) if basis is not None else axes
        ranges = {
            "k": f"range({first}, {first + count})" if first else f"range({count})",
            "p": "(0, 1)" if table.phases[0] == "sin" else "(1, 0)",
            "a": str(tuple(directions)),
        }
        loops = " ".join(f"for {letter} in {ranges[letter]}" for letter in table.layout)
        lines.append(f"[(k, p, a) {loops}]")
        first += count
    total = sum(table.out_dim for table, _ in tables)
    if not total:
        raise ValueError("there is no band at these sizes; give larger ones")
    raw = getattr(encoder, "include_input", None)
    kept = encoder.out_dim - (encoder.in_dim if raw else 0)
    cut = f"[:{kept}]" if kept < total else ""
    chain = "(\n    " + "\n    + ".join(lines) + "\n)" if len(lines) > 1 else lines[0]
    constants = f"""# Radians per unit of the coordinate.
BANDS = {joined}
# Band, phase (0: sine, 1: cosine) and axis of each column.
COLUMNS = {chain}{cut}
BAND, PHASE, AXIS = torch.tensor(COLUMNS).T
"""
    table = tables[0][0]
    if not _is_in_radians(encoder, table):
        is_exact = all(table.is_exact for table, _ in tables)
        constants += _core(is_exact=is_exact, is_projected=basis is not None)
    return [constants, _encode_function(encoder, table, max(0, encoder.out_dim - total))]


def _is_in_radians(encoder: Any, table: Any) -> bool:
    """Whether angles are exact in radians, as those of bands 1, 2, 4 and so on."""
    return table.is_exact_in_radians and getattr(encoder, "basis", None) is None


def _encode_function(encoder: Any, table: Any, missing: int) -> str:
    """The function ``encode``, and for a grid that of its positions."""
    raw = getattr(encoder, "include_input", None)
    basis = getattr(encoder, "basis", None)
    shape = "(*batch,)" if isinstance(encoder, SinusoidalEncoder) else f"(*batch, {encoder.in_dim})"
    along = "x[..., None]" if isinstance(encoder, SinusoidalEncoder) else "x"
    project = ""
    if basis is not None:
        along = "along"
        project = (
            f"    along = x.double() @ torch.tensor({basis.tolist()}, dtype=torch.float64).T\n"
        )
    if _is_in_radians(encoder, table):
        body = f"""    # Powers of two are exact in radians too.
    angles = {along}[..., AXIS] * BANDS[BAND].to(x)
    features = torch.where(PHASE.to(x.device) == 1, angles.cos(), angles.sin())"""
    else:
        body = f"""{project}    features = sines({along}[..., AXIS], BANDS[BAND], PHASE.double())"""
    if basis is not None:
        body = f"{body[:-1]}, x.dtype)"
    if missing and not raw:
        body += f"\n    features = torch.nn.functional.pad(features, (0, {missing}))"
    beside = {"front": "torch.cat([x, features], -1)", "back": "torch.cat([features, x], -1)"}
    text = f'''
def encode(x: Tensor) -> Tensor:
    """Features (*batch, {encoder.out_dim}) of coordinates {shape}."""
{body}
    return {beside.get(str(raw), "features")}
'''
    return text + (_positions(encoder) if isinstance(encoder, GridSinusoidalEncoder) else "")


def _positions(encoder: GridSinusoidalEncoder) -> str:
    """The function that counts the cells of a grid as the model does."""
    lines = [f"at = torch.arange(size) + {encoder.start!r}"]
    if encoder.span is not None:
        lines.append(f"at = at / (size + {encoder._SPAN_EPS!r}) * {encoder.span!r}")
    if encoder.base_size is not None:
        lines.append(f"at = at * ({encoder.base_size!r}[axis] / max(size, 1))")
    if set(encoder.position_scale) != {1.0}:
        lines.append(f"at = at / {encoder.position_scale!r}[axis]")
    body = "\n        ".join(lines)
    return f'''

def table(shape: tuple[int, ...]) -> Tensor:
    """Embeddings of all cells of a grid, rows first, as the model counts them."""
    axes = []
    for axis, size in enumerate(shape):
        {body}
        axes.append(at.float() if at.is_floating_point() else at)
    return encode(torch.stack(torch.meshgrid(*axes, indexing="ij"), -1))
'''


def _vector(encoder: AnyEncoder) -> str:
    """The test at the end: some columns at some positions."""
    if isinstance(encoder, FourierEncoder):
        axes = [[((7 * i + 3 * a) % 11 - 5) / 8 for a in range(encoder.in_dim)] for i in range(4)]
        positions = torch.tensor(axes)
    elif encoder.in_dim == 1:
        positions = torch.tensor(_SEQUENCE)
    else:
        rows = [[(5 * i + 3 * a) % 17 for a in range(encoder.in_dim)] for i in range(4)]
        positions = torch.tensor(rows)
    width = encoder.out_dim
    # Odd, so that sines and cosines are among them.
    step = max(1, width // _MOST_COLUMNS) | 1
    code, setup = "encode(positions)", ""
    if isinstance(encoder, RotaryEncoder):
        x = _query(len(positions), width)
        output: Tensor = encoder.rotate(x, positions)
        setup = (
            f"\n    x = (torch.arange({len(positions)} * {width}) % 101 / 64 - 0.75)"
            f".view(-1, {width})"
        )
        code = "rotate(x, positions)"
    else:
        output = encoder(positions)
    expected = output[:, ::step].tolist()
    rows_code = ",\n        ".join(
        "[" + ", ".join(f"{value:.7g}" for value in row) + "]" for row in expected
    )
    return f'''
def test() -> None:
    """Compare columns 0, {step}, {2 * step} and so on with numbers of nerf_posenc."""
    positions = torch.tensor({positions.tolist()}){setup}
    expected = [
        {rows_code},
    ]
    output = {code}[:, ::{step}]
    torch.testing.assert_close(output, torch.tensor(expected), atol=2e-6, rtol=0)


if __name__ == "__main__":
    test()
    print("right")
'''


def _query(length: int, width: int) -> Tensor:
    """Queries that a file can write in one line, exact in float32."""
    return (torch.arange(length * width) % 101 / 64 - 0.75).view(-1, width)


def _short(axes: tuple[int, ...]) -> str:
    """Axes as code: repeated if they have a period, else in runs."""
    for period in range(1, len(axes) // 2 + 1):
        times, rest = divmod(len(axes), period)
        if rest == 0 and axes[:period] * times == axes:
            return f"{list(axes[:period])} * {times}"
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][0] == axis:
            runs[-1][1] += 1
        else:
            runs.append([axis, 1])
    if len(runs) <= 8:
        return " + ".join(f"[{axis}] * {count}" for axis, count in runs)
    return textwrap.fill(str(list(axes)), _WIDTH - 4, subsequent_indent="    ")


def _series(bands: Tensor) -> str:
    """Bands as code that gives them to the bit: a formula, else the numbers."""
    count = len(bands)
    if bands.unique().numel() < count:
        for period in (2, 3):
            if count % period == 0 and torch.equal(
                bands, bands[::period].repeat_interleave(period)
            ):
                return f"{_series(bands[::period])}.repeat_interleave({period})"
    for repeat in (2, 3, 4):
        part, rest = divmod(count, repeat)
        if rest == 0 and part and torch.equal(bands, bands[:part].repeat(repeat)):
            return f"{_series(bands[:part])}.repeat({repeat})"
    names = {"torch": torch, "math": math}
    for code in _formulas(bands):
        if torch.equal(eval(code, names), bands):
            return code
    # A series for each axis, one behind the other: each begins above the end of the last.
    starts = [0, *((bands.diff() > 0).nonzero().flatten() + 1).tolist(), count]
    parts = [_series(bands[a:b]) for a, b in itertools.pairwise(starts)] if len(starts) > 2 else []
    if parts and not any("\n" in part for part in parts):
        return "torch.cat(\n    [\n        " + ",\n        ".join(parts) + ",\n    ]\n)"
    numbers = ", ".join(map(repr, bands.tolist()))
    filled = textwrap.fill(
        numbers, _WIDTH - 8, initial_indent="        ", subsequent_indent=" " * 8
    )
    return f"torch.tensor(\n    [\n{filled}\n    ],\n    dtype=torch.float64,\n)"


def _formulas(bands: Tensor) -> list[str]:
    """Formulas that may give these bands."""
    count = len(bands)
    steps = f"torch.arange({count}, dtype=torch.float64)"
    units = ("", "math.pi * ", "2 * math.pi * ")
    found = [f"{unit}2.0 ** {steps}" for unit in units]
    if count < 2 or not bool((bands > 0).all()):
        return found
    for power in (count, count - 1):
        measured = float((bands[0] / bands[1]) ** power)
        for digits in (2, 6, 17):
            base = float(f"{measured:.{digits}g}")
            found += [f"{unit}{base!r} ** -({steps} / {float(power)!r})" for unit in units]
    # A first band and the ratio of the last one to it.
    ratio = float(f"{float(bands[-1] / bands[0]):.10g}")
    first = {float(bands[0]): f"{float(bands[0])!r} * ", math.pi / 2: "math.pi / 2 * "}
    return [
        *found,
        *(f"{unit}({ratio!r} ** (1 / {count - 1})) ** {steps}" for unit in first.values()),
    ]
