"""Sentences of prose as words."""

import random
import re
from collections.abc import Iterator, Sequence

from nerf_posenc_sequences.data.types import Labeled, Words

# Words of a sentence: shorter ones are headings, longer ones lists.
_FEWEST = 5
_MOST = 40
_SEED = 0

# The underline of a heading, a rule of grammar, a row of a table, a prompt.
_NO_PROSE = re.compile(r"\s*(?:[-=~^*+#]{3,}|.*::=|\||>>>|\.\.\.)")
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9_]+(?:'[a-z]+)?|[^\s\w]")


def sentences(text: str) -> Iterator[Words]:
    """Sentences of 5 to 40 words, in lower case, with punctuation marks as words of their own.

    Args:
        text: paragraphs; headings, grammar, tables and code end a sentence and are left out.
    """
    for paragraph in _paragraphs(text):
        for sentence in _END.split(paragraph):
            if not (sentence[:1].isupper() and sentence.endswith((".", "!", "?"))):
                continue
            words = tuple(_WORD.findall(sentence.lower()))
            if _FEWEST <= len(words) <= _MOST:
                yield words


def _paragraphs(text: str) -> Iterator[str]:
    """Adjacent lines of prose of the same indentation, joined by spaces."""
    lines: list[str] = []
    indentation = -1
    for line in [*text.split("\n"), ""]:
        stripped = line.strip()
        prose = bool(stripped) and _NO_PROSE.match(line) is None
        now = len(line) - len(line.lstrip())
        if lines and (not prose or now != indentation):
            yield " ".join(lines)
            lines = []
        if prose:
            lines.append(stripped)
            indentation = now


def balanced(labeled: Sequence[Labeled]) -> list[Labeled]:
    """Equally many different sentences per label, in the order given, drawn by a fixed seed.

    Args:
        labeled: labels and sentences; repeated ones count once, under their first label.
    """
    first = {words: label for label, words in reversed(labeled)}
    of_label: dict[str, list[Labeled]] = {}
    for label, words in dict.fromkeys(labeled):
        if first[words] == label:
            of_label.setdefault(label, []).append((label, words))
    count = min(len(group) for group in of_label.values())
    rng = random.Random(_SEED)
    return [
        group[index]
        for group in of_label.values()
        for index in sorted(rng.sample(range(len(group)), count))
    ]
