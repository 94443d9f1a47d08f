"""Multi-resolution grids of trained features, hashed or dense.

Interpolation is twice differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nerf_posenc.core.bands import coarse_to_fine_weight
from nerf_posenc.core.checks import require_counts, whole
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
    Corners,
    Interpolation,
    cells_from_positions,
    combine_corners,
    nodes_from_positions,
    positions_from_unit,
    require_bounds,
    require_interpolation,
    sides_from_nodes,
    table_dtype,
    unit_coordinates,
    weighted_rows,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int

# Müller et al. 2022, section 3; the fourth is tiny-cuda-nn's, for 4-D.
_PRIMES = (1, 2_654_435_761, 805_459_861, 3_674_653_429)

# Nodes of a unit interval that float32 coordinates tell apart.
_MOST_NODES = 2**24

Convention = Literal["instant-ngp", "torch-ngp", "nerfstudio"]
_CONVENTIONS = ("instant-ngp", "torch-ngp", "nerfstudio")


class GridLevel(NamedTuple):
    """One level of a grid.

    Attributes:
        scale: cells per axis, as the multiplier of coordinates in [0, 1].
        nodes: nodes per axis of a dense level, by which its rows are counted.
        rows: rows of its table.
    """

    scale: float
    nodes: int
    rows: int


class _GridEncoder(Encoder):
    """Levels of interpolated rows of one table, the levels one after the other."""

    takes_progress = True

    def __init__(
        self,
        in_dim: int,
        levels: Sequence[GridLevel],
        features_per_level: int,
        interpolation: Interpolation,
        bounds: tuple[float, float],
        generator: torch.Generator | None,
    ) -> None:
        require_counts(in_dim=in_dim, features_per_level=features_per_level)
        if in_dim > len(_PRIMES):
            raise ValueError(f"in_dim must be 1 to {len(_PRIMES)}; got {in_dim}")
        require_bounds(bounds)
        require_interpolation(interpolation)
        self.num_levels = len(levels)
        super().__init__(in_dim, self.num_levels * features_per_level)
        self.features_per_level = features_per_level
        self.interpolation = interpolation
        self.bounds = bounds
        self.resolutions = [level.nodes for level in levels]
        self.rows_per_level = [int(level.rows) for level in levels]
        self.table = nn.Parameter(torch.empty(sum(self.rows_per_level), features_per_level))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the features, uniform in ±1e-4."""
        nn.init.uniform_(self.table, -1e-4, 1e-4, generator=generator)

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
            Features, levels outermost, in the type of the table; of float64 coordinates in
            float64, if the module was not cast.

        Raises:
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not ``in_dim``.
        """
        if not self._is_looked_at:
            self.look_at(x, self.bounds[1] - self.bounds[0])
        features = self.interpolate(self.corners(x), progress=progress)
        return features.reshape(*x.shape[:-1], self.out_dim)

    def interpolate(
        self, corners: Corners, *, progress: float | Float[Tensor, ""] | None = None
    ) -> Float[Tensor, "n out_dim"]:
        """Encode coordinates whose corners are known.

        Args:
            corners: result of `corners` for the coordinates.
            progress: progress as for the coordinates themselves.

        Returns:
            Features, one row per point.
        """
        features = weighted_rows(self.table, corners.rows, corners.weights)
        if progress is not None:
            window = coarse_to_fine_weight(self.num_levels, progress)
            features = features * window.to(features)[:, None, None]
        features = features.transpose(0, 1).flatten(1)
        return features.to(self._cast_dtype or table_dtype(corners.weights, self.table))

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
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"in_dim={self.in_dim}, out_dim={self.out_dim}, rows={self.rows_per_level}, "
            f"interpolation={self.interpolation!r}, bounds={self.bounds}, "
            f"resolutions={self.resolutions}"
        )


class HashGridEncoder(_GridEncoder):
    r"""Multi-resolution grid of trained features, hashed where a level outgrows its table.

    Instant-NGP's encoding (Müller et al. 2022, section 3): level $\ell$ has
    $N_\ell = \lceil N_0 g^\ell - 1 \rceil + 1$ nodes per axis; a level with no more nodes than the
    table has rows is stored densely, the others share rows by a spatial hash. The features are
    the interpolated rows of all levels.

    Args:
        in_dim: number of coordinates, 1 to 4.
        num_levels: number of levels, 1 or more; None is 16.
        features_per_level: width of a row, 1 or more.
        log2_table_size: rows of a table, as a power of two; None makes every level dense.
        base_resolution: $N_0$, 2 or more.
        growth: $g$, from one level to the next, 1 or more; None is 2.
        max_resolution: $N_\ell$ of the last level, instead of ``growth``.
        resolutions: $N_\ell$ of each level, instead of ``num_levels``, ``growth`` and
            ``base_resolution``.
        interpolation: ``"linear"``, or ``"smoothstep"`` for derivatives that are continuous
            across cells (there, second derivatives along an axis are not zero).
        bounds: the box that the grid covers, one lower and one upper number for all axes.
            Coordinates outside are moved to its edge.
        convention: library whose table this is, row for row. ``"instant-ngp"``: tiny-cuda-nn, with
            levels padded to a multiple of 8 rows, a half-cell offset, and the node after the last
            one in the rows that follow. ``"torch-ngp"``: the same with one more node per axis, so
            that nothing is wrapped around. ``"nerfstudio"``: its torch code, with
            $\lfloor N_0 g^\ell \rfloor$ cells, no offset and no dense levels.
        generator: random number generator of the initial features, uniform in ±1e-4.

    Raises:
        ValueError: If an argument is out of its range.

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
        num_levels: int | None = None,
        *,
        features_per_level: int = 2,
        log2_table_size: int | None = 19,
        base_resolution: int = 16,
        growth: float | None = None,
        max_resolution: int | None = None,
        resolutions: Sequence[int] | None = None,
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        convention: Convention = "instant-ngp",
        generator: torch.Generator | None = None,
    ) -> None:
        if log2_table_size is not None and not 0 <= log2_table_size <= 32:
            raise ValueError(f"log2_table_size must be 0 to 32; got {log2_table_size}")
        if convention not in _CONVENTIONS:
            raise ValueError(f"convention must be one of {_CONVENTIONS}; got {convention!r}")
        if log2_table_size is None and convention == "nerfstudio":
            raise ValueError("nerfstudio hashes every level; give log2_table_size")
        levels = grid_levels(
            in_dim,
            16 if num_levels is None and resolutions is None else num_levels,
            log2_table_size,
            base_resolution,
            growth,
            convention,
            max_resolution=max_resolution,
            resolutions=resolutions,
        )
        super().__init__(in_dim, levels, features_per_level, interpolation, bounds, generator)
        self.convention = convention
        self.scales = [level.scale for level in levels]
        self.num_dense = sum(level.nodes**in_dim <= level.rows for level in levels)
        if convention == "nerfstudio":
            self.num_dense = 0
        self._register_levels()

    @classmethod
    def from_tcnn(
        cls,
        in_dim: int,
        config: Mapping[str, Any],
        params: Float[Tensor, " params"],
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> "HashGridEncoder":
        """Take the grid of a tiny-cuda-nn checkpoint.

        Args:
            in_dim: number of coordinates.
            config: the JSON object of the encoding, with ``n_levels``, ``n_features_per_level``,
                ``log2_hashmap_size``, ``base_resolution``, ``per_level_scale`` and
                ``interpolation``, or what of them differs from tiny-cuda-nn's defaults.
            params: parameters of the encoding alone; those of a ``NetworkWithInputEncoding`` begin
                with its network's.
            bounds: box of the coordinates; tiny-cuda-nn's own is [0, 1].

        Raises:
            ValueError: If the grid is not a hashed or dense one, or the number of parameters is not
                that of the configuration.

        Examples:
            >>> config = {"otype": "HashGrid", "n_levels": 2, "log2_hashmap_size": 8}
            >>> encoder = HashGridEncoder.from_tcnn(2, config, torch.rand(2 * (256 + 256)))
            >>> encoder(torch.rand(5, 2)).shape
            torch.Size([5, 4])
        """
        kind = config.get("type", config.get("otype", "Hash")).lower().removesuffix("grid")
        smoothing = config.get("interpolation", "Linear").lower()
        if kind not in ("", "hash", "dense") or smoothing not in ("linear", "smoothstep"):
            raise ValueError(
                "the grid must be of the type Hash or Dense with Linear or Smoothstep "
                f"interpolation; got {dict(config)}"
            )
        encoder = cls(
            in_dim,
            config.get("n_levels", 16),
            features_per_level=config.get("n_features_per_level", 2),
            log2_table_size=None if kind == "dense" else config.get("log2_hashmap_size", 19),
            base_resolution=config.get("base_resolution", 16),
            growth=config.get("per_level_scale", 2.0),
            interpolation=smoothing,
            bounds=bounds,
        )
        encoder._set_table(params)
        return encoder

    @classmethod
    def from_torch_ngp(
        cls,
        in_dim: int,
        embeddings: Float[Tensor, "rows features"],
        *,
        num_levels: int = 16,
        base_resolution: int = 16,
        per_level_scale: float = 2.0,
        log2_hashmap_size: int = 19,
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
    ) -> "HashGridEncoder":
        """Take the grid of a torch-ngp checkpoint, with ``align_corners=False``.

        Args:
            in_dim: number of coordinates.
            embeddings: its table, ``embeddings`` of the checkpoint.
            num_levels: number of levels.
            base_resolution: cells per axis of the first level.
            per_level_scale: growth of the resolution from one level to the next.
            log2_hashmap_size: rows of a hashed level, as a power of two.
            interpolation: ``"linear"`` or ``"smoothstep"``.
            bounds: box of the coordinates, ``(-bound, bound)``.

        Raises:
            ValueError: If the number of rows is not that of the arguments.

        Examples:
            >>> table = torch.rand(296 + 1024, 2)
            >>> encoder = HashGridEncoder.from_torch_ngp(
            ...     2, table, num_levels=2, log2_hashmap_size=10
            ... )
            >>> encoder(torch.rand(5, 2)).shape
            torch.Size([5, 4])
        """
        encoder = cls(
            in_dim,
            num_levels,
            features_per_level=embeddings.shape[1],
            log2_table_size=log2_hashmap_size,
            base_resolution=base_resolution,
            growth=per_level_scale,
            interpolation=interpolation,
            bounds=bounds,
            convention="torch-ngp",
        )
        # Checkpoints of its first year have no padding between the levels.
        used = [
            min(rows, nodes**in_dim)
            for rows, nodes in zip(encoder.rows_per_level, encoder.resolutions, strict=True)
        ]
        if len(embeddings) == sum(used) != sum(encoder.rows_per_level):
            padding = [rows - n for rows, n in zip(encoder.rows_per_level, used, strict=True)]
            parts = zip(embeddings.split(used), padding, strict=True)
            embeddings = torch.cat([nn.functional.pad(part, (0, 0, 0, n)) for part, n in parts])
        encoder._set_table(embeddings)
        return encoder

    def _set_table(self, values: Tensor) -> None:
        if values.numel() != self.table.numel():
            raise ValueError(
                f"this grid has {self.table.numel():,} parameters in levels of "
                f"{self.rows_per_level} rows; got {values.numel():,}"
            )
        with torch.no_grad():
            self.table.copy_(values.detach().view_as(self.table))

    def _register_levels(self) -> None:
        """Add the constants that the lookup needs of every level."""
        axes = range(self.in_dim)
        strides = [[size**axis for axis in axes] for size in self.resolutions[: self.num_dense]]
        primes = [list(_PRIMES[: self.in_dim])] * (self.num_levels - self.num_dense)
        rows = torch.tensor(self.rows_per_level, device="cpu")[:, None]
        scales = torch.tensor(self.scales, dtype=torch.float64, device="cpu")[:, None]
        factors = torch.tensor(strides + primes, device="cpu").T[..., None]
        # Half as much to read, where they are enough. Products of a hash keep their last 32 bits.
        dtype = torch.int32 if sum(self.rows_per_level) < 1 << 31 else torch.int64
        self.register_constant("_scales", scales)
        self.register_constant("_factors", factors.to(dtype).contiguous())
        self.register_constant("_rows", rows.to(dtype))
        self.register_constant("_first_row", (rows.cumsum(0) - rows).to(dtype))

    @property
    def offset(self) -> float:
        """Position of coordinate 0 of [0, 1], in cells from the first node."""
        return 0.0 if self.convention == "nerfstudio" else 0.5

    def corners(self, x: Float[Tensor, "*batch in_dim"]) -> Corners:
        """Find the rows and weights of coordinates; see the base class."""
        unit = unit_coordinates(x, self.in_dim, self.bounds)
        self.move_constants(x.device)
        # Contiguous along the points, of which there are many.
        position = unit.T.contiguous()[:, None] * self._scales.to(unit.dtype) + self.offset
        cell, weights = cells_from_positions(position, self.interpolation, self._rows.dtype)
        return Corners(self._rows_from_cells(cell), weights)

    def _rows_from_cells(
        self, cell: Int[Tensor, "in_dim num_levels n"]
    ) -> Int[Tensor, "num_levels n corners"]:
        """Row of the table for each corner of the cells, at every level."""
        sides = sides_from_nodes(cell, cell + 1, self._factors)
        dense = [(low[: self.num_dense], high[: self.num_dense]) for low, high in sides]
        hashed = [(low[self.num_dense :], high[self.num_dense :]) for low, high in sides]
        sizes = (self.num_dense, self.num_levels - self.num_dense)
        (dense_rows, rows), (dense_first, first) = (
            constant.split(sizes) for constant in (self._rows, self._first_row)
        )

        def wrapped(sums: Tensor) -> Tensor:
            # The node after the last one is stored in the rows that follow, as in tiny-cuda-nn.
            inside: Tensor = torch.where(sums >= dense_rows, sums - dense_rows, sums) + dense_first
            return inside

        def masked(hashes: Tensor) -> Tensor:
            # Rows are a power of two, so their last bits are those of a 32-bit hash.
            last_bits: Tensor = (hashes & (rows - 1)) + first
            return last_bits

        dense_corners = combine_corners(dense, torch.add, wrapped)
        return torch.cat((dense_corners, combine_corners(hashed, torch.bitwise_xor, masked)))

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"{super().extra_repr()}, convention={self.convention!r}"


def grid_levels(
    in_dim: int,
    num_levels: int | None,
    log2_table_size: int | None,
    base_resolution: int,
    growth: float | None = None,
    convention: Convention = "instant-ngp",
    *,
    max_resolution: int | None = None,
    resolutions: Sequence[int] | None = None,
) -> list[GridLevel]:
    """Levels of a hash grid; the arguments are those of `HashGridEncoder`."""
    sizes = _resolutions(
        num_levels, base_resolution, growth, max_resolution, resolutions, convention
    )
    most = math.inf if log2_table_size is None else 1 << log2_table_size
    if convention == "nerfstudio":
        scales = sizes.floor().tolist()
        return [GridLevel(scale, int(scale) + 1, int(most)) for scale in scales]
    scales = (sizes - 1).tolist()
    extra = 2 if convention == "torch-ngp" else 1
    nodes = [math.ceil(scale) + extra for scale in scales]
    # Padded to a multiple of 8 rows.
    rows = [int(min(-(-(n**in_dim) // 8) * 8, most)) for n in nodes]
    return [*map(GridLevel, scales, nodes, rows)]


class DenseGridEncoder(_GridEncoder):
    """Multi-resolution grid with a row of its own for every node.

    With one level it is a plain grid, such as DVGO's: what ``torch.nn.functional.grid_sample``
    computes. The table of a level is ``grid.flatten(1).T`` of a grid ``(features, ..., axis 1,
    axis 0)``. Its size grows as ``base_resolution * growth ** level`` to the power ``in_dim``.

    Args:
        in_dim: number of coordinates, 1 to 4.
        num_levels: number of levels, 1 or more; None is 1.
        features_per_level: width of a row.
        base_resolution: nodes per axis of the first level.
        growth: growth of the resolution from one level to the next; None is 2.
        max_resolution: nodes per axis of the last level, instead of ``growth``.
        resolutions: nodes per axis of each level, instead of ``num_levels``, ``growth`` and
            ``base_resolution``.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the grid covers. Coordinates outside are moved to its edge.
        align_corners: whether the first and the last node lie on the edges of the box; otherwise
            they lie half a cell inside, and what is beyond them counts as 0.
        generator: random number generator of the initial features, uniform in ±1e-4.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> DenseGridEncoder(2, base_resolution=8)(torch.rand(5, 2)).shape
        torch.Size([5, 4])
    """

    _nodes: Tensor
    _strides: Tensor
    _first_row: Tensor

    def __init__(
        self,
        in_dim: int,
        num_levels: int | None = None,
        *,
        features_per_level: int = 4,
        base_resolution: int = 64,
        growth: float | None = None,
        max_resolution: int | None = None,
        resolutions: Sequence[int] | None = None,
        interpolation: Interpolation = "linear",
        bounds: tuple[float, float] = (-1.0, 1.0),
        align_corners: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        num_levels = 1 if num_levels is None and resolutions is None else num_levels
        sizes = _resolutions(num_levels, base_resolution, growth, max_resolution, resolutions)
        levels = [GridLevel(n, round(n), round(n) ** in_dim) for n in sizes.tolist()]
        super().__init__(in_dim, levels, features_per_level, interpolation, bounds, generator)
        self.align_corners = align_corners
        nodes = torch.tensor(self.resolutions, device="cpu")[:, None]
        self.register_constant("_nodes", nodes)
        # Row of a node: its index along axis i times nodes^i, after the rows of coarser levels.
        powers = torch.arange(in_dim, device="cpu")[:, None, None]
        self.register_constant("_strides", nodes**powers)
        first = torch.tensor(self.rows_per_level, device="cpu")[:, None]
        self.register_constant("_first_row", first.cumsum(0) - first)

    def corners(self, x: Float[Tensor, "*batch in_dim"]) -> Corners:
        """Find the rows and weights of coordinates; see the base class."""
        unit = unit_coordinates(x, self.in_dim, self.bounds)
        self.move_constants(x.device)
        unit = unit.T.contiguous()[:, None]
        position = positions_from_unit(unit, self._nodes[None], self.align_corners)
        low, high, weights = nodes_from_positions(position, self._nodes[None], self.interpolation)
        sides = sides_from_nodes(low, high, self._strides)
        return Corners(combine_corners(sides, torch.add, self._first_row.add), weights)

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return f"{super().extra_repr()}, align_corners={self.align_corners}"


def _resolutions(
    num_levels: int | None,
    base_resolution: int,
    growth: float | None,
    max_resolution: int | None,
    resolutions: Sequence[int] | None,
    convention: Convention | None = None,
) -> Tensor:
    """Nodes per axis of each level before rounding, by the arithmetic of a convention."""
    given = dict(growth=growth, max_resolution=max_resolution, resolutions=resolutions)
    if [*given.values()].count(None) < 2 or None not in (resolutions, num_levels):
        raise ValueError(
            "give growth, max_resolution or resolutions, which also tell num_levels; got "
            f"{given} and num_levels={num_levels}"
        )
    num_levels = whole(num_levels if resolutions is None else len(resolutions), "num_levels")
    require_counts(num_levels=num_levels, base_resolution=base_resolution)
    if resolutions is not None:
        listed = [whole(size, "resolutions") for size in resolutions]
        sizes = torch.tensor(listed, dtype=torch.float64, device="cpu")
    else:
        if max_resolution is not None:
            growth = _growth(num_levels, base_resolution, max_resolution, convention)
        sizes = base_resolution * _powers(2.0 if growth is None else growth, num_levels, convention)
    for size in sizes.tolist():
        if not 2 <= size <= _MOST_NODES:
            raise ValueError(
                "a level must have a resolution of 2 or more, and at most the 2**24 nodes that "
                f"float32 coordinates tell apart; got {size:g} in {len(sizes)} levels. One level "
                "of N nodes per axis is resolutions=[N]"
            )
    return sizes


def _growth(
    num_levels: int, base_resolution: int, max_resolution: int, convention: Convention | None
) -> float:
    """Growth from one level to the next that ends at a resolution."""
    if max_resolution < base_resolution or (num_levels == 1 and max_resolution > base_resolution):
        raise ValueError(
            "max_resolution must be base_resolution or more, and with one level the same; got "
            f"base_resolution={base_resolution}, max_resolution={max_resolution}, "
            f"num_levels={num_levels}"
        )
    growth: float = (max_resolution / base_resolution) ** (1 / max(num_levels - 1, 1))
    # Slightly less, so that rounding powers to float32 adds no node to the last level.
    return max(1.0, growth * (1 - 1e-6)) if convention == "instant-ngp" else growth


def _powers(growth: float, num_levels: int, convention: Convention | None) -> Tensor:
    """Resolution of each level, relative to the first."""
    if not (math.isfinite(growth) and growth >= 1):
        raise ValueError(f"growth must be 1 or more; got {growth}")
    if convention is None:
        return growth ** torch.arange(num_levels, dtype=torch.float64, device="cpu")
    levels = torch.arange(num_levels, dtype=torch.float32, device="cpu")
    if convention == "nerfstudio":
        # Powers in float32, as there: 16 levels from 16 to 1024 have 64 cells in level 5, whose
        # power in float64 is just below it.
        return growth**levels
    # Powers of two of float32 products, as there: Neuralangelo's grid of 16 levels from 32 to 2048
    # has 129 nodes in level 5, whose scale is just above 127.
    step = torch.tensor(growth, dtype=torch.float32, device="cpu").double().log2().float()
    return torch.exp2((levels * step).double()).float()
