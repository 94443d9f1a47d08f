"""Position and temporal encodings of end-to-end memory networks."""

import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.encoder import Encoder, require_counts, require_embeddings
from nerf_posenc.positional.learned import LearnedPositionEncoder


class MemN2NPositionEncoder(Encoder):
    r"""Position weights of a sentence's words, applied before they are summed.

    $l_{kj} = (1 - j/J) - (k/d)(1 - 2j/J)$ for word $j = 1 \dots J$ and column
    $k = 1 \dots d$, multiplied with the word's embedding (Sukhbaatar et al. 2015, End-To-End
    Memory Networks, section 4.1). Unlike other encodings it depends on the length J.

    Args:
        dim: width d of the embeddings, 1 or more.

    Raises:
        ValueError: If ``dim`` is below 1.

    Examples:
        >>> MemN2NPositionEncoder(2).table(2)
        tensor([[0.5000, 0.5000],
                [0.5000, 1.0000]])
    """

    def __init__(self, dim: int) -> None:
        require_counts(dim=dim)
        super().__init__(dim, dim)

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
        word = torch.arange(1, length + 1, dtype=torch.float64)[:, None] / length
        column = torch.arange(1, self.out_dim + 1, dtype=torch.float64) / self.out_dim
        return ((1 - word) - column * (1 - 2 * word)).to(torch.get_default_dtype())

    def forward(
        self, embeddings: Float[Tensor, "*batch length dim"]
    ) -> Float[Tensor, "*batch length dim"]:
        """Multiply each word's embedding with its weights; the sum over words is the caller's.

        Args:
            embeddings: word embeddings, the last two dimensions being word and width.

        Returns:
            Weighted embeddings in their own type.

        Raises:
            ValueError: If the width is not ``dim``.
        """
        require_embeddings(embeddings, self.out_dim)
        return embeddings * self.table(embeddings.shape[-2]).to(embeddings)

    def extra_repr(self) -> str:
        """Show the width."""
        return f"dim={self.out_dim}"


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
    ) -> tuple[Float[Tensor, "*batch memories dim"], Float[Tensor, "*batch memories dim"]]:
        """Add $T_A$ and $T_C$ to the embedded memories.

        Args:
            inputs: memories embedded by A, in the order they were written.
            outputs: the same embedded by C.

        Returns:
            Both with their embeddings added; the last memory has embedding 0.

        Raises:
            ValueError: If there are more memories than embeddings.
        """
        count = inputs.shape[-2]
        return (
            inputs + self.input_codes.table(count).flip(0).to(inputs),
            outputs + self.output_codes.table(count).flip(0).to(outputs),
        )
