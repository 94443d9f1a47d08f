"""The small world: what it tells is replayed, and every answer derived again."""

from collections.abc import Callable, Sequence

import pytest

from more.tests.sequences.small_stories import write_stories
from nerf_posenc_sequences.data.stories import read_stories
from nerf_posenc_sequences.data.types import Stories, StoryTask, Words
from nerf_posenc_sequences.data.world import DROPS, MOVES, TAKES, make_stories

STORIES = make_stories(200, 60, seed=3)
TASKS = {task.name: [*task.train, *task.test] for task in STORIES.tasks}
MOVE, TAKE, DROP = ({" ".join(verb) for verb in verbs} for verbs in (MOVES, TAKES, DROPS))
COMPASS = ["north", "east", "south", "west"]


def parsed(sentence: Words) -> tuple[str, str, str]:
    """Who, what kind of deed, and the place or thing."""
    words = [word for word in sentence if word not in ("the", "to", "there")]
    person, *verb, thing = words
    kinds = [
        k for k, verbs in zip("mtd", (MOVE, TAKE, DROP), strict=True) if " ".join(verb) in verbs
    ]
    assert len(kinds) == 1
    return person, kinds[0], thing


def replay(
    sentences: Sequence[Words],
) -> tuple[dict[str, str], dict[str, list[str]], dict[str, str]]:
    """Places of people, places that things are known to have been in, and holders of things."""
    place: dict[str, str] = {}
    been: dict[str, list[str]] = {}
    holder: dict[str, str] = {}
    for sentence in sentences:
        person, deed, what = parsed(sentence)
        if deed == "m":
            place[person] = what
            moved = [thing for thing, by in holder.items() if by == person]
        else:
            moved = [what]
            holder[what] = person
        for thing in moved:
            if person in place and been.get(thing, [None])[-1] != place[person]:
                been.setdefault(thing, []).append(place[person])
        if deed == "d":
            del holder[what]
    return place, been, holder


def answer_from_events(question: Words, sentences: Sequence[Words]) -> str:
    place, been, holder = replay(sentences)
    match question:
        case ("where", "is", "the", thing):
            return been[thing][-1]
        case ("where", "is", person):
            return place[person]
        case ("where", "was", "the", thing, "before", "the", goal):
            assert been[thing].count(goal) == 1
            return been[thing][been[thing].index(goal) - 1]
        case ("what", "is", person, "carrying"):
            # Of a dictionary, what is put in again after a removal is last.
            return ",".join(thing for thing, by in holder.items() if by == person) or "nothing"
    raise AssertionError(question)


def neighbors(sentences: Sequence[Words]) -> dict[tuple[str, str], str]:
    """Room in a direction from a room, told directly or as the opposite."""
    of: dict[tuple[str, str], str] = {}
    for _, a, _, direction, _, _, b in sentences:
        opposite = COMPASS[COMPASS.index(direction) - 2]
        assert of.setdefault((b, direction), a) == a
        assert of.setdefault((a, opposite), b) == b
    return of


def answer_from_map(question: Words, sentences: Sequence[Words]) -> str:
    of = neighbors(sentences)
    match question:
        case ("what", "is", "the", room, direction, "of"):
            return of[room, COMPASS[COMPASS.index(direction) - 2]]
        case ("what", "is", direction, "of", "the", room):
            return of[room, direction]
        case ("how", "do", "you", "go", "from", "the", start, "to", "the", goal):
            ways = [
                f"{one},{two}"
                for one in COMPASS
                for two in COMPASS
                if (start, one) in of and of.get((of[start, one], two)) == goal
            ]
            assert len(ways) == 1
            return ways[0]
    raise AssertionError(question)


ANSWER: dict[str, Callable[[Words, Sequence[Words]], str]] = {
    "one fact": answer_from_events,
    "two facts": answer_from_events,
    "three facts": answer_from_events,
    "two arguments": answer_from_map,
    "lists": answer_from_events,
    "directions": answer_from_map,
}
EVENT_TASKS = ["one fact", "two facts", "three facts", "lists"]
MAP_TASKS = ["two arguments", "directions"]


@pytest.mark.parametrize("task", ANSWER)
def test_answers_follow_from_what_was_told(task: str) -> None:
    for story in TASKS[task]:
        assert ANSWER[task](story.question, story.sentences) == story.answer


@pytest.mark.parametrize("task", ANSWER)
def test_answers_follow_from_the_supporting_sentences_alone(task: str) -> None:
    for story in TASKS[task]:
        told = [story.sentences[index] for index in sorted(story.supporting)]
        assert ANSWER[task](story.question, told) == story.answer


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("one fact", 1),
        ("two facts", 2),
        ("three facts", 3),
        ("two arguments", 1),
        ("directions", 2),
    ],
)
def test_supporting_sentences_are_as_many_as_the_task_says(task: str, count: int) -> None:
    for story in TASKS[task]:
        assert len(set(story.supporting)) == len(story.supporting) == count


