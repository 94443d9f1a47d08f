"""The first layer on a GPU, fused with the sinusoids before it: features never reach memory.

The forward pass makes the features of a block of rows in registers and multiplies them there; the
gradient of the weights makes them once more, from the coordinates. See `sincos` for the sinusoids.
"""

import os
from typing import Any, no_type_check

import torch
from torch import Tensor

from nerf_posenc.core.kernels.sincos import (
    _column_constants,
    _pair_terms,
    encode,
    encode_backward,
)
from nerf_posenc.core.kernels.triton import tl, triton

# Pairs of columns, rows and outputs that a program holds at a time; a product needs 16 of each.
_CHUNK = 16
_ROWS = 64
_OUTPUTS = 128
# Parts of the rows that sum their own gradients of the weights, which are then added up in order.
_SPLITS = 64

# The interpreter multiplies bfloat16 as if it were whole numbers; in float32 the products are the
# same.
_WIDEN = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
@no_type_check
def _product(a, b, total):
    """Add a product of matrices to a total in float32."""
    if _WIDEN:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
    return tl.dot(a, b, total, input_precision="ieee")


@triton.jit
@no_type_check
def _pairs(
    start, IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, BAND_OUTER: tl.constexpr,
    BAND_STEP: tl.constexpr, AXIS_STEP: tl.constexpr, FIRST_COLUMN: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Band, axis and first column of a chunk of pairs, and which of them there are."""
    pair = start + tl.arange(0, CHUNK)
    band = pair // IN_DIM if BAND_OUTER else pair % NUM_BANDS
    axis = pair % IN_DIM if BAND_OUTER else pair // NUM_BANDS
    column = FIRST_COLUMN + band * BAND_STEP + axis * AXIS_STEP
    return band, axis, column, pair < NUM_BANDS * IN_DIM


@triton.jit
@no_type_check
def _features(
    x_ptr, cycles_ptr, rows, start, num_rows, x_row, x_axis,
    IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, BAND_OUTER: tl.constexpr,
    BAND_STEP: tl.constexpr, AXIS_STEP: tl.constexpr, COSINE_FIRST: tl.constexpr,
    FIRST_COLUMN: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Both phases of a chunk of pairs, the column of the first, and which pairs there are."""
    band, axis, column, is_pair = _pairs(
        start, IN_DIM, NUM_BANDS, BAND_OUTER, BAND_STEP, AXIS_STEP, FIRST_COLUMN, CHUNK
    )
    inside = (rows < num_rows)[:, None] & is_pair[None, :]
    sine, cosine, _, _ = _pair_terms(
        x_ptr, cycles_ptr, None, None, rows, tl.where(is_pair, band, -1), axis, inside,
        x_row, x_axis, 0, 0, IN_DIM, False, False,
    )  # fmt: skip
    first = cosine if COSINE_FIRST else sine
    second = sine if COSINE_FIRST else cosine
    return first, second, column, is_pair


@triton.jit
@no_type_check
def _forward_kernel(
    x_ptr, cycles_ptr, weight_ptr, bias_ptr, out_ptr, num_rows, width,
    x_row, x_axis, w_row, w_column,
    IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, BAND_OUTER: tl.constexpr,
    BAND_STEP: tl.constexpr, PHASE_STEP: tl.constexpr, AXIS_STEP: tl.constexpr,
    COSINE_FIRST: tl.constexpr, FIRST_COLUMN: tl.constexpr, RAW_COLUMN: tl.constexpr,
    HAS_BIAS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """Write a block of rows and outputs."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = outputs < width
    kind = weight_ptr.dtype.element_ty
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for start in range(0, NUM_BANDS * IN_DIM, CHUNK):
        first, second, column, is_pair = _features(
            x_ptr, cycles_ptr, rows, start, num_rows, x_row, x_axis, IN_DIM, NUM_BANDS,
            BAND_OUTER, BAND_STEP, AXIS_STEP, COSINE_FIRST, FIRST_COLUMN, CHUNK,
        )  # fmt: skip
        place = weight_ptr + outputs[None, :] * w_row + column[:, None] * w_column
        mask = is_pair[:, None] & is_output[None, :]
        of_first = tl.load(place, mask=mask, other=0.0)
        of_second = tl.load(place + PHASE_STEP * w_column, mask=mask, other=0.0)
        total = _product(first.to(kind), of_first, total)
        total = _product(second.to(kind), of_second, total)
    if RAW_COLUMN >= 0:
        for i in tl.static_range(IN_DIM):
            x = tl.load(x_ptr + rows * x_row + i * x_axis, mask=rows < num_rows, other=0.0)
            place = weight_ptr + outputs * w_row + (RAW_COLUMN + i) * w_column
            of_raw = tl.load(place, mask=is_output, other=0.0).to(tl.float32)
            total += x.to(kind).to(tl.float32)[:, None] * of_raw[None, :]
    if HAS_BIAS:
        bias = tl.load(bias_ptr + outputs, mask=is_output, other=0.0).to(tl.float32)
        total += bias[None, :]
    mask = (rows < num_rows)[:, None] & is_output[None, :]
    tl.store(out_ptr + rows[:, None] * width + outputs[None, :], total.to(kind), mask=mask)


@triton.jit
@no_type_check
def _weight_kernel(
    grad_ptr, x_ptr, cycles_ptr, parts_ptr, num_rows, width, num_columns,
    g_row, g_column, x_row, x_axis,
    IN_DIM: tl.constexpr, NUM_BANDS: tl.constexpr, BAND_OUTER: tl.constexpr,
    BAND_STEP: tl.constexpr, PHASE_STEP: tl.constexpr, AXIS_STEP: tl.constexpr,
    COSINE_FIRST: tl.constexpr, FIRST_COLUMN: tl.constexpr, RAW_COLUMN: tl.constexpr,
    CHUNK: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of a chunk of columns and a block of outputs over some of the rows."""
    start = tl.program_id(0) * CHUNK
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    split = tl.program_id(2)
    is_output = outputs < width
    kind = grad_ptr.dtype.element_ty
    of_first = tl.zeros((CHUNK, OUTPUTS), tl.float32)
    of_second = tl.zeros((CHUNK, OUTPUTS), tl.float32)
    _, _, column, is_pair = _pairs(
        start, IN_DIM, NUM_BANDS, BAND_OUTER, BAND_STEP, AXIS_STEP, FIRST_COLUMN, CHUNK
    )
    for row in range(split * ROWS, num_rows, SPLITS * ROWS):
        rows = row + tl.arange(0, ROWS).to(tl.int64)
        first, second, _, _ = _features(
            x_ptr, cycles_ptr, rows, start, num_rows, x_row, x_axis, IN_DIM, NUM_BANDS,
            BAND_OUTER, BAND_STEP, AXIS_STEP, COSINE_FIRST, FIRST_COLUMN, CHUNK,
        )  # fmt: skip
        mask = (rows < num_rows)[:, None] & is_output[None, :]
        place = grad_ptr + rows[:, None] * g_row + outputs[None, :] * g_column
        grad = tl.load(place, mask=mask, other=0.0)
        of_first = _product(tl.trans(first.to(kind)), grad, of_first)
        of_second = _product(tl.trans(second.to(kind)), grad, of_second)
    place = parts_ptr + (split * num_columns + column[:, None]) * width + outputs[None, :]
    mask = is_pair[:, None] & is_output[None, :]
    tl.store(place, of_first, mask=mask)
    tl.store(place + PHASE_STEP * width, of_second, mask=mask)


def _blocks(cycles: Tensor, layout: str, first_phase: str, raw: str, width: int) -> dict[str, Any]:
    num_bands, in_dim = cycles.shape
    shape = _column_constants(layout, num_bands, in_dim, raw, first_phase)
    del shape["PAIRS"]
    outputs = min(_OUTPUTS, max(16, triton.next_power_of_2(width)))
    return {**shape, "CHUNK": _CHUNK, "ROWS": _ROWS, "OUTPUTS": outputs}


@torch.library.custom_op("nerf_posenc::sincos_linear", mutates_args=())
def encode_linear(
    x: Tensor,
    cycles: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
) -> Tensor:
    """Linear layer of the features of coordinates ``(n, in_dim)``, in the type of the weights.

    Args:
        x: float32, float16 or bfloat16, of any strides.
        cycles: cycles per unit, ``(num_bands, in_dim)``: float32 where they are powers of two,
            else float64.
        weight: ``(width, columns)``; the products are made in its type and summed in float32.
        bias: ``(width,)``.
        layout: one of ``LAYOUTS``.
        first_phase: ``"sin"`` or ``"cos"``.
        raw: where the raw coordinates go: ``"front"``, ``"back"`` or ``""``.
    """
    width = len(weight)
    out = x.new_empty(len(x), width, dtype=weight.dtype)
    if out.numel():
        blocks = _blocks(cycles, layout, first_phase, raw, width)
        grid = (triton.cdiv(len(x), blocks["ROWS"]), triton.cdiv(width, blocks["OUTPUTS"]))
        _forward_kernel[grid](
            x, cycles, weight, bias, out, len(x), width, *x.stride(), *weight.stride(),
            **blocks, HAS_BIAS=bias is not None,
        )  # fmt: skip
    return out


@encode_linear.register_fake
def _(
    x: Tensor,
    cycles: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    layout: str,
    first_phase: str,
    raw: str,
) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], dtype=weight.dtype)


