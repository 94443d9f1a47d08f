"""Learned position embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import (
    inside_transform,
    require_counts,
    require_embeddings,
    require_positive,
    require_tensor,
)
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class LearnedPositionEncoder(Encoder):
    """A trained embedding per position (Gehring et al. 2017, ConvS2S; Devlin et al. 2019, BERT).

    Args:
        max_length: number of positions, 1 or more.
        dim: width of an embedding, 1 or more.
        std: standard deviation of the initial embeddings: 0.02 in BERT, 0.1 in ConvS2S.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> LearnedPositionEncoder(512, 64).table(100).shape
        torch.Size([100, 64])
    """

    def __init__(
        self,
        max_length: int,
        dim: int,
        *,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(max_length=max_length, dim=dim)
        require_positive(std=std)
        super().__init__(1, dim)
        self.std = std
        self.codes = nn.Parameter(torch.empty(max_length, dim))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the embeddings."""
        nn.init.normal_(self.codes, 0, self.std, generator=generator)

    @property
    def max_length(self) -> int:
        """Number of positions."""
        return self.codes.shape[0]

    def forward(self, positions: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Look embeddings up.

        Args:
            positions: integers of any type from 0 to ``max_length - 1``, any batch shape.

        Returns:
            One embedding per position.

        Raises:
            TypeError: If the positions are no integers.
            ValueError: If a position has no embedding (checked on the CPU, where the check does
                not wait for a device, and outside of compiled code and ``torch.func``).
        """
        require_tensor(positions, "positions")
        if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
            raise TypeError(
                f"positions must be integers, as a table is looked up; got {positions.dtype}"
            )
        positions = positions.long()
        if (
            positions.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and not inside_transform()
            and len(positions.reshape(-1))
        ):
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= self.max_length:
                raise ValueError(
                    f"positions must be 0 to {self.max_length - 1}; got {low} to {high}. Make the "
                    "table longer, or stretch it with table(length, interpolate=True)"
                )
        return F.embedding(positions, self.codes)

    def table(
        self, length: int, *, offset: int = 0, interpolate: bool = False, align_corners: bool = True
    ) -> Float[Tensor, "length dim"]:
        """Embeddings of ``length`` positions from ``offset`` on.

        Args:
            length: number of positions, 0 or more.
            offset: the first position.
            interpolate: resample all embeddings linearly to ``length`` positions, for sequences
                longer than in training.
            align_corners: whether the first and the last one stay at the ends then; they do not in
                SAM and MViTv2.

        Returns:
            One row per position.

        Raises:
            ValueError: If a position has no embedding and ``interpolate`` is False.
        """
        if interpolate:
            if length < 1 or offset != 0:
                raise ValueError(
                    f"interpolate needs a length of 1 or more and no offset; got {length}, {offset}"
                )
            stretched = F.interpolate(
                self.codes.T[None], size=length, mode="linear", align_corners=align_corners
            )
            return stretched[0].T
        if length < 0 or offset < 0 or offset + length > self.max_length:
            raise ValueError(
                f"positions {offset} to {offset + length - 1} are not all among the "
                f"{self.max_length} learned ones; make the table longer, or ask for "
                "interpolate=True"
            )
        return self.codes[offset : offset + length]

    def add_to(
        self, embeddings: Float[Tensor, "*batch length dim"], *, offset: int = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """Add the embedding of each position to that of its token.

        Args:
            embeddings: embeddings of tokens, one position after the other.
            offset: position of the first token, as when decoding continues from a cache.

        Returns:
            The sum, in the embeddings' type.

        Raises:
            ValueError: If the width is not ``dim``, or a position has no embedding.
        """
        require_embeddings(embeddings, self.out_dim)
        return embeddings + self.table(embeddings.shape[-2], offset=offset).to(embeddings)

    def extra_repr(self) -> str:
        """Show the size of the table."""
        return f"max_length={self.max_length}, dim={self.out_dim}"
