"""Multi-head attention and the Transformer's layer (Vaswani et al. 2017, section 3)."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nerf_posenc_sequences.layers.positions import AttentionPositions

Mask = Bool[Tensor, "*#batch #queries #keys"]


class RecordedAttention(nn.Module):
    """Attention that can keep its weights for a report.

    Attributes:
        is_recording: whether it keeps them.
        recorded: weights of the last pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_recording = False
        self.recorded: Tensor | None = None

    def record(self, weights: Float[Tensor, "batch *heads queries keys"]) -> None:
        """Keep weights if they are to be kept."""
        if self.is_recording:
            self.recorded = weights.detach()


class Attention(RecordedAttention):
    """Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

    Args:
        width: width of the embeddings, a multiple of ``num_heads``.
        num_heads: number of heads.
        positions: positions of self-attention; None for attention to another sequence.
    """

    def __init__(
        self, width: int, num_heads: int, positions: AttentionPositions | None = None
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.positions = positions

    def forward(
        self,
        x: Float[Tensor, "batch queries width"],
        memory: Float[Tensor, "batch keys width"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Attend.

        Args:
            x: embeddings that ask.
            memory: embeddings that are attended to; None is ``x``.
            mask: True where a query may attend to a key.
        """
        queries = self._heads(self.queries(x))
        attended = self.keys_values(x if memory is None else memory)
        keys, values = (self._heads(part) for part in attended.chunk(2, -1))
        bias = None
        if self.positions is not None:
            queries, keys = self.positions.rotate(queries, keys)
            bias = self.positions.bias(x.shape[-2])
        scores = queries @ keys.mT / math.sqrt(values.shape[-1])
        if bias is not None:
            scores = scores + bias.to(scores)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -torch.inf)
        weights = scores.softmax(-1)
        self.record(weights)
        mixed: Tensor = self.output((weights @ values).transpose(-3, -2).flatten(-2))
        return mixed

    def _heads(self, x: Tensor) -> Tensor:
        """Split ``(batch, length, width)`` into ``(batch, heads, length, width / heads)``."""
        heads: Tensor = x.unflatten(-1, (self.num_heads, -1))
        return heads.transpose(-3, -2)


class TransformerLayer(nn.Module):
    """Self-attention, attention to a memory in a decoder, and a feed-forward network.

    Args:
        width: width of the embeddings.
        num_heads: attention heads.
        positions: positions of the self-attention.
        has_memory: whether it attends to an encoder's output as well.
        norm_first: normalize the input of each part (Baevski and Auli 2019) instead of the sum of
            its input and output (Vaswani et al. 2017).
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        positions: AttentionPositions,
        *,
        has_memory: bool = False,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, num_heads, positions)
        self.cross_attention = Attention(width, num_heads) if has_memory else None
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if has_memory else 2))

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        mask: Bool[Tensor, "*#batch #length #length"] | None = None,
        memory: Float[Tensor, "batch keys width"] | None = None,
        memory_mask: Bool[Tensor, "*#batch #length #keys"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Run the layer; masks are True where a query may attend to a key."""
        x = self._add(x, 0, lambda y: self.attention(y, mask=mask))
        if self.cross_attention is not None:
            cross = self.cross_attention
            x = self._add(x, 1, lambda y: cross(y, memory, memory_mask))
        return self._add(x, len(self.norms) - 1, self.feed_forward)

    def _add(self, x: Tensor, index: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Residual connection around a part, normalized before or after it."""
        norm = self.norms[index]
        added: Tensor = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return added


def causal_mask(length: int, device: torch.device) -> Bool[Tensor, "1 length length"]:
    """Each position attends to itself and those before it."""
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril()
