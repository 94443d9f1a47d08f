"""Sines and cosines on a GPU in one pass over memory: the kernels behind ``backend="triton"``.

Coordinates are read once; the cycles are reduced, both sines evaluated, weighted and written in
registers. The backward pass reads the coordinates and the gradient and keeps nothing else; second
derivatives go through torch. Without a GPU the kernels run in Triton's interpreter
(``TRITON_INTERPRET=1``), which the tests do.
"""

import math
from typing import Any, no_type_check

import torch
from torch import Tensor

from nerf_posenc.core._evaluate import RADIANS_PER_CYCLE as TWO_PI
from nerf_posenc.core.kernels.triton import tl, triton

# Elements of a tile: enough loads in flight for a multiprocessor, few enough for its registers.
_TILE = 2048

# Taylor's coefficients of sin and cos of 2 pi f, which for |f| <= 1/8 are right to 2e-9; the
# first one in two parts, since float32's 2 pi alone is off by 3e-8.
_S1 = tl.constexpr(6.2831854820251465)
_S1_REST = tl.constexpr(TWO_PI - 6.2831854820251465)
_S3, _S5, _S7, _S9 = (
    tl.constexpr((-1) ** ((n - 1) // 2) * TWO_PI**n / math.factorial(n)) for n in (3, 5, 7, 9)
)
_C2, _C4, _C6, _C8, _C10 = (
    tl.constexpr((-1) ** (n // 2) * TWO_PI**n / math.factorial(n)) for n in (2, 4, 6, 8, 10)
)


@triton.jit
@no_type_check
def _sine_and_cosine(cycles):
    """Sine and cosine of cycles, float32 or float64, in float32."""
    # Large values are whole already, and half could not be added to them exactly.
    whole = tl.where(tl.abs(cycles) < 4194304.0, tl.floor(cycles + 0.5), tl.floor(cycles))
    rest = (cycles - whole).to(tl.float32)
    # The nearest quarter of a cycle, -2 to 2; the remainder lies in [-1/8, 1/8].
    quarter = tl.floor(rest * 4 + 0.5)
    f = rest - quarter * 0.25
    z = f * f
    sine = f * _S1 + f * (z * (_S3 + z * (_S5 + z * (_S7 + z * _S9))) + _S1_REST)
    cosine = 1.0 + z * (_C2 + z * (_C4 + z * (_C6 + z * (_C8 + z * _C10))))
    is_odd = tl.abs(quarter) == 1
    is_half = tl.abs(quarter) == 2
    of_sine = tl.where(is_odd, cosine, sine)
    of_cosine = tl.where(is_odd, sine, cosine)
    return (
        tl.where(is_half | (quarter == -1), -of_sine, of_sine),
        tl.where(is_half | (quarter == 1), -of_cosine, of_cosine),
    )


@triton.jit
@no_type_check
def _pair_terms(
    x_ptr, cycles_ptr, weight_ptr, variance_ptr, rows, band, axis, inside,
    x_row, x_axis, v_row, v_axis,
    IN_DIM: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_VARIANCE: tl.constexpr,
):  # fmt: skip
    """Sine, cosine, factor and angular frequency of each coordinate (row) and pair (column)."""
    is_pair = band >= 0
    cycles = tl.load(cycles_ptr + band * IN_DIM + axis, mask=is_pair, other=0.0)[None, :]
    x = tl.load(x_ptr + rows[:, None] * x_row + axis[None, :] * x_axis, mask=inside, other=0.0)
    x = x.to(tl.float32)
    sine, cosine = _sine_and_cosine(x.to(cycles.dtype) * cycles)
    omega = (cycles * 6.283185307179586).to(tl.float32)
    factor = tl.full(sine.shape, 1.0, tl.float32)
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + band, mask=is_pair, other=0.0)
        factor = factor * weight.to(tl.float32)[None, :]
    if HAS_VARIANCE:
        place = variance_ptr + rows[:, None] * v_row + axis[None, :] * v_axis
        variance = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        factor = factor * tl.exp(-0.5 * variance * omega * omega)
    return sine, cosine, factor, omega


@triton.jit
@no_type_check
def _forward_kernel(
    x_ptr, cycles_ptr, weight_ptr, variance_ptr, out_ptr, num_rows,
    x_row, x_axis, v_row, v_axis, out_row,
    IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, PAIRS: tl.constexpr, AXES: tl.constexpr,
    ROWS: tl.constexpr, BAND_OUTER: tl.constexpr, BAND_STEP: tl.constexpr,
    PHASE_STEP: tl.constexpr, AXIS_STEP: tl.constexpr, COSINE_FIRST: tl.constexpr,
    FIRST_COLUMN: tl.constexpr, RAW_COLUMN: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_VARIANCE: tl.constexpr,
):  # fmt: skip
    """Write all columns of a block of rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = (rows < num_rows)[:, None]
    pair = tl.arange(0, PAIRS)
    band = pair // IN_DIM if BAND_OUTER else pair % NUM_BANDS
    axis = pair % IN_DIM if BAND_OUTER else pair // NUM_BANDS
    is_pair = pair < NUM_BANDS * IN_DIM
    inside = is_row & is_pair[None, :]
    sine, cosine, factor, _ = _pair_terms(
        x_ptr, cycles_ptr, weight_ptr, variance_ptr, rows, tl.where(is_pair, band, -1), axis,
        inside, x_row, x_axis, v_row, v_axis, IN_DIM, HAS_WEIGHT, HAS_VARIANCE,
    )  # fmt: skip
    first = (cosine if COSINE_FIRST else sine) * factor
    second = (sine if COSINE_FIRST else cosine) * factor
    kind = out_ptr.dtype.element_ty
    line = out_ptr + rows[:, None] * out_row
    if PHASE_STEP == 1:
        # Side by side, so that neighboring threads write neighboring columns.
        both = tl.reshape(tl.join(first, second), (ROWS, 2 * PAIRS))
        column = tl.arange(0, 2 * PAIRS)[None, :]
        mask = is_row & (column < 2 * NUM_BANDS * IN_DIM)
        tl.store(line + FIRST_COLUMN + column, both.to(kind), mask=mask)
    else:
        column = (FIRST_COLUMN + band * BAND_STEP + axis * AXIS_STEP)[None, :]
        tl.store(line + column, first.to(kind), mask=inside)
        tl.store(line + column + PHASE_STEP, second.to(kind), mask=inside)
    if RAW_COLUMN >= 0:
        raw_axis = tl.arange(0, AXES)[None, :]
        mask = is_row & (raw_axis < IN_DIM)
        raw = tl.load(x_ptr + rows[:, None] * x_row + raw_axis * x_axis, mask=mask, other=0.0)
        tl.store(line + RAW_COLUMN + raw_axis, raw.to(kind), mask=mask)


@triton.jit
@no_type_check
def _backward_kernel(
    grad_ptr, x_ptr, cycles_ptr, weight_ptr, variance_ptr, x_grad_ptr, v_grad_ptr, num_rows,
    g_row, g_column, x_row, x_axis, v_row, v_axis,
    IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, PAIRS: tl.constexpr,
    ROWS: tl.constexpr, BAND_OUTER: tl.constexpr, BAND_STEP: tl.constexpr,
    PHASE_STEP: tl.constexpr, AXIS_STEP: tl.constexpr, COSINE_FIRST: tl.constexpr,
    FIRST_COLUMN: tl.constexpr, RAW_COLUMN: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_VARIANCE: tl.constexpr,
):  # fmt: skip
    """Sum the columns' gradients into those of the coordinates and their variances."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = rows < num_rows
    pair = tl.arange(0, PAIRS)
    band = pair // IN_DIM if BAND_OUTER else pair % NUM_BANDS
    axis = pair % IN_DIM if BAND_OUTER else pair // NUM_BANDS
    is_pair = pair < NUM_BANDS * IN_DIM
    inside = is_row[:, None] & is_pair[None, :]
    sine, cosine, factor, omega = _pair_terms(
        x_ptr, cycles_ptr, weight_ptr, variance_ptr, rows, tl.where(is_pair, band, -1), axis,
        inside, x_row, x_axis, v_row, v_axis, IN_DIM, HAS_WEIGHT, HAS_VARIANCE,
    )  # fmt: skip
    column = (FIRST_COLUMN + band * BAND_STEP + axis * AXIS_STEP)[None, :]
    line = grad_ptr + rows[:, None] * g_row
    first = tl.load(line + column * g_column, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(line + (column + PHASE_STEP) * g_column, mask=inside, other=0.0)
    second = second.to(tl.float32)
    of_sine = second if COSINE_FIRST else first
    of_cosine = first if COSINE_FIRST else second
    slope = factor * omega * (of_sine * cosine - of_cosine * sine)
    decay = -0.5 * factor * omega * omega * (of_sine * sine + of_cosine * cosine)
    for i in tl.static_range(IN_DIM):
        mine = inside & (axis == i)[None, :]
        x_grad = tl.sum(tl.where(mine, slope, 0.0), axis=1)
        if RAW_COLUMN >= 0:
            place = grad_ptr + rows * g_row + (RAW_COLUMN + i) * g_column
            x_grad += tl.load(place, mask=is_row, other=0.0).to(tl.float32)
        tl.store(x_grad_ptr + rows * IN_DIM + i, x_grad, mask=is_row)
        if HAS_VARIANCE:
            v_grad = tl.sum(tl.where(mine, decay, 0.0), axis=1)
            tl.store(v_grad_ptr + rows * IN_DIM + i, v_grad, mask=is_row)


def _column_constants(
    layout: str, num_bands: int, in_dim: int, raw: str, phases: str
) -> dict[str, Any]:
    """Compile-time constants of the column order."""
    sizes = dict(k=num_bands, p=2, a=in_dim)
    steps = {
        letter: math.prod(sizes[inner] for inner in layout[i + 1 :])
        for i, letter in enumerate(layout)
    }
    num_pairs = num_bands * in_dim
    pairs = triton.next_power_of_2(max(1, num_pairs))
    return dict(
        IN_DIM=in_dim,
        NUM_BANDS=max(1, num_bands),
        PAIRS=pairs,
        ROWS=max(1, _TILE // pairs),
        BAND_OUTER=layout.index("k") < layout.index("a"),
        BAND_STEP=steps["k"],
        PHASE_STEP=steps["p"],
        AXIS_STEP=steps["a"],
        COSINE_FIRST=phases == "cos",
        FIRST_COLUMN=in_dim if raw == "front" else 0,
        RAW_COLUMN={"front": 0, "back": 2 * num_pairs, "": -1}[raw],
    )


@torch.library.custom_op("nerf_posenc::sincos", mutates_args=())
def encode(
    x: Tensor,
    cycles: Tensor,
    weight: Tensor | None,
    variance: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
    dtype: torch.dtype,
) -> Tensor:
    """Features of coordinates ``(n, in_dim)``.

    Args:
        x: float32, float16 or bfloat16, of any strides.
        cycles: cycles per unit, ``(num_bands, in_dim)``: float32 where they are powers of two,
            else float64.
        weight: factor of each band.
        variance: of each coordinate, ``(n, in_dim)``.
        layout: one of ``LAYOUTS``.
        first_phase: ``"sin"`` or ``"cos"``.
        raw: where the raw coordinates go: ``"front"``, ``"back"`` or ``""``.
        dtype: of the features.
    """
    num_bands, in_dim = cycles.shape
    width = 2 * num_bands * in_dim + (in_dim if raw else 0)
    out = x.new_empty(len(x), width, dtype=dtype)
    shape = _column_constants(layout, num_bands, in_dim, raw, first_phase)
    if out.numel():
        _forward_kernel[(triton.cdiv(len(x), shape["ROWS"]),)](
            x, cycles, weight, variance, out, len(x),
            *x.stride(), *(variance.stride() if variance is not None else (0, 0)), out.stride(0),
            **shape, AXES=triton.next_power_of_2(in_dim),
            HAS_WEIGHT=weight is not None, HAS_VARIANCE=variance is not None,
        )  # fmt: skip
    return out


@encode.register_fake
def _(
    x: Tensor,
    cycles: Tensor,
    weight: Tensor | None,
    variance: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
    dtype: torch.dtype,
) -> Tensor:
    width = 2 * cycles.numel() + (x.shape[1] if raw else 0)
    return x.new_empty(x.shape[0], width, dtype=dtype)


@torch.library.custom_op("nerf_posenc::sincos_backward", mutates_args=())
def encode_backward(
    grad: Tensor,
    x: Tensor,
    cycles: Tensor,
    weight: Tensor | None,
    variance: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
) -> tuple[Tensor, Tensor]:
    """Gradients, in float32, of the coordinates and of the variance (no rows if there is none)."""
    num_bands, in_dim = cycles.shape
    x_grad = x.new_empty(x.shape, dtype=torch.float32)
    v_grad = x.new_empty(x.shape if variance is not None else (0, in_dim), dtype=torch.float32)
    shape = _column_constants(layout, num_bands, in_dim, raw, first_phase)
    if x.numel():
        _backward_kernel[(triton.cdiv(len(x), shape["ROWS"]),)](
            grad, x, cycles, weight, variance, x_grad, v_grad, len(x),
            *grad.stride(), *x.stride(), *(variance.stride() if variance is not None else (0, 0)),
            **shape, HAS_WEIGHT=weight is not None, HAS_VARIANCE=variance is not None,
        )  # fmt: skip
    return x_grad, v_grad


@encode_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    cycles: Tensor,
    weight: Tensor | None,
    variance: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
) -> tuple[Tensor, Tensor]:
    rows = x.shape[0] if variance is not None else 0
    x_grad = x.new_empty(x.shape, dtype=torch.float32)
    return x_grad, x.new_empty((rows, x.shape[1]), dtype=torch.float32)


def _reference(
    x: Tensor,
    cycles: Tensor,
    weight: Tensor | None,
    variance: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
) -> Tensor:
    """Reference in torch operations, for the derivatives that the kernels do not compute."""
    products = x.to(cycles.dtype)[:, None, :] * cycles
    angles = ((products - products.detach().round()) * TWO_PI).float()
    both = torch.stack((angles.sin(), angles.cos()), dim=1)
    if first_phase == "cos":
        both = both.flip(1)
    if weight is not None:
        both = both * weight[:, None]
    if variance is not None:
        omega = (cycles * TWO_PI).float()
        both = both * torch.exp(-0.5 * variance[:, None, :] * omega * omega)[:, None]
    # Phase, band and axis, as the kernels' columns nest them.
    features = both.permute(0, *(1 + "pka".index(letter) for letter in layout)).flatten(1)
    parts = {"front": [x, features], "back": [features, x], "": [features]}[raw]
    return torch.cat(parts, dim=1)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.columns = inputs[4:7]


def _encode_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, cycles, weight, variance = ctx.saved_tensors
    x_grad, v_grad = encode_backward(grad, x, cycles, weight, variance, *ctx.columns)
    w_grad = None
    if weight is not None and ctx.needs_input_grad[2]:
        ones = torch.ones_like(weight)
        layout, first_phase, raw = ctx.columns
        features = _reference(x, cycles, ones, variance, layout, first_phase, "")
        start = x.shape[1] if raw == "front" else 0
        terms = grad[:, start : start + features.shape[1]] * features
        sizes = dict(k=cycles.shape[0], p=2, a=cycles.shape[1])
        terms = terms.reshape(-1, *(sizes[letter] for letter in layout))
        others = [i for i in range(4) if i == 0 or layout[i - 1] != "k"]
        w_grad = terms.sum(others).to(weight.dtype)
    return (
        x_grad.to(x.dtype) if ctx.needs_input_grad[0] else None,
        None,
        w_grad,
        v_grad.to(variance.dtype) if variance is not None else None,
        *([None] * 4),
    )


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.columns = inputs[5:8]


def _second_gradients(ctx: Any, of_x_grad: Tensor, of_v_grad: Tensor) -> tuple[Tensor | None, ...]:
    """Second derivatives, through torch's own operations."""
    grad, x, cycles, weight, variance = ctx.saved_tensors
    grad, x = grad.detach().requires_grad_(), x.detach().requires_grad_()
    weight = None if weight is None else weight.detach().requires_grad_()
    variance = None if variance is None else variance.detach().requires_grad_()
    with torch.enable_grad():
        features = _reference(x, cycles, weight, variance, *ctx.columns)
        inputs, outer = [x], [of_x_grad.to(x.dtype)]
        if variance is not None:
            inputs, outer = [x, variance], [*outer, of_v_grad.to(variance.dtype)]
        first = torch.autograd.grad(features, inputs, grad.to(features.dtype), create_graph=True)
        wanted = [t for t in (grad, x, weight, variance) if t is not None]
        found = iter(torch.autograd.grad(first, wanted, outer, allow_unused=True))
    of_grad, of_x = next(found), next(found)
    of_weight = None if weight is None else next(found)
    of_variance = None if variance is None else next(found)
    return of_grad, of_x, None, of_weight, of_variance, None, None, None


encode.register_autograd(_encode_gradients, setup_context=_save)
encode_backward.register_autograd(_second_gradients, setup_context=_save_backward)
