"""A system: a model of the literature with its data, and how a report shows what it has learned."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import Measure

Tying = Literal["adjacent", "layer-wise"]


@dataclass(frozen=True, kw_only=True)
class SystemOptions:
    """Options of a system; None leaves a value to the system."""

    model: str | None = None
    """Model to fit: transformer (masked), causal, conv or bert for texts; memn2n or memory-network
    for stories; transformer or conv for pairs; self-attentive for labels; indexing for its own task
    (default: the first one for the data)."""

    context: int | None = None
    """Length of a training example (default: 32 characters for transformer, 128 for causal and
    conv, 48 words for bert)."""

    width: int | None = None
    """Width of the embeddings (default: 20 to 128, set by the model)."""

    depth: int | None = None
    """Number of layers (default: 1 to 4, set by the model)."""

    heads: int | None = None
    """Number of attention heads (default: 4, or 2 for indexing)."""

    hops: int | None = None
    """Hops of memn2n (default: 3), largest number of facts that memory-network finds (default: as
    many as a question needs), or attention rows of self-attentive (default: 6)."""

    penalty: float = 0.3
    """Weight of the self-attentive penalty on attention rows that attend to the same words."""

    tying: Tying = "adjacent"
    """How memn2n shares weights between hops."""

    beam: int = 1
    """Width of the beam search that translates pairs; 1 is greedy decoding."""

    seed: int = 0
    """Random seed of generated data."""


@dataclass(frozen=True, kw_only=True)
class SystemDefaults:
    """How a system is trained unless the user says otherwise.

    Attributes:
        steps: length of a fit on a CPU.
        batch_size: examples per step.
        lr: peak learning rate.
        selects_seed: whether the seed of the least training loss is reported, as some papers do,
            instead of the median over all.
        is_likelihood: whether the training loss is a cross-entropy in nats, shown in bits.
    """

    steps: int
    batch_size: int
    lr: float
    selects_seed: bool = False
    is_likelihood: bool = True


@runtime_checkable
class System(Protocol):
    """A model of the literature with its data: everything that a fit of it needs.

    Attributes:
        model: its name, for ``--model``.
        name: name of the data.
        source: source of the data.
        lesson: result of a comparison of its encodings, in a sentence or two for the report.
        defaults: how it is trained unless the user says otherwise.
        uses: options beside ``model``, ``width`` and ``seed`` that change something.
    """

    model: str
    name: str
    source: str
    lesson: str
    defaults: SystemDefaults
    uses: frozenset[str]

    @property
    def encodings(self) -> Mapping[str, str]:
        """Description of each encoding that it can be fitted with; ``"none"`` is among them."""
        ...

    @property
    def default_encodings(self) -> tuple[str, ...]:
        """Encodings that are fitted if none are named."""
        ...

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Columns of the table; gains are of the first."""
        ...

    @property
    def citations(self) -> Sequence[str]:
        """BibTeX of the papers that the model and its training are from."""
        ...

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit: how much there is to train and to test."""
        ...

    def notes(self) -> list[str]:
        """Remarks on the data that a reader of the table should know."""
        ...

    def guess(self) -> Mapping[str, float]:
        """Scores of the most frequent answers of the training data, without a model."""
        ...

    def data(self) -> Iterable[Tensor]:
        """All data as tensors, which tell whether a run is resumed with what it was begun with."""
        ...

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt, as plain values."""
        ...

    def build(self, encoding: str, generator: torch.Generator) -> nn.Module:
        """Make a model.

        It is called with the inputs of a batch as its only argument. All random numbers come from
        the generator.
        """
        ...

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Batches of training examples: inputs, a tensor or a tuple of tensors, and targets.

        A batch depends on the seed and the step alone, and not on the encoding if that can be
        avoided.
        """
        ...

    def loss(self, prediction: Any, targets: Tensor) -> Tensor:
        """Training loss of a batch, a scalar."""
        ...

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Optimizer of one model, or of several that are trained together, each as if alone."""
        ...

    def schedule(self, progress: float) -> float:
        """Factor of the learning rate by the progress of the fit in [0, 1)."""
        ...

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Evaluate a fitted model on test data; it is in evaluation mode and needs no gradient."""
        ...
