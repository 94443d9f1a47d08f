"""Stories with questions in the bAbI format.

Weston et al., "Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks" (2015).
Every line has a number. Number 1 starts a new story. A line with tabs is a question::

    1 Ines ran to the cellar.
    2 Kofi strolled to the tower.
    3 Where is Ines?<TAB>cellar<TAB>1
"""

import re
from collections.abc import Sequence
from pathlib import Path

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.inside import files_in
from nerf_posenc_sequences.data.files import read_text_file
from nerf_posenc_sequences.data.types import Stories, Story, StoryTask, Words
from nerf_posenc_sequences.errors import SequenceError

_LINE = re.compile(r"([0-9]{1,9})[ \t]+(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_FILE = re.compile(r"qa([0-9]+)_(?:.+_)?(train|valid|test)\.txt")
# The longest stories of bAbI's tasks, 10,000 questions, have a few million.
_MOST_HELD = 10_000_000


def read_stories(text: str, *, where: str) -> list[Story]:
    """Questions of a text in the bAbI format, each with all sentences before it.

    Sentences, questions and answers are in lower case, without the final period or question mark.
    A question may leave out its supporting line numbers.

    Args:
        text: text of one file.
        where: name of the file for error messages.

    Raises:
        SequenceError: If the text has no question, or a line is not in the format.
    """
    stories: list[Story] = []
    sentences: list[Words] = []
    index_of_line: dict[int, int] = {}
    last = held = 0
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{where}, line {row}"
        number, told = _numbered(line, last, place)
        if number == 1:
            sentences, index_of_line = [], {}
        last = number
        if "\t" in told:
            # Each question holds all sentences before it.
            held += len(sentences)
            if held > _MOST_HELD:
                raise SequenceError(
                    f"{where} has more than {_MOST_HELD:,} sentences before their questions, each "
                    "counted for every question after it; begin new stories with number 1"
                )
            stories.append(_question(told, tuple(sentences), index_of_line, place))
        else:
            index_of_line[number] = len(sentences)
            sentences.append(_words(told, place))
    if not stories:
        raise SequenceError(
            f"{where} has no question; write at least one line as "
            "'3 Where is Ines?<TAB>cellar<TAB>1'"
        )
    return stories


def _numbered(line: str, last: int, place: str) -> tuple[int, str]:
    """Number and rest of a line."""
    match = _LINE.match(line.strip(" \r"))
    if match is None:
        raise SequenceError(f"{place}: no number and sentence; start every line with its number")
    number = int(match[1])
    if number != 1 and not 0 < last < number:
        raise SequenceError(
            f"{place}: number {number} after {last or 'nothing'}; count up from 1 in every story"
        )
    return number, match[2]


def _words(told: str, place: str) -> Words:
    words = tuple(told.lower().strip().rstrip(".?").split())
    if not words:
        raise SequenceError(f"{place}: no words; write a sentence after the number")
    return words


def _question(
    told: str, sentences: Sequence[Words], index_of_line: dict[int, int], place: str
) -> Story:
    question, answer, *facts = told.split("\t")
    answer = re.sub(r"\s*,\s*", ",", answer.strip().lower())
    if len(facts) > 1:
        raise SequenceError(
            f"{place}: {len(facts) + 2} columns; write question?<TAB>answer<TAB>line numbers"
        )
    if len(answer.split()) != 1:
        raise SequenceError(
            f"{place}: the answer is {answer!r}; give one word, or several joined by commas"
        )
    supporting = []
    for fact in facts[0].split() if facts else ():
        index = index_of_line.get(int(fact)) if _NUMBER.fullmatch(fact) else None
        if index is None:
            raise SequenceError(
                f"{place}: supporting line {fact} is not a sentence before the question; "
                "give numbers of earlier sentences of the same story"
            )
        supporting.append(index)
    return Story(tuple(sentences), _words(question, place), answer, tuple(supporting))


def open_babi_folder(path: Path) -> Stories:
    """Tasks of a folder with files ``qaN_train.txt`` and ``qaN_test.txt``, sorted by N.

    The names of the original release, such as ``qa1_single-supporting-fact_train.txt``, work too.
    Questions of ``qaN_valid.txt`` are joined to those of training.

    Raises:
        SequenceError: If there is no such folder or no such file in it, if a task lacks its
            training or test file, or a file cannot be used.
    """
    tasks: dict[int, dict[str, Path]] = {}
    for file in _listed(path):
        if match := _FILE.fullmatch(file.name):
            files = tasks.setdefault(int(match[1]), {})
            if match[2] in files:
                raise SequenceError(
                    f"{path} has two {match[2]} files of task {match[1]}, "
                    f"{files[match[2]].name} and {file.name}; keep one"
                )
            files[match[2]] = file
    if not tasks:
        raise SequenceError(
            f"{path} has no stories; give a folder with files named qa1_train.txt and qa1_test.txt"
        )
    opened = [_task(path, number, files) for number, files in sorted(tasks.items())]
    return Stories(name=path.resolve().name, source=str(path), tasks=opened)


def _listed(path: Path) -> list[Path]:
    try:
        return files_in(path)
    except FileNotFoundError:
        raise SequenceError(f"no folder at {path}; give a folder of bAbI stories") from None
    except NotADirectoryError:
        raise SequenceError(f"{path} is a file; give the folder that it is in") from None
    except SceneError as error:
        raise SequenceError(str(error)) from None
    except OSError as error:
        raise SequenceError(f"cannot read {path}: {error.strerror}") from None


def _task(path: Path, number: int, files: dict[str, Path]) -> StoryTask:
    for kind in ("train", "test"):
        if kind not in files:
            raise SequenceError(
                f"{path}: task {number} has no {kind} file; add qa{number}_{kind}.txt"
            )
    read = {
        kind: read_stories(read_text_file(file), where=str(file)) for kind, file in files.items()
    }
    return StoryTask(
        name=str(number), train=read["train"] + read.get("valid", []), test=read["test"]
    )
