"""Planes of trained features. Interpolation is twice differentiable."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.interpolation import (
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


class TriPlaneEncoder(Encoder):
    """Three planes of trained features, xy, xz and yz, for points in space.

    The features at the point's projections onto the planes are combined (EG3D, Chan et al. 2022,
    adds them; K-Planes, Fridovich-Keil et al. 2023, multiplies them).

    Args:
        features: width of a node's row, 1 or more.
        resolution: nodes along each side of a plane, 2 or more; the first and the last lie
            on the edge of the bounds.
        reduce: ``"sum"``, ``"product"`` or ``"concat"``.
        interpolation: ``"linear"`` or ``"smoothstep"``.
        bounds: the box that the planes cover. Coordinates outside are moved to its edge.
        generator: random number generator of the initial features, normal with standard
            deviation 0.1 around 0, or around 1 for products.

    Raises:
        ValueError: If an argument is out of its range.

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
        if features < 1 or resolution < 2:
            raise ValueError(
                f"features must be 1 or more and resolution 2 or more; got {features} and "
                f"{resolution}"
            )
        if reduce not in ("sum", "product", "concat"):
            raise ValueError(f"reduce must be 'sum', 'product' or 'concat'; got {reduce!r}")
        require_bounds(bounds)
        require_interpolation(interpolation)
        super().__init__(3, features * (3 if reduce == "concat" else 1))
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
            TypeError: If ``x`` does not hold floating-point numbers.
            ValueError: If its last dimension is not 3.
        """
        position = unit_coordinates(x, 3, self.bounds) * (self.resolution - 1)
        position = position[:, self._AXES]
        cell, weights = cells_from_positions(position, self.interpolation)
        strides = torch.tensor((1, self.resolution), device=cell.device)
        last = self.resolution - 1
        sides = sides_from_nodes(cell.clamp(max=last), (cell + 1).clamp(max=last), strides)
        first_row = torch.arange(3, device=cell.device)[:, None] * self.resolution**2
        rows = combine_corners(sides, torch.add) + first_row
        features = weighted_rows(self.planes.flatten(0, 1), rows, weights)
        if self.reduce == "sum":
            features = features.sum(1)
        elif self.reduce == "product":
            features = features[:, 0] * features[:, 1] * features[:, 2]
        features = features.reshape(*x.shape[:-1], self.out_dim)
        return features.to(features_dtype(x, self.planes))

    def extra_repr(self) -> str:
        """Show the shape of the planes."""
        return f"out_dim={self.out_dim}, resolution={self.resolution}, reduce={self.reduce!r}"
