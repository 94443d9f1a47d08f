"""Symbols and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence


class Vocabulary:
    """Special symbols, then those of the training data.

    A symbol of the data that looks like a special one is not taken for it.

    Args:
        symbols: symbols of the training data, each once, in the order of their numbers.
        specials: what comes first, such as padding; the last stands for all unknown symbols.

    Attributes:
        symbols: all, in the order of their numbers.
        unknown: number of unknown symbols.
    """

    def __init__(self, symbols: Sequence[str], *, specials: Sequence[str]) -> None:
        self.symbols = (*specials, *symbols)
        self.unknown = len(specials) - 1
        self._index = {symbol: i for i, symbol in enumerate(symbols, len(specials))}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Numbers of symbols."""
        return [self._index.get(symbol, self.unknown) for symbol in symbols]

    def decode(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Symbols of numbers."""
        return tuple(self.symbols[number] for number in numbers)


def most_frequent(words: Iterable[str], most: int) -> list[str]:
    """Words that occur most often, ties in alphabetical order.

    Args:
        words: words of the training data, with repetitions.
        most: words that are kept.
    """
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))[:most]
