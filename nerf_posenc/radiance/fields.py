"""Radiance fields: encoders and a network that give a density and a colour to every place."""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_coordinates, require_counts
from nerf_posenc.encoders.fourier import FourierEncoder, IncludeInput
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.spherical_harmonics import SphericalHarmonicsEncoder

Density = Literal["relu", "softplus", "exp"]

# exp of more would be opaque within a millionth of the scene, and overflow further up.
_MAX_LOG_DENSITY = 15.0

# mip-NeRF lets colours reach a little over [0, 1], so that its sigmoid need not saturate.
_MIP_PADDING = 0.001


class RadianceField(nn.Module):
    """Density and colour at places seen from directions.

    A trunk of ReLU layers on the encoded place gives the density and a feature vector; a head on
    the features and the encoded direction gives the colour (Mildenhall et al. 2020, figure 7).
    So the density does not depend on the direction.

    Args:
        position_encoder: module from ``(n, 3)`` with ``out_dim``; None for the raw place.
        direction_encoder: the same for unit directions; None for the raw direction.
        width: units in each layer of the trunk.
        depth: layers of the trunk, 1 or more.
        skip: the encoded place joins the output of this layer, counted from 1; None for
            never.
        feature_dim: numbers that the trunk gives to the head.
        head_width: units in each hidden layer of the head.
        head_depth: hidden layers of the head, 0 or more.
        density: what makes the density positive: ``"relu"`` as in NeRF, ``"softplus"`` of
            the value less 1 as in mip-NeRF, or ``"exp"`` as in instant-NGP.
        colour_padding: how far colours reach beyond [0, 1] on either side.

    Raises:
        ValueError: where a count is out of its range.

    Examples:
        >>> field = RadianceField(FourierEncoder(3, 6), None, width=32, depth=2)
        >>> density, colour = field(torch.rand(5, 3), torch.rand(5, 3))
        >>> density.shape, colour.shape
        (torch.Size([5]), torch.Size([5, 3]))
    """

    def __init__(
        self,
        position_encoder: nn.Module | None,
        direction_encoder: nn.Module | None,
        *,
        width: int = 128,
        depth: int = 4,
        skip: int | None = None,
        feature_dim: int = 64,
        head_width: int = 64,
        head_depth: int = 1,
        density: Density = "exp",
        colour_padding: float = 0.0,
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
        self.colour_padding = colour_padding
        place_dim, direction_dim = _out_dim(position_encoder), _out_dim(direction_encoder)
        joined = [0 if i == 0 else width for i in range(depth)]
        for i in (0, skip):
            if i is not None:
                joined[i] += place_dim
        self.trunk = nn.ModuleList(nn.Linear(dim, width) for dim in joined)
        self.density_output = nn.Linear(width, 1)
        self.feature = nn.Linear(width, feature_dim)
        head_dims = [feature_dim + direction_dim] + [head_width] * head_depth
        self.head = nn.ModuleList(nn.Linear(dim, head_width) for dim in head_dims[:-1])
        self.colour_output = nn.Linear(head_dims[-1], 3)
        for linear in [*self.trunk, *self.head]:
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)

    def hidden_matrices(self) -> list[Tensor]:
        """Weights of all layers but the two outputs, the ones that Muon is made for."""
        return [layer.weight for layer in [*self.trunk, self.feature, *self.head]]

    def density(
        self, positions: Float[Tensor, "n 3"], variance: Float[Tensor, "n 3"] | None = None
    ) -> Float[Tensor, " n"]:
        """Density alone, in 1 / length.

        Args:
            positions: places in [-1, 1]^3.
            variance: of the places.
        """
        return self._density(self._trunk(positions, variance))

    def forward(
        self,
        positions: Float[Tensor, "n 3"],
        directions: Float[Tensor, "n 3"],
        variance: Float[Tensor, "n 3"] | None = None,
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n 3"]]:
        """Density in 1 / length, and colour in [0, 1].

        Args:
            positions: places in [-1, 1]^3.
            directions: unit vectors, the way the light is looked along.
            variance: of the places; it damps octaves (mip-NeRF), other encoders do not take it.

        Raises:
            TypeError: where places or directions are not floating-point numbers.
            ValueError: where their last dimension is not 3.
        """
        require_coordinates(positions, 3, name="positions")
        require_coordinates(directions, 3, name="directions")
        hidden = self._trunk(positions, variance)
        seen = directions if self.direction_encoder is None else self.direction_encoder(directions)
        z = torch.cat([self.feature(hidden), seen], dim=-1)
        for layer in self.head:
            z = F.relu(layer(z))
        colour = torch.sigmoid(_unhalved(self.colour_output(z)))
        colour = colour * (1 + 2 * self.colour_padding) - self.colour_padding
        return self._density(hidden), colour

    def _trunk(self, positions: Tensor, variance: Tensor | None) -> Tensor:
        if self.position_encoder is None:
            place = positions
        elif variance is None or not isinstance(self.position_encoder, FourierEncoder):
            place = self.position_encoder(positions)
        else:
            place = self.position_encoder(positions, variance=variance)
        hidden = place
        for i, layer in enumerate(self.trunk):
            if i and i == self.skip:
                hidden = torch.cat([place, hidden], dim=-1)
            hidden = F.relu(layer(hidden))
        return hidden

    def _density(self, hidden: Tensor) -> Tensor:
        value = _unhalved(self.density_output(hidden)[..., 0])
        if self.density_activation == "relu":
            return F.relu(value)
        if self.density_activation == "softplus":
            return F.softplus(value - 1)
        return torch.exp(value.clamp(max=_MAX_LOG_DENSITY))


def _unhalved(values: Tensor) -> Tensor:
    """Half precision as float32."""
    return values if values.dtype == torch.float64 else values.float()


def _out_dim(encoder: Any) -> int:
    return 3 if encoder is None else int(encoder.out_dim)


def _middle(depth: int) -> int | None:
    """Layer that the place joins behind, the fifth of eight; None where there is but one."""
    return min(depth // 2 + 1, depth - 1) or None


def _octaves(
    num_bands: int | None, num_direction_bands: int, *, include_input: IncludeInput
) -> tuple[FourierEncoder | None, FourierEncoder | None]:
    if num_bands is None:
        return None, None
    return (
        FourierEncoder(3, num_bands, include_input=include_input),
        FourierEncoder(3, num_direction_bands, include_input="front"),
    )


def nerf_field(
    num_bands: int | None = 10, num_direction_bands: int = 4, *, width: int = 256, depth: int = 8
) -> RadianceField:
    """NeRF's network, layer for layer (Mildenhall et al. 2020, section 5.3 and figure 7).

    As in the authors' code, the raw place and direction come before their sines and cosines;
    at its full size the field has 595,844 numbers.

    Args:
        num_bands: octaves of the place; None for raw places and directions.
        num_direction_bands: octaves of the direction.
        width: units a layer; the head has half.
        depth: layers of the trunk; the place joins again in the middle.
    """
    return RadianceField(
        *_octaves(num_bands, num_direction_bands, include_input="front"),
        width=width,
        depth=depth,
        skip=_middle(depth),
        feature_dim=width,
        head_width=width // 2,
        density="relu",
    )


def mip_field(
    num_bands: int | None = 16, num_direction_bands: int = 4, *, width: int = 256, depth: int = 8
) -> RadianceField:
    """mip-NeRF's network, to be given the variance of each place (Barron et al. 2021).

    At its full size the field has 612,740 numbers.

    Args:
        num_bands: octaves of the place; None for raw places and directions.
        num_direction_bands: octaves of the direction.
        width: units a layer; the head has half.
        depth: layers of the trunk; the place joins again in the middle.
    """
    return RadianceField(
        *_octaves(num_bands, num_direction_bands, include_input=None),
        width=width,
        depth=depth,
        skip=_middle(depth),
        feature_dim=width,
        head_width=width // 2,
        density="softplus",
        colour_padding=_MIP_PADDING,
    )


def hash_field(
    *, num_levels: int = 16, log2_table_size: int = 19, finest_resolution: int = 2048
) -> RadianceField:
    """Instant-NGP's field: a hash grid, a small network, spherical harmonics (section 5.4).

    Args:
        num_levels: levels of the grid, from 16 nodes an axis.
        log2_table_size: rows of each level's table, as a power of two.
        finest_resolution: nodes an axis of the last level.
    """
    growth = (finest_resolution / 16) ** (1 / max(1, num_levels - 1))
    return RadianceField(
        HashGridEncoder(3, num_levels, log2_table_size=log2_table_size, growth=growth),
        SphericalHarmonicsEncoder(4),
        width=64,
        depth=1,
        feature_dim=15,
        head_width=64,
        head_depth=2,
    )
