"""End-to-end memory networks on questions about stories."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_sequences.data.types import Stories
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.clipped_sgd import ClippedSGD
from nerf_posenc_sequences.systems.memn2n_model import MemN2N
from nerf_posenc_sequences.systems.story_batches import (
    StoryBatches,
    StoryInputs,
    encode_stories,
    joined,
)
from nerf_posenc_sequences.systems.story_system import StorySystem

MAX_MEMORIES = 50
BATCH_SIZE = 32
LR = 0.01
CLIP_NORM = 40.0
HOPS = 3


@dataclass(frozen=True)
class _Encoding:
    position_scale: float | None
    temporal: bool
    about: str


ENCODINGS = {
    "none": _Encoding(None, False, "bags of words in no order, memories in no order"),
    "temporal": _Encoding(None, True, "bags of words; a learned embedding of each memory's age"),
    "position": _Encoding(1.0, False, "words weighted by position, memories in no order"),
    "position-temporal": _Encoding(1.0, True, "weighted words and ages: the formula of the paper"),
    "position2-temporal": _Encoding(
        2.0, True, "the same with twice the weights, as published runs"
    ),
}


class MemN2NSystem(StorySystem):
    """MemN2N as it was published: plain SGD, and the seed of the least training loss.

    One model learns all tasks. For one task it is 20 wide and trains for 100 epochs; for several,
    50 wide and 60 epochs, as in the joint training of the paper. A tenth of the training questions
    is left out, as the paper does for validation (Sukhbaatar et al. 2015, section 4.2).

    Args:
        data: tasks of questions.
        options: `width`, `hops` and `tying` apply.

    Raises:
        SequenceError: If a task is empty, or an option is out of its range.
    """

    model = "memn2n"
    lesson = (
        "Without the ages of memories the model cannot tell which of two statements came last, "
        "and without the positions of words it cannot tell who did what to whom."
    )
    default_encodings: tuple[str, ...] = ("none", "temporal", "position-temporal")
    citations = (papers.SUKHBAATAR,)
    uses = frozenset({"hops", "tying"})

    def __init__(self, data: Stories, options: SystemOptions) -> None:
        super().__init__(data, max_memories=MAX_MEMORIES)
        self.encodings: Mapping[str, str] = {
            name: encoding.about for name, encoding in ENCODINGS.items()
        }
        is_joint = len(data.tasks) > 1
        self.width = (50 if is_joint else 20) if options.width is None else options.width
        self.hops = HOPS if options.hops is None else options.hops
        self._require_sizes()
        self.options = options
        self.training = joined(
            encode_stories(task.train[: max(len(task.train) * 9 // 10, 1)], self.format)
            for task in data.tasks
        )
        steps_per_epoch = max(len(self.training) // BATCH_SIZE, 1)
        self.defaults = SystemDefaults(
            steps=(60 if is_joint else 100) * steps_per_epoch,
            batch_size=BATCH_SIZE,
            lr=LR,
            selects_seed=True,
        )

    def data(self) -> Iterable[Tensor]:
        """Words, ages and answers of all questions."""
        for rows in (self.training, *self.tests):
            yield from (*rows.inputs, rows.answers)

    def _arguments(self, encoding: str) -> dict[str, Any]:
        kind = ENCODINGS[encoding]
        return {
            "num_words": len(self.format.words),
            "width": self.width,
            "hops": self.hops,
            "max_memories": self.format.max_memories,
            "max_words": self.format.max_words,
            "position_scale": kind.position_scale,
            "temporal": kind.temporal,
            "tying": self.options.tying,
        }

    def build(self, encoding: str, generator: torch.Generator) -> MemN2N:
        """Make a model with random weights."""
        return MemN2N(**self._arguments(encoding), generator=generator)

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Batches of training questions."""
        return StoryBatches(self.training, batch_size, seed=seed)

    def loss(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of the answers."""
        return F.cross_entropy(prediction, targets)

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """SGD with the gradients of each member clipped.

        The learning rate and the limit of the norm are for losses summed over a batch of 32, as
        published.
        """
        return OptimizerGroup(
            [ClippedSGD(members, lr=lr, max_norm=CLIP_NORM, loss_scale=BATCH_SIZE)]
        )

    def schedule(self, progress: float) -> float:
        """Halve the rate after each quarter of the fit."""
        factor: float = 0.5 ** int(4 * progress)
        return factor

    def _answer(self, model: nn.Module, inputs: StoryInputs) -> tuple[Tensor, Tensor]:
        assert isinstance(model, MemN2N)
        return model.attend(inputs)
