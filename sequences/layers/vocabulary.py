"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence


class Vocabulary:
    """The most frequent words of a text, after special symbols.

    Args:
        words: of the training data, with repetitions.
        specials: symbols that come first, such as padding.
        max_size: words that are kept, those that occur most often; ties in alphabetical order.

    Attributes:
        words: specials, ``"<unknown>"`` and the words, in the order of their numbers.
    """

    def __init__(
        self, words: Iterable[str], *, specials: Sequence[str] = (), max_size: int | None = None
    ) -> None:
        counts = Counter(words)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))[:max_size]
        self.words = [*specials, "<unknown>", *(w for w in ordered if w not in specials)]
        self._index = {word: i for i, word in enumerate(self.words)}
        self.unknown = len(specials)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, word: str) -> int:
        """Number of a word; that of ``"<unknown>"`` if it is not known."""
        return self._index.get(word, self.unknown)
