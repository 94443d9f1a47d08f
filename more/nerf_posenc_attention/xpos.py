"""Extrapolatable position embeddings (xPos): rotations with decay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_positive
from nerf_posenc_attention.rotary import RotaryEncoder

if TYPE_CHECKING:
    from jaxtyping import Float, Num


class XPosEncoder(RotaryEncoder):
    r"""Rotary embedding whose products also decay with the offset, the more the faster the pair.

    Queries are multiplied by $\zeta_i^{t / B}$ and keys by its inverse, with
    $\zeta_i = (2i/d + \gamma)/(1 + \gamma)$, so that scores hold $\zeta_i^{(t - s)/B}$ (Sun et
    al. 2023, arXiv:2212.10554). For causal attention: with keys after the query the
    scores would grow. ``rotate`` and ``forward`` are for queries, ``rotate_keys`` and
    ``tables_of_keys`` for keys; in sequences of thousands of tokens give ``center``, since keys
    grow with their distance from it.

    Args:
        dim: width of a head, an even number.
        scale_base: B, the number of positions over which $\zeta$ is reached: 512 in the paper.
        gamma: 0.4 in the paper.
        center: position at which queries and keys keep their lengths. Scores do not depend on
            it; near the middle of a sequence the factors stay near 1. Libraries have
            ``length // 2``.
        rotary: other arguments of [RotaryEncoder][nerf_posenc.RotaryEncoder].

    Raises:
        ValueError: If an argument does not fit.

    Examples:
        >>> xpos = XPosEncoder(64)
        >>> queries = keys = torch.rand(2, 8, 100, 64)
        >>> scores = xpos.rotate(queries, torch.arange(100)) @ xpos.rotate_keys(
        ...     keys, torch.arange(100)
        ... ).mT
    """

    _log_zeta: Tensor

    def __init__(
        self,
        dim: int,
        *,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        center: float = 0.0,
        **rotary: Any,
    ) -> None:
        require_positive(scale_base=scale_base, gamma=gamma)
        super().__init__(dim, **rotary)
        if self.in_dim != 1 or self.pairing == "tiled":
            raise ValueError("xPos is for one axis and pairings that preserve lengths")
        self.scale_base = scale_base
        self.gamma = gamma
        self.center = center
        pairs = torch.arange(self.rotary_dim // 2, dtype=torch.float64, device="cpu")
        zeta = (2 * pairs / self.rotary_dim + gamma) / (1 + gamma)
        self.register_constant("_log_zeta", zeta.log())

    def forward(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch rotary_dim"], Float[Tensor, "*batch rotary_dim"]]:
        """Cosines and sines for queries, with their decay; see ``tables_of_keys``."""
        return self._decayed(positions, 1.0)

    def tables_of_keys(
        self, positions: Num[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*batch rotary_dim"], Float[Tensor, "*batch rotary_dim"]]:
        """Cosines and sines for keys, with the inverse of the queries' decay.

        Args:
            positions: positions as for queries.
        """
        return self._decayed(positions, -1.0)

    def rotate_keys(
        self,
        x: Float[Tensor, "*batch rows dim"],
        positions: Num[Tensor, "*shape"],
        *,
        sequence_dim: int = -2,
        num_prefix: int = 0,
    ) -> Float[Tensor, "*batch rows dim"]:
        """Rotate keys; ``rotate`` is for queries.

        Args:
            x: keys, as for ``rotate``.
            positions: positions of each token.
            sequence_dim: dimension of ``x`` that the positions go along.
            num_prefix: number of tokens at the beginning that are left alone.

        Raises:
            ValueError: If a shape does not fit.
        """
        return self.rotate_with(
            x, *self.tables_of_keys(positions), sequence_dim=sequence_dim, num_prefix=num_prefix
        )

    def _decayed(self, positions: Tensor, sign: float) -> tuple[Tensor, Tensor]:
        cosine, sine = super().forward(positions)
        self.move_constants(positions.device)
        # (*batch, 1) * (num_pairs,) -> (*batch, num_pairs), then repeated for both columns.
        distance = positions[..., None].to(self._log_zeta.dtype) - self.center
        exponent = sign / self.scale_base * distance
        decay = self.to_columns(torch.exp(exponent * self._log_zeta)).to(cosine.dtype)
        return cosine * decay, sine * decay

    def extra_repr(self) -> str:
        """Show all that changes the numbers."""
        return (
            f"{super().extra_repr()}, scale_base={self.scale_base:g}, "
            f"gamma={self.gamma:g}, center={self.center:g}"
        )
