"""Radiance fields: encoders and networks from positions and directions to density and color."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder
from nerf_posenc.networks.mlp import seeded_linear

if TYPE_CHECKING:
    from jaxtyping import Float

Density = Literal["relu", "softplus", "exp"]

# Bound of the logarithm of a density: with this one a millionth of the scene is opaque, and larger
# ones would overflow.
_MAX_LOG_DENSITY = 15.0

# mip-NeRF lets colors exceed [0, 1] a little, so that its sigmoid need not saturate.
_MIP_PADDING = 0.001


class RadianceField(nn.Module):
    """Density and view-dependent color of a radiance field.

    A trunk of ReLU layers on the encoded position gives the density and a feature vector; a head
    on the features and the encoded direction gives the color (Mildenhall et al. 2020, figure 7).
    The density does not depend on the direction.

    Args:
        position_encoder: encoder of positions ``(n, 3)``.
        direction_encoder: encoder of unit directions ``(n, 3)``.
        width: units in each layer of the trunk.
        depth: layers of the trunk, 1 or more.
        skip: the encoded position is concatenated to the output of this layer, counted from 1;
            None for no skip connection.
        feature_dim: width of the trunk's feature vector.
        head_width: units in each hidden layer of the head.
        head_depth: hidden layers of the head, 0 or more.
        density: activation of the density: ``"relu"`` as in NeRF, ``"softplus"`` of the value
            less 1 as in mip-NeRF, or ``"exp"`` as in instant-NGP.
        rgb_padding: amount by which colors may exceed [0, 1] on either side.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is out of its range.

    Examples:
        >>> field = RadianceField(FourierEncoder(3, 6), Identity(3), width=32, depth=2)
        >>> density, rgb = field(torch.rand(5, 3), torch.rand(5, 3))
        >>> density.shape, rgb.shape
        (torch.Size([5]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        position_encoder: Encoder,
        direction_encoder: Encoder,
        *,
        width: int = 128,
        depth: int = 4,
        skip: int | None = None,
        feature_dim: int = 64,
        head_width: int = 64,
        head_depth: int = 1,
        density: Density = "exp",
        rgb_padding: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_counts(width=width, depth=depth, feature_dim=feature_dim, head_width=head_width)
        if head_depth < 0 or (skip is not None and not 1 <= skip < depth):
            raise ValueError(
                f"head_depth must be 0 or more and skip 1 to {depth - 1}; got {head_depth} and "
                f"{skip}"
            )
        self.position_encoder = position_encoder
        self.direction_encoder = direction_encoder
        self.skip = skip
        self.density_activation = density
        self.rgb_padding = rgb_padding
        joined = [0 if i == 0 else width for i in range(depth)]
        for i in (0, skip):
            if i is not None:
                joined[i] += position_encoder.out_dim
        self.trunk = nn.ModuleList(seeded_linear(dim, width, generator) for dim in joined)
        self.density_output = seeded_linear(width, 1, generator)
        self.feature = seeded_linear(width, feature_dim, generator)
        head_dims = [feature_dim + direction_encoder.out_dim] + [head_width] * head_depth
        self.head = nn.ModuleList(
            seeded_linear(dim, head_width, generator) for dim in head_dims[:-1]
        )
        self.rgb_output = seeded_linear(head_dims[-1], 3, generator)
        for linear in [*self.trunk, *self.head]:
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(linear.bias)

    def hidden_matrices(self) -> list[Tensor]:
        """Weights of all layers but the two outputs: those that Muon steps."""
        return [layer.weight for layer in [*self.trunk, self.feature, *self.head]]

    def density(
        self, positions: Float[Tensor, "n 3"], variance: Float[Tensor, "n 3"] | None = None
    ) -> Float[Tensor, " n"]:
        """Density alone, in 1 / length.

        Args:
            positions: points in [-1, 1]^3.
            variance: variance of each coordinate.

        Raises:
            ValueError: If the position encoder does not take a variance.
        """
        return self._density(self._trunk(positions, variance))

    def forward(
        self,
        positions: Float[Tensor, "*batch 3"],
        directions: Float[Tensor, "*#batch 3"],
        variance: Float[Tensor, "*batch 3"] | None = None,
        *,
        progress: Float[Tensor, ""] | None = None,
    ) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch 3"]]:
        """Density in 1 / length, and color in [0, 1].

        Args:
            positions: points in [-1, 1]^3.
            directions: unit vectors along the viewing rays; ``(rays, 1, 3)`` for all points of a
                ray, which are ``(rays, points, 3)``.
            variance: variance of each coordinate, for integrated positional encoding (mip-NeRF).
            progress: how far the bands of the positions are open, from 0 to 1, if their encoder
                takes it; until it is 1, colors do not depend on the direction. None opens all.

        Raises:
            TypeError: If positions or directions are not floating-point numbers.
            ValueError: If their last dimension is not 3, or the position encoder does not take a
                variance.
        """
        require_coordinates(positions, 3, name="positions")
        require_coordinates(directions, 3, name="directions")
        hidden = self._trunk(positions, variance, progress)
        toward = self.direction_encoder(directions).expand(*positions.shape[:-1], -1)
        if progress is not None:
            toward = toward * (progress >= 1)
        z = torch.cat([self.feature(hidden), toward], dim=-1)
        for layer in self.head:
            z = F.relu(layer(z))
        rgb = torch.sigmoid(at_least_float32(self.rgb_output(z)))
        rgb = rgb * (1 + 2 * self.rgb_padding) - self.rgb_padding
        return self._density(hidden), rgb

    def _trunk(
        self, positions: Tensor, variance: Tensor | None, progress: Tensor | None = None
    ) -> Tensor:
        if progress is not None and self.position_encoder.takes_progress:
            encoded = self.position_encoder(positions, progress=progress)
        elif variance is None:
            encoded = self.position_encoder(positions)
        elif self.position_encoder.takes_variance:
            encoded = self.position_encoder(positions, variance=variance)
        else:
            raise ValueError(
                f"{type(self.position_encoder).__name__} takes no variance, which cones need; use "
                "an encoder that does, such as FourierEncoder, or a renderer without cones"
            )
        hidden: Tensor = encoded
        for i, layer in enumerate(self.trunk):
            if i and i == self.skip:
                hidden = torch.cat([encoded, hidden], dim=-1)
            hidden = F.relu(layer(hidden))
        return hidden

    def _density(self, hidden: Tensor) -> Tensor:
        value = at_least_float32(self.density_output(hidden)[..., 0])
        if self.density_activation == "relu":
            return F.relu(value)
        if self.density_activation == "softplus":
            return F.softplus(value - 1)
        return torch.exp(value.clamp(max=_MAX_LOG_DENSITY))


def at_least_float32(values: Tensor) -> Tensor:
    """Undo what autocast rounded: float64 stays, anything else becomes float32."""
    return values if values.dtype == torch.float64 else values.float()


def nerf_field(
    num_bands: int | None = 10,
    num_direction_bands: int = 4,
    *,
    width: int = 256,
    depth: int = 8,
    cones: bool = False,
    generator: torch.Generator | None = None,
) -> RadianceField:
    """NeRF's network, layer for layer (Mildenhall et al. 2020, section 5.3 and figure 7).

    As in the authors' code, the raw position and direction precede their sines and cosines. At
    full size the field has 595,844 parameters.

    Args:
        num_bands: frequency bands of the position; None for raw positions and directions.
        num_direction_bands: frequency bands of the direction.
        width: units per layer; the head has half.
        depth: layers of the trunk, with a skip connection in the middle.
        cones: build mip-NeRF's network, which is called with the variance of each position (Barron
            et al. 2021). With its 16 bands it has 612,740 parameters.
        generator: random number generator of the initial weights.
    """
    encoders: tuple[Encoder, Encoder] = Identity(3), Identity(3)
    if num_bands is not None:
        encoders = (
            FourierEncoder(3, num_bands, include_input=None if cones else "front"),
            FourierEncoder(3, num_direction_bands, include_input="front"),
        )
    return RadianceField(
        *encoders,
        width=width,
        depth=depth,
        # The fifth of eight layers; none for a single one.
        skip=min(depth // 2 + 1, depth - 1) or None,
        feature_dim=width,
        head_width=width // 2,
        density="softplus" if cones else "relu",
        rgb_padding=_MIP_PADDING if cones else 0.0,
        generator=generator,
    )


def hash_field(
    grid: Encoder | None = None,
    *,
    width: int = 64,
    depth: int = 1,
    generator: torch.Generator | None = None,
) -> RadianceField:
    """Instant-NGP's field: a hash grid, a small network, spherical harmonics (section 5.4).

    Args:
        grid: encoder of positions; None for that of the paper, with 16 levels of 2 features from 16
            to 2,048 nodes per axis.
        width: units per layer.
        depth: layers of the trunk.
        generator: random number generator of the initial features and weights.
    """
    if grid is None:
        grid = HashGridEncoder(3, growth=128 ** (1 / 15), generator=generator)
    return RadianceField(
        grid,
        SphericalHarmonicsEncoder(4),
        width=width,
        depth=depth,
        feature_dim=15,
        head_width=width,
        head_depth=2,
        generator=generator,
    )
