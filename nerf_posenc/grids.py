"""Trained grids: hashed, dense, and planes. Interpolation is differentiable twice."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.bands import coarse_to_fine_weight
from nerf_posenc.checks import inside_transform, require_coordinates
from nerf_posenc.widths import FixedWidths

# Müller et al. 2022, section 3; the fourth is tiny-cuda-nn's, for 4-D.
_PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)

Interpolation = Literal["linear", "smoothstep"]


class HashGridEncoder(FixedWidths):
    r"""Multi-resolution grid of trained features, hashed where a level outgrows its table.

    Instant-NGP's encoding (Müller et al. 2022, section 3): level $\ell$ has
    $N_\ell = \lceil N_0 g^\ell - 1 \rceil + 1$ nodes an axis; a level with no more nodes than the
    table has rows is stored densely, the others share rows by a spatial hash. Features are
    the interpolated rows of all levels.

    Args:
        in_dim: number of coordinates, 1 to 4.
        num_levels: number of levels, 1 or more.
        features_per_level: width of a row, 1 or more.
        log2_table_size: rows of a table, as a power of two; None makes every level dense.
        base_resolution: $N_0$, 2 or more.
        growth: $g$, from one level to the next, 1 or more.
        interpolation: ``"linear"``, or ``"smoothstep"`` for derivatives that are continuous
            across cells (there, second derivatives along an axis are not zero).
        bounds: the box that the grid covers, one lower and one upper number for all axes.
            Coordinates outside are taken to its edge.
        convention: ``"instant-ngp"`` as tiny-cuda-nn lays its tables out, or
            ``"nerfstudio"`` as its torch code does: $\lfloor N_0 g^\ell \rfloor$ cells, no
            half-cell offset, no dense levels.
        generator: to draw the first features from, uniform in ±1e-4.

    Raises:
        ValueError: where an argument is out of its range.

    Examples:
        >>> encoder = HashGridEncoder(3, num_levels=4, log2_table_size=10)
        >>> encoder(torch.rand(5, 3)).shape
        torch.Size([5, 8])
    """

    _scales: Tensor
    _factors: Tensor
    _rows: Tensor
    _first_row: Tensor

    def __init__(
        self,
        in_dim: int,
        num_levels: int = 16,
        *,
        features_per_level: int = 2,
        log2_table_size: int | None = 19,
        base_resolution: int = 16,
        growth: float = 2.0,
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        convention: Literal["instant-ngp", "nerfstudio"] = "instant-ngp",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= in_dim <= len(_PRIMES):
            raise ValueError(f"in_dim must be 1 to {len(_PRIMES)}; got {in_dim}")
        if num_levels < 1 or features_per_level < 1 or base_resolution < 2:
            raise ValueError(
                "num_levels and features_per_level must be 1 or more and base_resolution 2 or "
                f"more; got {num_levels}, {features_per_level} and {base_resolution}"
            )
        if not (math.isfinite(growth) and growth >= 1):
            raise ValueError(f"growth must be 1 or more; got {growth}")
        if log2_table_size is not None and not 0 <= log2_table_size <= 32:
            raise ValueError(f"log2_table_size must be 0 to 32; got {log2_table_size}")
        if convention not in ("instant-ngp", "nerfstudio"):
            raise ValueError(
                f"convention must be 'instant-ngp' or 'nerfstudio'; got {convention!r}"
            )
        _require_bounds(bounds)
        _require_interpolation(interpolation)
        self._in_dim = in_dim
        self.num_levels = num_levels
        self.features_per_level = features_per_level
        self._out_dim = num_levels * features_per_level
        self.interpolation = interpolation
        self.bounds = bounds
        self.convention = convention
        # Cells an axis of each level, as the multiplier of coordinates in [0, 1].
        sizes = [base_resolution * growth**level for level in range(num_levels)]
        is_ngp = convention == "instant-ngp"
        self.scales = [size - 1 if is_ngp else float(math.floor(size)) for size in sizes]
        self.resolutions = [math.ceil(scale) + 1 for scale in self.scales]
        nodes = [resolution**in_dim for resolution in self.resolutions]
        if log2_table_size is None:
            self.num_dense, self.rows_per_level = num_levels, nodes
        else:
            most = 1 << log2_table_size
            self.num_dense = sum(n <= most for n in nodes) if is_ngp else 0
            hashed = [most] * (num_levels - self.num_dense)
            self.rows_per_level = nodes[: self.num_dense] + hashed
        self.table = nn.Parameter(
            torch.empty(sum(self.rows_per_level), features_per_level).uniform_(
                -1e-4, 1e-4, generator=generator
            )
        )
        self._build(None)

    def _build(self, device: torch.device | None) -> None:
        """Make what the lookup needs of every level, on the device of the table."""
        axes = range(self.in_dim)
        strides = [[size**axis for axis in axes] for size in self.resolutions[: self.num_dense]]
        hashed = self.num_levels - self.num_dense
        constants = {
            "_scales": torch.tensor(self.scales, dtype=torch.float64),
            "_factors": torch.tensor(strides + [list(_PRIMES[: self.in_dim])] * hashed),
            "_rows": torch.tensor(self.rows_per_level)[:, None],
        }
        constants["_first_row"] = constants["_rows"].cumsum(0) - constants["_rows"]
        for name, constant in constants.items():
            is_mps = device is not None and device.type == "mps"
            if is_mps and constant.is_floating_point():
                constant = constant.float()
            self.register_buffer(name, constant.to(device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> "HashGridEncoder":
        super()._apply(fn, recurse)
        self._build(self.table.device)  # A cast is not meant for its constants.
        return self

    @property
    def tables(self) -> list[Tensor]:
        """Rows of each level, as views of the one table."""
        return list(self.table.split(self.rows_per_level))

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        progress: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates in the bounds, any batch shape.
            progress: from 0 to 1, lets the levels in from coarse to fine:
                [coarse_to_fine_weight][nerf_posenc.coarse_to_fine_weight].

        Returns:
            Features, levels outermost, in the type of the table or of float64 coordinates.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where its last dimension is not ``in_dim``.
        """
        unit = _unit_coordinates(x, self.in_dim, self.bounds)
        offset = 0.5 if self.convention == "instant-ngp" else 0.0
        position = unit[:, None] * self._scales.to(unit.dtype)[:, None] + offset
        cell, weights = _cells(position, self.interpolation)
        features = _weighted_rows(self.table, self._rows_of(cell), weights)
        if progress is not None:
            window = coarse_to_fine_weight(self.num_levels, progress)
            features = features * window.to(features)[:, None]
        features = features.reshape(*x.shape[:-1], self.out_dim)
        return features.to(_features_dtype(x, self.table))

    def _rows_of(
        self, cell: Int[Tensor, "n num_levels in_dim"]
    ) -> Int[Tensor, "n num_levels corners"]:
        """Row of the table for each corner of the cells, one a level."""
        sides = _sides(cell, cell + 1, self._factors)
        dense = [(low[:, : self.num_dense], high[:, : self.num_dense]) for low, high in sides]
        hashed = [(low[:, self.num_dense :], high[:, self.num_dense :]) for low, high in sides]
        nodes, rows = self._rows.split((self.num_dense, self.num_levels - self.num_dense))
        sums = _of_corners(dense, torch.add)
        # The node behind the last one is stored in the next row, as tiny-cuda-nn has it.
        sums = torch.where(sums >= nodes, sums - nodes, sums)
        # Rows are a power of two, so their last bits are those of a 32-bit hash.
        hashes = _of_corners(hashed, torch.bitwise_xor) & (rows - 1)
        return torch.cat((sums, hashes), dim=1) + self._first_row

    def extra_repr(self) -> str:
        """Show the shape of the grid."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, resolutions={self.resolutions}, "
            f"rows={self.rows_per_level}"
        )


class DenseGridEncoder(HashGridEncoder):
    """Multi-resolution grid with a row of its own for every node.

    [HashGridEncoder][nerf_posenc.HashGridEncoder] without hashing; with one level it is a plain
    grid. Its size grows as ``base_resolution * growth ** level`` to the power ``in_dim``.

    Args:
        in_dim: number of coordinates, 1 to 4.
        num_levels: number of levels, 1 or more.
        features_per_level: width of a row.
        base_resolution: nodes an axis of the first level.
        growth: from one level to the next.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the grid covers.
        generator: to draw the first features from, uniform in ±1e-4.

    Raises:
        ValueError: where an argument is out of its range.

    Examples:
        >>> DenseGridEncoder(2, base_resolution=8)(torch.rand(5, 2)).shape
        torch.Size([5, 4])
    """

    def __init__(
        self,
        in_dim: int,
        num_levels: int = 1,
        *,
        features_per_level: int = 4,
        base_resolution: int = 64,
        growth: float = 2.0,
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            in_dim,
            num_levels,
            features_per_level=features_per_level,
            log2_table_size=None,
            base_resolution=base_resolution,
            growth=growth,
            interpolation=interpolation,
            bounds=bounds,
            generator=generator,
        )


class TriPlaneEncoder(FixedWidths):
    """Three planes of trained features, xy, xz and yz, for points in space.

    The planes' features at the point's projections are put together (EG3D, Chan et al. 2022,
    adds them; K-Planes, Fridovich-Keil et al. 2023, multiplies them).

    Args:
        features: width of a node's row, 1 or more.
        resolution: nodes along each side of a plane, 2 or more; the first and the last lie
            on the edge of the bounds.
        reduce: ``"sum"``, ``"product"`` or ``"concat"``.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the planes cover. Coordinates outside are taken to its edge.
        generator: to draw the first features from, normal with standard deviation 0.1,
            around 0, for products around 1.

    Raises:
        ValueError: where an argument is out of its range.

    Examples:
        >>> TriPlaneEncoder(8, resolution=16)(torch.rand(5, 3)).shape
        torch.Size([5, 8])
    """

    _AXES = ((0, 1), (0, 2), (1, 2))

    def __init__(
        self,
        features: int = 32,
        *,
        resolution: int = 128,
        reduce: Literal["sum", "product", "concat"] = "sum",
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if features < 1 or resolution < 2:
            raise ValueError(
                f"features must be 1 or more and resolution 2 or more; got {features} and "
                f"{resolution}"
            )
        if reduce not in ("sum", "product", "concat"):
            raise ValueError(f"reduce must be 'sum', 'product' or 'concat'; got {reduce!r}")
        _require_bounds(bounds)
        _require_interpolation(interpolation)
        self._in_dim = 3
        self._out_dim = features * (3 if reduce == "concat" else 1)
        self.resolution = resolution
        self.reduce = reduce
        self.interpolation = interpolation
        self.bounds = bounds
        drawn = torch.randn(3, resolution * resolution, features, generator=generator) * 0.1
        self.planes = nn.Parameter(drawn + (1.0 if reduce == "product" else 0.0))

    def forward(self, x: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode points.

        Args:
            x: points in the bounds, any batch shape.

        Returns:
            Features in the type of the planes or of float64 coordinates.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where its last dimension is not 3.
        """
        position = _unit_coordinates(x, 3, self.bounds) * (self.resolution - 1)
        position = position[:, self._AXES]
        cell, weights = _cells(position, self.interpolation)
        strides = torch.tensor((1, self.resolution), device=cell.device)
        last = self.resolution - 1
        sides = _sides(cell.clamp(max=last), (cell + 1).clamp(max=last), strides)
        first_row = torch.arange(3, device=cell.device)[:, None] * self.resolution**2
        rows = _of_corners(sides, torch.add) + first_row
        features = _weighted_rows(self.planes.flatten(0, 1), rows, weights)
        if self.reduce == "sum":
            features = features.sum(1)
        elif self.reduce == "product":
            features = features[:, 0] * features[:, 1] * features[:, 2]
        features = features.reshape(*x.shape[:-1], self.out_dim)
        return features.to(_features_dtype(x, self.planes))

    def extra_repr(self) -> str:
        """Show the shape of the planes."""
        return f"out_dim={self.out_dim}, resolution={self.resolution}, reduce={self.reduce!r}"


