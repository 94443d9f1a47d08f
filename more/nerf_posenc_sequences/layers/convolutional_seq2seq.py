"""ConvS2S: gated convolutions, and attention in every decoder layer (Gehring et al. 2017)."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.layers.attention import RecordedAttention
from nerf_posenc_sequences.layers.convolution import SHRINK, GatedConvolution
from nerf_posenc_sequences.layers.positions import AddedPositions
from nerf_posenc_sequences.layers.seq2seq import Memory, Seq2Seq, is_symbol
from nerf_posenc_sequences.layers.weights import initialize

PLACEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "none": "no positions",
        "encoder": "learned embeddings, added in the encoder",
        "decoder": "learned embeddings, added in the decoder",
        "both": "learned embeddings, added on both sides (Gehring et al. 2017)",
        "sinusoidal": "sinusoidal embeddings, added on both sides (Vaswani et al. 2017)",
    }
)
"""Where positions are added (Gehring et al. 2017, table 4), with descriptions."""

_BY_SIDE = {
    "none": ("none", "none"),
    "encoder": ("learned", "none"),
    "decoder": ("none", "learned"),
    "both": ("learned", "learned"),
    "sinusoidal": ("sinusoidal", "sinusoidal"),
}


class ConvolutionalSeq2Seq(Seq2Seq):
    """Encoder and decoder of gated convolutions (Gehring et al. 2017, section 3).

    Embeddings have variance 1 and the scores of the attention are divided by sqrt(width), as in a
    Transformer, where the paper draws embeddings with a standard deviation of 0.1. Left out are
    weight normalization, dropout and the scaling of the encoder's gradients by the number of
    attentions, which hardly matters to Adam and Muon: they step alike at any scale of a gradient.

    Args:
        num_source_symbols: size of the source's alphabet.
        num_target_symbols: size of the target's.
        placement: one of ``PLACEMENTS``.
        width: width of the embeddings and layers.
        depth: layers of the encoder, and of the decoder.
        max_lengths: longest source and target.
        kernel_size: symbols that a layer sees; odd.
        position_std: standard deviation of the initial position embeddings.
        generator: random number generator of the initial weights.
    """

    def __init__(
        self,
        num_source_symbols: int,
        num_target_symbols: int,
        placement: str,
        generator: torch.Generator,
        *,
        width: int,
        depth: int,
        max_lengths: tuple[int, int],
        kernel_size: int = 3,
        position_std: float = 0.1,
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.source_embedding = nn.Embedding(num_source_symbols, width)
        self.target_embedding = nn.Embedding(num_target_symbols, width)
        self.encoder_input, self.encoder_output, self.decoder_input, self.decoder_output = (
            nn.Linear(width, width) for _ in range(4)
        )
        self.encoder = nn.ModuleList(
            GatedConvolution(width, kernel_size, is_causal=False) for _ in range(depth)
        )
        self.decoder = nn.ModuleList(DecoderLayer(width, kernel_size) for _ in range(depth))
        self.output = nn.Linear(width, num_target_symbols)
        initialize(self, generator)
        self.source_positions, self.target_positions = (
            AddedPositions(encoding, width, length, generator, std=position_std)
            for encoding, length in zip(_BY_SIDE[placement], max_lengths, strict=True)
        )

    def encode(self, source: Int[Tensor, "batch source"]) -> Memory:
        """Keys and values of the attention, and where the source has symbols."""
        mask = is_symbol(source)
        embedded = self.source_positions(self.source_embedding(source) * self.scale)
        # The convolutions pad with zeros beyond the longest source of a batch.
        is_padding = ~mask[..., None]
        x = self.encoder_input(embedded).masked_fill(is_padding, 0)
        for layer in self.encoder:
            x = layer(x).masked_fill(is_padding, 0)
        keys = self.encoder_output(x)
        return keys, (keys + embedded) * SHRINK, mask

    def decode(
        self, target: Int[Tensor, "batch target"], memory: Memory
    ) -> Float[Tensor, "batch target symbols"]:
        """Logits of the symbol after each one of the target."""
        keys, values, mask = memory
        embedded = self.target_positions(self.target_embedding(target) * self.scale)
        x = self.decoder_input(embedded)
        for layer in self.decoder:
            x = layer(x, embedded, keys, values, mask)
        logits: Tensor = self.output(self.decoder_output(x))
        return logits

    def source_attentions(self) -> list[RecordedAttention]:
        """Attention of the decoder to the source, by layer."""
        return [layer.attention for layer in self.decoder if isinstance(layer, DecoderLayer)]


class DecoderLayer(nn.Module):
    """Causal gated convolution, then attention to the source, each with a residual connection.

    Sums of two are multiplied by sqrt(0.5), which keeps their variance (Gehring et al. 2017,
    section 3.4).

    Args:
        width: width of the embeddings and the layer.
        kernel_size: symbols that it sees.
    """

    def __init__(self, width: int, kernel_size: int) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width, kernel_size, is_causal=True)
        self.attention = SourceAttention(width)

    def forward(
        self,
        x: Float[Tensor, "batch target width"],
        embedded: Float[Tensor, "batch target width"],
        keys: Float[Tensor, "batch source width"],
        values: Float[Tensor, "batch source width"],
        mask: Bool[Tensor, "batch source"],
    ) -> Float[Tensor, "batch target width"]:
        """Run the layer.

        Args:
            x: output of the layer before.
            embedded: embeddings of the target.
            keys: keys of the source.
            values: values of the source.
            mask: True where the source has symbols.
        """
        hidden = self.convolution.gated(x)
        hidden = (hidden + self.attention(hidden, embedded, keys, values, mask)) * SHRINK
        output: Tensor = (hidden + x) * SHRINK
        return output


class SourceAttention(RecordedAttention):
    """Attention of one decoder layer to the source (Gehring et al. 2017, section 3.3).

    A query is a projection of the layer's state plus the embedding of the previous target symbol;
    keys are the encoder's outputs, values their sums with the source's embeddings. The mean over m
    symbols is multiplied by sqrt(m), which keeps the variance of m equal weights. Scores are
    divided by sqrt(width).

    Args:
        width: width of the embeddings and the layer.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(
        self,
        hidden: Float[Tensor, "batch target width"],
        embedded: Float[Tensor, "batch target width"],
        keys: Float[Tensor, "batch source width"],
        values: Float[Tensor, "batch source width"],
        mask: Bool[Tensor, "batch source"],
    ) -> Float[Tensor, "batch target width"]:
        """Attend."""
        queries = (self.query(hidden) + embedded) * SHRINK
        scores = queries @ keys.mT / math.sqrt(keys.shape[-1])
        scores = scores.masked_fill(~mask[:, None], -torch.inf)
        weights = scores.softmax(-1)
        self.record(weights)
        num_symbols = mask.sum(-1)[:, None, None].to(values.dtype)
        mixed: Tensor = self.output(weights @ values * num_symbols.sqrt())
        return mixed