@torch.library.custom_op("nerf_posenc::sincos_linear_weight_grad", mutates_args=())
def weight_gradient(
    grad: Tensor, x: Tensor, cycles: Tensor, layout: str, first_phase: str, raw: str
) -> Tensor:
    """Gradient of the weights, ``(width, columns)`` in float32."""
    width, (num_bands, in_dim) = grad.shape[1], cycles.shape
    num_columns = 2 * num_bands * in_dim + (in_dim if raw else 0)
    blocks = _blocks(cycles, layout, first_phase, raw, width)
    splits = min(_SPLITS, max(1, triton.cdiv(len(x), _ROWS)))
    parts = x.new_zeros(splits, num_columns, width, dtype=torch.float32)
    if x.numel() and width:
        chunks = triton.cdiv(num_bands * in_dim, _CHUNK)
        grid = (chunks, triton.cdiv(width, blocks["OUTPUTS"]), splits)
        _weight_kernel[grid](
            grad, x, cycles, parts, len(x), width, num_columns, *grad.stride(), *x.stride(),
            **blocks, SPLITS=splits,
        )  # fmt: skip
    total = parts.sum(0)
    if raw:
        start = blocks["RAW_COLUMN"]
        total[start : start + in_dim] = (x.to(grad.dtype).T @ grad).float()
    return total.T.contiguous()


