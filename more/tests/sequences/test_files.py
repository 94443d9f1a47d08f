"""Text files and tables."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nerf_posenc_sequences.data import files
from nerf_posenc_sequences.data.files import open_text_file, open_tsv, read_text_file
from nerf_posenc_sequences.data.types import LabeledSentences, Pairs
from nerf_posenc_sequences.errors import SequenceError


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def written(content: str | bytes) -> Path:
        path = tmp_path / "data.tsv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return written


Write = Callable[[str | bytes], Path]


def error_of(read: Callable[[Path], object], path: Path) -> str:
    """Message, which is one line and names the file."""
    with pytest.raises(SequenceError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_text_is_read_without_byte_order_mark_and_with_plain_line_ends(write: Write) -> None:
    assert read_text_file(write(b"\xef\xbb\xbfa\r\nb\rc\n")) == "a\nb\nc\n"


def test_text_beyond_ascii_is_kept(write: Write) -> None:
    assert read_text_file(write("Grüße, 世界\n")) == "Grüße, 世界\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"ab\x00cd", "NUL"),
        (b"abc\xff\xfe", "not UTF-8 text (byte 4)"),
        ("text".encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_not_text_is_refused(write: Write, content: bytes, said: str) -> None:
    assert said in error_of(read_text_file, write(content))


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    assert "no file" in error_of(read_text_file, tmp_path / "missing.txt")
    assert "is a folder" in error_of(read_text_file, tmp_path)
    assert "cannot read" in error_of(read_text_file, tmp_path / ("x" * 300))


def test_large_file_is_refused_and_one_of_the_limit_is_not(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 5)
    assert read_text_file(write("12345")) == "12345"
    assert "MB" in error_of(read_text_file, write("123456"))


def test_text_is_cut_at_the_line_end_nearest_to_nine_tenths(write: Write) -> None:
    lines = [f"line {index:03}\n" for index in range(100)]
    text = open_text_file(write("".join(lines)))
    assert text.train == ["".join(lines[:90])]
    assert text.test == ["".join(lines[90:]).rstrip("\n")]


@pytest.mark.parametrize(
    ("content", "num_train"),
    [
        ("x" * 100, 90),
        ("x" * 100 + "\n", 90),
        ("title\n" + "x" * 94, 90),
        ("x" * 70 + "\n" + "x" * 29, 71),
        ("x" * 95 + "\n" + "x" * 4, 96),
        ("ab", 1),
    ],
)
def test_text_without_a_line_end_near_the_cut_is_cut_by_characters(
    write: Write, content: str, num_train: int
) -> None:
    text = open_text_file(write(content))
    assert len(text.train[0]) == num_train
    assert text.train[0] + text.test[0] == content.strip("\n")
    assert text.test[0]


def test_text_of_one_character_is_refused(write: Write) -> None:
    assert "one character" in error_of(open_text_file, write("a\n"))


def as_pairs(path: Path) -> Pairs:
    opened = open_tsv(path, labeled=False)
    assert isinstance(opened, Pairs)
    return opened


def as_labeled(path: Path) -> LabeledSentences:
    opened = open_tsv(path, labeled=True)
    assert isinstance(opened, LabeledSentences)
    return opened


def test_pairs_are_words_of_both_columns(write: Write) -> None:
    pairs = as_pairs(write("a  b\tc d \n\n e\tf\r\n"))
    assert sorted([*pairs.train, *pairs.test]) == [(("a", "b"), ("c", "d")), (("e",), ("f",))]
    assert len(pairs.train) == len(pairs.test) == 1
    assert pairs.longer == ()
    assert pairs.joiner == " "


def test_a_tenth_of_the_sources_is_for_testing_with_all_of_their_pairs(write: Write) -> None:
    lines = [f"source {index % 200}\ttarget {index}" for index in range(600)]
    pairs = as_pairs(write("\n".join(lines)))
    train, test = ({source for source, _ in side} for side in (pairs.train, pairs.test))
    assert len(test) == 20
    assert not train & test
    assert len(pairs.train) + len(pairs.test) == 600
    assert [target for _, target in pairs.test] == sorted(
        (target for _, target in pairs.test), key=lambda target: int(target[1])
    )


def test_split_is_the_same_every_time(write: Write) -> None:
    path = write("\n".join(f"{index}\tx" for index in range(50)))
    assert as_pairs(path) == as_pairs(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\tb\nc\n", "line 2: 1 column instead of two"),
        ("a\tb\n\nc\td\te\n", "line 3: 3 columns instead of two"),
        ("a\tb\n \td\n", "line 2: the first column is empty"),
        ("a\t\nc\td\n", "line 1: the second column is empty"),
        ("a\tb\na\tc\n", "one source only"),
    ],
)
def test_pairs_that_cannot_be_used_are_refused(write: Write, content: str, said: str) -> None:
    assert said in error_of(as_pairs, write(content))


def test_labels_are_kept_and_every_label_is_trained(write: Write) -> None:
    lines = [f"{'rare' if index == 7 else 'often'}\tsentence {index}" for index in range(100)]
    labeled = as_labeled(write("\n".join(lines)))
    assert len(labeled.test) == 10
    assert {label for label, _ in labeled.train} == {"rare", "often"}
    assert ("rare", ("sentence", "7")) in labeled.train
    assert {words for _, words in labeled.train}.isdisjoint(words for _, words in labeled.test)


def test_same_sentence_with_two_labels_is_on_one_side(write: Write) -> None:
    lines = [f"{label}\tsentence {index}" for index in range(50) for label in ("one", "two")]
    labeled = as_labeled(write("\n".join(lines)))
    assert len(labeled.test) == 10
    assert {words for _, words in labeled.train}.isdisjoint(words for _, words in labeled.test)


def test_label_of_several_words_stays_one_label(write: Write) -> None:
    labeled = as_labeled(write("very good\ta\nvery good\tb\nbad\tc\n"))
    assert {label for label, _ in (*labeled.train, *labeled.test)} == {"very good", "bad"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\tone\na\ttwo\n", "one label only, 'a'"),
        ("a\tone\nb\ttwo\n", "no label with two different sentences"),
        ("a\tone\na\tone\nb\ttwo\n", "no label with two different sentences"),
        ("a\n", "line 1: 1 column"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(write: Write, content: str, said: str) -> None:
    assert said in error_of(as_labeled, write(content))


def rows(num_labels: int, num_rows: int, *, label: str = "label{}") -> str:
    return "\n".join(f"{label.format(i % num_labels)}\tsome words {i}" for i in range(num_rows))


@pytest.mark.parametrize(
    ("content", "labeled"),
    [
        (rows(2, 4), True),
        (rows(2, 3), False),
        (rows(3, 30), True),
        (rows(50, 501), True),
        (rows(51, 1000), False),
        (rows(2, 100, label="two words {}"), False),
        (rows(100, 100), False),
    ],
)
def test_few_values_of_one_word_are_labels(write: Write, content: str, labeled: bool) -> None:
    opened = open_tsv(write(content), labeled=None)
    assert isinstance(opened, LabeledSentences if labeled else Pairs)
