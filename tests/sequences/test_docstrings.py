"""Docstrings of installed libraries; made-up libraries stand in for most tests."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from sequences.data import docstrings
from sequences.data.docstrings import module_docstrings, open_docstrings, open_sources, plain_text
from sequences.data.sentences import LIBRARY_NAMES, balanced, sentences
from sequences.errors import SequenceError


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the only library, which cannot be imported."""
    folder = tmp_path / "made_up_library"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(docstrings, "LIBRARIES", {folder.name: ("",)})
    return folder


def module(folder: Path, name: str, *texts: str) -> None:
    """Write a module with functions of these docstrings."""
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f'def f{i}():\n    """{text}"""\n' for i, text in enumerate(texts)),
        encoding="utf-8",
    )


def long(index: int) -> str:
    return f"Text number {index} of a made-up library."


def test_docstrings_of_modules_classes_and_functions_are_found() -> None:
    source = b'''
"""Docstring of the module."""
class A:
    """Docstring of the class."""
    def f(self):
        """Docstring of the method.

            Indented by four.

        End of it.
        """
        async def g():
            """Docstring of the inner function."""
        return "A string that is not a docstring."
if True:
    try:
        def h():
            """Docstring in a condition."""
    except ImportError:
        pass
'''
    assert module_docstrings(source) == [
        "Docstring of the module.",
        "Docstring of the class.",
        "Docstring of the method.\n\n    Indented by four.\n\nEnd of it.",
        "Docstring of the inner function.",
        "Docstring in a condition.",
    ]


def test_attached_docstrings_are_found_without_fields_of_templates() -> None:
    source = b'''
add_docstr(torch.abs, r"""
abs(input) -> Tensor

Computes |x| of {{all}} elements.
{input}""".format(**args))
add_newdoc('module.name', 'name', ('attribute', """Text of an attribute."""))
add_newdoc_for_scalar_type('name', [], """Text of a scalar type.""")
print("Text that is attached to nothing.")
'''
    assert module_docstrings(source) == [
        "abs(input) -> Tensor\n\nComputes |x| of {all} elements.",
        "Text of an attribute.",
        "Text of a scalar type.",
    ]


@pytest.mark.parametrize("source", [b"def f(:\n", b"\0", b"\xff", b""])
def test_file_that_is_not_python_has_no_docstrings(source: bytes) -> None:
    assert module_docstrings(source) == []


def test_invalid_escapes_do_not_warn() -> None:
    assert module_docstrings(b'"""A docstring with \\d in it."""') == [
        "A docstring with \\d in it."
    ]


def test_doctests_and_their_output_are_dropped() -> None:
    text = "Before.\n\n>>> f(\n...     1)\narray([1,\n       2])\n\nAfter.\n    >>> g()\n\n\n\nEnd."
    assert plain_text(text) == "Before.\n\nAfter.\n\nEnd."


def test_text_is_printable_ascii() -> None:
    text = plain_text(
        "Caf\u00e9 \u201cquoted\u201d \u2013 it\u2019s \u03b1\t\u4e16\x07 \ufb01ne\u2026"
    )
    assert text == 'Cafe "quoted" - it\'s ?  ?? fine...'


def test_each_docstring_is_kept_once_and_files_are_not_imported(library: Path) -> None:
    for index in range(10):
        module(library, f"m{index}", long(index), long(99), "Short.")
    text = open_docstrings()
    docs = [line for document in (*text.train, *text.test) for line in document.splitlines()]
    assert sorted(line for line in docs if line) == sorted([*map(long, range(10)), long(99)])
    assert library.name not in sys.modules
    assert library.name in text.source


def test_tests_and_large_files_are_skipped(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docstrings, "_MAX_BYTES", 200)
    module(library, "kept", long(1))
    module(library, "large", "x" * 300)
    for index, name in enumerate(("tests/test_a", "sub/tests/test_b", "testing/c", "conftest")):
        module(library, name, long(index + 2))
    text = open_docstrings()
    assert [*text.train, *text.test] == [long(1) + "\n"]


