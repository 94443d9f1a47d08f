"""The bAbI format."""

from pathlib import Path

import pytest

from more.tests.sequences.small_stories import write_stories
from nerf_posenc_sequences.data.stories import open_babi_folder, read_stories
from nerf_posenc_sequences.data.types import Story
from nerf_posenc_sequences.errors import SequenceError

TEXT = """\
1 Ines ran to the Cellar.
2 Kofi strolled to the tower.
3 Where is Ines? \tCellar\t1
4 Ines took the map there .
5 What is Ines carrying?\tMap, kettle\t4 1
1 Noor left.
2 Who left?\tnoor\t1
"""

STORIES = [
    Story(
        (("ines", "ran", "to", "the", "cellar"), ("kofi", "strolled", "to", "the", "tower")),
        ("where", "is", "ines"),
        "cellar",
        (0,),
    ),
    Story(
        (
            ("ines", "ran", "to", "the", "cellar"),
            ("kofi", "strolled", "to", "the", "tower"),
            ("ines", "took", "the", "map", "there"),
        ),
        ("what", "is", "ines", "carrying"),
        "map,kettle",
        (2, 0),
    ),
    Story((("noor", "left"),), ("who", "left"), "noor", (0,)),
]


def test_questions_have_all_sentences_before_them_and_no_questions() -> None:
    assert read_stories(TEXT, where="file") == STORIES


def test_blank_lines_and_carriage_returns_do_not_matter() -> None:
    assert read_stories(TEXT.replace("\n", "\r\n\r\n"), where="file") == STORIES


def test_numbers_may_have_gaps() -> None:
    (story,) = read_stories("1 a.\n4 b.\n9 c?\td\t4\n", where="file")
    assert story.supporting == (1,)


@pytest.mark.parametrize("columns", ["", "\t"])
def test_supporting_lines_may_be_missing(columns: str) -> None:
    (story,) = read_stories(f"1 a b.\n2 who?\ta{columns}\n", where="file")
    assert story.supporting == ()
    assert story.answer == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "file has no question"),
        ("\n \n", "file has no question"),
        ("1 a.\n2 b.\n", "file has no question"),
        ("1 a.\nb.\n3 c?\td\t1\n", "file, line 2: no number"),
        ("1 a.\n2\n", "file, line 2: no number"),
        ("1 a.\n2 .\n", "file, line 2: no words"),
        ("2 a.\n", "file, line 1: number 2 after nothing"),
        ("1 a.\n3 b.\n2 c.\n", "file, line 3: number 2 after 3"),
        ("1 a.\n2 b?\tc\t3\n", "file, line 2: supporting line 3 is not a sentence"),
        ("1 a.\n2 b?\tc\t1\n3 b?\tc\t2\n", "file, line 3: supporting line 2 is not a sentence"),
        ("1 a.\n2 a.\n1 a.\n2 b?\tc\t2\n", "file, line 4: supporting line 2 is not a sentence"),
        ("1 a.\n2 b?\tc\tx\n", "file, line 2: supporting line x is not a sentence"),
        ("1 a.\n2 b?\tc\t-1\n", "file, line 2: supporting line -1 is not a sentence"),
        ("1 a.\n2 b?\t\t1\n", "file, line 2: the answer is ''"),
        ("1 a.\n2 b?\tc d\t1\n", "file, line 2: the answer is 'c d'"),
        ("1 a.\n2 b?\tc\t1\tmore\n", "file, line 2: 4 columns"),
        ("1 a.\n2 ?\tc\t1\n", "file, line 2: no words"),
    ],
)
def test_lines_that_are_not_in_the_format_are_refused(text: str, said: str) -> None:
    with pytest.raises(SequenceError) as caught:
        read_stories(text, where="file")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_written_stories_read_back_as_they_were() -> None:
    assert read_stories(write_stories(STORIES), where="written") == STORIES


def test_story_without_sentences_reads_back() -> None:
    stories = [Story((), ("why",), "because", ()), *STORIES]
    assert read_stories(write_stories(stories), where="written") == stories


def story(answer: str) -> str:
    return f"1 told.\n2 asked?\t{answer}\t1\n"


def test_folder_has_tasks_by_number_with_validation_joined_to_training(tmp_path: Path) -> None:
    for name, answer in {
        "qa10_train": "a",
        "qa10_test": "b",
        "qa2_train": "c",
        "qa2_test": "d",
        "qa2_valid": "e",
        "qa3_two-words_train": "f",
        "qa3_two-words_test": "g",
        "readme": "h",
    }.items():
        (tmp_path / f"{name}.txt").write_text(story(answer))
    stories = open_babi_folder(tmp_path)
    assert stories.name == tmp_path.name
    assert [
        (task.name, [s.answer for s in task.train], [s.answer for s in task.test])
        for task in stories.tasks
    ] == [("2", ["c", "e"], ["d"]), ("3", ["f"], ["g"]), ("10", ["a"], ["b"])]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "no stories"),
        (["train", "qa_test"], "no stories"),
        (["qa1_train"], "task 1 has no test file"),
        (["qa1_train", "qa1_valid"], "task 1 has no test file"),
        (["qa1_test"], "task 1 has no train file"),
        (["qa1_train", "qa1_test", "qa1_x_train"], "two train files of task 1"),
    ],
)
def test_incomplete_folders_are_refused(tmp_path: Path, names: list[str], said: str) -> None:
    for name in names:
        (tmp_path / f"{name}.txt").write_text(story("a"))
    with pytest.raises(SequenceError, match=said) as caught:
        open_babi_folder(tmp_path)
    assert "\n" not in str(caught.value)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SequenceError, match="no folder at"):
        open_babi_folder(tmp_path / "missing")
    (tmp_path / "file").write_text("text")
    with pytest.raises(SequenceError, match="is a file"):
        open_babi_folder(tmp_path / "file")


def test_error_in_a_file_of_a_folder_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "qa1_train.txt").write_text(story("a"))
    (tmp_path / "qa1_test.txt").write_text("told\n")
    with pytest.raises(SequenceError, match=r"qa1_test\.txt, line 1"):
        open_babi_folder(tmp_path)
