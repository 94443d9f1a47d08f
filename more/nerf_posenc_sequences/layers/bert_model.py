"""The model of BERT (Devlin et al. 2019)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.layers.attention import TransformerLayer
from nerf_posenc_sequences.layers.positions import AddedPositions, AttentionPositions
from nerf_posenc_sequences.layers.weights import initialize


class BertModel(nn.Module):
    """Bidirectional Transformer over two parts of a text (Devlin et al. 2019, section 3).

    The embedding of a word is the sum of those of the word, its segment and its position. Masked
    words are predicted from the states at their positions, and whether the second part follows the
    first from the state of ``[CLS]``.

    Args:
        num_words: size of the vocabulary.
        encoding: ``"none"``, ``"position"``, ``"sinusoidal"`` or ``"segment"``, or a position with
            the segment, as ``"position-segment"``.
        generator: random number generator of the initial weights.
        width: width of the embeddings.
        depth: layers.
        num_heads: attention heads.
        length: words of both parts with ``[CLS]`` and ``[SEP]``.
    """

    def __init__(
        self,
        num_words: int,
        encoding: str,
        generator: torch.Generator,
        *,
        width: int,
        depth: int,
        num_heads: int,
        length: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, width)
        self.segments = nn.Embedding(2, width) if "segment" in encoding else None
        attention = AttentionPositions(
            "none", width // num_heads, num_heads, generator, is_causal=False
        )
        self.layers = nn.ModuleList(
            TransformerLayer(width, num_heads, attention) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width))
        self.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
        initialize(self, generator)
        added = "learned" if "position" in encoding else encoding.partition("-")[0]
        self.positions = AddedPositions(added, width, length, generator)

    def forward(
        self,
        inputs: tuple[
            Int[Tensor, "batch length"], Int[Tensor, "batch length"], Int[Tensor, "batch masked"]
        ],
    ) -> tuple[Float[Tensor, "batch masked words"], Float[Tensor, "batch 2"]]:
        """Logits of the masked words, and of whether the second part follows the first.

        Args:
            inputs: words, the segment 0 or 1 of each, and the positions of the masked ones.
        """
        words, segments, masked = inputs
        scale = math.sqrt(self.embedding.embedding_dim)
        x = self.embedding(words) * scale
        if self.segments is not None:
            x = x + self.segments(segments) * scale
        x = self.positions(x)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        states = x.gather(1, masked[..., None].expand(*masked.shape, x.shape[-1]))
        logits = self.transform(states) @ self.embedding.weight.T
        return logits, self.pooler(x[:, 0])
