"""Interpolation in tables of features, at the corners of the cells that points lie in."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.core.checks import inside_transform, require_coordinates

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Shaped

Interpolation = Literal["linear", "smoothstep"]

# Rows with at least this many features are summed row by row; for fewer, sorting costs more.
_WIDE = 8


class Corners(NamedTuple):
    """Rows and weights that points are interpolated from, in each of several grids.

    Grids, like axes, are the first dimension: operations along the points are fast.

    Attributes:
        rows: rows of the table, one for each corner of the cell.
        weights: weights of the corners.
    """

    rows: Int[Tensor, "grids n corners"]
    weights: Float[Tensor, "grids n corners"]


def require_bounds(bounds: Sequence[float]) -> None:
    """Refuse bounds that are not a lower and a higher finite number.

    Raises:
        ValueError: Naming what was given.
    """
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bounds must be a lower and a higher finite number; got {bounds}")


def require_interpolation(name: str) -> None:
    """Refuse unknown kinds of interpolation.

    Raises:
        ValueError: Naming the known kinds and what was given.
    """
    if name not in ("linear", "smoothstep"):
        raise ValueError(f"interpolation must be 'linear' or 'smoothstep'; got {name!r}")


def unit_coordinates(x: Tensor, in_dim: int, bounds: tuple[float, float]) -> Tensor:
    """Coordinates ``(n, in_dim)`` in [0, 1], at least float32."""
    require_coordinates(x, in_dim)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    x = x.reshape(math.prod(x.shape[:-1]), in_dim)
    low, high = bounds
    # The difference is 0, and NaN for an infinite coordinate, which would be clamped to the edge.
    return ((x - low) / (high - low)).clamp(0, 1) + (x - x)


def table_dtype(x: Tensor, table: Tensor) -> torch.dtype:
    """Type of the features: the table's, but float64 where the coordinates are."""
    return torch.float64 if x.dtype == torch.float64 else table.dtype


def positions_from_unit(
    unit: Float[Tensor, "axes #grids n"], nodes: Int[Tensor, "#axes grids 1"], align_corners: bool
) -> Float[Tensor, "axes grids n"]:
    """Positions in cells from node 0, of coordinates in [0, 1]; as torch's ``grid_sample``."""
    return unit * (nodes - 1) if align_corners else unit * nodes - 0.5


def cells_from_positions(
    position: Float[Tensor, "axes grids n"],
    interpolation: Interpolation,
    dtype: torch.dtype = torch.int64,
) -> tuple[Int[Tensor, "axes grids n"], Float[Tensor, "grids n corners"]]:
    """Cell that each position lies in, in every grid, and the weights of its corners.

    ``position`` is in cells from node 0. A position that is not finite is put into cell 0
    and its weights are NaN.
    """
    cell, fraction = _cells_and_fractions(position, interpolation, dtype)
    sides = [(1 - part, part) for part in fraction]
    return cell, combine_corners(sides, torch.mul)


def nodes_from_positions(
    position: Float[Tensor, "axes grids n"],
    nodes: Int[Tensor, "#axes grids 1"],
    interpolation: Interpolation,
) -> tuple[
    Int[Tensor, "axes grids n"], Int[Tensor, "axes grids n"], Float[Tensor, "grids n corners"]
]:
    """Nodes on the low and the high side of each position, and the weights of their corners.

    ``nodes`` is the number of nodes along each axis; nodes beyond them weigh 0.
    """
    cell, fraction = _cells_and_fractions(position, interpolation, torch.int64)
    low, high = cell.clamp(min=0), torch.minimum(cell + 1, nodes - 1)
    sides = zip((1 - fraction) * (cell >= 0), fraction * (cell + 1 < nodes), strict=True)
    return low, high, combine_corners([*sides], torch.mul)