@pytest.mark.parametrize("task", ["one fact", "two facts", "three facts", "two arguments"])
def test_no_supporting_sentence_can_be_left_out(task: str) -> None:
    for story in TASKS[task]:
        for left_out in story.supporting:
            told = [story.sentences[i] for i in sorted(story.supporting) if i != left_out]
            try:
                answer = ANSWER[task](story.question, told)
            except (KeyError, AssertionError):
                continue
            assert answer != story.answer


@pytest.mark.parametrize("task", EVENT_TASKS)
def test_people_do_only_what_is_possible(task: str) -> None:
    for story in TASKS[task]:
        for end in range(len(story.sentences)):
            place, been, holder = replay(story.sentences[:end])
            person, deed, what = parsed(story.sentences[end])
            if deed == "m":
                assert place.get(person) != what
            elif deed == "t":
                assert what not in holder
                assert list(holder.values()).count(person) < 2
                assert been.get(what, [place[person]])[-1] == place[person]
            else:
                assert holder[what] == person


@pytest.mark.parametrize("task", MAP_TASKS)
def test_rooms_fit_on_a_grid_with_one_room_in_a_cell(task: str) -> None:
    step = {"north": 1j, "south": -1j, "east": 1, "west": -1}
    for story in TASKS[task]:
        of = neighbors(story.sentences)
        start = story.sentences[0][1]
        cells: dict[str, complex] = {start: 0}
        for _ in of:
            for (room, direction), other in of.items():
                if room in cells:
                    cell = cells[room] + step[direction]
                    assert cells.setdefault(other, cell) == cell
        assert len(cells) == len(story.sentences) + 1
        assert len(set(cells.values())) == len(cells)


def test_lists_have_nothing_one_and_two_things() -> None:
    counts = {len(s.answer.split(",")) if s.answer != "nothing" else 0 for s in TASKS["lists"]}
    assert counts == {0, 1, 2}


@pytest.mark.parametrize("task", ANSWER)
def test_answers_vary(task: str) -> None:
    answers = [story.answer for story in TASKS[task]]
    assert len(set(answers)) >= 8
    assert max(answers.count(answer) for answer in set(answers)) < 0.4 * len(answers)


@pytest.mark.parametrize("task", ["one fact", "two facts", "three facts", "lists"])
def test_the_last_sentence_is_not_always_supporting(task: str) -> None:
    last = [len(story.sentences) - 1 in story.supporting for story in TASKS[task]]
    assert 0.05 < sum(last) / len(last) < 0.6


def test_synonyms_of_all_verbs_occur() -> None:
    told = {
        " ".join(sentence) for task in EVENT_TASKS for s in TASKS[task] for sentence in s.sentences
    }
    for verb in MOVE | TAKE | DROP:
        assert any(f" {verb} " in sentence for sentence in told)


@pytest.mark.parametrize("task", STORIES.tasks, ids=lambda task: task.name)
def test_test_stories_differ_and_are_not_in_training(task: StoryTask) -> None:
    assert len(set(task.test)) == len(task.test) == 60
    assert len(task.train) == 200
    assert set(task.train).isdisjoint(task.test)


def test_same_seed_gives_the_same_stories_and_another_seed_others() -> None:
    def made(num_train: int, seed: int) -> Stories:
        return make_stories(num_train, 5, seed=seed)

    assert made(10, 1) == made(10, 1)
    for one, other, more in zip(
        made(10, 1).tasks, made(10, 2).tasks, made(20, 1).tasks, strict=True
    ):
        assert one.test != other.test
        assert one.test == more.test
        assert one.train == more.train[:10]


def test_stories_can_be_written_in_the_format_of_babi() -> None:
    for stories in TASKS.values():
        assert read_stories(write_stories(stories), where="written") == stories


@pytest.mark.parametrize(("num_train", "num_test"), [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(num_train: int, num_test: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        make_stories(num_train, num_test, 0)


def test_a_bag_of_words_finds_no_more_than_half_of_two_arguments() -> None:
    share = 0.0
    for story in TASKS["two arguments"]:
        told = {word for sentence in story.sentences for word in sentence}
        asked = set(story.question) & told - {"the", "is", "of"}
        # Sentences that have all words of the question; the answer is the other room of one.
        fitting = [sentence for sentence in story.sentences if asked <= set(sentence)]
        assert story.sentences[story.supporting[0]] in fitting
        share += 1 / len(fitting)
    assert share / len(TASKS["two arguments"]) <= 0.55