def test_chosen_files_and_folders_alone_are_read(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ("single.py", "folder", "missing.py", "missing")
    monkeypatch.setattr(docstrings, "LIBRARIES", {library.name: parts})
    for index, name in enumerate(("single", "folder/deep/a", "folder/b", "other")):
        module(library, name, long(index))
    text = open_docstrings()
    assert sorted([*text.train, *text.test]) == [long(index) + "\n" for index in range(3)]


def test_whole_modules_of_about_a_tenth_of_the_text_are_for_testing(library: Path) -> None:
    for index in range(40):
        module(library, f"m{index:02}", long(index), long(100 + index))
    text = open_docstrings()
    assert len(text.train) + len(text.test) == 40
    assert 3 <= len(text.test) <= 4
    assert all(document.count("Text number") == 2 for document in (*text.train, *text.test))
    assert set(text.train).isdisjoint(text.test)
    assert open_docstrings() == text


def test_small_library_has_text_on_both_sides(library: Path) -> None:
    module(library, "a", long(1))
    module(library, "b", long(2))
    text = open_docstrings()
    assert len(text.train) == len(text.test) == 1


def test_only_missing_libraries_are_an_error(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(library, "a", long(1))
    monkeypatch.setattr(docstrings, "LIBRARIES", {"not_there_x": ("",), library.name: ("",)})
    assert open_docstrings().train == [long(1) + "\n"]
    with pytest.raises(SequenceError, match=f"only {library.name} .*pip install"):
        open_sources()
    monkeypatch.setattr(docstrings, "LIBRARIES", {"not_there_x": ("",), "not_there_y": ("",)})
    for opened in (open_docstrings, open_sources):
        with pytest.raises(
            SequenceError, match=r"not_there_x, not_there_y .*pip install"
        ) as caught:
            opened()
        assert "\n" not in str(caught.value)


def test_sentence_of_two_libraries_or_both_sides_is_left_out(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = library.parent / "other_library"
    monkeypatch.setattr(docstrings, "LIBRARIES", {library.name: ("",), other.name: ("",)})
    shared = "This sentence stands in all of the modules."
    for folder in (library, other):
        for index in range(20):
            # Docstrings must differ as a whole to be kept.
            module(folder, f"m{index:02}", f"{shared} Here {folder.name} speaks of {index}.")
    found = open_sources()
    texts = [" ".join(words) for _, words in (*found.train, *found.test)]
    assert texts
    assert not any("stands in all" in text for text in texts)
    assert len(set(texts)) == len(texts)
    for label, words in (*found.train, *found.test):
        assert label in words
    for side in (found.train, found.test):
        counts = Counter(label for label, _ in side)
        assert counts[library.name] == counts[other.name] > 0


def test_sentences_are_lower_case_words_and_marks() -> None:
    text = (
        "It's the first (and only)\nsentence of :class:`~torch.nn.Linear`. The next one, see x_1!"
    )
    assert [" ".join(words) for words in sentences(text)] == [
        "it's the first ( and only ) sentence of nn . linear .",
        "the next one , see x_1 !",
    ]


@pytest.mark.parametrize("name", [*LIBRARY_NAMES, "NumPy", "PyTorch"])
def test_names_of_libraries_are_dropped_but_not_the_end_of_a_sentence(name: str) -> None:
    (words,) = sentences(f"Some {name}.array words are here, in {name}.")
    assert " ".join(words) == "some array words are here , in ."


def test_sentences_are_of_five_to_forty_words() -> None:
    def sentence(num_words: int) -> str:
        return " ".join(["Word", *["word"] * (num_words - 2)]) + "."

    lengths = [len(words) for n in (4, 5, 40, 41) for words in sentences(sentence(n))]
    assert lengths == [5, 40]


def test_headings_parameters_and_directives_are_no_sentences() -> None:
    text = """\
Title Of This Long Heading
--------------------------
x : array of some float numbers, optional.
    The values that are taken here.
.. note:: This is a note of some words.
:param y: This is a value of some words.
an unfinished sentence in lower case.
Sentence without any end at all"""
    assert [" ".join(words) for words in sentences(text)] == ["the values that are taken here ."]


def test_text_of_marks_alone_has_no_sentences() -> None:
    assert list(sentences("``\n\n`~`\n\n...\n")) == []


def test_balanced_sentences_are_different_and_equally_many_per_label() -> None:
    labeled = [("a", (str(i % 30),)) for i in range(60)] + [("b", (str(i),)) for i in range(8)]
    assert Counter(label for label, _ in balanced(labeled, 100)) == {"a": 8, "b": 8}
    kept = balanced(labeled, 5)
    assert len(set(kept)) == len(kept) == 10
    assert kept == balanced(labeled, 5)
    assert set(kept) <= set(labeled)
    assert balanced([], 5) == []


@pytest.mark.slow
def test_installed_libraries_give_enough_text_and_sentences() -> None:
    text = open_docstrings()
    num_train, num_test = sum(map(len, text.train)), sum(map(len, text.test))
    assert num_train > 500_000
    assert 0.05 < num_test / (num_train + num_test) < 0.11
    characters = set("".join((*text.train, *text.test)))
    assert characters <= {"\n", *map(chr, range(32, 127))}
    assert ">>>" not in "".join(text.train)

    found = open_sources()
    counts = Counter(label for label, _ in found.train)
    assert len(set(counts.values())) == 1
    assert min(counts.values()) > 1_000
    assert {w for _, words in found.train for w in words}.isdisjoint(LIBRARY_NAMES)
    assert {words for _, words in found.train}.isdisjoint(words for _, words in found.test)
