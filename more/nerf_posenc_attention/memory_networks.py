"""Position and temporal encodings of end-to-end memory networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import (
    default_dtype,
    inside_transform,
    is_recorded,
    require_counts,
    require_embeddings,
    require_positive,
    require_tensor,
)
from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class MemN2NPositionEncoder(Encoder):
    r"""Position weights of a sentence's words, applied before they are summed.

    $l_{kj} = (1 - j/J) - (k/d)(1 - 2j/J)$ for word $j = 1 \dots J$ and column
    $k = 1 \dots d$, multiplied with the word's embedding (Sukhbaatar et al. 2015, End-To-End
    Memory Networks, section 4.1). Unlike other encodings it depends on the length J, so a padded
    batch needs the lengths of its sentences.

    Args:
        dim: width d of the embeddings, 1 or more.
        scale: factor of the weights: 1 in the paper. The widely copied formula
            $1 + 4 (k - d/2)(j - J/2)/(dJ)$ is exactly twice the paper's: ``scale=2``.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> MemN2NPositionEncoder(2).table(2)
        tensor([[0.5000, 0.5000],
                [0.5000, 1.0000]])
    """

    def __init__(self, dim: int, *, scale: float = 1.0) -> None:
        require_counts(dim=dim)
        require_positive(scale=scale)
        super().__init__(dim, dim)
        self.scale = scale

    def table(self, length: int) -> Float[Tensor, "length dim"]:
        """Weights of the words of a sentence.

        Args:
            length: number of words J, 1 or more.

        Returns:
            One row per word, in the default floating-point type.

        Raises:
            ValueError: If ``length`` is below 1.
        """
        require_counts(length=length)
        word = torch.arange(1, length + 1, dtype=torch.float64)
        return self._weights(word / length).to(default_dtype())

    def _weights(self, word: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Weights of words at j / J, in float64."""
        word = word[..., None]
        column = torch.arange(1, self.out_dim + 1, dtype=word.dtype, device=word.device)
        # End-To-End Memory Networks, section 4.1: l_kj = (1 - j / J) - (k / d)(1 - 2 j / J).
        return self.scale * ((1 - word) - column / self.out_dim * (1 - 2 * word))

    def forward(
        self,
        embeddings: Float[Tensor, "*batch length dim"],
        *,
        lengths: Int[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*batch length dim"]:
        """Multiply each word's embedding with its weights; the sum over words is the caller's.

        Args:
            embeddings: word embeddings, the last two dimensions being word and width.
            lengths: number of words of each sentence, if shorter ones are padded at the end; from
                a mask, ``mask.sum(-1)``. The padding's embeddings become 0. None: all words
                count.

        Returns:
            Weighted embeddings in their own type.

        Raises:
            ValueError: If the width is not ``dim``, or the lengths do not fit.
        """
        require_embeddings(embeddings, self.out_dim)
        if lengths is None:
            return embeddings * self.table(embeddings.shape[-2]).to(embeddings)
        _require_lengths(lengths, embeddings)
        word = torch.arange(1, embeddings.shape[-2] + 1, device=embeddings.device)
        # (*batch, length): j / J of each word in its sentence, which may be empty.
        share = word / lengths[..., None].clamp(min=1).double()
        weights = self._weights(share).to(embeddings)
        # Values in the padding, which may be NaN, do not count.
        return torch.where((word <= lengths[..., None])[..., None], embeddings * weights, 0)

    def extra_repr(self) -> str:
        """Show all that changes the weights."""
        return f"dim={self.out_dim}, scale={self.scale:g}"


def _require_lengths(lengths: Tensor, padded: Tensor) -> None:
    require_tensor(lengths, "lengths")
    batch, longest = padded.shape[:-2], padded.shape[-2]
    if lengths.is_floating_point():
        raise TypeError(f"lengths must be integers; got {lengths.dtype}")
    has_values = lengths.numel() and not (inside_transform() or is_recorded())
    if lengths.shape != batch or (
        has_values and not 0 <= int(lengths.min()) <= int(lengths.max()) <= longest
    ):
        raise ValueError(
            f"lengths must be numbers from 0 to {longest}, of shape {tuple(batch)}; got "
            f"{tuple(lengths.shape)} {lengths.flatten()[:8].tolist()}"
        )