def _require_bounds(bounds: Sequence[float]) -> None:
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bounds must be a lower and a higher finite number; got {bounds}")


def _require_interpolation(name: str) -> None:
    if name not in ("linear", "smoothstep"):
        raise ValueError(f"interpolation must be 'linear' or 'smoothstep'; got {name!r}")


def _unit_coordinates(x: Tensor, in_dim: int, bounds: tuple[float, float]) -> Tensor:
    """Coordinates ``(n, in_dim)`` in [0, 1], at least float32."""
    require_coordinates(x, in_dim)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    x = x.reshape(math.prod(x.shape[:-1]), in_dim)
    low, high = bounds
    return ((x - low) / (high - low)).clamp(0, 1)


def _features_dtype(x: Tensor, table: Tensor) -> torch.dtype:
    """Type of the features: the table's, but float64 where the coordinates are."""
    return torch.float64 if x.dtype == torch.float64 else table.dtype


def _cells(
    position: Float[Tensor, "n grids axes"], interpolation: Interpolation
) -> tuple[Int[Tensor, "n grids axes"], Float[Tensor, "n grids corners"]]:
    """Cell that each position lies in, in every grid, and the weights of its corners.

    ``position`` is in cells from node 0. A position that is not finite is put into cell 0
    and has weights that are not a number.
    """
    cell = position.detach().nan_to_num(0.0, 0.0, 0.0).floor()
    fraction = position - cell
    if interpolation == "smoothstep":
        fraction = fraction * fraction * (3 - 2 * fraction)
    sides = [(1 - part, part) for part in fraction.unbind(-1)]
    return cell.long(), _of_corners(sides, torch.mul)


