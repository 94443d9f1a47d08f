"""Sentences of English docstrings as words, without the names of the libraries."""

import random
import re
from collections.abc import Iterator, Sequence

from sequences.data.types import Labeled, Words

LIBRARY_NAMES = ("torch", "pytorch", "numpy", "np", "skimage", "scikit", "scikit-image")
"""Dropped from sentences, in any case and with the period of a dotted name."""

_FEWEST, _MOST = 5, 40
_SEED = 0

_ROLE = re.compile(r":[a-z:]+:(?=`)")
_TARGET = re.compile(r"\s*<[^<>`]*>(?=`)")
_NAMES = re.compile(
    rf"\b(?:{'|'.join(sorted(LIBRARY_NAMES, key=len, reverse=True))})\b(?:\.(?=\w))?", re.IGNORECASE
)
# A parameter's name and type, a heading's underline, a directive or field, a table, a prompt.
_NO_PROSE = re.compile(r"\s*(?:[\w*, .]+ : |[-=~^*+#]{3,}|\.\. |:[a-z]+|\||>>>|\.\.\.|.*::$)")
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9_]+(?:'[a-z]+)?|[^\s\w]")


def sentences(docstring: str) -> Iterator[Words]:
    """Sentences of 5 to 40 words, in lower case, with punctuation marks as words of their own.

    Args:
        docstring: without common indentation. Headings, parameter types, directives and tables
            end a sentence and are left out.
    """
    for paragraph in _paragraphs(docstring):
        plain = _TARGET.sub("", _ROLE.sub("", paragraph)).replace("`", "").replace("~", "")
        for sentence in _END.split(plain):
            if not (sentence[:1].isupper() and sentence.endswith((".", "!", "?"))):
                continue
            words = tuple(_WORD.findall(_NAMES.sub("", sentence).lower()))
            if _FEWEST <= len(words) <= _MOST:
                yield words


def _paragraphs(docstring: str) -> Iterator[str]:
    """Adjacent lines of prose of the same indentation, joined by spaces."""
    lines: list[str] = []
    indentation = -1
    for line in [*docstring.split("\n"), ""]:
        stripped = line.strip()
        prose = bool(stripped) and _NO_PROSE.match(line) is None
        now = len(line) - len(line.lstrip())
        if lines and (not prose or now != indentation):
            yield " ".join(lines)
            lines = []
        if prose:
            lines.append(stripped)
            indentation = now


def balanced(labeled: Sequence[Labeled], at_most: int) -> list[Labeled]:
    """Equally many different sentences per label, in the order given, drawn by a fixed seed.

    Args:
        labeled: labels and sentences; repeated ones count once.
        at_most: sentences per label.
    """
    of_label: dict[str, list[Labeled]] = {}
    for label, words in dict.fromkeys(labeled):
        of_label.setdefault(label, []).append((label, words))
    count = min([at_most, *(len(group) for group in of_label.values())])
    rng = random.Random(_SEED)
    return [
        group[index]
        for group in of_label.values()
        for index in sorted(rng.sample(range(len(group)), count))
    ]
