"""Reduction to one cycle, sines, and their derivatives: the arithmetic of `SinCos`."""

import math
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from nerf_posenc.core.sinusoids import SinCos

RADIANS_PER_CYCLE = 2 * math.pi

# On a CPU, cycles that are computed in float64 are computed in chunks of this many elements, which
# stay in cache and are not a second, larger array of the output's size.
_CPU_CHUNK = 1 << 17


def evaluate(
    table: "SinCos",
    x: Tensor,
    dtype: torch.dtype,
    out: Tensor | None = None,
    buffers: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Tensor:
    """Features ``(n, out_dim)`` of coordinates ``(n, in_dim)``.

    Without ``out`` and ``buffers`` these are plain differentiable operations; with them nothing is
    allocated.

    Args:
        table: the bands and the layout of the columns.
        x: coordinates.
        dtype: type of the sines.
        out: array for the features.
        buffers: two arrays ``(n, *columns)`` in the type of the cycles. The first may share memory
            with ``out``; with it alone the product is computed twice.
    """
    work, whole = buffers
    cycles_dtype = _cycles_dtype(table, x)
    bands, offset = table._cycles, table._offset
    if cycles_dtype != bands.dtype:
        # Powers of two are the same in any type, a quarter of a cycle in radians is not.
        bands = bands.to(cycles_dtype)
        offset = (offset > 0).to(cycles_dtype) * (RADIANS_PER_CYCLE / 4)
    if x.dtype != cycles_dtype or x.device != bands.device:
        x = x.to(bands.device, cycles_dtype)
    x = x.reshape(x.shape[0], *table._x_shape)
    # Whole cycles less cycles: the fraction with its sign changed, which saves negating the bands.
    if work is not None and whole is None:
        whole = torch.round(torch.mul(x, bands, out=work), out=work)
        fraction = torch.addcmul(whole, x, bands, value=-1, out=work)
    else:
        cycles = torch.mul(x, bands, out=work)
        fraction = torch.sub(torch.round(cycles, out=whole), cycles, out=work)
    fraction = fraction.reshape(x.shape[0], table.out_dim)
    # The product with 2 pi. With alpha the sum is one fused multiply-add, so the quarter of a cycle
    # that makes a cosine of a sine costs no second rounding.
    angles = torch.add(
        offset, fraction, alpha=-RADIANS_PER_CYCLE, out=None if work is None else fraction
    )
    if angles.dtype != dtype or angles.device != table._sign.device:
        angles = angles.to(table._sign.device, dtype)
    return torch.sin(angles, out=out)


def _cycles_dtype(table: "SinCos", x: Tensor) -> torch.dtype:
    return table._cycles.dtype if x.dtype == torch.float32 else torch.float64


def _slopes(table: "SinCos", features: Tensor) -> Tensor:
    """Derivative of each column, ``(n, *columns)``, with respect to its own coordinate."""
    features = features.unflatten(1, table._columns)
    omega = table._cycles.to(features) * RADIANS_PER_CYCLE
    partner = features.flip(1 + table.layout.index("p"))
    return partner * (omega * table._sign.to(features))


class SinCosFunction(torch.autograd.Function):
    """`evaluate` in place, saving nothing but its output for the derivatives.

    The derivative of a sine is the cosine beside it, so backward, forward-mode and second
    derivatives all come out of the features that the next layer keeps anyway.
    """

    @staticmethod
    def forward(x: Tensor, table: "SinCos", dtype: torch.dtype) -> Tensor:
        if x.device.type != "cpu":
            return evaluate(table, x, dtype)
        features = x.new_empty(len(x), table.out_dim, dtype=dtype)
        if _cycles_dtype(table, x) == dtype:
            work = features.view(len(x), *table._columns)
            return evaluate(table, x, dtype, features, (work, None))
        rows = max(1, _CPU_CHUNK // max(1, table.out_dim))
        work = x.new_empty(2, min(rows, len(x)), *table._columns, dtype=torch.float64)
        for x_chunk, chunk in zip(x.split(rows), features.split(rows), strict=True):
            cycles, whole = work[:, : len(chunk)]
            evaluate(table, x_chunk, dtype, chunk, (cycles, whole))
        return features

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, "SinCos", torch.dtype], output: Tensor
    ) -> None:
        ctx.x_dtype, ctx.table = inputs[0].dtype, inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (features,) = ctx.saved_tensors
        other = [1 + i for i, letter in enumerate(ctx.table.layout) if letter != "a"]
        slopes = _slopes(ctx.table, features)
        x_grad = (grad.view_as(slopes) * slopes).sum(other)
        return x_grad.to(ctx.x_dtype), None, None

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, *_: None) -> Tensor:
        (features,) = ctx.saved_tensors
        table: SinCos = ctx.table
        slopes = _slopes(table, features)
        return (slopes * table.placed(x_tangent.to(features), "a")).flatten(1)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], x: Tensor, table: "SinCos", dtype: torch.dtype
    ) -> tuple[Tensor, int]:
        x = x.movedim(in_dims[0], 0)
        features = SinCosFunction.apply(x.reshape(-1, table.in_dim), table, dtype)
        return features.reshape(*x.shape[:-1], table.out_dim), 0


def project(
    x: Float[Tensor, "*batch in_dim"], matrix: Float[Tensor, "num_directions in_dim"]
) -> Float[Tensor, "*batch num_directions"]:
    """Coordinates along other directions, ``x @ matrix.T``, in float64.

    A float32 product would lose digits that a high band multiplies, and autocast and the
    switches for TF32 and bfloat16 products do not affect one in float64.

    Args:
        x: coordinates.
        matrix: one direction per row.

    Returns:
        Float64 on the device of ``x`` (MPS has none: there, on the CPU).
    """
    device = torch.device("cpu") if x.device.type == "mps" else x.device
    return x.to(device, torch.float64) @ matrix.to(device, torch.float64).T
