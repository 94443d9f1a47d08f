"""Levels and tables of hash grids, by the resolution of the data and the number of features."""

import torch

from nerf_posenc.encoders.hash_grid import HashGridEncoder, grid_levels

TABLE_ROWS = 1 << 19
"""Most rows of a level's table by default."""
COARSEST = 16
"""Nodes per axis of the coarsest level by default."""
# Half the levels of instant-NGP's 16, with twice its features: fewer gathers for as many values.
_LEVELS = 8
# Of a grid with fewer features than an image has values: each level is finer (docs/experiments.md).
_FEW_LEVELS = 4
_FEATURES = 4
_LOG2_ROWS = TABLE_ROWS.bit_length() - 1
_FINEST_BASE, _MOST_LOG2_ROWS = 64, 22


def hash_grid(
    in_dim: int,
    resolution: int,
    *,
    num_features: int | None = None,
    generator: torch.Generator | None = None,
) -> HashGridEncoder:
    """Hash grid with 8 levels of 4 features, from coarse nodes to one per sample.

    Without ``num_features`` it has 16 nodes per axis and tables of up to 2^19 rows. With it, a grid
    of two or more axes has 4 levels; with 0.2 million features it learns best by Muon at 0.03 and
    Adam at 0.02, both on one cosine: ``muon(..., lr=0.03, adam_lr=0.02)`` (docs/results.md).

    Args:
        in_dim: number of coordinates.
        resolution: samples across [-1, 1] along the longest axis, 1 or more.
        num_features: most features of all tables together; None for 8 levels of up to 2^19 rows.
        generator: random number generator of the initial features.

    Raises:
        ValueError: If no grid is that small.

    Examples:
        >>> hash_grid(2, 512, num_features=100_000).table.numel() <= 100_000
        True
    """
    base, log2_rows, num_levels = COARSEST, _LOG2_ROWS, _LEVELS
    if num_features is not None:
        num_levels = _LEVELS if in_dim == 1 else _FEW_LEVELS
        base, log2_rows = _layout(in_dim, resolution, num_levels, num_features)
    return HashGridEncoder(
        in_dim,
        num_levels,
        features_per_level=_FEATURES,
        log2_table_size=log2_rows,
        base_resolution=base,
        max_resolution=max(base, resolution),
        generator=generator,
    )


def _layout(in_dim: int, resolution: int, num_levels: int, most: int) -> tuple[int, int]:
    """Nodes per axis of the coarsest level, and rows of a table as a power of two.

    They are those of the largest grid within the number.
    """
    best, largest = None, 0
    for log2_rows in range(2, _MOST_LOG2_ROWS + 1):
        for base in range(2, max(2, min(resolution, _FINEST_BASE)) + 1):
            finest = max(base, resolution)
            levels = grid_levels(in_dim, num_levels, log2_rows, base, max_resolution=finest)
            size = _FEATURES * sum(level.rows for level in levels)
            if size > most:
                break
            if size > largest:
                best, largest = (base, log2_rows), size
    if best is None:
        raise ValueError(f"no hash grid has only {most} features")
    return best
