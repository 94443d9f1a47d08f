"""Trained grids: hashed, dense, and planes. Interpolation is differentiable twice."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.bands import coarse_to_fine_weight
from nerf_posenc.checks import require_coordinates

# Müller et al. 2022, section 3; the fourth is tiny-cuda-nn's, for 4-D.
_PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)
_UINT32 = 0xFFFFFFFF

Interpolation = Literal["linear", "smoothstep"]


class HashGridEncoder(nn.Module):
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

    Example:
        >>> encoder = HashGridEncoder(3, num_levels=4, log2_table_size=10)
        >>> encoder(torch.rand(5, 3)).shape
        torch.Size([5, 8])
    """

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
        self.in_dim = in_dim
        self.num_levels = num_levels
        self.features_per_level = features_per_level
        self.out_dim = num_levels * features_per_level
        self.interpolation = interpolation
        self.bounds = bounds
        self.convention = convention
        self._table_size = None if log2_table_size is None else 1 << log2_table_size
        # Cells an axis of each level, as the multiplier of coordinates in [0, 1].
        sizes = [base_resolution * growth**level for level in range(num_levels)]
        is_ngp = convention == "instant-ngp"
        self.scales = [size - 1 if is_ngp else float(math.floor(size)) for size in sizes]
        self.resolutions = [math.ceil(scale) + 1 for scale in self.scales]
        self.tables = nn.ParameterList(
            _new_table(self._num_rows(resolution), features_per_level, generator)
            for resolution in self.resolutions
        )

    def _num_rows(self, resolution: int) -> int:
        nodes = resolution**self.in_dim
        return nodes if self._is_dense(resolution) or self._table_size is None else self._table_size

    def _is_dense(self, resolution: int) -> bool:
        if self._table_size is None:
            return True
        return self.convention == "instant-ngp" and resolution**self.in_dim <= self._table_size

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
            Features, levels outermost, in the type of the tables or of float64 coordinates.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where its last dimension is not ``in_dim``.
        """
        unit = _unit_coordinates(x, self.in_dim, self.bounds)
        offset = 0.5 if self.convention == "instant-ngp" else 0.0
        levels = [
            _interpolate(
                unit * scale + offset,
                partial(self._features_of, level),
                self.interpolation,
            )
            for level, scale in enumerate(self.scales)
        ]
        if progress is not None:
            weights = coarse_to_fine_weight(self.num_levels, progress).to(levels[0])
            levels = [level * weight for level, weight in zip(levels, weights, strict=True)]
        features = torch.cat(levels, dim=-1).reshape(*x.shape[:-1], self.out_dim)
        return features.to(_features_dtype(x, self.tables[0]))

    def _features_of(self, level: int, nodes: Int[Tensor, "n in_dim"]) -> Float[Tensor, "n width"]:
        """Look up the features of nodes of a level."""
        return F.embedding(self._rows_of(level, nodes), self.tables[level])

    def _rows_of(self, level: int, nodes: Int[Tensor, "n in_dim"]) -> Int[Tensor, " n"]:
        """Row of each node in the table of a level."""
        num_rows = len(self.tables[level])
        if self._is_dense(self.resolutions[level]):
            strides = [self.resolutions[level] ** axis for axis in range(self.in_dim)]
            # The node behind the last one is stored in the next row, as tiny-cuda-nn has it.
            row = sum(nodes[:, axis] * strides[axis] for axis in range(self.in_dim))
            assert isinstance(row, Tensor)
            return row % num_rows
        row = nodes[:, 0] * _PRIMES[0]
        for axis in range(1, self.in_dim):
            row = row ^ (nodes[:, axis] * _PRIMES[axis])
        return (row & _UINT32) % num_rows

    def extra_repr(self) -> str:
        """Show the shape of the grid."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, resolutions={self.resolutions}, "
            f"rows={[len(table) for table in self.tables]}"
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

    Example:
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


class TriPlaneEncoder(nn.Module):
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

    Example:
        >>> TriPlaneEncoder(8, resolution=16)(torch.rand(5, 3)).shape
        torch.Size([5, 8])
    """

    _PLANES = ((0, 1), (0, 2), (1, 2))

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
        self.in_dim = 3
        self.out_dim = features * (3 if reduce == "concat" else 1)
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
        unit = _unit_coordinates(x, 3, self.bounds) * (self.resolution - 1)
        parts = [
            _interpolate(
                unit[:, list(axes)],
                partial(self._features_of, plane),
                self.interpolation,
            )
            for plane, axes in enumerate(self._PLANES)
        ]
        if self.reduce == "concat":
            features = torch.cat(parts, dim=-1)
        elif self.reduce == "sum":
            features = parts[0] + parts[1] + parts[2]
        else:
            features = parts[0] * parts[1] * parts[2]
        features = features.reshape(*x.shape[:-1], self.out_dim)
        return features.to(_features_dtype(x, self.planes))

    def _features_of(self, plane: int, nodes: Int[Tensor, "n 2"]) -> Float[Tensor, "n width"]:
        """Look up the features of nodes of a plane; behind the last one is the last one."""
        columns, rows = nodes.clamp(max=self.resolution - 1).unbind(-1)
        return F.embedding(columns + self.resolution * rows, self.planes[plane])

    def extra_repr(self) -> str:
        """Show the shape of the planes."""
        return f"out_dim={self.out_dim}, resolution={self.resolution}, reduce={self.reduce!r}"


def _new_table(rows: int, width: int, generator: torch.Generator | None) -> nn.Parameter:
    return nn.Parameter(torch.empty(rows, width).uniform_(-1e-4, 1e-4, generator=generator))


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


def _interpolate(
    position: Float[Tensor, "n in_dim"],
    rows_of: Callable[[Tensor], Tensor],
    interpolation: Interpolation,
) -> Float[Tensor, "n width"]:
    """Weighted sum of the rows at the corners of the cell that each position lies in.

    ``position`` is in cells from node 0; ``rows_of`` looks up the rows of nodes.
    """
    # A position that is not finite looks up node 0 and makes its weights NaN.
    cell = position.detach().nan_to_num(0.0).floor()
    fraction = position - cell
    if interpolation == "smoothstep":
        fraction = fraction * fraction * (3 - 2 * fraction)
    nodes = cell.long()
    total: Tensor | None = None
    for corner in itertools.product((0, 1), repeat=position.shape[1]):
        step = torch.tensor(corner, device=position.device)
        weight = torch.where(step.bool(), fraction, 1 - fraction).prod(-1, keepdim=True)
        term = weight * rows_of(nodes + step)
        total = term if total is None else total + term
    assert total is not None
    return total
