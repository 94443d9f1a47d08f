"""Levels and tables of hash grids, by the resolution of the data and the parameters there are."""

import math

import torch

from nerf_posenc.encoders.hash_grid import HashGridEncoder

_LEVELS, _FEATURES = 8, 4
_BASE, _LOG2_ROWS = 16, 19
_FINEST_BASE, _MOST_LOG2_ROWS = 64, 22


def hash_grid(
    in_dim: int,
    resolution: int,
    *,
    num_parameters: int | None = None,
    generator: torch.Generator | None = None,
) -> HashGridEncoder:
    """Hash grid with 8 levels of 4 features, from coarse nodes to one per sample.

    Without ``num_parameters`` it has 16 nodes per axis and tables of up to 2^19 rows.

    Args:
        in_dim: number of coordinates.
        resolution: samples across [-1, 1] along the longest axis, 1 or more.
        num_parameters: most features of all tables together.
        generator: random number generator of the initial features.

    Raises:
        ValueError: If no grid is that small.

    Examples:
        >>> hash_grid(2, 512, num_parameters=100_000).table.numel() <= 100_000
        True
    """
    base, log2_rows = _BASE, _LOG2_ROWS
    if num_parameters is not None:
        base, log2_rows = _layout(in_dim, resolution, num_parameters)
    growth = max(1.0, (resolution / base) ** (1 / (_LEVELS - 1)))
    return HashGridEncoder(
        in_dim,
        _LEVELS,
        features_per_level=_FEATURES,
        log2_table_size=log2_rows,
        base_resolution=base,
        growth=growth,
        generator=generator,
    )


def _layout(in_dim: int, resolution: int, most: int) -> tuple[int, int]:
    """Nodes per axis of the coarsest level, and rows of a table as a power of two.

    The largest grid within the number: on photographs it is the number of features that counts,
    and hardly how they are shared out (docs/experiments.md).
    """
    best, largest = None, 0
    for log2_rows in range(2, _MOST_LOG2_ROWS + 1):
        for base in range(2, min(resolution, _FINEST_BASE) + 1):
            size = _num_features(in_dim, resolution, base, log2_rows)
            if size > most:
                break
            if size > largest:
                best, largest = (base, log2_rows), size
    if best is None:
        raise ValueError(f"no hash grid has only {most} features")
    return best


def _num_features(in_dim: int, resolution: int, base: int, log2_rows: int) -> int:
    """Features of all tables of a grid."""
    growth = max(1.0, (resolution / base) ** (1 / (_LEVELS - 1)))
    nodes: list[int] = [math.ceil(base * growth**level - 1) + 1 for level in range(_LEVELS)]
    rows = [min(math.prod([side] * in_dim), 1 << log2_rows) for side in nodes]
    return _FEATURES * sum(rows)
