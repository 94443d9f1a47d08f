"""Stories as padded tensors, and batches of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc_sequences.data.types import Stories, Story
from nerf_posenc_sequences.errors import SequenceError

CHUNK_SIZE = 256

StoryInputs = tuple[Tensor, Tensor, Tensor]
"""Words of the memories, words of the question, and ages of the memories."""


@dataclass(frozen=True)
class StoryFormat:
    """Format that gives all stories tensors of the same shape.

    Attributes:
        words: vocabulary, sorted, answers included; word i has the index i + 1, and 0 is padding.
        max_memories: sentences that are kept of a story, the latest.
        max_words: most words in a sentence or question.
    """

    words: tuple[str, ...]
    max_memories: int
    max_words: int


@dataclass(frozen=True)
class StoryTensors:
    """Questions with the stories before them.

    Attributes:
        memories: indices of words in the order they were written; padding is 0.
        questions: indices of words.
        ages: 1 for the latest sentence of a story, 2 for the one before; 0 for padding.
        answers: places of the answers in the vocabulary; the first word is 0.
        supporting: slots of the supporting facts in the order given; -1 is padding, or a sentence
            that was dropped.
    """

    memories: Int[Tensor, "stories memories words"]
    questions: Int[Tensor, "stories words"]
    ages: Int[Tensor, "stories memories"]
    answers: Int[Tensor, " stories"]
    supporting: Int[Tensor, "stories facts"]

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def inputs(self) -> StoryInputs:
        """Input tensors of a model."""
        return self.memories, self.questions, self.ages

    def chunks(self, device: torch.device) -> list[StoryInputs]:
        """Inputs in parts that fit the memory of a machine, on a device."""
        return [
            (memories.to(device), questions.to(device), ages.to(device))
            for memories, questions, ages in zip(
                *(tensor.split(CHUNK_SIZE) for tensor in self.inputs), strict=True
            )
        ]

    def rows(self, rows: Int[Tensor, " rows"] | slice) -> "StoryTensors":
        """Some of the questions."""
        return StoryTensors(
            self.memories[rows],
            self.questions[rows],
            self.ages[rows],
            self.answers[rows],
            self.supporting[rows],
        )


def story_format(stories: Stories, *, max_memories: int) -> StoryFormat:
    """Vocabulary and sizes of all tasks together.

    Args:
        stories: training and test data.
        max_memories: limit on the sentences that are kept, 1 or more.

    Raises:
        SequenceError: If a task has no training or no test questions, or no question has a
            sentence before it.
    """
    if not stories.tasks:
        raise SequenceError(f"{stories.name} has no tasks; give one or more")
    for task in stories.tasks:
        if not task.train or not task.test:
            raise SequenceError(
                f"task {task.name} has {len(task.train)} training and {len(task.test)} test "
                "questions; both need 1 or more"
            )
    every = [story for task in stories.tasks for story in (*task.train, *task.test)]
    words = {story.answer for story in every}
    for story in every:
        words.update(story.question, *story.sentences)
    longest = max(len(story.sentences) for story in every)
    if longest == 0:
        raise SequenceError(f"{stories.name} has no sentences before its questions; add some")
    sizes = [len(words) for story in every for words in (story.question, *story.sentences)]
    return StoryFormat(tuple(sorted(words)), min(longest, max_memories), max(sizes))


def encode_stories(stories: Sequence[Story], layout: StoryFormat) -> StoryTensors:
    """Look the words up and pad with 0."""
    index = {word: i + 1 for i, word in enumerate(layout.words)}
    count, slots = len(stories), layout.max_memories
    facts = max((len(story.supporting) for story in stories), default=0)
    memories = torch.zeros(count, slots, layout.max_words, dtype=torch.long)
    questions = torch.zeros(count, layout.max_words, dtype=torch.long)
    ages = torch.zeros(count, slots, dtype=torch.long)
    supporting = torch.full((count, facts), -1)
    for row, story in enumerate(stories):
        kept = story.sentences[-slots:]
        dropped = len(story.sentences) - len(kept)
        for slot, sentence in enumerate(kept):
            memories[row, slot, : len(sentence)] = torch.tensor([index[w] for w in sentence])
        questions[row, : len(story.question)] = torch.tensor([index[w] for w in story.question])
        ages[row, : len(kept)] = torch.arange(len(kept), 0, -1)
        for place, fact in enumerate(story.supporting):
            supporting[row, place] = max(fact - dropped, -1)
    answers = torch.tensor([index[story.answer] - 1 for story in stories], dtype=torch.long)
    return StoryTensors(memories, questions, ages, answers, supporting)


def joined(parts: Iterable[StoryTensors]) -> StoryTensors:
    """Questions of several tasks, one after the other."""
    parts = list(parts)
    facts = max(part.supporting.shape[1] for part in parts)
    supporting = [
        torch.nn.functional.pad(part.supporting, (0, facts - part.supporting.shape[1]), value=-1)
        for part in parts
    ]
    return StoryTensors(
        torch.cat([part.memories for part in parts]),
        torch.cat([part.questions for part in parts]),
        torch.cat([part.ages for part in parts]),
        torch.cat([part.answers for part in parts]),
        torch.cat(supporting),
    )


class StoryBatches:
    """Batches without replacement; each pass over the questions has its own order.

    Args:
        stories: training questions.
        batch_size: questions in a batch; all if there are fewer.
        seed: random seed of the orders.
    """

    def __init__(self, stories: StoryTensors, batch_size: int, *, seed: int) -> None:
        self.stories = stories
        rows = torch.arange(len(stories))
        self._draw_rows = ShuffledBatches(rows, rows, batch_size, seed=seed)

    def rows(self, step: int) -> Int[Tensor, " batch"]:
        """Indices of the questions in a batch."""
        return self._draw_rows(step)[0]

    def __call__(self, step: int) -> tuple[StoryInputs, Tensor]:
        """Inputs and answers of one step."""
        batch = self.stories.rows(self.rows(step))
        return batch.inputs, batch.answers
