"""Speed and derivatives of sinusoids: chunks of rows, and one autograd function.

`core.sinusoids` defines the numbers; nothing here changes them. `Sines` saves its output alone: the
derivative of each sine is the cosine of the same angle, and vice versa.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.core.encoder import without_autocast

if TYPE_CHECKING:
    from jaxtyping import Float

    from nerf_posenc.core.sinusoids import SinCos

# Features in one chunk for each thread of a CPU: what they are computed from stays in its cache,
# and arrays stay below the size for which the allocator asks the system for new pages every time.
_CHUNK = 1 << 16
# Gradients in one chunk: intermediate results of many rows would be new memory at every step.
_GRADIENT_CHUNK = 1 << 22


def chunk_rows(x: Tensor, width: int, size: int) -> int:
    """Rows of ``x`` in one chunk of ``size`` elements on a CPU; elsewhere all are one chunk."""
    return max(1, size // max(1, width)) if x.device.type == "cpu" else max(1, len(x))


class Sines(torch.autograd.Function):
    """Features of `SinCos`, computed in chunks of rows, for reverse mode of any order.

    Call ``forward`` itself where nothing is differentiated, which saves what an autograd function
    costs per call.
    """

    @staticmethod
    def forward(
        x: Tensor, basis: Tensor | None, raw: Tensor | None, table: SinCos, dtype: torch.dtype
    ) -> Tensor:
        """Evaluate ``table.waves`` and lay the columns out; see `SinCos.evaluated`."""
        width = table.out_dim + (0 if raw is None else raw.shape[1])
        features = x.new_empty(len(x), width, dtype=dtype)
        raw_columns, sines, cosines = table.parts(features)
        if raw is not None:
            raw_columns.copy_(raw)
        rows = chunk_rows(x, table.out_dim, _CHUNK * torch.get_num_threads())
        chunks = zip(x.split(rows), sines.split(rows), cosines.split(rows), strict=True)
        for points, sine_columns, cosine_columns in chunks:
            sine, cosine = table.waves(points, dtype, basis)
            sine_columns.copy_(sine)
            cosine_columns.copy_(cosine)
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
        raw_grad = ctx.table.parts(grad)[0] if of_raw else None
        rows = chunk_rows(grad, grad.shape[1], _GRADIENT_CHUNK)
        chunks = zip(grad.split(rows), features.split(rows), strict=True)
        along = torch.cat([ctx.table.gradient(*chunk) for chunk in chunks])
        if basis is None:
            return along, None, raw_grad, None, None
        # Products in float32 may be rounded to TF32 or bfloat16.
        is_whole = torch.get_float32_matmul_precision() == "highest"
        along = along.to(torch.promote_types(along.dtype, basis.dtype) if is_whole else torch.float64)
        with without_autocast(along):
            x_grad = along @ basis.to(along) if of_x else None
            basis_grad = along.T @ x.to(along) if of_basis else None
        return x_grad, basis_grad, raw_grad, None, None
