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
from nerf_posenc_attention.learned import LearnedPositionEncoder

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


class TemporalEncoder(Encoder):
    r"""Learned embeddings of when a memory was written, for its input and its output side.

    $m_i = \sum_j A x_{ij} + T_A(i)$ and $c_i = \sum_j C x_{ij} + T_C(i)$, memories counted
    from the latest back (Sukhbaatar et al. 2015, section 4.1).

    Args:
        max_memories: number of memories, 1 or more.
        dim: width, 1 or more.
        std: standard deviation of the initial embeddings, 0.1 in the paper.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> encoder = TemporalEncoder(50, 20)
        >>> memories, outputs = encoder(torch.zeros(10, 20), torch.zeros(10, 20))
        >>> memories.shape
        torch.Size([10, 20])
    """

    def __init__(
        self,
        max_memories: int,
        dim: int,
        *,
        std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(dim, dim)
        self.input_codes = LearnedPositionEncoder(max_memories, dim, std=std, generator=generator)
        self.output_codes = LearnedPositionEncoder(max_memories, dim, std=std, generator=generator)

    def forward(
        self,
        inputs: Float[Tensor, "*batch memories dim"],
        outputs: Float[Tensor, "*batch memories dim"],
        *,
        lengths: Int[Tensor, "*batch"] | None = None,
    ) -> tuple[Float[Tensor, "*batch memories dim"], Float[Tensor, "*batch memories dim"]]:
        """Add $T_A$ and $T_C$ to the embedded memories.

        Args:
            inputs: memories embedded by A, in the order they were written.
            outputs: the same embedded by C.
            lengths: number of memories of each story, if shorter ones are padded at the end. The
                padding is left as it is. None: all memories count.

        Returns:
            Both with their embeddings added; the last memory has embedding 0.

        Raises:
            ValueError: If there are more memories than embeddings, or the lengths do not fit.
        """
        count = inputs.shape[-2]
        tables = [codes.table(count) for codes in (self.input_codes, self.output_codes)]
        if lengths is None:
            added = [table.flip(0) for table in tables]
        else:
            _require_lengths(lengths, inputs)
            # Count back from the last memory of each story. Padding is negative and gets code 0.
            age = lengths[..., None] - 1 - torch.arange(count, device=inputs.device)
            is_memory = (age >= 0)[..., None]
            added = [table[age.clamp(min=0)] * is_memory for table in tables]
        return inputs + added[0].to(inputs), outputs + added[1].to(outputs)


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