def _sides(
    low: Int[Tensor, "n grids axes"],
    high: Int[Tensor, "n grids axes"],
    factors: Int[Tensor, "*grids axes"],
) -> list[tuple[Int[Tensor, "n grids"], Int[Tensor, "n grids"]]]:
    """What the nodes on the low and the high side of a cell add to a row, axis by axis."""
    axes = zip(low.unbind(-1), high.unbind(-1), factors.unbind(-1), strict=True)
    return [(nodes * factor, next_nodes * factor) for nodes, next_nodes, factor in axes]


def _of_corners(
    sides: Sequence[tuple[Shaped[Tensor, "n grids"], Shaped[Tensor, "n grids"]]],
    combine: Callable[[Tensor, Tensor], Tensor],
) -> Shaped[Tensor, "n grids corners"]:
    """Combine what belongs to the low and the high side of a cell, an axis, for each corner."""
    # Corner by corner, since operations over the few corners of a point are slow ones.
    corners = [functools.reduce(combine, corner) for corner in itertools.product(*sides)]
    return torch.stack(corners, dim=-1)


def _weighted_rows(
    table: Float[Tensor, "rows width"],
    rows: Int[Tensor, "n grids corners"],
    weights: Float[Tensor, "n grids corners"],
) -> Float[Tensor, "n grids width"]:
    """Weighted sum of the rows of the table, over the corners."""
    if torch.compiler.is_compiling() or inside_transform() or table.dtype != weights.dtype:
        return (F.embedding(rows, table) * weights[..., None]).sum(2)
    total: Tensor = _WeightedRows.apply(table, rows, weights)
    return total


class _WeightedRows(torch.autograd.Function):
    """The sum without the rows in memory one by one, and the table's gradient in one pass."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(table, rows, weights)
        flat, factors = rows.flatten(0, 1), weights.flatten(0, 1)
        total = F.embedding_bag(flat, table, per_sample_weights=factors, mode="sum")
        return total.reshape(*rows.shape[:2], table.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        table, rows, weights = ctx.saved_tensors
        table_grad = weights_grad = None
        if ctx.needs_input_grad[0]:
            width = table.shape[1]
            flat = grad.new_zeros(table.numel())
            # One feature at a time is several times faster on a CPU than a row at a time.
            for i in range(width):
                terms = weights * grad[:, :, i, None]
                flat = flat.scatter_add(0, (rows * width + i).flatten(), terms.flatten())
            table_grad = flat.view_as(table)
        if ctx.needs_input_grad[2]:
            weights_grad = (F.embedding(rows, table) * grad[:, :, None]).sum(-1)
        return table_grad, None, weights_grad