def _cells_and_fractions(
    position: Tensor, interpolation: Interpolation, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    cell = position.detach().nan_to_num(0.0, 0.0, 0.0).floor()
    fraction = position - cell
    if interpolation == "smoothstep":
        fraction = fraction * fraction * (3 - 2 * fraction)
    return cell.to(dtype), fraction


def sides_from_nodes(
    low: Int[Tensor, "axes grids n"],
    high: Int[Tensor, "axes grids n"],
    factors: Int[Tensor, "axes #grids 1"],
) -> list[tuple[Int[Tensor, "grids n"], Int[Tensor, "grids n"]]]:
    """Summands of a row index from the nodes on the low and high side of a cell, by axis."""
    return [*zip(low * factors, high * factors, strict=True)]


def combine_corners(
    sides: Sequence[tuple[Shaped[Tensor, "grids n"], Shaped[Tensor, "grids n"]]],
    combine: Callable[[Tensor, Tensor], Tensor],
    finish: Callable[[Tensor], Tensor] = lambda corner: corner,
) -> Shaped[Tensor, "grids n corners"]:
    """Combine the values of the low and the high side of each axis, for each corner.

    Args:
        sides: values of both sides, by axis.
        combine: function of two values.
        finish: function of what came out for a corner.
    """
    # Corner by corner, since operations along the short dimension of corners are slow.
    corners = [finish(functools.reduce(combine, corner)) for corner in itertools.product(*sides)]
    if corners[0].is_cpu:
        # Stacked along the last dimension they would be copied number by number.
        return torch.stack(corners).movedim(0, -1).contiguous()
    # A GPU reads them corner by corner: its neighboring threads then read neighboring points.
    return torch.stack(corners).movedim(0, -1)


def weighted_rows(
    table: Float[Tensor, "rows width"],
    rows: Int[Tensor, "grids n corners"],
    weights: Float[Tensor, "grids n corners"],
) -> Float[Tensor, "grids n width"]:
    """Weighted sum of the rows of the table, over the corners."""
    if torch.compiler.is_compiling() or inside_transform() or table.dtype != weights.dtype:
        return (F.embedding(rows, table) * weights[..., None]).sum(2)
    total: Tensor
    if rows.transpose(0, 1).is_contiguous():
        # Drawn from a cache, in which the corners of a point lie together.
        total = _WeightedRows.apply(table, rows.transpose(0, 1), weights.transpose(0, 1))
        return total.transpose(0, 1)
    total = _WeightedRows.apply(table, rows, weights)
    return total


class _WeightedRows(torch.autograd.Function):
    """The weighted sum with the table's gradient; on a CPU without the gathered rows in memory.

    Grids and points may be in either order.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(table, rows, weights)
        if not table.is_cpu:
            # Corner by corner: a GPU's kernel for bags gives 32 threads to a row, however narrow.
            summed = table.new_zeros(*rows.shape[:2], table.shape[1])
            for row, weight in zip(rows.unbind(-1), weights.unbind(-1), strict=True):
                summed.addcmul_(F.embedding(row, table), weight[..., None])
            return summed
        flat, factors = rows.flatten(0, 1), weights.flatten(0, 1)
        total = F.embedding_bag(flat, table, per_sample_weights=factors, mode="sum")
        return total.reshape(*rows.shape[:2], table.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        table, rows, weights = ctx.saved_tensors
        table_grad = weights_grad = None
        if ctx.needs_input_grad[0]:
            # For few rows, planes as large as the table would cost more than sorting.
            is_sparse = 8 * rows.numel() < table.numel()
            is_sorted = is_sparse or table.shape[1] >= _WIDE
            on_cpu = _sorted_gradient if is_sorted else _scattered_gradient
            gradient = on_cpu if table.is_cpu else _added_gradient
            table_grad = gradient(table, rows, weights, grad)
        if ctx.needs_input_grad[2]:
            weights_grad = (F.embedding(rows, table) * grad[:, :, None]).sum(-1)
        return table_grad, None, weights_grad


def _added_gradient(table: Tensor, rows: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    # A GPU adds whole rows faster than it sorts them, and need not wait for how many there are.
    # Corner by corner: the terms of all would take as many times the memory of the features.
    total = torch.zeros_like(table)
    for row, weight in zip(rows.unbind(-1), weights.unbind(-1), strict=True):
        total.index_add_(0, row.flatten(), (grad * weight[..., None]).flatten(0, 1))
    return total


def _scattered_gradient(table: Tensor, rows: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    # One plane per feature: a CPU's cores add to different planes, each in a fixed order.
    terms = grad.permute(2, 0, 1).contiguous()[..., None] * weights
    planes = grad.new_zeros(table.shape[1], table.shape[0])
    planes.scatter_add_(1, rows.flatten().long().expand(len(planes), -1), terms.flatten(1))
    return torch.stack(planes.unbind(), dim=-1)


def _sorted_gradient(table: Tensor, rows: Tensor, weights: Tensor, grad: Tensor) -> Tensor:
    # Each row of the table sums its own points, which reads and writes whole rows.
    # Stable, so that the order of additions, and with it the rounding, is the same every time.
    order, corner = rows.flatten().int().sort(stable=True)
    found, counts = torch.unique_consecutive(order, return_counts=True)
    summed = F.embedding_bag(
        corner // rows.shape[-1],
        grad.flatten(0, 1).contiguous(),
        counts.cumsum(0) - counts,
        per_sample_weights=weights.flatten()[corner],
        mode="sum",
    )
    return torch.zeros_like(table).index_copy_(0, found.long(), summed)
