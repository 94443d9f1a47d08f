"""Pre-training of BERT: masked words and next sentences (Devlin et al. 2019)."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.kinds.sequence import guessed
from nerf_posenc_app.values.blocks import Evaluation, Passage, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Text
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.bert_model import BertModel
from nerf_posenc_sequences.layers.optimizers import muon_for_layers
from nerf_posenc_sequences.layers.vocabulary import Vocabulary, most_frequent
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.attention_maps import (
    attention_by_offset,
    recording,
    self_attentions,
)
from nerf_posenc_sequences.systems.base_system import BaseSystem

_CLASS, _SEPARATOR, _MASK, _UNKNOWN = range(4)
_SPECIALS = ("[CLS]", "[SEP]", "[MASK]", "<unknown>")
_MASKED_SHARE = 0.15
_MOST_WORDS = 4000
_NUM_TESTED = 1024
_SHOWN = 4

_NEXT = Measure(
    "next_sentence_percent",
    "next sentence",
    "%",
    1,
    meaning="Test pairs for which the model tells whether the second part followed the first in "
    "the text; half did, so guessing scores 50%.",
)
_BITS = Measure(
    "bits_per_word",
    "bits per masked word",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to the true word.",
)
_ACCURACY = Measure(
    "accuracy_percent",
    "masked words",
    "%",
    1,
    meaning="Masked words whose most probable prediction is right.",
)


class BertSystem(BaseSystem):
    """Pre-training of BERT on a text; see [System][nerf_posenc_sequences.system.System].

    An example is ``[CLS] A [SEP] B [SEP]`` with a random boundary. In half of them B is what
    follows A in the text, in the others it is from somewhere else. Of the words 15% are predicted:
    80% of those are replaced by ``[MASK]``, 10% by a random word, and 10% are left.

    Args:
        data: text to train and to test on.
        options: ``context`` is the number of words of an example.

    Raises:
        SequenceError: If the text is too short, or an option does not fit.
    """

    encodings: Mapping[str, str] = MappingProxyType(
        {
            "none": "words alone",
            "position": "learned position embeddings",
            "sinusoidal": "sinusoidal position embeddings",
            "segment": "embeddings of the first and the second part",
            "position-segment": "learned positions and segments, as in the paper",
            "sinusoidal-segment": "sinusoidal positions and segments",
        }
    )
    default_encodings = ("none", "position", "segment", "position-segment")
    uses = frozenset({"context", "depth", "heads"})
    measures = (_BITS, _ACCURACY, _NEXT)
    citations = (papers.DEVLIN,)
    lesson = (
        "BERT adds embeddings of position and of segment to those of the words. Without positions "
        "a masked word is guessed from a bag of words; without segments both parts are one bag."
    )

    def __init__(self, data: Text, options: SystemOptions) -> None:
        self.model = "bert"
        self.name, self.source = data.name, data.source
        self.length = options.context or 48
        self.width = options.width or 96
        self.depth = options.depth or 2
        self.heads = options.heads or 4
        if self.length < 8:
            raise SequenceError(f"--context must be 8 words or more for bert; got {self.length}")
        if self.width % (2 * self.heads):
            raise SequenceError(
                f"--width must be an even multiple of --heads; got {self.width} and {self.heads}"
            )
        self.defaults = SystemDefaults(steps=1200, batch_size=32, lr=0.02)
        parts = [[_words(document) for document in part] for part in (data.train, data.test)]
        self.vocabulary = Vocabulary(
            most_frequent((word for words in parts[0] for word in words), _MOST_WORDS),
            specials=_SPECIALS,
        )
        self.train, self.test = (self._numbers(words) for words in parts)
        for name, numbers in (("training", self.train), ("test", self.test)):
            if len(numbers) < 2 * self.length:
                raise SequenceError(
                    f"{self.source}: its {name} text has {len(numbers):,} words and needs "
                    f"{2 * self.length} for a context of {self.length}; use a longer text or a "
                    "smaller --context"
                )

    def _numbers(self, documents: Sequence[Sequence[str]]) -> Int[Tensor, " words"]:
        return torch.tensor(self.vocabulary.encode(word for words in documents for word in words))

    @property
    def num_masked(self) -> int:
        """Words of an example that are predicted."""
        return max(1, round(_MASKED_SHARE * (self.length - 3)))

    def guess(self) -> dict[str, float]:
        """Words by how frequent they are, and either answer for pairs."""
        _, targets = self._tested()
        known = targets[:, :-1].flatten()
        bits, percent = guessed(self.train, known[known >= 0], len(self.vocabulary))
        return {_BITS.name: bits, _ACCURACY.name: percent, _NEXT.name: 50.0}

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        return [
            f"text     {len(self.train):,} words to train, {len(self.test):,} to test, "
            f"{len(self.vocabulary):,} distinct",
            f"model    bert: predicts {self.num_masked} masked words of {self.length}, and whether "
            "the second part follows the first",
        ]

    def data(self) -> Iterable[Tensor]:
        """All words."""
        return self.train, self.test

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt."""
        return {
            "words": len(self.vocabulary),
            "length": self.length,
            "width": self.width,
            "depth": self.depth,
            "heads": self.heads,
        }

    def build(self, encoding: str, generator: torch.Generator) -> BertModel:
        """Make a model."""
        return BertModel(
            len(self.vocabulary),
            encoding,
            generator,
            width=self.width,
            depth=self.depth,
            num_heads=self.heads,
            length=self.length,
        )

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Random pairs, the same for every encoding."""
        return partial(self._draw, self.train, batch_size, seed)

    def _draw(
        self, text: Tensor, batch_size: int, seed: int, step: int
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        words, segments, follows = self._pairs(text, batch_size, generator)
        shape = batch_size, self.num_masked
        is_special = (words == _CLASS) | (words == _SEPARATOR)
        order = torch.rand(words.shape, generator=generator).masked_fill(is_special, 2.0).argsort(1)
        masked = order[:, : self.num_masked].sort(1).values
        truth = words.gather(1, masked)
        kind = torch.rand(shape, generator=generator)
        random = torch.randint(_UNKNOWN, len(self.vocabulary), shape, generator=generator)
        visible = torch.where(kind < 0.8, _MASK, torch.where(kind < 0.9, random, truth))
        given = words.scatter(1, masked, visible)
        return (given, segments, masked), torch.cat([truth, follows[:, None]], 1)

    def _pairs(
        self, text: Tensor, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``[CLS] A [SEP] B [SEP]``, the segment of each word, and 1 where B follows A."""
        num_words = self.length - 3
        first = torch.randint(
            num_words // 4, num_words - num_words // 4 + 1, (count, 1), generator=generator
        )
        last = len(text) - num_words
        starts = torch.randint(last, (count, 1), generator=generator)
        follows = torch.randint(2, (count, 1), generator=generator)
        elsewhere = torch.randint(last, (count, 1), generator=generator)
        places = torch.arange(self.length)
        # Position of each word in the text: A from its start, B from where A ends or elsewhere.
        second = torch.where(follows == 1, starts, elsewhere) - 2
        is_second = places > first + 1
        at = torch.where(is_second, second, starts - 1) + places
        words = text[at.clamp(0, len(text) - 1)]
        words = words.masked_fill(places == 0, _CLASS)
        is_separator = (places == first + 1) | (places == self.length - 1)
        return words.masked_fill(is_separator, _SEPARATOR), is_second.long(), follows[:, 0]

    def loss(self, prediction: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
        """Sum of the mean cross-entropies of words and of pairs, in nats."""
        logits, pairs = prediction
        words = F.cross_entropy(logits.float().flatten(0, 1), targets[:, :-1].flatten())
        return words + F.cross_entropy(pairs.float(), targets[:, -1])

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Muon on the layers, Adam on embeddings and norms."""
        return muon_for_layers(members, lr)

    def _tested(self) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """The same test pairs for every model."""
        return self._draw(self.test, _NUM_TESTED, 0, 0)

    def _token(self, word: int, truth: int | None) -> Token:
        text = self.vocabulary.symbols[word]
        if truth is None:
            return Token(text)
        mark: Any = "right" if word == truth else "wrong"
        return Token(text, mark, self.vocabulary.symbols[truth])

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Bits and accuracy of masked words, and accuracy on pairs."""
        inputs, targets = self._tested()
        logits, pairs = [], []
        for start in range(0, _NUM_TESTED, 128):
            words, follows = model(tuple(part[start : start + 128] for part in inputs))
            logits.append(words.float())
            pairs.append(follows.float())
        words, truth = torch.cat(logits), targets[:, :-1]
        nats = F.cross_entropy(words.flatten(0, 1), truth.flatten())
        right = (torch.cat(pairs).argmax(-1) == targets[:, -1]).float()
        return Evaluation(
            scores={
                _BITS.name: float(nats) / math.log(2),
                _ACCURACY.name: 100 * float((words.argmax(-1) == truth).float().mean()),
                _NEXT.name: 100 * float(right.mean()),
            },
            blocks=[self.passage(model, encoding), self._attention(model, inputs)],
        )

    def _attention(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> HeatMap:
        with recording(self_attentions(model)) as attentions:
            model(tuple(part[:32] for part in inputs))
            return attention_by_offset(attentions, is_causal=False)

    def passage(self, model: nn.Module, encoding: str) -> Passage:
        """Test pairs with the masked words filled in."""
        inputs, targets = self._tested()
        logits, pairs = model(tuple(part[:_SHOWN] for part in inputs))
        words, places = inputs[0][:_SHOWN].tolist(), inputs[2][:_SHOWN].tolist()
        tokens: list[Token] = []
        for i, (row, masked) in enumerate(zip(words, places, strict=True)):
            predicted = dict(zip(masked, logits[i].argmax(-1).tolist(), strict=True))
            truth = dict(zip(masked, targets[i, :-1].tolist(), strict=True))
            for place, word in enumerate(row):
                tokens.append(self._token(predicted.get(place, word), truth.get(place)))
                tokens.append(Token(" "))
            tokens += _verdict(int(pairs[i].argmax()), int(targets[i, -1]))
        return Passage("Masked words, filled in", tokens)


def _words(document: str) -> list[str]:
    """Words of any alphabet, numbers and punctuation marks, in lower case."""
    return re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", document.lower())


def _verdict(predicted: int, truth: int) -> list[Token]:
    names = ("unrelated", "the second part follows")
    mark: Any = "right" if predicted == truth else "wrong"
    return [Token("\n  "), Token(names[predicted], mark, names[truth]), Token("\n")]
