"""Speed and derivatives of sinusoids: chunks of rows, and one autograd function.

`core.sinusoids` defines the numbers; nothing here changes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.core.checks import without_autocast

# Features in a chunk for each thread of a CPU: what they are computed from stays in its cache.
_CHUNK = 1 << 17
# Gradients in a chunk: intermediate results of many rows would be new memory at every step.
_GRADIENT_CHUNK = 1 << 22


def chunks(rows: int, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Split tensors of equal length into chunks of as many rows, on a CPU."""
    if len(tensors[0]) <= rows or tensors[0].device.type != "cpu":
        return [tensors]
    return zip(*(tensor.split(max(1, rows)) for tensor in tensors), strict=True)


def exact_product(left: Tensor, right: Tensor) -> Tensor:
    """``left @ right`` in their own type, under autocast too, which would round both to bfloat16.

    Args:
        left: matrices that are no features, such as covariances and poses.
        right: likewise.
    """
    with without_autocast(left):
        product: Tensor = left @ right
    return product


def unrounded(factor: Tensor) -> Tensor:
    """Factor in float64 where the switches for TF32 or bfloat16 would round it in a product."""
    is_whole = torch.get_float32_matmul_precision() == "highest" or factor.device.type == "mps"
    return factor if is_whole else factor.double()


class Sines(torch.autograd.Function):
    """Features of `SinCos`, with derivatives that are computed from the features alone.

    The derivative of each sine is the cosine of the same angle, and vice versa. ``backward`` is
    made of operations that have derivatives themselves. Where nothing is differentiated, call
    ``forward`` directly, which saves what an autograd function costs per call.
    """

    @staticmethod
    def forward(
        x: Tensor, basis: Tensor | None, raw: Tensor | None, table: Any, dtype: torch.dtype
    ) -> Tensor:
        """Evaluate as ``table.evaluated``, in the memory of the output or in chunks of rows."""
        width = table.out_dim + (0 if raw is None else raw.shape[1])
        features = x.new_empty(len(x), width, dtype=dtype)
        if raw is not None:
            table.raw_part(features).copy_(raw)
        if table.row is not None and basis is None and x.dtype == dtype == torch.float32:
            _fill_rows(table.sinusoid_part(features), x, *table.row)
            return features
        rows = _CHUNK * torch.get_num_threads() // max(1, table.out_dim)
        for points, *phases in chunks(rows, x, *table.phase_parts(features)):
            waves = table.waves(points, dtype, basis, in_place=True)
            for columns, wave in zip(phases, waves, strict=True):
                columns.copy_(wave)
        return features

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save the features, and the coordinates only for the gradient of a basis."""
        x, basis, _, ctx.table, _ = inputs
        ctx.save_for_backward(output, basis, None if basis is None else x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients with respect to coordinates, basis and raw columns."""
        features, basis, x = ctx.saved_tensors
        of_x, of_basis, of_raw = ctx.needs_input_grad[:3]
        raw_grad = ctx.table.raw_part(grad) if of_raw else None
        rows = _GRADIENT_CHUNK // max(1, grad.shape[1])
        parts = [ctx.table.gradient(*part) for part in chunks(rows, grad, features)]
        along = parts[0] if len(parts) == 1 else torch.cat(parts)
        if basis is None:
            return along, None, raw_grad, None, None
        # Coordinates along directions are x @ basis.T.
        along = unrounded(along.to(torch.promote_types(along.dtype, basis.dtype)))
        x_grad = exact_product(along, basis.to(along)) if of_x else None
        basis_grad = exact_product(along.T, x.to(along)) if of_basis else None
        return x_grad, basis_grad, raw_grad, None, None


def _fill_rows(columns: Tensor, x: Tensor, cycles: Tensor, phases: Tensor) -> None:
    """Fill columns of which each axis has one row, by one sine: cos a = sin(a + pi / 2).

    Copies of sines and of cosines between each other would cost a fifth of the time.
    """
    # Rows beside raw columns are slow to compute in.
    is_own = columns.is_contiguous()
    memory = columns if is_own else columns.new_empty(columns.shape)
    # (n, in_dim, columns of one axis). The steps of `fraction_of_cycles` and `sine_of_fraction`.
    angles, x = memory.view(len(x), x.shape[1], len(phases)), x.unsqueeze(2)
    torch.mul(x, cycles, out=angles).round_()
    # Whole cycles less cycles: the fraction with its sign changed. The products are exact, and to
    # compute them twice is faster than to keep them.
    torch.addcmul(angles, x, cycles, value=-1, out=angles)
    torch.add(phases, angles, alpha=-2 * math.pi, out=angles).sin_()
    if not is_own:
        columns.copy_(memory)
