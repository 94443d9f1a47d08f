"""A radiance field of factored grids: fast to query, with color only where it is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts
from nerf_posenc.encoders.interpolation import Corners
from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder
from nerf_posenc.encoders.vector_matrix import VectorMatrixEncoder
from nerf_posenc.networks.mlp import seeded_linear
from nerf_posenc.radiance.fields import at_least_float32

if TYPE_CHECKING:
    from jaxtyping import Float

# Density of 1 / length per unit of the features, as in TensoRF's code, and what is subtracted from
# the features first, so that a new field is nearly transparent.
_DENSITY_SCALE = 25.0
_DENSITY_SHIFT = 5.0


class GridCorners(NamedTuple):
    """Corners of positions in the planes and the lines of a `FactoredField`.

    Attributes:
        planes: interpolation corners of the three planes.
        lines: interpolation corners of the three lines.
    """

    planes: Corners
    lines: Corners

    @classmethod
    def cat(cls, parts: Sequence["GridCorners"]) -> "GridCorners":
        """Concatenate corners."""
        return cls(*(Corners.cat(each) for each in zip(*parts, strict=True)))

    def points(self, points: Tensor) -> "GridCorners":
        """Select the corners of some of the positions."""
        return GridCorners(*(each.points(points) for each in self))


class FactoredField(nn.Module):
    """Density and color from grids that are factored into planes and lines (TensoRF).

    The density is the sum of its features; a small network turns the color's features and the
    direction into a color (Chen et al. 2022, section 4). The density costs a fraction of the color,
    which is only queried where it is seen.

    Args:
        resolution: nodes along each axis, 2 or more.
        stride: use each ``stride``-th node alone until `refine`; it divides ``resolution - 1``.
        density_features: number of density features of each axis.
        color_features: number of color features of each axis.
        width: units in each hidden layer of the color network.
        depth: number of these layers, 1 or more.
        box: lower and upper corner of the part of [-1, 1]^3 that the grids cover, ``(2, 3)``; None
            for all of it.
        generator: random number generator of the initial features and weights.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> field = FactoredField(resolution=17)
        >>> density, rgb = field(torch.rand(5, 3), torch.rand(5, 3))
        >>> density.shape, rgb.shape
        (torch.Size([5]), torch.Size([5, 3]))
    """

    box: Tensor

    def __init__(
        self,
        *,
        resolution: int = 257,
        stride: int = 1,
        density_features: int = 16,
        color_features: int = 24,
        width: int = 64,
        depth: int = 2,
        box: Float[Tensor, "2 3"] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_counts(width=width - 1, depth=depth)
        if box is None:
            box = torch.tensor([[-1.0] * 3, [1.0] * 3])
        if not bool((box[0] < box[1]).all()):
            raise ValueError(f"box must be a lower and an upper corner; got {box.tolist()}")
        self.register_buffer("box", box.clone())
        self._extent = float((box[1] - box[0]).mean())
        self.density_encoder, self.color_encoder = (
            VectorMatrixEncoder(features, resolution=resolution, stride=stride, generator=generator)
            for features in (density_features, color_features)
        )
        self.direction_encoder = SphericalHarmonicsEncoder(4)
        self.basis = seeded_linear(self.color_encoder.out_dim, width // 2, generator)
        dims = [width // 2 + self.direction_encoder.out_dim] + [width] * (depth - 1)
        self.layers = nn.ModuleList(seeded_linear(dim, width, generator) for dim in dims)
        self.rgb_output = seeded_linear(width, 3, generator)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._extent = float((self.box[1] - self.box[0]).mean())

    @property
    def position_encoder(self) -> VectorMatrixEncoder:
        """Encoder of the positions for their density."""
        return self.density_encoder

    def grids(self) -> list[Tensor]:
        """All trained features."""
        return [*self.density_encoder.parameters(), *self.color_encoder.parameters()]

    def hidden_matrices(self) -> list[Tensor]:
        """Weights of all layers but the output: those that Muon steps."""
        return [layer.weight for layer in [self.basis, *self.layers]]

    @property
    def stride(self) -> int:
        """Step between the nodes of the grids that are in use, in nodes; 1 if all are."""
        return self.density_encoder.stride_in_use

    @property
    def cell(self) -> float:
        """Mean length of a grid cell's edges at the present stride."""
        return self._extent * self.stride / (self.density_encoder.resolution - 1)

    def refine(self, stride: int) -> None:
        """Use each ``stride``-th node of the grids from now on; the field stays what it is.

        Raises:
            ValueError: If it does not divide the present stride.
        """
        self.density_encoder.refine(stride)
        self.color_encoder.refine(stride)

    def corners(self, positions: Float[Tensor, "n 3"]) -> GridCorners:
        """Find the nodes that positions are interpolated from: the same for density and color.

        Args:
            positions: points in [-1, 1]^3.
        """
        low, high = self.box
        return GridCorners(
            *self.density_encoder.corners((positions - low) * (2 / (high - low)) - 1)
        )

    def density(self, positions: Float[Tensor, "n 3"]) -> Float[Tensor, " n"]:
        """Density alone, in 1 / length.

        Args:
            positions: points in [-1, 1]^3.
        """
        return self.density_at(self.corners(positions))

    def density_at(self, corners: GridCorners) -> Float[Tensor, " n"]:
        """Density of positions whose corners are known."""
        return density_of_features(self.density_encoder.interpolate(*corners))

    def color_at(
        self, corners: GridCorners, directions: Float[Tensor, "n 3"]
    ) -> Float[Tensor, "n 3"]:
        """Color, in [0, 1], of positions whose corners are known.

        Args:
            corners: grid corners of the positions.
            directions: unit vectors along the viewing rays.
        """
        features = self.basis(self.color_encoder.interpolate(*corners))
        toward = self.direction_encoder(directions).to(features.dtype)
        hidden = torch.cat([features, toward], dim=-1)
        for layer in self.layers:
            hidden = F.relu(layer(hidden))
        return torch.sigmoid(at_least_float32(self.rgb_output(hidden)))

    def forward(
        self, positions: Float[Tensor, "n 3"], directions: Float[Tensor, "n 3"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n 3"]]:
        """Density in 1 / length, and color in [0, 1].

        Args:
            positions: points in [-1, 1]^3.
            directions: unit vectors along the viewing rays.
        """
        corners = self.corners(positions)
        return self.density_at(corners), self.color_at(corners, directions)


def density_of_features(features: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch"]:
    """Density of factored features, in 1 / length: a softplus of their sum, as in TensoRF."""
    return F.softplus(at_least_float32(features.sum(-1)) - _DENSITY_SHIFT) * _DENSITY_SCALE
