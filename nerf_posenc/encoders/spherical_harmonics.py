"""Spherical harmonics of directions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.encoder import Encoder, require_coordinates

_MAX_LEVELS = 8


class SphericalHarmonicsEncoder(Encoder):
    r"""Real spherical harmonics of a direction.

    $Y_\ell^m$ for $\ell$ from 0 below ``num_levels`` and $m = -\ell \dots \ell$, orthonormal
    on the sphere, evaluated as polynomials of x, y and z, also for vectors that are not of unit
    length.

    Args:
        num_levels: number of levels, 1 to 8; libraries call it degree. There are
            ``num_levels ** 2`` columns.
        condon_shortley: multiply odd m by -1, as tiny-cuda-nn and torch-ngp do; nerfstudio's
            torch code and multinerf's formulas do not.

    Raises:
        ValueError: If ``num_levels`` is not 1 to 8.

    Examples:
        >>> SphericalHarmonicsEncoder(4)(torch.tensor([[0.0, 0.6, 0.8]])).shape
        torch.Size([1, 16])
    """

    def __init__(self, num_levels: int = 4, *, condon_shortley: bool = True) -> None:
        if not 1 <= num_levels <= _MAX_LEVELS:
            raise ValueError(f"num_levels must be 1 to {_MAX_LEVELS}; got {num_levels}")
        super().__init__(3, num_levels**2)
        self.num_levels = num_levels
        self.condon_shortley = condon_shortley

    def forward(self, directions: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch out_dim"]:
        """Encode directions.

        Args:
            directions: unit vectors, components in [-1, 1]. (tiny-cuda-nn takes
                ``(direction + 1) / 2``.)

        Returns:
            Features in the type of the directions; half precision is computed in float32.

        Raises:
            TypeError: If the directions are not floating-point numbers.
            ValueError: If their last dimension is not 3.
        """
        require_coordinates(directions, 3, name="directions")
        dtype = torch.float64 if directions.dtype == torch.float64 else torch.float32
        x, y, z = directions.to(dtype).unbind(-1)
        columns: list[Tensor] = [torch.empty(0)] * self.out_dim
        # (x + iy)^m holds the longitude of order m, and legendre[l] what z adds to it.
        real, imaginary = torch.ones_like(z), torch.zeros_like(z)
        first = 1.0
        for m in range(self.num_levels):
            sign = -1.0 if self.condon_shortley and m % 2 else 1.0
            legendre = self._legendre(m, first, z)
            for degree, polynomial in enumerate(legendre, start=m):
                scale = sign * _normalization(degree, m)
                middle = degree * (degree + 1)
                columns[middle + m] = scale * polynomial * real
                if m:
                    columns[middle - m] = scale * polynomial * imaginary
            real, imaginary = x * real - y * imaginary, x * imaginary + y * real
            first *= 2 * m + 1
        return torch.stack(columns, dim=-1).to(directions.dtype)

    def _legendre(self, m: int, first: float, z: Tensor) -> list[Tensor]:
        """Associated Legendre functions of order m without their factor sin^m, by degree.

        The upward recurrence in the degree (Abramowitz and Stegun 8.5.3) is stable.
        """
        values = [torch.full_like(z, first)]
        if m + 1 < self.num_levels:
            values.append((2 * m + 1) * z * values[0])
        for degree in range(m + 2, self.num_levels):
            upper = (2 * degree - 1) * z * values[-1] - (degree + m - 1) * values[-2]
            values.append(upper / (degree - m))
        return values

    def extra_repr(self) -> str:
        """Show the width and the sign convention."""
        return f"out_dim={self.out_dim}, condon_shortley={self.condon_shortley}"


def _normalization(degree: int, m: int) -> float:
    """Factor that makes the real harmonics orthonormal on the sphere."""
    ratio = math.factorial(degree - m) / math.factorial(degree + m)
    return math.sqrt((2 * degree + 1) / (4 * math.pi) * ratio * (2 if m else 1))
