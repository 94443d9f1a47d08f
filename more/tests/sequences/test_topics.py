"""Text and labeled sentences that every Python has."""

from collections import Counter

from nerf_posenc_sequences.data.sentences import balanced, sentences
from nerf_posenc_sequences.data.topics import LABELS, open_chapters, open_topics, plain_text


def test_text_is_printable_ascii() -> None:
    assert plain_text("\u201cna\u00efve\u201d \u2013 \u03c0\n\n\n\nend  \n") == '"naive" - ?\n\nend'
    text = open_topics()
    assert set("".join([*text.train, *text.test])) <= {"\n", *map(chr, range(32, 127))}


def test_whole_topics_of_about_a_tenth_of_the_text_are_for_testing() -> None:
    text = open_topics()
    num_train, num_test = (sum(map(len, part)) for part in (text.train, text.test))
    assert num_train + num_test > 200_000
    assert 0.03 < num_test / (num_train + num_test) <= 0.1
    # No paragraph is read in training and tested.
    both = [
        {p for document in part for p in document.split("\n\n")} for part in (text.train, text.test)
    ]
    assert not both[0] & both[1]


def test_labels_have_equally_many_different_sentences_on_each_side() -> None:
    found = open_chapters()
    assert len({*found.train, *found.test}) == len(found.train) + len(found.test)
    for part in (found.train, found.test):
        counts = Counter(label for label, _ in part)
        assert set(counts) == set(LABELS)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert min(counts.values()) > 20
        assert all(5 <= len(words) <= 40 for _, words in part)


def test_sentences_are_lower_case_words_and_marks() -> None:
    text = """Heading
*******

The first sentence isn't long. Too short.
It goes on to the next line.

   >>> code(1)

   An_indented paragraph, of its own (with marks)!

assignment ::= target "=" This is no sentence of prose.
without a capital letter at its beginning.
"""
    assert [" ".join(words) for words in sentences(text)] == [
        "the first sentence isn't long .",
        "it goes on to the next line .",
        "an_indented paragraph , of its own ( with marks ) !",
    ]


def test_a_sentence_of_two_labels_counts_for_the_first() -> None:
    words = [tuple(f"word {i} of a sentence".split()) for i in range(4)]
    labeled = [("a", words[0]), ("a", words[1]), ("b", words[1]), ("b", words[2]), ("b", words[3])]
    found = balanced(labeled)
    assert Counter(label for label, _ in found) == {"a": 2, "b": 2}
    assert ("b", words[1]) not in found
