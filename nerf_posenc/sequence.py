"""Encoders of positions in a sequence."""

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from nerf_posenc.bands import SinCos, geometric_bands


class SinusoidalEncoder(nn.Module):
    r"""The Transformer's sinusoidal code of a position.

    $$PE(t, 2i) = \sin(t / \text{base}^{2i/d}), \qquad
      PE(t, 2i + 1) = \cos(t / \text{base}^{2i/d})$$

    (Vaswani et al. 2017, section 3.5): sines on even columns, cosines on odd ones, with
    wavelengths in a geometric series from $2\pi$ towards $\text{base} \cdot 2\pi$. It is
    [FourierEncoder][nerf_posenc.FourierEncoder] with these bands on the one coordinate t.

    Args:
        dim: width of the code, 1 or more. With an odd width the last column is a sine
            without its cosine.
        base: ratio of the longest wavelength (not reached) to the shortest.

    Raises:
        ValueError: where ``dim`` is below 1 or ``base`` is not finite and positive.

    Example:
        >>> SinusoidalEncoder(4, base=100.0).table(2)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0998, 0.9950]])
    """

    def __init__(self, dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        self.sincos = SinCos(1, geometric_bands(dim, base=base))
        self.base = base
        self._dim = dim

    @property
    def in_dim(self) -> int:
        """Number of coordinates: one, the position."""
        return 1

    @property
    def out_dim(self) -> int:
        """Width of the code."""
        return self._dim

    def forward(self, positions: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Encode positions.

        Args:
            positions: 0-based, integers or reals, of any sign and batch shape. Integers
                are exact up to 2**53.

        Returns:
            Codes in the positions' floating-point type (integers: the default one).
        """
        features: Tensor = self.sincos(positions[..., None])
        return features[..., : self.out_dim]

    def table(self, length: int, *, offset: int | float = 0) -> Float[Tensor, "length dim"]:
        """Codes of ``length`` positions from ``offset`` on.

        Args:
            length: number of positions, 0 or more.
            offset: the first position.

        Returns:
            One row a position, in the default floating-point type.

        Raises:
            ValueError: where ``length`` is negative.
        """
        if length < 0:
            raise ValueError(f"length must be 0 or more; got {length}")
        device = self.sincos._sign.device
        positions = torch.arange(length, device=device) + offset
        codes: Tensor = self(positions)
        return codes

    def add_to(
        self, embeddings: Float[Tensor, "*batch length dim"], *, offset: int | float = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """Add the code of each position to its token's embedding.

        Args:
            embeddings: token embeddings, the last two dimensions being position and width.
            offset: position of the first token, as when decoding goes on from a cache.

        Returns:
            The sum, in the embeddings' type; the codes are made in float32 whatever it is.

        Raises:
            ValueError: where the width is not ``dim``.
        """
        if embeddings.ndim < 2 or embeddings.shape[-1] != self.out_dim:
            raise ValueError(
                f"embeddings must have shape (*batch, length, {self.out_dim}); "
                f"got {tuple(embeddings.shape)}"
            )
        codes = self.table(embeddings.shape[-2], offset=offset)
        return embeddings + codes.to(embeddings)

    def extra_repr(self) -> str:
        """Show the width and the base."""
        return f"dim={self.out_dim}, base={self.base}"
