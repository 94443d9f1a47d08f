"""Text files and tables of two columns, as UTF-8.

Which rows of a table are for testing depends on its content only: a tenth of the different
sources (or sentences), drawn by a fixed seed. Rows with the same source are on the same side.
"""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nerf_posenc_sequences.data.types import LabeledSentences, Pair, Pairs, Text
from nerf_posenc_sequences.errors import SequenceError

MAX_BYTES = 200_000_000
"""Most bytes of a file; a larger one is refused."""

_MAX_LABELS = 50
_SEED = 0

Row = tuple[str, str]


def read_text_file(path: Path) -> str:
    r"""Text of a UTF-8 file, with ``\n`` at the end of every line and without a byte order mark.

    Args:
        path: path of a file of at most ``MAX_BYTES``.

    Raises:
        SequenceError: If the file is missing, a folder, empty, too large or not UTF-8 text.
    """
    try:
        if path.is_dir():
            raise SequenceError(f"{path} is a folder; give the path of a text file in it")
        if path.exists() and not path.is_file():
            raise SequenceError(f"{path} is not a regular file; give the path of a text file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SequenceError(f"no file at {path}; give the path of a text file") from None
    except OSError as error:
        raise SequenceError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise SequenceError(
            f"{path} has more than {MAX_BYTES / 1e6:g} MB; give a part of it as a file"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SequenceError(
            f"{path} is not UTF-8 text (byte {error.start + 1}); save it with encoding UTF-8"
        ) from None
    if "\0" in text:
        raise SequenceError(f"{path} is a binary file (it has NUL bytes); give a UTF-8 text file")
    if not text.strip():
        raise SequenceError(f"{path} is empty; give a file with text in it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def open_text_file(path: Path) -> Text:
    """Text for a language model: the first 90% for training, the rest for testing.

    The cut is the line end nearest to 90% in the second half of the text. A text without one is
    cut at 90% of its characters. Blank lines at the start and the end are left out.

    Raises:
        SequenceError: If the file cannot be read or has a single character.
    """
    text = read_text_file(path).strip("\n")
    if len(text) < 2:
        raise SequenceError(f"{path} has one character; give at least two, to train and to test")
    cut = _cut(text)
    return Text(name=path.stem, source=str(path), train=[text[:cut]], test=[text[cut:]])


def _cut(text: str) -> int:
    """Number of characters for training."""
    ideal = max(len(text) * 9 // 10, 1)
    # With less than half of the text, a title could be all that is trained on.
    before = text.rfind("\n", (len(text) - 1) // 2, ideal) + 1
    after = text.find("\n", ideal) + 1
    cuts = [cut for cut in (before, after) if cut]
    return min(cuts, key=lambda cut: abs(cut - ideal), default=ideal)


def open_tsv(path: Path, *, labeled: bool | None) -> Pairs | LabeledSentences:
    """Table of two columns: pairs, one ``source<TAB>target`` per line, or ``label<TAB>sentence``.

    Args:
        path: path of the file.
        labeled: whether the first column is labels. None decides: it is labels if it has at most
            50 different values, each of one word, and at most half as many as lines.

    Raises:
        SequenceError: If the file cannot be read, or a line does not have two columns with words in
            them; for pairs, if all sources are the same; for labels, if there are fewer than two,
            or none with two different sentences.
    """
    rows = _rows(path, "source<TAB>target or label<TAB>sentence")
    if labeled is None:
        labeled = _is_labeled(rows)
    return _labeled(path, rows) if labeled else _pairs(path, rows)


def _is_labeled(rows: Sequence[Row]) -> bool:
    values = {first for first, _ in rows}
    return (
        len(values) <= _MAX_LABELS
        and 2 * len(values) <= len(rows)
        and all(len(value.split()) == 1 for value in values)
    )


def _rows(path: Path, columns: str) -> list[Row]:
    """Both columns of every line that is not blank, with single spaces between words."""
    rows = []
    for number, line in enumerate(read_text_file(path).split("\n"), start=1):
        if not line.strip():
            continue
        cells = [" ".join(cell.split()) for cell in line.split("\t")]
        if len(cells) != 2:
            raise SequenceError(
                f"{path}, line {number}: {len(cells)} column{'s' if len(cells) > 1 else ''} "
                f"instead of two; write {columns}"
            )
        if not all(cells):
            empty = "first" if not cells[0] else "second"
            raise SequenceError(
                f"{path}, line {number}: the {empty} column is empty; write {columns}"
            )
        rows.append((cells[0], cells[1]))
    return rows


def _pairs(path: Path, rows: Sequence[Row]) -> Pairs:
    sources = list(dict.fromkeys(source for source, _ in rows))
    if len(sources) < 2:
        raise SequenceError(
            f"{path} has one source only; give at least two different ones, to train and to test"
        )
    tested = set(random.Random(_SEED).sample(sources, max(1, len(sources) // 10)))
    train: list[Pair] = []
    test: list[Pair] = []
    for source, target in rows:
        pair = tuple(source.split()), tuple(target.split())
        (test if source in tested else train).append(pair)
    return Pairs(name=path.stem, source=str(path), train=train, test=test)


def _labeled(path: Path, rows: Sequence[Row]) -> LabeledSentences:
    labels = {label for label, _ in rows}
    if len(labels) < 2:
        raise SequenceError(
            f"{path} has one label only, {labels.pop()!r}; give sentences of at least two labels"
        )
    tested = _tested_sentences(rows)
    if not tested:
        raise SequenceError(
            f"{path} has no label with two different sentences; give more sentences per label, "
            "to train and to test"
        )
    train = [(label, tuple(words.split())) for label, words in rows if words not in tested]
    test = [(label, tuple(words.split())) for label, words in rows if words in tested]
    return LabeledSentences(name=path.stem, source=str(path), train=train, test=test)


def _tested_sentences(rows: Sequence[Row]) -> set[str]:
    """A tenth of the different sentences, but never all sentences of a label."""
    labels: dict[str, set[str]] = {}
    for label, sentence in rows:
        labels.setdefault(sentence, set()).add(label)
    for_training = Counter(label for of_sentence in labels.values() for label in of_sentence)
    tested: set[str] = set()
    for sentence in random.Random(_SEED).sample(list(labels), len(labels)):
        if len(tested) == max(1, len(labels) // 10):
            break
        if all(for_training[label] > 1 for label in labels[sentence]):
            tested.add(sentence)
            for_training.subtract(labels[sentence])
    return tested
