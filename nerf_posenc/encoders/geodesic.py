"""Directions of a geodesic sphere, which mip-NeRF 360 encodes Gaussians along."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

# Which of our directions comes at each place, counted from 1, with its sign.
_MULTINERF_ORDER = {
    1: (-3, -2, 6, 4, 5, -1),
    2: (-6, -5, -3, -21, -20, 14, -18, 9, 15, -17, 11, 12, -1, -16, -2, -4, -8, -7, -13, -19, 10),
}


def icosahedron_basis(subdivisions: int = 2) -> Float[Tensor, "num_axes 3"]:
    """Directions of a subdivided icosahedron, one of each opposite pair.

    With 2 subdivisions of each edge these are the 21 directions that mip-NeRF 360 lifts a
    Gaussian on (Barron et al. 2022, appendix). With 1 and 2 subdivisions order and signs are those
    of multinerf's ``generate_basis("icosahedron", n)``, so that its weights can be taken over.

    Args:
        subdivisions: parts that each edge is cut into, 1 or more: 1 gives 6 directions.

    Returns:
        Unit vectors in float64.

    Raises:
        ValueError: If ``subdivisions`` is below 1.

    Examples:
        >>> icosahedron_basis().shape
        torch.Size([21, 3])
    """
    if subdivisions < 1:
        raise ValueError(f"subdivisions must be 1 or more; got {subdivisions}")
    return torch.tensor(_directions(subdivisions), dtype=torch.float64, device="cpu")


def _directions(subdivisions: int) -> list[list[float]]:
    golden = (1 + math.sqrt(5)) / 2
    signs = (-1.0, 1.0)
    # The icosahedron's 12 corners are the cyclic permutations of (0, +-1, +-golden ratio).
    corners = [(0.0, a, b * golden) for a in signs for b in signs]
    vertices = torch.tensor(
        [corner[i:] + corner[:i] for corner in corners for i in range(3)],
        dtype=torch.float64,
        device="cpu",
    )
    distances = torch.cdist(vertices, vertices)
    # The edges of this icosahedron have length 2; a face is three corners that far apart.
    near = (distances - 2).abs() < 1e-6
    faces = [
        (i, j, k)
        for i in range(12)
        for j in range(i)
        for k in range(j)
        if near[i, j] and near[j, k] and near[i, k]
    ]
    found: list[Tensor] = []
    for face in faces:
        for i in range(subdivisions + 1):
            for j in range(subdivisions + 1 - i):
                parts = (i, j, subdivisions - i - j)
                point = sum(
                    part * vertices[corner] for part, corner in zip(parts, face, strict=True)
                )
                assert isinstance(point, Tensor)
                point = point / point.norm()
                # Opposite directions give the same sine up to its sign: one of the two is kept.
                if not any((point @ other).abs() > 1 - 1e-9 for other in found):
                    found.append(point)
    basis = torch.stack(found)
    if subdivisions in _MULTINERF_ORDER:
        order = torch.tensor(_MULTINERF_ORDER[subdivisions], device="cpu")
        basis = basis[order.abs() - 1] * order.sign()[:, None]
    directions: list[list[float]] = basis.tolist()
    return directions
