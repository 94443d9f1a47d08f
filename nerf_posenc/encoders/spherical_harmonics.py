"""Spherical harmonics of directions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_coordinates, require_counts, require_tensor
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float

_MAX_LEVELS = 64
# Up to here the polynomials are written out.
_WRITTEN_LEVELS = 4
# Up to here float32 errors stay below 1e-6.
_FLOAT32_LEVELS = 8


class SphericalHarmonicsEncoder(Encoder):
    r"""Real spherical harmonics of a direction.

    $Y_\ell^m$ for $\ell$ from 0 below ``num_levels`` and $m = -\ell \dots \ell$, orthonormal
    on the sphere, evaluated as polynomials of x, y and z, also for vectors that are not of unit
    length. The normalized recurrence in the degree (Holmes and Featherstone 2002, equation 11)
    is stable at high degrees, as for positions on the globe: give it
    [directions_from_degrees][nerf_posenc.encoders.directions_from_degrees].

    Args:
        num_levels: number of levels, 1 to 64; libraries call it degree, or ``legendre_polys``.
            There are ``num_levels ** 2`` columns.
        condon_shortley: multiply odd m by -1, as tiny-cuda-nn and torch-ngp do; nerfstudio's
            torch code and multinerf's formulas do not.

    Raises:
        ValueError: If ``num_levels`` is not 1 to 64.

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
            Features in the type of the last cast, or of the directions; half precision is computed
            in float32, and float32 in float64 if there are more than 8 levels.

        Raises:
            TypeError: If the directions are not floating-point numbers.
            ValueError: If their last dimension is not 3.
        """
        require_coordinates(directions, 3, name="directions")
        is_double = directions.dtype == torch.float64
        wide = is_double or (self.num_levels > _FLOAT32_LEVELS and directions.device.type != "mps")
        flat = directions.reshape(-1, 3).to(torch.float64 if wide else torch.float32)
        x, y, z = flat.unbind(-1)
        if self.num_levels <= _WRITTEN_LEVELS:
            sign = -1.0 if self.condon_shortley else 1.0
            written = torch.stack(_polynomials(x, y, z, sign)[: self.out_dim]).T
            return written.to(self.features_dtype(directions)).reshape(
                *directions.shape[:-1], self.out_dim
            )
        # 1, sqrt(2), sqrt(2), ..., made on the device, since a copy would make a GPU wait.
        scales = x.new_full((self.num_levels,), math.sqrt(2))
        scales[0].fill_(1)
        if self.condon_shortley:
            scales[1::2] *= -1
        real, imaginary = _powers(x, y, scales)
        # Orders from high to low, as the sines of a degree stand.
        falling = imaginary.flip(0)
        result = torch.float64 if is_double else torch.float32
        rows: list[Tensor] = []
        for degree, legendre in enumerate(normalized_legendre(z, self.num_levels)):
            sines = legendre[1:].flip(0) * falling[self.num_levels - 1 - degree : -1]
            rows += [sines.to(result), (legendre * real[: degree + 1]).to(result)]
        # Transposed in memory: writing columns one by one would take longer than computing them.
        features = torch.cat(rows).T.to(self.features_dtype(directions))
        return features.reshape(*directions.shape[:-1], self.out_dim)

    def extra_repr(self) -> str:
        """Show the width and the sign convention."""
        return f"out_dim={self.out_dim}, condon_shortley={self.condon_shortley}"


def _polynomials(x: Tensor, y: Tensor, z: Tensor, odd: float) -> list[Tensor]:
    """Harmonics of four levels, written out: the recurrence takes twice as long for so few.

    Args:
        x: component.
        y: component.
        z: component.
        odd: sign of odd orders.
    """
    xx, yy, zz, xy = x * x, y * y, z * z, x * y
    one, two, four = (math.sqrt(n / (4 * math.pi)) for n in (3, 15, 21 / 8))
    six, seven, eight = (math.sqrt(n / (4 * math.pi)) for n in (35 / 8, 105, 7 / 4))
    parabola, odd_y, odd_x = 5 * zz - 1, odd * y, odd * x
    # Orders of each degree from -l to l: Y_1 = (y, z, x) sqrt(3 / 4 pi), and so on.
    return [
        torch.full_like(x, math.sqrt(1 / (4 * math.pi))),
        one * odd_y,
        one * z,
        one * odd_x,
        two * xy,
        two * odd_y * z,
        math.sqrt(5 / (16 * math.pi)) * (3 * zz - 1),
        two * odd_x * z,
        two / 2 * (xx - yy),
        six * odd_y * (3 * xx - yy),
        seven * xy * z,
        four * odd_y * parabola,
        eight * z * (parabola - 2),
        four * odd_x * parabola,
        seven / 2 * z * (xx - yy),
        six * odd_x * (xx - 3 * yy),
    ]


class IntegratedDirectionalEncoder(Encoder):
    r"""Ref-NeRF's directional encoding of a reflected direction and its roughness.

    Expected spherical harmonics of degrees 1, 2, 4, ... under a von Mises-Fisher distribution
    around the direction: the harmonics times $\exp(-\ell (\ell + 1) / (2 \kappa))$ (Verbin et
    al. 2022, Ref-NeRF, equations 6 to 8).

    Args:
        num_degrees: number of degrees $2^0, 2^1, \dots$, 1 to 6: ``deg_view`` in multinerf, 5 in
            the paper.

    Raises:
        ValueError: If ``num_degrees`` is not 1 to 6.

    Examples:
        >>> encoder = IntegratedDirectionalEncoder(5)
        >>> encoder(torch.tensor([[0.0, 0.6, 0.8]]), roughness=torch.tensor([[0.1]])).shape
        torch.Size([1, 72])
    """

    def __init__(self, num_degrees: int = 5) -> None:
        if not 1 <= num_degrees <= 6:
            raise ValueError(f"num_degrees must be 1 to 6; got {num_degrees}")
        self.degrees = tuple(2**i for i in range(num_degrees))
        super().__init__(3, 2 * sum(degree + 1 for degree in self.degrees))

    def forward(
        self,
        directions: Float[Tensor, "*batch 3"],
        *,
        roughness: Float[Tensor, "*batch 1"] | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        r"""Encode directions.

        Args:
            directions: unit vectors.
            roughness: $1 / \kappa$, 0 or more; None is 0, the harmonics themselves.

        Returns:
            Real parts of all harmonics, then imaginary parts, by degree and order from 0, in the
            type of the last cast, or of the directions.

        Raises:
            TypeError: If the directions are not floating-point numbers.
            ValueError: If a shape does not fit.
        """
        require_coordinates(directions, 3, name="directions")
        if roughness is not None:
            require_tensor(roughness, "roughness")
        if roughness is not None and roughness.shape != (*directions.shape[:-1], 1):
            raise ValueError(
                f"roughness must have shape {(*directions.shape[:-1], 1)}; got "
                f"{tuple(roughness.shape)}"
            )
        # The recurrence loses digits with the degree, which float64 has to spare; MPS has none.
        dtype = torch.float32 if directions.device.type == "mps" else torch.float64
        x, y, z = directions.reshape(-1, 3).to(dtype).unbind(-1)
        levels = self.degrees[-1] + 1
        # Ref-NeRF's convention: the factor (-1)^m of Condon and Shortley.
        signs = 1 - 2 * (torch.arange(levels, device=x.device) % 2).to(dtype)
        # sin^m(theta) exp(i m phi) = (x + iy)^m has no pole, as its factors would at x = y = 0.
        real, imaginary = _powers(x, y, signs)
        legendre = list(normalized_legendre(z, levels))
        parts = [
            torch.cat([legendre[degree] * part[: degree + 1] for degree in self.degrees])
            for part in (real, imaginary)
        ]
        features = torch.cat(parts).T
        if roughness is not None:
            # Mean over a von Mises-Fisher lobe: about exp(-l (l + 1) / (2 kappa)) (Ref-NeRF,
            # equation 8).
            falloff = torch.cat([x.new_full((n + 1,), n * (n + 1) / 2) for n in self.degrees] * 2)
            features = features * torch.exp(-falloff * roughness.reshape(-1, 1).to(dtype))
        features = features.to(self.features_dtype(directions))
        return features.reshape(*directions.shape[:-1], self.out_dim)

    def extra_repr(self) -> str:
        """Show the degrees."""
        return f"out_dim={self.out_dim}, degrees={self.degrees}"


def normalized_legendre(
    z: Float[Tensor, " n"], num_levels: int
) -> Iterator[Float[Tensor, "orders n"]]:
    r"""Normalized associated Legendre functions without their factor $\sin^m$, degree by degree.

    $\sqrt{\tfrac{2\ell+1}{4\pi} \tfrac{(\ell-m)!}{(\ell+m)!}}\, P_\ell^m(z) / \sin^m$ for
    $m = 0 \dots \ell$, without the Condon-Shortley phase.

    Args:
        z: cosines of the polar angle.
        num_levels: number of degrees, from 0 on.
    """
    require_counts(num_levels=num_levels)
    diagonal = math.sqrt(1 / (4 * math.pi))
    before = last = torch.full_like(z, diagonal)[None]
    yield last
    for degree in range(1, num_levels):
        # Three-term recurrence in the degree, with both factors normalized (Holmes and Featherstone
        # 2002), stable where factorials would overflow.
        m = torch.arange(degree, dtype=z.dtype, device=z.device)[:, None]
        scale = ((4 * degree**2 - 1) / (degree**2 - m**2)).sqrt()
        values = z * last * scale
        if degree > 1:
            m = m[:-1]
            older = (((degree - 1) ** 2 - m**2) / (4 * (degree - 1) ** 2 - 1)).sqrt()
            values = torch.cat([values[:-1] - scale[:-1] * older * before, values[-1:]])
        # Order m = degree: a constant, its power of the sine having been taken out.
        diagonal *= math.sqrt((2 * degree + 1) / (2 * degree))
        before, last = last, torch.cat([values, torch.full_like(z, diagonal)[None]])
        yield last


def _powers(x: Tensor, y: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part of (x + iy)^m for each m, times its scale."""
    real, imaginary = [torch.ones_like(x)], [torch.zeros_like(x)]
    for _ in range(1, len(scales)):
        # One power more: the last one times x + iy.
        real, imaginary = (
            [*real, x * real[-1] - y * imaginary[-1]],
            [*imaginary, x * imaginary[-1] + y * real[-1]],
        )
    return torch.stack(real) * scales[:, None], torch.stack(imaginary) * scales[:, None]