@weight_gradient.register_fake
def _(grad: Tensor, x: Tensor, cycles: Tensor, layout: str, first_phase: str, raw: str) -> Tensor:
    num_columns = 2 * cycles.numel() + (x.shape[1] if raw else 0)
    return grad.new_empty(grad.shape[1], num_columns, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.columns = inputs[4:7]


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, cycles, weight, bias = ctx.saved_tensors
    layout, first_phase, raw = ctx.columns
    x_grad = w_grad = b_grad = None
    if ctx.needs_input_grad[0]:
        x_grad, _ = encode_backward(grad @ weight, x, cycles, None, None, *ctx.columns)
        x_grad = x_grad.to(x.dtype)
    if ctx.needs_input_grad[2]:
        if torch.is_grad_enabled():
            # For second derivatives the features are made after all.
            features = encode(x, cycles, None, None, layout, first_phase, raw, weight.dtype)
            w_grad = grad.T @ features
        else:
            w_grad = weight_gradient(grad, x, cycles, *ctx.columns).to(weight.dtype)
    if bias is not None and ctx.needs_input_grad[3]:
        b_grad = grad.sum(0).to(bias.dtype)
    return x_grad, None, w_grad, b_grad, None, None, None


encode_linear.register_autograd(_gradients, setup_context=_save)
