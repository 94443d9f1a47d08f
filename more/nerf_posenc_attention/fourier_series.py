"""Fourier position embedding (FoPE): rotations by Fourier series."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.checks import default_dtype, format_values, require_counts
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.core.speed import exact_product
from nerf_posenc_attention.rotation import Rotation

if TYPE_CHECKING:
    from jaxtyping import Float, Num


class FourierSeriesRotaryEncoder(Rotation):
    r"""Rotary embedding whose bands are Fourier series, so that each carries several frequencies.

    Sines and cosines of the bands are mixed by fixed random coefficients around the identity, and
    bands with less than one cycle over the trained length have no rotation (FoPE, Hua et al. 2024,
    arXiv:2412.17739, and the authors' code). Halves of a head are paired.

    Args:
        dim: width of a head, an even number.
        num_heads: number of heads, each with coefficients of its own.
        trained_length: bands below ``2 pi / trained_length`` are left out.
        base: ratio of the longest wavelength (not reached) to the shortest.
        gain: gain of the random coefficients (Xavier normal).
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range, or no band is left.

    Examples:
        >>> encoder = FourierSeriesRotaryEncoder(64, 8, trained_length=512)
        >>> encoder.rotate(torch.rand(2, 8, 100, 64), torch.arange(100)).shape
        torch.Size([2, 8, 100, 64])
    """

    children_in_repr = ("sincos",)
    uncast = ("sine_coefficients", "cosine_coefficients")

    sine_coefficients: Tensor
    cosine_coefficients: Tensor

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        trained_length: int,
        base: float = 10_000.0,
        gain: float = 0.3,
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(dim=dim, num_heads=num_heads, trained_length=trained_length)
        if dim % 2:
            raise ValueError(f"dim must be even; got {dim}")
        bands = geometric_bands(dim // 2, base=base)
        bands = bands[bands >= 2 * math.pi / trained_length]
        if len(bands) == 0 or dim < 4:
            raise ValueError(
                f"no band has a cycle within {trained_length} positions; give a longer "
                "trained_length, and a dim of 4 or more"
            )
        super().__init__(1, dim, pairing="half", blocks=(dim,), num_heads=num_heads)
        self.trained_length = trained_length
        self.base = base
        self.gain = gain
        shape = (num_heads, len(bands), min(len(bands), dim // 4))
        for name in self.uncast:
            self.register_buffer(name, torch.empty(shape, dtype=default_dtype()))
        self.sincos = SinCos(1, bands, layout="pka")
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the coefficients around the identity."""
        for name in self.uncast:
            coefficients = getattr(self, name)
            nn.init.xavier_normal_(coefficients, gain=self.gain, generator=generator)
            # Series i has coefficient 1 at band i * step.
            num_bands, num_series = coefficients.shape[1:]
            own = torch.arange(0, num_bands, math.ceil(num_bands / num_series))
            coefficients[:, own, torch.arange(len(own))] += 1

    @property
    def frequency_bands(self) -> Float[Tensor, "num_bands 1"]:
        """Bands of the series, rad per position."""
        return self.sincos.frequencies

    def forward(
        self, positions: Num[Tensor, "*batch length"]
    ) -> tuple[Float[Tensor, "*batch heads length dim"], Float[Tensor, "*batch heads length dim"]]:
        """Cosine and sine series of every column, for ``rotate_with`` or elsewhere.

        Args:
            positions: ``(*batch, length)``, integers or reals.

        Returns:
            Series in float32 (float64 positions: float64), each
            ``(*batch, num_heads, length, dim)``; pairs without a rotation have 1 in both.
        """
        self.require_set()
        waves: Tensor = self.sincos(self._positions(positions))
        # (*batch, length, 2 * bands) -> sine, cosine: (*batch, length, bands). Mixed by head:
        # (*batch, 1, length, bands) @ (heads, bands, series) -> (*batch, heads, length, series)
        sine, cosine = waves.unflatten(-1, (2, -1)).unbind(-2)
        series = [
            exact_product(wave[..., None, :, :], coefficients.to(wave.dtype))
            for wave, coefficients in (
                (cosine, self.cosine_coefficients),
                (sine, self.sine_coefficients),
            )
        ]
        # The authors' code pads both cosine and sine with 1.
        missing = self.dim // 2 - series[0].shape[-1]
        padded = [nn.functional.pad(part, (0, missing), value=1.0) for part in series]
        return self.to_columns(padded[0]), self.to_columns(padded[1])

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"dim={self.dim}, num_heads={self.num_heads}, trained_length={self.trained_length}, "
            f"base={self.base:g}, sine_coefficients={format_values(self.sine_coefficients)}, "
            f"cosine_coefficients={format_values(self.cosine_coefficients)}"
        )
