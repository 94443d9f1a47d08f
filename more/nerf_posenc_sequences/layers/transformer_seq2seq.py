"""The Transformer with encoder and decoder (Vaswani et al. 2017)."""

import math
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.layers.attention import (
    Attention,
    RecordedAttention,
    TransformerLayer,
    causal_mask,
)
from nerf_posenc_sequences.layers.positions import AddedPositions, AttentionPositions
from nerf_posenc_sequences.layers.seq2seq import Memory, Seq2Seq, is_symbol
from nerf_posenc_sequences.layers.weights import initialize


class TransformerSeq2Seq(Seq2Seq):
    """Encoder and decoder of attention layers (Vaswani et al. 2017, section 3).

    An encoding that is added is added to the embeddings of both sides; one within attention acts
    in the self-attention of both. The attention to the source has no positions. The output weights
    are those of the target's embeddings. There is no dropout.

    Args:
        num_source_symbols: size of the source's alphabet.
        num_target_symbols: size of the target's.
        encoding: one of the encodings of `positions`.
        width: width of the embeddings.
        depth: layers of the encoder, and of the decoder.
        num_heads: attention heads.
        max_lengths: longest source and target.
        norm_first: normalize the inputs of the layers instead of their sums with the outputs.
        generator: random number generator of the initial weights.
    """

    def __init__(
        self,
        num_source_symbols: int,
        num_target_symbols: int,
        encoding: str,
        generator: torch.Generator,
        *,
        width: int,
        depth: int,
        num_heads: int,
        max_lengths: tuple[int, int],
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.source_embedding = nn.Embedding(num_source_symbols, width)
        self.target_embedding = nn.Embedding(num_target_symbols, width)
        attention = partial(AttentionPositions, encoding, width // num_heads, num_heads, generator)
        layer = partial(TransformerLayer, width, num_heads, norm_first=norm_first)
        both, causal = attention(is_causal=False), attention(is_causal=True)
        self.encoder = nn.ModuleList(layer(both) for _ in range(depth))
        self.decoder = nn.ModuleList(layer(causal, has_memory=True) for _ in range(depth))
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) if norm_first else nn.Identity() for _ in range(2)
        )
        initialize(self, generator)
        self.source_positions, self.target_positions = (
            AddedPositions(encoding, width, length, generator) for length in max_lengths
        )

    def encode(self, source: Int[Tensor, "batch source"]) -> Memory:
        """Output of the encoder, and where the source has symbols."""
        mask = is_symbol(source)
        x = self.source_positions(self.source_embedding(source) * self.scale)
        for layer in self.encoder:
            x = layer(x, mask[:, None])
        return self.norms[0](x), mask

    def decode(
        self, target: Int[Tensor, "batch target"], memory: Memory
    ) -> Float[Tensor, "batch target symbols"]:
        """Logits of the symbol after each one of the target."""
        states, mask = memory
        x = self.target_positions(self.target_embedding(target) * self.scale)
        causal = causal_mask(target.shape[-1], target.device)
        for layer in self.decoder:
            x = layer(x, causal, states, mask[:, None])
        logits: Tensor = self.norms[1](x) @ self.target_embedding.weight.T
        return logits

    def encoder_attentions(self) -> list[Attention]:
        """Self-attention of the encoder, by layer."""
        layers = [layer for layer in self.encoder if isinstance(layer, TransformerLayer)]
        return [layer.attention for layer in layers]

    def source_attentions(self) -> list[RecordedAttention]:
        """Attention of the decoder to the source, by layer."""
        layers = [layer for layer in self.decoder if isinstance(layer, TransformerLayer)]
        return [layer.cross_attention for layer in layers if layer.cross_attention is not None]
