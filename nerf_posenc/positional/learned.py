"""Position codes other than sinusoids: trained tables, and the memory networks' own."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.core.checks import require_counts, require_embeddings


class LearnedPositionEncoder(nn.Module):
    """A trained code for each position (Gehring et al. 2017, ConvS2S; Devlin et al. 2019, BERT).

    Args:
        max_length: number of positions, 1 or more.
        dim: width of a code, 1 or more.
        std: standard deviation of the first codes: 0.02 as BERT has it, 0.1 as ConvS2S.
        generator: to draw them from; None is torch's own.

    Raises:
        ValueError: where an argument is out of its range.

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
        super().__init__()
        require_counts(max_length=max_length, dim=dim)
        if not std > 0:
            raise ValueError(f"std must be positive; got {std}")
        self.codes = nn.Parameter(torch.empty(max_length, dim).normal_(0, std, generator=generator))

    @property
    def in_dim(self) -> int:
        """Number of coordinates: one, the position."""
        return 1

    @property
    def out_dim(self) -> int:
        """Width of a code."""
        return self.codes.shape[1]

    @property
    def max_length(self) -> int:
        """Number of positions."""
        return self.codes.shape[0]

    def forward(self, positions: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Look codes up.

        Args:
            positions: integers from 0 to ``max_length - 1``, any batch shape.

        Returns:
            The codes' rows.

        Raises:
            ValueError: where a position has no code (checked on the CPU, where looking does
                not hold up a device, and outside of compiled code).
        """
        if (
            positions.device.type == "cpu"
            and not torch.compiler.is_compiling()
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
        self, length: int, *, offset: int = 0, interpolate: bool = False
    ) -> Float[Tensor, "length dim"]:
        """Codes of ``length`` positions from ``offset`` on.

        Args:
            length: number of positions, 0 or more.
            offset: the first position.
            interpolate: stretch all codes linearly over ``length`` positions, ends on ends,
                for sequences longer than were trained on.

        Returns:
            One row a position.

        Raises:
            ValueError: where a position has no code and ``interpolate`` is not asked for.
        """
        if interpolate:
            if length < 1 or offset != 0:
                raise ValueError(
                    f"interpolate needs a length of 1 or more and no offset; got {length}, {offset}"
                )
            stretched = F.interpolate(
                self.codes.T[None], size=length, mode="linear", align_corners=True
            )
            return stretched[0].T
        if length < 0 or offset < 0 or offset + length > self.max_length:
            raise ValueError(
                f"positions {offset} to {offset + length - 1} are not all among the "
                f"{self.max_length} learned ones; make the table longer, or ask for "
                "interpolate=True"
            )
        return self.codes[offset : offset + length]

    def extra_repr(self) -> str:
        """Show the size of the table."""
        return f"max_length={self.max_length}, dim={self.out_dim}"


class MemN2NPositionEncoder(nn.Module):
    r"""Weights that tell a sentence's words apart before they are summed.

    $l_{kj} = (1 - j/J) - (k/d)(1 - 2j/J)$ for word $j = 1 \dots J$ and column
    $k = 1 \dots d$, multiplied with the word's embedding (Sukhbaatar et al. 2015, End-To-End
    Memory Networks, section 4.1). Unlike the other codes it depends on the length J.

    Args:
        dim: width d of the embeddings, 1 or more.

    Raises:
        ValueError: where ``dim`` is below 1.

    Examples:
        >>> MemN2NPositionEncoder(2).table(2)
        tensor([[0.5000, 0.5000],
                [0.5000, 1.0000]])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        require_counts(dim=dim)
        self.out_dim = dim

    def table(self, length: int) -> Float[Tensor, "length dim"]:
        """Weights of the words of a sentence.

        Args:
            length: number of words J, 1 or more.

        Returns:
            One row a word, in the default floating-point type.

        Raises:
            ValueError: where ``length`` is below 1.
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
            ValueError: where the width is not ``dim``.
        """
        require_embeddings(embeddings, self.out_dim)
        return embeddings * self.table(embeddings.shape[-2]).to(embeddings)

    def extra_repr(self) -> str:
        """Show the width."""
        return f"dim={self.out_dim}"


class TemporalEncoder(nn.Module):
    r"""Trained codes of when a memory was written, for its input and its output side.

    $m_i = \sum_j A x_{ij} + T_A(i)$ and $c_i = \sum_j C x_{ij} + T_C(i)$, memories counted
    from the latest back (Sukhbaatar et al. 2015, section 4.1).

    Args:
        max_memories: number of memories, 1 or more.
        dim: width, 1 or more.
        std: standard deviation of the first codes, 0.1 in the paper.
        generator: to draw them from; None is torch's own.

    Raises:
        ValueError: where an argument is out of its range.

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
        super().__init__()
        self.input_codes = LearnedPositionEncoder(max_memories, dim, std=std, generator=generator)
        self.output_codes = LearnedPositionEncoder(max_memories, dim, std=std, generator=generator)

    @property
    def out_dim(self) -> int:
        """Width of a code."""
        return self.input_codes.out_dim

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
            Both with their codes added, the last memory having code 0.

        Raises:
            ValueError: where there are more memories than codes.
        """
        count = inputs.shape[-2]
        return (
            inputs + self.input_codes.table(count).flip(0).to(inputs),
            outputs + self.output_codes.table(count).flip(0).to(outputs),
        )
