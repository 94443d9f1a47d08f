"""The language reference of Python's own help: text, and sentences labeled by topic.

``pydoc_data.topics`` is part of every Python: 79 topics, 465,000 characters in Python 3.11.
"""

import hashlib
import platform
import re
import unicodedata
from collections.abc import Iterator
from pydoc_data.topics import topics as _TOPICS

from nerf_posenc_sequences.data.sentences import balanced, sentences
from nerf_posenc_sequences.data.types import LabeledSentences, Text

# The largest topics that share few sentences.
LABELS = ("compound", "specialnames", "types")
_TEST_SHARE = 0.1
# Labeled sentences are so few that a tenth would say little.
_LABELED_TEST_SHARE = 0.25
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212\u2026", "''\"\"---.")


def open_topics() -> Text:
    """All topics in printable ASCII, one document each.

    Topics repeat each other: a paragraph is kept once, in the largest topic that has it. Whole
    topics, with a tenth of the characters at most, are for testing.
    """
    kept = _distinct()
    room, tested = _TEST_SHARE * sum(map(len, kept.values())), set[str]()
    for name in sorted(kept, key=lambda name: hashlib.sha256(name.encode()).digest()):
        if len(kept[name]) <= room:
            room -= len(kept[name])
            tested.add(name)
    return Text(
        name="topics",
        source=_source(),
        train=[text for name, text in kept.items() if name not in tested],
        test=[text for name, text in kept.items() if name in tested],
    )


def open_chapters() -> LabeledSentences:
    """Sentences of three large topics, labeled by topic.

    They have 5 to 40 words, in lower case. Every label has equally many different ones, of which a
    quarter, spread over the topic, is for testing.
    """
    kept = _distinct()
    labeled = balanced([(name, words) for name in LABELS for words in sentences(kept[name])])
    every = round(1 / _LABELED_TEST_SHARE)
    return LabeledSentences(
        name="chapters",
        source=f"sentences of the {_source()}",
        train=[each for i, each in enumerate(labeled) if i % every],
        test=[each for i, each in enumerate(labeled) if i % every == 0],
    )


def _source() -> str:
    return f"help topics of Python {platform.python_version()}"


def _distinct() -> dict[str, str]:
    """Text of each topic, the largest first, with each paragraph once."""
    met: set[str] = set()

    def unmet(text: str) -> Iterator[str]:
        for paragraph in plain_text(text).split("\n\n"):
            if paragraph not in met:
                met.add(paragraph)
                yield paragraph

    ordered = sorted(_TOPICS, key=lambda name: (-len(_TOPICS[name]), name))
    texts = {name: "\n\n".join(unmet(_TOPICS[name])) for name in ordered}
    return {name: f"{text}\n" for name, text in texts.items() if text.strip()}


def plain_text(text: str) -> str:
    """Printable ASCII of a text.

    Accents are dropped; other characters that are not ASCII become question marks.
    """
    lines = [line.rstrip() for line in text.translate(_TYPOGRAPHY).expandtabs().split("\n")]
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    letters = (c for c in unicodedata.normalize("NFKD", joined) if not unicodedata.combining(c))
    return "".join(c if c == "\n" or " " <= c <= "~" else "?" for c in letters)
