"""Fourier encoders of continuous coordinates."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.bands import Phases, SinCos, octave_bands

IncludeInput = Literal["front", "back"] | None


class FourierEncoder(nn.Module):
    r"""NeRF's encoding of continuous coordinates: a sine and a cosine on every octave.

    $$\gamma(x) = \big(\sin(2^0 \pi x), \cos(2^0 \pi x), \dots,
      \sin(2^{L-1} \pi x), \cos(2^{L-1} \pi x)\big)$$

    for each coordinate in turn (Mildenhall et al. 2020, equation 4). Coordinates are meant
    to lie in [-1, 1], where the lowest band goes through one period; outside the features
    repeat with period 2 but stay exact.

    Args:
        in_dim: number of coordinates, 1 or more.
        num_bands: number of octaves L, 0 or more. With 0 and no raw input there would be
            no column, which is refused.
        bands: other bands in place of the octaves: rad per unit of the coordinate,
            float64, ``(num_bands,)`` or ``(num_bands, in_dim)``. ``num_bands``,
            ``min_octave`` and ``base`` are then not used.
        min_octave: octave of the first band.
        base: rad per unit at octave 0. NeRF's paper has pi; its code, and most that
            descend from it, have 1.
        layout: nesting of the columns, outermost first: k band, p phase, a axis.
        phases: which of sine and cosine comes first.
        include_input: put the raw coordinates before (``"front"``) or after (``"back"``)
            the features.

    Raises:
        ValueError: where an argument is out of its range.

    Example:
        >>> encoder = FourierEncoder(in_dim=2, num_bands=10)
        >>> encoder.out_dim
        40
        >>> encoder(torch.rand(5, 7, 2)).shape
        torch.Size([5, 7, 40])
    """

    def __init__(
        self,
        in_dim: int,
        num_bands: int = 10,
        *,
        bands: Float[Tensor, "num_bands *axes"] | None = None,
        min_octave: int = 0,
        base: float = math.pi,
        layout: str = "akp",
        phases: Phases = ("sin", "cos"),
        include_input: IncludeInput = None,
    ) -> None:
        super().__init__()
        if include_input not in ("front", "back", None):
            raise ValueError(
                f"include_input must be 'front', 'back' or None; got {include_input!r}"
            )
        if bands is None:
            bands = octave_bands(num_bands, min_octave=min_octave, base=base)
        if len(bands) == 0 and include_input is None:
            raise ValueError(
                "0 bands leave no column; give num_bands >= 1, or include_input='front' "
                "for the raw coordinates alone"
            )
        self.include_input = include_input
        self.sincos = SinCos(in_dim, bands, layout=layout, phases=phases)

    @property
    def in_dim(self) -> int:
        """Number of coordinates."""
        return self.sincos.in_dim

    @property
    def num_bands(self) -> int:
        """Number of bands an axis."""
        return self.sincos.num_bands

    @property
    def out_dim(self) -> int:
        """Number of columns."""
        return self.sincos.out_dim + (self.in_dim if self.include_input else 0)

    def forward(
        self,
        x: Float[Tensor, "*batch in_dim"],
        *,
        weight: Float[Tensor, " num_bands"] | None = None,
        variance: Float[Tensor, "*batch in_dim"] | None = None,
    ) -> Float[Tensor, "*batch out_dim"]:
        """Encode coordinates.

        Args:
            x: coordinates in [-1, 1], any batch shape, also empty. Keep them in float32:
                a half-precision coordinate has already lost the high bands.
            weight: factor of each band; the raw input keeps factor 1.
            variance: variance of each coordinate: the features become expectations over
                a Gaussian (mip-NeRF's integrated encoding).

        Returns:
            Features in ``x.dtype``. A coordinate that is not finite gives NaN in its columns.

        Raises:
            TypeError: where ``x`` does not hold floating-point numbers.
            ValueError: where a shape does not fit.
        """
        if not x.is_floating_point():
            raise TypeError(
                f"x must hold floating-point coordinates; got {x.dtype}. Pixel indices, say, "
                "are first scaled to [-1, 1]"
            )
        features: Tensor = self.sincos(x, weight=weight, variance=variance)
        if self.include_input is None:
            return features
        parts = [x, features] if self.include_input == "front" else [features, x]
        return torch.cat(parts, dim=-1)

    def extra_repr(self) -> str:
        """Show what the sub-module does not."""
        return f"out_dim={self.out_dim}, include_input={self.include_input!r}"
