"""Small stories for tests."""

import random
from collections.abc import Sequence

from nerf_posenc_sequences.data.types import Stories, Story, StoryTask, Words

PEOPLE = ("ann", "bob", "cleo")
PLACES = ("attic", "barn", "cellar", "den")


def story(rng: random.Random, moves: int) -> Story:
    """Where somebody is after several moves; the last one says it."""
    told = [(rng.choice(PEOPLE), "went", "to", rng.choice(PLACES)) for _ in range(moves)]
    who = rng.choice([sentence[0] for sentence in told])
    last = max(i for i, sentence in enumerate(told) if sentence[0] == who)
    return Story(tuple(told), ("where", "is", who), told[last][-1], (last,))


def task(name: str, count: int, *, seed: int = 0, most: int = 5) -> StoryTask:
    """Questions about 1 to `most` moves."""
    rng = random.Random(seed)
    drawn = [story(rng, rng.randint(1, most)) for _ in range(2 * count)]
    return StoryTask(name, drawn[:count], drawn[count:])


def moves(count: int = 40, *, tasks: int = 1) -> Stories:
    """One task, or several of the same kind."""
    named = [task(str(i + 1), count, seed=i) for i in range(tasks)]
    return Stories("moves", "made up", named)


def write_stories(stories: Sequence[Story]) -> str:
    """Stories in the bAbI format, questions about the same sentences as one story."""
    lines: list[str] = []
    told: list[Words] = []
    line_numbers: list[int] = []
    number = 0
    for story in stories:
        if told != list(story.sentences[: len(told)]):
            told, line_numbers, number = [], [], 0
        for sentence in story.sentences[len(told) :]:
            number += 1
            told.append(sentence)
            line_numbers.append(number)
            lines.append(f"{number} {' '.join(sentence)}.")
        number += 1
        facts = " ".join(str(line_numbers[index]) for index in story.supporting)
        lines.append(f"{number} {' '.join(story.question)}?\t{story.answer}\t{facts}")
    return "".join(f"{line}\n" for line in lines)
