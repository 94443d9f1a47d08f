"""Memory networks on questions about stories whose supporting facts are known."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_sequences.data.types import Stories
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.clipped_sgd import ClippedSGD
from nerf_posenc_sequences.systems.memory_network_model import FactInputs, MemoryNetwork
from nerf_posenc_sequences.systems.story_batches import (
    StoryBatches,
    StoryInputs,
    StoryTensors,
    encode_stories,
    joined,
)
from nerf_posenc_sequences.systems.story_system import StorySystem

MARGIN = 0.1
WIDTH = 100
MAX_HOPS = 5
BATCH_SIZE = 32
EPOCHS = 60
LR = 0.1
CLIP_NORM = 40.0
_NO_LIMIT = 1 << 30

# Whether words are weighted by position, and whether memories have write times.
ENCODINGS = {
    "none": (None, False, "bags of words, memories in no order"),
    "temporal": (None, True, "bags of words, and pairs of memories by age: the published model"),
    "position": (1.0, False, "words weighted by position, memories in no order"),
    "position-temporal": (1.0, True, "words weighted by position, and pairs of memories by age"),
}


class MemoryNetworkSystem(StorySystem):
    """Memory networks with a margin ranking loss over all negatives (Weston et al. 2015).

    One model learns all tasks. It finds as many memories as a question has supporting facts at
    most, up to 5. The paper draws negatives at random and takes a step of 0.01 after every
    question; here a step of 0.1 follows the mean of a batch.

    Args:
        data: tasks of questions with supporting facts.
        options: `width` and `hops` apply.

    Raises:
        SequenceError: If a task is empty or lacks supporting facts, or an option is out of its
            range.
    """

    model = "memory-network"
    lesson = (
        "Without write times the model cannot tell which of two statements came last, and "
        "without the positions of words it cannot tell what is north of what."
    )
    default_encodings: tuple[str, ...] = ("none", "temporal", "position-temporal")
    uses = frozenset({"hops"})
    citations = (papers.WESTON,)
    hop_name = "memory"
    hops_are = "of them found"

    def __init__(self, data: Stories, options: SystemOptions) -> None:
        super().__init__(data, max_memories=_NO_LIMIT)
        self.encodings: Mapping[str, str] = {
            name: about for name, (_, _, about) in ENCODINGS.items()
        }
        for task in data.tasks:
            if not any(story.supporting for story in task.train):
                raise SequenceError(
                    f"task {task.name} has no supporting facts to learn from; add them as the "
                    "third column of its questions, or use the model memn2n"
                )
        self.training = joined(encode_stories(task.train, self.format) for task in data.tasks)
        most = min(self.training.supporting.shape[1], MAX_HOPS)
        self.hops = most if options.hops is None else options.hops
        self.width = WIDTH if options.width is None else options.width
        self._require_sizes()
        steps = max(len(self.training) // BATCH_SIZE, 1)
        # A hinge loss has no unit.
        self.defaults = SystemDefaults(
            steps=EPOCHS * steps, batch_size=BATCH_SIZE, lr=LR, is_likelihood=False
        )

    def data(self) -> Iterable[Tensor]:
        """Words, ages, answers and supporting facts of all questions."""
        for rows in (self.training, *self.tests):
            yield from (*rows.inputs, rows.answers, rows.supporting)

    def _arguments(self, encoding: str) -> dict[str, Any]:
        position_scale, write_time, _ = ENCODINGS[encoding]
        return {
            "num_words": len(self.format.words),
            "width": self.width,
            "hops": self.hops,
            "max_words": self.format.max_words,
            "position_scale": position_scale,
            "write_time": write_time,
        }

    def build(self, encoding: str, generator: torch.Generator) -> MemoryNetwork:
        """Make a model with random weights."""
        return MemoryNetwork(**self._arguments(encoding), generator=generator)

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Batches of training questions with their supporting facts."""
        return _FactBatches(self.training, batch_size, self.hops, seed)

    def loss(self, prediction: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
        """Hinge losses of supporting facts and answers, summed over negatives."""
        preferences, scores = prediction
        facts = (MARGIN - preferences).clamp(min=0).sum((1, 2, 3))
        lead = scores.gather(1, targets[:, None]) - scores
        is_answer = F.one_hot(targets, scores.shape[1]).bool()
        words = (MARGIN - lead).clamp(min=0).masked_fill(is_answer, 0).sum(1)
        return (facts + words).mean()

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """SGD with the gradients of each member clipped."""
        return OptimizerGroup([ClippedSGD(members, lr=lr, max_norm=CLIP_NORM)])

    def schedule(self, progress: float) -> float:
        """Let the rate fall linearly to 0."""
        return 1 - progress

    def _answer(self, model: nn.Module, inputs: StoryInputs) -> tuple[Tensor, Tensor]:
        assert isinstance(model, MemoryNetwork)
        scores, slots = model.answer(inputs)
        return scores, F.one_hot(slots, self.format.max_memories + 1)[..., :-1].float()


class _FactBatches:
    """Batches whose inputs end with the supporting facts of as many hops as there are."""

    def __init__(self, stories: StoryTensors, batch_size: int, hops: int, seed: int) -> None:
        self._draw = StoryBatches(stories, batch_size, seed=seed)
        facts = stories.supporting[:, :hops]
        self._facts = F.pad(facts, (0, hops - facts.shape[1]), value=-1)

    def __call__(self, step: int) -> tuple[FactInputs, Tensor]:
        inputs, answers = self._draw(step)
        return (*inputs, self._facts[self._draw.rows(step)]), answers
