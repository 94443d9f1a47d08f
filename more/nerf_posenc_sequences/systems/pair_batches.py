"""Pairs of sequences as padded tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc_sequences.data.types import Pair, Pairs, Words
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.layers.seq2seq import BEGIN, END, PADDING
from nerf_posenc_sequences.layers.symbol_loss import IGNORED
from nerf_posenc_sequences.layers.vocabulary import Vocabulary

MAX_LENGTH = 256
"""Most symbols of a source or a target."""

_SPECIALS = ("<padding>", "<begin>", "<end>", "<unknown>")


def require_lengths(data: Pairs) -> None:
    """Refuse data without pairs, and pairs that are too long.

    Raises:
        SequenceError: If there are none to train or to test on, or one has a sequence of more than
            ``MAX_LENGTH`` symbols.
    """
    for name, pairs in (("train", data.train), ("test", data.test)):
        if not pairs:
            raise SequenceError(f"{data.source}: no pairs to {name} on; give more pairs")
    for pair in (*data.train, *data.test, *data.longer):
        longest = max(pair, key=len)
        if len(longest) > MAX_LENGTH:
            raise SequenceError(
                f"{data.source}: a pair has a sequence of {len(longest):,} symbols, "
                f"{' '.join(longest[:5])} ..., and the most are {MAX_LENGTH}; shorten or remove it"
            )


def symbols_of(sequences: Iterable[Words]) -> Vocabulary:
    """Vocabulary of one side: four special symbols, then all that occur in training, sorted."""
    symbols = sorted({symbol for words in sequences for symbol in words})
    return Vocabulary(symbols, specials=_SPECIALS)


def until_end(numbers: Sequence[int]) -> Sequence[int]:
    """Symbols that were decoded before the first ``END``."""
    return numbers[: numbers.index(END)] if END in numbers else numbers


@dataclass(frozen=True)
class PairTensors:
    """Pairs as indices.

    Attributes:
        source: symbols and ``END``, padded.
        target: ``BEGIN`` and symbols, padded.
        following: the symbol after each of ``target``, the last one ``END``; ``IGNORED`` for
            padding.
    """

    source: Int[Tensor, "pairs source"]
    target: Int[Tensor, "pairs target"]
    following: Int[Tensor, "pairs target"]

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, index: Tensor | slice) -> "PairTensors":
        """Some of the pairs."""
        return PairTensors(self.source[index], self.target[index], self.following[index])


def pair_tensors(
    pairs: Sequence[Pair], source_vocabulary: Vocabulary, target_vocabulary: Vocabulary
) -> PairTensors:
    """Encode pairs, padded to the longest of them.

    Args:
        pairs: one or more.
        source_vocabulary: vocabulary of the sources.
        target_vocabulary: vocabulary of the targets.
    """
    sources = [[*source_vocabulary.encode(source), END] for source, _ in pairs]
    targets = [target_vocabulary.encode(target) for _, target in pairs]
    return PairTensors(
        _padded(sources, PADDING),
        _padded([[BEGIN, *target] for target in targets], PADDING),
        _padded([[*target, END] for target in targets], IGNORED),
    )


def _padded(rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "rows longest"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


class PairBatches:
    """Batches without replacement; each pass over the pairs has its own order.

    Args:
        pairs: pairs of training.
        batch_size: pairs in a batch; all if there are fewer.
        seed: random seed of the orders.
    """

    def __init__(self, pairs: PairTensors, batch_size: int, *, seed: int) -> None:
        self._pairs = pairs
        index = torch.arange(len(pairs))
        self._draw_index = ShuffledBatches(index, index, batch_size, seed=seed)

    def __call__(self, step: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Sources and targets of one step, and what follows."""
        batch = self._pairs.rows(self._draw_index(step)[0])
        return (batch.source, batch.target), batch.following
