"""Multi-resolution grids of trained features, hashed or dense.

Interpolation is twice differentiable.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc.core.bands import coarse_to_fine_weight
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
    Corners,
    Interpolation,
    cells_from_positions,
    combine_corners,
    features_dtype,
    require_bounds,
    require_interpolation,
    sides_from_nodes,
    unit_coordinates,
    weighted_rows,
)

# Müller et al. 2022, section 3; the fourth is tiny-cuda-nn's, for 4-D.
_PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)


class HashGridEncoder(Encoder):
    r"""Multi-resolution grid of trained features, hashed where a level outgrows its table.

    Instant-NGP's encoding (Müller et al. 2022, section 3): level $\ell$ has
    $N_\ell = \lceil N_0 g^\ell - 1 \rceil + 1$ nodes per axis; a level with no more nodes than the
    table has rows is stored densely, the others share rows by a spatial hash. The features are
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
            Coordinates outside are moved to its edge.
        convention: ``"instant-ngp"`` for the table layout of tiny-cuda-nn, or ``"nerfstudio"``
            for that of its torch code: $\lfloor N_0 g^\ell \rfloor$ cells, no
            half-cell offset, no dense levels.
        generator: random number generator of the initial features, uniform in ±1e-4.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = HashGridEncoder(3, num_levels=4, log2_table_size=10)
        >>> encoder(torch.rand(5, 3)).shape
        torch.Size([5, 8])
    """

    takes_progress = True

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
        super().__init__(in_dim, num_levels * features_per_level)
        _require_arguments(in_dim, num_levels, features_per_level, base_resolution, growth)
        if log2_table_size is not None and not 0 <= log2_table_size <= 32:
            raise ValueError(f"log2_table_size must be 0 to 32; got {log2_table_size}")
        if convention not in ("instant-ngp", "nerfstudio"):
            raise ValueError(
                f"convention must be 'instant-ngp' or 'nerfstudio'; got {convention!r}"
            )
        require_bounds(bounds)
        require_interpolation(interpolation)
        self.num_levels = num_levels
        self.features_per_level = features_per_level
        self.interpolation = interpolation
        self.bounds = bounds
        self.convention = convention
        # Cells per axis of each level, as the multiplier of coordinates in [0, 1].
        is_ngp = convention == "instant-ngp"
        if is_ngp:
            self.scales = [base_resolution * growth**level - 1 for level in range(num_levels)]
        else:
            # Powers in float32, as there: 16 levels from 16 to 1024 have 64 cells in level 5, whose
            # power in float64 is just below it.
            levels = torch.arange(num_levels, dtype=torch.float32, device="cpu")
            self.scales = (base_resolution * growth**levels).floor().tolist()
        self.resolutions = [math.ceil(scale) + 1 for scale in self.scales]
        nodes = [resolution**in_dim for resolution in self.resolutions]
        if log2_table_size is None:
            self.num_dense, self.rows_per_level = num_levels, nodes
        else:
            most = 1 << log2_table_size
            self.num_dense = sum(n <= most for n in nodes) if is_ngp else 0
            hashed = [most] * (num_levels - self.num_dense)
            self.rows_per_level = nodes[: self.num_dense] + hashed
        table = torch.empty(sum(self.rows_per_level), features_per_level)
        self.table = nn.Parameter(table.uniform_(-1e-4, 1e-4, generator=generator))
        self._register_levels()

    def _register_levels(self) -> None:
        """Add the constants that the lookup needs of every level."""
        axes = range(self.in_dim)
        strides = [[size**axis for axis in axes] for size in self.resolutions[: self.num_dense]]
        primes = [list(_PRIMES[: self.in_dim])] * (self.num_levels - self.num_dense)
        rows = torch.tensor(self.rows_per_level, device="cpu")[:, None]
        scales = torch.tensor(self.scales, dtype=torch.float64, device="cpu")
        self.register_constant("_scales", scales)
        self.register_constant("_factors", torch.tensor(strides + primes, device="cpu"))
        self.register_constant("_rows", rows)
        self.register_constant("_first_row", rows.cumsum(0) - rows)

    @property
    def tables(self) -> list[Tensor]:
        """Rows of each level, as views of the shared table."""
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
            progress: progress of the fit, from 0 to 1; opens the levels from coarse to fine:
                [coarse_to_fine_weight][nerf_posenc.core.coarse_to_fine_weight].

        Returns:
            Features, levels outermost, in the type of the table or of float64 coordinates.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        features = self.interpolate(self.corners(x), progress=progress)
        return features.reshape(*x.shape[:-1], self.out_dim)

    def interpolate(
        self, corners: Corners, *, progress: float | Float[Tensor, ""] | None = None
    ) -> Float[Tensor, "n out_dim"]:
        """Encode coordinates whose corners are known.

        Args:
            corners: what `corners` returned for the coordinates.
            progress: progress as for the coordinates themselves.

        Returns:
            Features, one row per point.
        """
        features = weighted_rows(self.table, corners.rows, corners.weights)
        if progress is not None:
            window = coarse_to_fine_weight(self.num_levels, progress)
            features = features * window.to(features)[:, None]
        features = features.flatten(1)
        return features.to(features_dtype(corners.weights, self.table))

    def corners(self, x: Float[Tensor, "*batch in_dim"]) -> Corners:
        """Find the rows that coordinates are interpolated from, and their weights.

        For points that are encoded again and again while the table is trained, such as the pixels
        of an image: ``encoder.interpolate(encoder.corners(x))`` is ``encoder(x)``, and the first
        half of the work is done once.

        Args:
            x: coordinates in the bounds, any batch shape, which is flattened.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        unit = unit_coordinates(x, self.in_dim, self.bounds)
        self.move_constants(x.device)
        offset = 0.5 if self.convention == "instant-ngp" else 0.0
        position = unit[:, None] * self._scales.to(unit.dtype)[:, None] + offset
        cell, weights = cells_from_positions(position, self.interpolation)
        return Corners(self._rows_from_cells(cell), weights)

    def _rows_from_cells(
        self, cell: Int[Tensor, "n num_levels in_dim"]
    ) -> Int[Tensor, "n num_levels corners"]:
        """Row of the table for each corner of the cells, at every level."""
        sides = sides_from_nodes(cell, cell + 1, self._factors)
        dense = [(low[:, : self.num_dense], high[:, : self.num_dense]) for low, high in sides]
        hashed = [(low[:, self.num_dense :], high[:, self.num_dense :]) for low, high in sides]
        nodes, rows = self._rows.split((self.num_dense, self.num_levels - self.num_dense))
        sums = combine_corners(dense, torch.add)
        # The node after the last one is stored in the next row, as in tiny-cuda-nn.
        sums = torch.where(sums >= nodes, sums - nodes, sums)
        # Rows are a power of two, so their last bits are those of a 32-bit hash.
        hashes = combine_corners(hashed, torch.bitwise_xor) & (rows - 1)
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
        base_resolution: nodes per axis of the first level.
        growth: growth of the resolution from one level to the next.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the grid covers.
        generator: random number generator of the initial features, uniform in ±1e-4.

    Raises:
        ValueError: If an argument is out of its range.

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


def _require_arguments(
    in_dim: int, num_levels: int, features_per_level: int, base_resolution: int, growth: float
) -> None:
    if not 1 <= in_dim <= len(_PRIMES):
        raise ValueError(f"in_dim must be 1 to {len(_PRIMES)}; got {in_dim}")
    if num_levels < 1 or features_per_level < 1 or base_resolution < 2:
        raise ValueError(
            "num_levels and features_per_level must be 1 or more and base_resolution 2 or "
            f"more; got {num_levels}, {features_per_level} and {base_resolution}"
        )
    if not (math.isfinite(growth) and growth >= 1):
        raise ValueError(f"growth must be 1 or more; got {growth}")
