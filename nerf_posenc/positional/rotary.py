"""Rotary position embeddings (RoPE)."""

from typing import Literal

import torch
from jaxtyping import Float, Num
from torch import Tensor

from nerf_posenc.core.bands import geometric_bands
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.core.sinusoids import SinCos

Pairing = Literal["interleaved", "half"]


class RotaryEncoder(Encoder):
    r"""Rotary embedding: rotates pairs of a query's or key's features by their position.

    A pair is rotated by $\omega_i t$ with the bands of the sinusoidal embedding,
    $\omega_i = \text{base}^{-2i/d}$, so that the product of a query and a key depends on their
    offset alone (Su et al. 2021, RoFormer, equation 34). With several axes the width is
    divided among them.

    Args:
        dim: width of a head, a positive multiple of ``2 * num_axes``.
        num_axes: 1 for a sequence, 2 or 3 for a grid (axial).
        base: ratio of the longest wavelength (not reached) to the shortest.
        bands: other bands: rad per unit of position, ``(dim / (2 * num_axes),)``, as from
            [ntk_bands][nerf_posenc.ntk_bands], [yarn_bands][nerf_posenc.yarn_bands]
            or ``linear_bands`` (pixels).
        pairing: ``"interleaved"`` pairs columns 2i and 2i+1 (RoFormer, GPT-J,
            rotary-embedding-torch, torchtune, timm); ``"half"`` pairs i and i + dim/2
            (GPT-NeoX, Llama in transformers).
        scale: factor of the cosines and sines, YaRN's attention temperature.

    Raises:
        ValueError: If an argument does not fit.

    Examples:
        >>> rotary = RotaryEncoder(64)
        >>> queries = torch.rand(2, 8, 100, 64)
        >>> rotary.rotate(queries, torch.arange(100)).shape
        torch.Size([2, 8, 100, 64])
    """

    def __init__(
        self,
        dim: int,
        num_axes: int = 1,
        *,
        base: float = 10_000.0,
        bands: Float[Tensor, " num_bands"] | None = None,
        pairing: Pairing = "interleaved",
        scale: float = 1.0,
    ) -> None:
        if num_axes < 1 or dim < 1 or dim % (2 * num_axes):
            raise ValueError(
                f"dim must be a positive multiple of 2 * num_axes = {2 * num_axes}; got {dim}"
            )
        if pairing not in ("interleaved", "half"):
            raise ValueError(f"pairing must be 'interleaved' or 'half'; got {pairing!r}")
        if bands is None:
            bands = geometric_bands(dim // num_axes, base=base)
        if bands.shape != (dim // (2 * num_axes),):
            raise ValueError(
                f"bands must have shape ({dim // (2 * num_axes)},); got {tuple(bands.shape)}"
            )
        super().__init__(num_axes, dim)
        self.pairing = pairing
        self.scale = scale
        self.sincos = SinCos(num_axes, bands, layout="pak")

    @property
    def dim(self) -> int:
        """Width of a head."""
        return self.out_dim

    def forward(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch dim"], Float[Tensor, "*batch dim"]]:
        """Cosines and sines of every column, for use with ``rotate`` or elsewhere.

        Args:
            positions: ``(*batch,)`` for one axis, else ``(*batch, num_axes)``;
                integers or reals. Integers are exact to 2**53, inside autocast too.

        Returns:
            Cosines and sines in float32 (float64 positions: float64), each ``(*batch, dim)``.

        Raises:
            ValueError: If the positions have the wrong number of axes.
        """
        if self.in_dim == 1:
            positions = positions[..., None]
        if positions.dtype in (torch.float16, torch.bfloat16):
            positions = positions.float()
        features: Tensor = self.sincos(positions) * self.scale
        sine, cosine = features.unflatten(-1, (2, self.dim // 2)).unbind(-2)
        return self._for_columns(cosine), self._for_columns(sine)

    def _for_columns(self, per_pair: Tensor) -> Tensor:
        """Repeat the value of each pair at both its columns."""
        if self.pairing == "interleaved":
            return per_pair.repeat_interleave(2, dim=-1)
        return torch.cat([per_pair, per_pair], dim=-1)

    def rotate(
        self, x: Float[Tensor, "*batch length dim"], positions: Num[Tensor, "*shape"]
    ) -> Float[Tensor, "*batch length dim"]:
        """Rotate queries or keys.

        Args:
            x: features, the last two dimensions being the position and the width.
            positions: of each row, ``(length,)`` or ``(length, num_axes)``; for decoding from
                a cache, ``torch.arange(length) + offset``. Any shape that broadcasts with
                ``x`` without its last dimension will do.

        Returns:
            Rotated features in ``x.dtype``; the rotation is computed in float32 or better.

        Raises:
            ValueError: If the width is not ``dim``.
        """
        if x.shape[-1] != self.dim:
            raise ValueError(
                f"x must have shape (*batch, length, {self.dim}); got {tuple(x.shape)}"
            )
        cosine, sine = self(positions)
        rotated: Tensor = x * cosine + self._rotated_90(x) * sine
        return rotated.to(x.dtype)

    def _rotated_90(self, x: Tensor) -> Tensor:
        """Each pair (a, b) as (-b, a)."""
        if self.pairing == "interleaved":
            first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
            return torch.stack([-second, first], dim=-1).flatten(-2)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)

    def extra_repr(self) -> str:
        """Show the width and the convention."""
        return f"dim={self.dim}, pairing={self.pairing!r}, scale={self.scale}"
