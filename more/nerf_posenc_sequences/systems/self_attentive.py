"""A structured self-attentive sentence embedding (Lin et al. 2017)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training import schedules
from nerf_posenc.training.batches import DrawBatch, ShuffledBatches
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from nerf_posenc_app.kinds.sequence import guessed
from nerf_posenc_app.values.blocks import Evaluation, Passage, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Labeled, LabeledSentences
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.positions import ADDED, AddedPositions
from nerf_posenc_sequences.layers.vocabulary import Vocabulary, most_frequent
from nerf_posenc_sequences.layers.weights import initialize
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.base_system import BaseSystem, few_tested

_MAX_WORDS = 60
_MOST_WORDS = 10_000
_PADDING = 0
_SHOWN = 4

_ACCURACY = Measure(
    "accuracy_percent", "accuracy", "%", 1, meaning="Test sentences whose label is found."
)
_LOSS = Measure(
    "bits_per_label",
    "bits per label",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to the true label.",
)


_ALIKE = Measure(
    "row_similarity",
    "similarity of rows",
    "",
    3,
    higher_is_better=False,
    meaning="Mean cosine similarity of two rows of attention: 1 if they weigh the words alike.",
)


class SelfAttentiveModel(nn.Module):
    r"""Bidirectional LSTM whose states are averaged by several rows of attention.

    $A = \mathrm{softmax}(W_{s2} \tanh(W_{s1} H^T))$ and $M = A H$ (Lin et al. 2017, equations 6
    and 7); a linear layer classifies M. The prediction is the logits and the penalty
    $\lVert A A^T - I \rVert_F^2$ (equation 8), which makes rows attend to different words.

    Args:
        num_words: size of the vocabulary; word 0 is padding.
        num_labels: classes.
        encoding: positions added to the words' embeddings, one of ``ADDED``.
        generator: random number generator of the initial weights.
        width: width of the embeddings and of the LSTM's two directions together, an even number.
        num_rows: rows of attention.
        max_length: words of the longest sentence.
    """

    def __init__(
        self,
        num_words: int,
        num_labels: int,
        encoding: str,
        generator: torch.Generator,
        *,
        width: int,
        num_rows: int,
        max_length: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, width, padding_idx=_PADDING)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.scores = nn.Sequential(
            nn.Linear(width, width, bias=False), nn.Tanh(), nn.Linear(width, num_rows, bias=False)
        )
        self.classifier = nn.Linear(num_rows * width, num_labels)
        initialize(self, generator)
        for parameter in self.lstm.parameters():
            bound = (width // 2) ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.positions = AddedPositions(encoding, width, max_length, generator, std=0.1)

    def attention(self, words: Int[Tensor, "batch length"]) -> tuple[Tensor, Tensor]:
        """States ``(batch, length, width)`` and attention ``(batch, rows, length)``."""
        is_padding = words == _PADDING
        x = self.positions(self.embedding(words) * math.sqrt(self.embedding.embedding_dim))
        lengths = (~is_padding).sum(-1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=words.shape[1]
        )
        scores = self.scores(states).mT.masked_fill(is_padding[:, None], -torch.inf)
        return states, scores.softmax(-1)

    def forward(
        self, words: Int[Tensor, "batch length"]
    ) -> tuple[Float[Tensor, "batch labels"], Float[Tensor, " batch"]]:
        """Logits of the labels, and the penalty of each sentence."""
        states, attention = self.attention(words)
        logits = self.classifier((attention @ states).flatten(1))
        excess = attention @ attention.mT - torch.eye(attention.shape[1], device=states.device)
        return logits, excess.square().sum((1, 2))


class SelfAttentiveSystem(BaseSystem):
    """Classification of sentences; see [System][nerf_posenc_sequences.system.System].

    Args:
        data: labeled sentences.
        options: ``width``, ``hops``, the number of rows of attention, and ``penalty`` apply.

    Raises:
        SequenceError: If an option does not fit.
    """

    encodings = ADDED
    default_encodings = ("none", "sinusoidal", "learned")
    citations = (papers.LIN,)
    uses = frozenset({"hops", "penalty"})
    lesson = (
        "A recurrent network reads its input in order, so positions that are added to the words "
        "barely matter. The rows of attention show which words decide."
    )

    def __init__(self, data: LabeledSentences, options: SystemOptions) -> None:
        self.model = "self-attentive"
        self.name, self.source = data.name, data.source
        self.width = options.width or 64
        self.num_rows = options.hops or 6
        self.penalty = options.penalty
        if self.width % 2:
            raise SequenceError(f"--width must be even for two directions; got {self.width}")
        self.defaults = SystemDefaults(steps=60, batch_size=64, lr=2e-3)
        self.labels = sorted({label for label, _ in data.train})
        self.vocabulary = Vocabulary(
            most_frequent((word for _, words in data.train for word in words), _MOST_WORDS),
            specials=("<padding>", "<unknown>"),
        )
        longest = max(len(words) for part in (data.train, data.test) for _, words in part)
        self.length = min(longest, _MAX_WORDS)
        self.train, self.train_labels = self._tensors(data.train)
        self.test, self.test_labels = self._tensors(data.test)
        self.measures = (replace(_ACCURACY, count=len(self.test)), _LOSS, _ALIKE)

    def _tensors(self, sentences: Sequence[Labeled]) -> tuple[Tensor, Tensor]:
        index = {label: i for i, label in enumerate(self.labels)}
        words = torch.zeros(len(sentences), self.length, dtype=torch.long)
        for row, (_, sentence) in zip(words, sentences, strict=True):
            numbers = self.vocabulary.encode(sentence[: self.length])
            row[: len(numbers)] = torch.tensor(numbers)
        return words, torch.tensor([index.get(label, -1) for label, _ in sentences])

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        return [
            f"labels   {', '.join(self.labels[:8])}{' ...' if len(self.labels) > 8 else ''}",
            f"data     {len(self.train):,} sentences to train, {len(self.test):,} to test, "
            f"{len(self.vocabulary):,} words",
        ]

    def notes(self) -> list[str]:
        """Whether few sentences are tested."""
        return few_tested("sentence", len(self.test))

    def guess(self) -> dict[str, float]:
        """The most frequent label."""
        known = self.test_labels[self.test_labels >= 0]
        bits, percent = guessed(self.train_labels, known, len(self.labels))
        return {
            _ACCURACY.name: percent * len(known) / len(self.test_labels),
            _LOSS.name: bits,
            _ALIKE.name: math.nan,
        }

    def data(self) -> Iterable[Tensor]:
        """All sentences and labels."""
        return self.train, self.train_labels, self.test, self.test_labels

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt."""
        return {
            "labels": self.labels,
            "width": self.width,
            "rows": self.num_rows,
            "length": self.length,
        }

    def build(self, encoding: str, generator: torch.Generator) -> SelfAttentiveModel:
        """Make a model."""
        return SelfAttentiveModel(
            len(self.vocabulary),
            len(self.labels),
            encoding,
            generator,
            width=self.width,
            num_rows=self.num_rows,
            max_length=self.length,
        )

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Sentences in random order."""
        return ShuffledBatches(self.train, self.train_labels, batch_size, seed=seed)

    def loss(self, prediction: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
        """Cross-entropy in nats, and the penalty."""
        logits, penalty = prediction
        return F.cross_entropy(logits.float(), targets) + self.penalty * penalty.float().mean()

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Adam."""
        return adam(nn.ModuleList(members), lr=lr)

    def schedule(self, progress: float) -> float:
        """Half a cosine."""
        return schedules.cosine_decay(progress)

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Accuracy on test sentences, and the attention over the words of some."""
        assert isinstance(model, SelfAttentiveModel)
        logits = torch.cat([model(chunk)[0].float() for chunk in self.test.split(256)])
        is_known = self.test_labels >= 0
        right = (logits.argmax(-1) == self.test_labels).float()
        nats = F.cross_entropy(logits[is_known], self.test_labels[is_known])
        return Evaluation(
            scores={
                _ACCURACY.name: 100 * float(right.mean()),
                _LOSS.name: float(nats) / math.log(2),
                _ALIKE.name: self._row_similarity(model),
            },
            blocks=[
                self._passage(logits[:_SHOWN].argmax(-1)),
                *(self._map(model, i) for i in range(min(_SHOWN, len(self.test)))),
            ],
        )

    def _row_similarity(self, model: SelfAttentiveModel) -> float:
        rows = F.normalize(model.attention(self.test[:256])[1].float(), dim=-1)
        cosines = rows @ rows.mT
        # Leave out the similarity of a row with itself, which is 1.
        pairs = self.num_rows * (self.num_rows - 1)
        return float((cosines.sum((1, 2)) - self.num_rows).mean() / max(pairs, 1))

    def _passage(self, predicted: Tensor) -> Passage:
        tokens: list[Token] = []
        for i, label in enumerate(predicted.tolist()):
            truth = int(self.test_labels[i])
            right = "none of the training labels" if truth < 0 else self.labels[truth]
            mark: Any = "right" if label == truth else "wrong"
            tokens.append(Token(" ".join(self._words(i)) + "\n  "))
            tokens += [Token(self.labels[label], mark, right), Token("\n")]
        return Passage("Sentences and the label that is found", tokens)

    def _map(self, model: SelfAttentiveModel, i: int) -> HeatMap:
        """Attention of each row over the words of a test sentence."""
        words = self._words(i)
        _, attention = model.attention(self.test[i : i + 1])
        rows = [f"row {row + 1}" for row in range(self.num_rows)]
        return HeatMap.of(
            f"Attention, sentence {i + 1}", attention[0, :, : len(words)], rows, words
        )

    def _words(self, i: int) -> tuple[str, ...]:
        row = self.test[i]
        return self.vocabulary.decode(row[row != _PADDING].tolist())
