"""Models from a sequence of symbols to a distribution over symbols at each position."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.layers.attention import TransformerLayer, causal_mask
from nerf_posenc_sequences.layers.convolution import GatedConvolution
from nerf_posenc_sequences.layers.positions import AddedPositions, AttentionPositions
from nerf_posenc_sequences.layers.weights import initialize


class TransformerLM(nn.Module):
    """Transformer over symbols, bidirectional or causal (Vaswani et al. 2017).

    Layers normalize their inputs, as in Baevski and Auli 2019. The output weights are those of the
    embeddings.

    Args:
        num_symbols: size of the alphabet.
        encoding: one of the encodings of `positions`.
        width: width of the embeddings.
        depth: layers.
        num_heads: attention heads.
        max_length: longest sequence.
        is_causal: whether a position sees itself and earlier ones alone.
        generator: random number generator of the initial weights.
    """

    def __init__(
        self,
        num_symbols: int,
        encoding: str,
        generator: torch.Generator,
        *,
        width: int,
        depth: int,
        num_heads: int,
        max_length: int,
        is_causal: bool,
    ) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.embedding = nn.Embedding(num_symbols, width)
        attention = AttentionPositions(
            encoding, width // num_heads, num_heads, generator, is_causal=is_causal
        )
        self.layers = nn.ModuleList(
            TransformerLayer(width, num_heads, attention) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        initialize(self, generator)
        self.positions = AddedPositions(encoding, width, max_length, generator)

    def forward(
        self, symbols: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length symbols"]:
        """Logits of the symbol at each position, or in a causal model of the next one."""
        x = self.positions(self.embedding(symbols) * math.sqrt(self.embedding.embedding_dim))
        mask = causal_mask(symbols.shape[-1], symbols.device) if self.is_causal else None
        for layer in self.layers:
            x = layer(x, mask)
        logits: Tensor = self.norm(x) @ self.embedding.weight.T
        return logits


class ConvolutionalLM(nn.Module):
    """Stack of gated causal convolutions (Dauphin et al. 2017; Gehring et al. 2017).

    Args:
        num_symbols: size of the alphabet.
        encoding: an encoding that is added.
        width: width of the embeddings and layers.
        depth: layers.
        max_length: longest sequence.
        generator: random number generator of the initial weights.
        kernel_size: symbols that a layer sees.
    """

    def __init__(
        self,
        num_symbols: int,
        encoding: str,
        generator: torch.Generator,
        *,
        width: int,
        depth: int,
        max_length: int,
        kernel_size: int = 3,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, width)
        self.layers = nn.ModuleList(
            GatedConvolution(width, kernel_size, is_causal=True) for _ in range(depth)
        )
        self.output = nn.Linear(width, num_symbols)
        initialize(self, generator)
        self.positions = AddedPositions(encoding, width, max_length, generator, std=0.1)

    def forward(
        self, symbols: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length symbols"]:
        """Logits of the next symbol at each position."""
        x = self.positions(self.embedding(symbols) * math.sqrt(self.embedding.embedding_dim))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.output(x)
        return logits
