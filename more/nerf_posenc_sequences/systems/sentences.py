"""Sentences as sums of embedded words."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc_attention.memory_networks import MemN2NPositionEncoder


class SentenceEncoder(nn.Module):
    """Bags of words, or words weighted by their position in the sentence before they are summed.

    The sum is computed as the product of a table of embeddings with the weighted counts of words.
    Position weights are linear in the column, so that every column mixes those of the first and
    the last. It has no weights of its own, and padding embeds to 0.

    Args:
        width: width of the embeddings, 2 or more.
        max_words: most words in a sentence, 1 or more.
        position_scale: factor of the position weights
            (`MemN2NPositionEncoder`); None is a bag of words.
    """

    _weights: Tensor
    _mix: Tensor

    def __init__(self, width: int, max_words: int, position_scale: int | float | None) -> None:
        super().__init__()
        self.width = width
        parts = 1 if position_scale is None else 2
        weights = torch.zeros(max_words + 1, parts, max_words)
        for length in range(1, max_words + 1):
            if position_scale is None:
                weights[length, :, :length] = 1
            else:
                table = MemN2NPositionEncoder(width, scale=float(position_scale)).table(length)
                weights[length, :, :length] = table[:, [0, -1]].T
        last = torch.linspace(0, 1, width)
        mix = torch.ones(1, width) if position_scale is None else torch.stack([1 - last, last])
        self.register_buffer("_weights", weights, persistent=False)
        self.register_buffer("_mix", mix, persistent=False)

    def forward(
        self, words: Int[Tensor, "*batch words"], *tables: Float[Tensor, "vocabulary width"]
    ) -> tuple[Float[Tensor, "*batch width"], ...]:
        """Embed sentences.

        Args:
            words: indices of words from 1; 0 is padding, at the end.
            tables: embeddings without a row for padding.

        Returns:
            Sentences embedded by each table.
        """
        weights = self._weights[(words > 0).sum(-1)]
        parts = len(self._mix)
        places = words[..., None, :].expand(*words.shape[:-1], parts, words.shape[-1])
        counts = weights.new_zeros(*words.shape[:-1], parts, len(tables[0]) + 1)
        counts = counts.scatter_add(-1, places, weights)[..., 1:]
        columns = counts @ torch.cat(tables, 1)
        mix = self._mix.repeat(1, len(tables))
        embedded = columns[..., 0, :] if parts == 1 else (columns * mix).sum(-2)
        return tuple(torch.split(embedded, self.width, -1))
