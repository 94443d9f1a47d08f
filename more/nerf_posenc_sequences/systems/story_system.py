"""Base class of systems that answer questions about stories."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc_app.kinds.sequence import guessed
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Stories
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.systems.base_system import BaseSystem, few_tested
from nerf_posenc_sequences.systems.story_batches import (
    StoryInputs,
    StoryTensors,
    encode_stories,
    story_format,
)
from nerf_posenc_sequences.systems.story_report import MEASURES, attention_maps, story_evaluation


class StorySystem(BaseSystem, ABC):
    """A memory network with tasks of questions.

    Args:
        data: tasks of questions.
        max_memories: sentences that are kept of a story, the latest.

    Raises:
        SequenceError: If a task is empty.

    Attributes:
        training: training questions of all tasks.
        width: width of the embeddings.
        hops: over the memories.
        hop_name: name of one of them in the report.
        hops_are: what their number counts in the summary.
    """

    training: StoryTensors
    width: int
    hops: int
    hop_name = "hop"
    hops_are = "hops"
    measures: tuple[Measure, ...]

    def __init__(self, data: Stories, *, max_memories: int) -> None:
        self.name, self.source, self.stories = data.name, data.source, data
        self.format = story_format(data, max_memories=max_memories)
        self.tests = [encode_stories(task.test, self.format) for task in data.tasks]
        count = sum(len(rows) for rows in self.tests)
        self.measures = tuple(replace(measure, count=count) for measure in MEASURES)

    def _require_sizes(self) -> None:
        if self.width < 2 or self.hops < 1:
            raise SequenceError(
                f"the width must be 2 or more and hops 1 or more; got {self.width} and {self.hops}"
            )

    @abstractmethod
    def _arguments(self, encoding: str) -> dict[str, Any]:
        """Arguments of the model, as plain values."""

    @abstractmethod
    def _answer(
        self, model: nn.Module, inputs: StoryInputs
    ) -> tuple[Float[Tensor, "batch words"], Float[Tensor, "batch hops memories"]]:
        """Scores of the answers, and the weights of the memories in each hop."""

    def summary(self) -> list[str]:
        """Numbers of questions and words, and the size of the model."""
        tested = sum(len(rows) for rows in self.tests)
        return [
            f"{len(self.tests)} tasks, {len(self.training):,} questions to train, "
            f"{tested:,} to test, {len(self.format.words)} words",
            f"up to {self.format.max_memories} memories, {self.hops} "
            f"{self.hops_are}, width {self.width}",
        ]

    def notes(self) -> list[str]:
        """Whether few questions are tested."""
        return few_tested("question", *(len(rows) for rows in self.tests))

    def guess(self) -> dict[str, float]:
        """The most frequent answer of each task."""
        right = []
        for task, rows in zip(self.stories.tasks, self.tests, strict=True):
            train = encode_stories(task.train, self.format).answers
            right.append(guessed(train, rows.answers, len(self.format.words))[1])
        percent = sum(right) / len(right)
        return {"error_percent": 100 - percent, "accuracy_percent": percent}

    def description(self, encoding: str) -> dict[str, Any]:
        """Arguments of the model, and the vocabulary."""
        return {"words": list(self.format.words), **self._arguments(encoding)}

    @torch.no_grad()
    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Errors of each task, answers to some questions, and the memories that they are from."""
        device = next(model.parameters()).device
        answers, attention = [], []
        for rows in self.tests:
            outputs = [self._answer(model, inputs) for inputs in rows.chunks(device)]
            answers.append(torch.cat([scores for scores, _ in outputs]).argmax(1).cpu())
            # Of the first question.
            attention.append(outputs[0][1][0].T.cpu())
        names = [f"{self.hop_name} {hop + 1}" for hop in range(self.hops)]
        maps = attention_maps(self.stories, attention, names)
        return story_evaluation(self.stories, self.format, self.tests, answers, maps)
