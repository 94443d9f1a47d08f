"""Position encodings in a Transformer: added, rotated or as a bias."""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc import SinusoidalEncoder
from nerf_posenc_attention import (
    FireBias,
    KerpleBias,
    LearnedPositionEncoder,
    PoPEEncoder,
    RotaryEncoder,
    T5RelativeBias,
    XPosEncoder,
    alibi_bias,
)

ADDED: Mapping[str, str] = MappingProxyType(
    {
        "none": "no positions",
        "sinusoidal": "sinusoidal embeddings, added (Vaswani et al. 2017)",
        "learned": "learned embeddings, added (Gehring et al. 2017)",
    }
)
"""Encodings that any model over embeddings can take."""

IN_ATTENTION: Mapping[str, str] = MappingProxyType(
    {
        "rotary": "queries and keys rotated (Su et al. 2021)",
        "xpos": "rotary with a decay by distance, for causal models (Sun et al. 2023)",
        "pope": "queries and keys as lengths at the angle of their position (Gopalakrishnan et al. "
        "2025)",
        "alibi": "attention biased linearly by distance (Press et al. 2022)",
        "t5": "a learned bias per bucket of distances (Raffel et al. 2020)",
        "kerple": "a learned logarithmic bias (Chi et al. 2022)",
        "fire": "a bias that a small network learns (Li et al. 2024)",
    }
)
"""Encodings that act within attention."""

ENCODINGS: Mapping[str, str] = MappingProxyType({**ADDED, **IN_ATTENTION})
"""Encodings of a Transformer by name, with descriptions."""


class AddedPositions(nn.Module):
    """Position embeddings that are added to the symbols' embeddings.

    Args:
        encoding: one of ``ADDED``; any other adds nothing.
        width: width of the embeddings.
        max_length: number of learned embeddings.
        std: standard deviation of the initial learned embeddings; by default that of sinusoidal
            ones, so that beside embeddings of variance 1 they are as visible to attention from the
            first step on.
        generator: random number generator of the learned embeddings.
    """

    def __init__(
        self,
        encoding: str,
        width: int,
        max_length: int,
        generator: torch.Generator,
        *,
        std: float = 0.7,
    ) -> None:
        super().__init__()
        self.max_length = max_length
        self.learned: LearnedPositionEncoder | None = None
        self.register_buffer("table", None, persistent=False)
        if encoding == "learned":
            self.learned = LearnedPositionEncoder(max_length, width, std=std, generator=generator)
        elif encoding == "sinusoidal":
            # As a buffer, so that a step does not compute it again.
            self.table = SinusoidalEncoder(width).table(max_length)

    def forward(
        self, embeddings: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length width"]:
        """Add the embeddings of positions 0, 1, ... along the last but one dimension.

        Raises:
            ValueError: If the sequence is longer than ``max_length``.
        """
        length = embeddings.shape[-2]
        if length > self.max_length:
            raise ValueError(
                f"a sequence of {length} symbols is longer than the {self.max_length} positions "
                "that the model has embeddings for"
            )
        if self.learned is not None:
            return embeddings + self.learned.codes[:length]
        return embeddings if self.table is None else embeddings + self.table[:length]


class AttentionPositions(nn.Module):
    """Positions within self-attention: rotated queries and keys, or biased scores.

    Args:
        encoding: one of ``IN_ATTENTION``; any other does nothing.
        head_dim: width of a head.
        num_heads: number of heads.
        is_causal: whether queries attend to earlier positions alone.
        generator: random number generator of KERPLE's weights; those of the others are layers,
            which `initialize` draws.
    """

    def __init__(
        self,
        encoding: str,
        head_dim: int,
        num_heads: int,
        generator: torch.Generator,
        *,
        is_causal: bool,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.num_heads = num_heads
        self.rotation: RotaryEncoder | PoPEEncoder | None = None
        self.learned_bias: nn.Module | None = None
        if encoding == "rotary":
            self.rotation = RotaryEncoder(head_dim)
        elif encoding == "xpos":
            self.rotation = XPosEncoder(head_dim)
        elif encoding == "pope":
            self.rotation = PoPEEncoder(head_dim, num_heads)
        elif encoding == "t5":
            self.learned_bias = T5RelativeBias(num_heads, bidirectional=not is_causal)
        elif encoding == "kerple":
            self.learned_bias = KerpleBias(num_heads, generator=generator)
        elif encoding == "fire":
            self.learned_bias = FireBias(num_heads)

    def rotate(
        self, queries: Float[Tensor, "*batch length dim"], keys: Float[Tensor, "*batch length dim"]
    ) -> tuple[Float[Tensor, "*batch length rotated"], Float[Tensor, "*batch length rotated"]]:
        """Rotate the queries and keys of positions 0, 1, ...; PoPE doubles their width."""
        if self.rotation is None:
            return queries, keys
        positions = torch.arange(queries.shape[-2], device=queries.device)
        if isinstance(self.rotation, (XPosEncoder, PoPEEncoder)):
            rotated = self.rotation.rotate(queries, positions)
            return rotated, self.rotation.rotate_keys(keys, positions)
        cosine, sine = self.rotation(positions)
        return (
            self.rotation.rotate_with(queries, cosine, sine),
            self.rotation.rotate_with(keys, cosine, sine),
        )

    def bias(self, length: int) -> Float[Tensor, "heads length length"] | None:
        """Bias of the scores of all queries and keys; None for no bias."""
        if self.encoding == "alibi":
            return alibi_bias(self.num_heads, length)
        if self.learned_bias is None:
            return None
        bias: Tensor = self.learned_bias(length)
        return bias
