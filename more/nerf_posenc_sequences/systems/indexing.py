"""Indirect indexing: which letter stands three places after z? (Gopalakrishnan et al. 2025)."""

import math
import string
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.values.blocks import Curve, Evaluation, Passage, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Indexing
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.layers.language_models import TransformerLM
from nerf_posenc_sequences.layers.optimizers import muon_for_layers
from nerf_posenc_sequences.layers.positions import ENCODINGS
from nerf_posenc_sequences.layers.symbol_loss import IGNORED, symbol_loss
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.base_system import BaseSystem

ALPHABET = string.ascii_lowercase[:16]
MIN_LENGTH = 8
MAX_LENGTH = 12
MAX_SHIFT = 3
NUM_QUESTIONS = 12
"""Questions about each string; the paper asks one."""

_SHIFTS = [shift for shift in range(-MAX_SHIFT, MAX_SHIFT + 1) if shift]
_PADDING = len(ALPHABET) + len(_SHIFTS)
_NUM_TEST = 500
# With 1e-2 PoPE answered 15% after 1,000 steps; more/docs/systems/indexing.md.
_ADAM_LR = 3e-3
_TEST_SEED = 1 << 40

CORRECT = Measure(
    "correct_percent",
    "correct",
    "%",
    1,
    meaning="Questions about test strings that are answered with the right letter.",
)
BITS = Measure(
    "bits_per_answer",
    "bits per answer",
    "",
    3,
    higher_is_better=False,
    meaning="Mean of -log2 of the probability that the model gives to the right letter.",
)


class IndexingSystem(BaseSystem):
    """Letters found by their place in a string; see [System][nerf_posenc_sequences.system.System].

    A string of 8 to 12 different letters is followed by twelve questions, each a letter of the
    string and a shift of up to three places; the model predicts the letter there, and its answers
    are not shown to it. Content finds the first letter, position alone the second.

    Args:
        data: nothing but that it is wanted; strings are drawn at every step.
        options: ``width``, ``depth`` and ``heads`` apply.

    Raises:
        SequenceError: If an option does not fit.
    """

    model = name = "indexing"
    source = "generated strings"
    encodings: Mapping[str, str] = ENCODINGS
    default_encodings = ("none", "sinusoidal", "rotary", "pope")
    citations = (papers.GOPALAKRISHNAN, papers.SU)
    measures = (CORRECT, BITS)
    uses = frozenset({"depth", "heads"})
    defaults = SystemDefaults(steps=1_000, batch_size=64, lr=0.02)
    lesson = (
        "To answer, a model has to find a letter by what it is, and another by where it stands. "
        "Rotary embeddings mix the two, since features add to the angle of a position; polar ones "
        "(PoPE) keep them apart and learn the task in a fraction of the steps. By their own "
        "protocol Gopalakrishnan et al. 2025 report 94.8% against 11.2%."
    )

    def __init__(self, data: Indexing, options: SystemOptions) -> None:
        self.width = options.width or 64
        self.depth = options.depth or 3
        self.heads = options.heads or 2
        if self.width % (2 * self.heads):
            raise SequenceError(
                f"--width must be an even multiple of --heads; got {self.width} and {self.heads}"
            )
        self.test = draw_questions(_NUM_TEST, torch.Generator().manual_seed(_TEST_SEED))

    def guess(self) -> dict[str, float]:
        """Any letter."""
        return {CORRECT.name: 100 / len(ALPHABET), BITS.name: math.log2(len(ALPHABET))}

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        return [
            f"strings  of {MIN_LENGTH} to {MAX_LENGTH} letters with {NUM_QUESTIONS} questions, new "
            f"ones at every step; {_NUM_TEST} to test",
            f"model    causal Transformer: {self.depth} layers of width {self.width}",
        ]

    def data(self) -> Iterable[Tensor]:
        """Strings and answers of the test."""
        return self.test

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt."""
        return {"width": self.width, "depth": self.depth, "heads": self.heads}

    def build(self, encoding: str, generator: torch.Generator) -> nn.Module:
        """Make a model."""
        return TransformerLM(
            _PADDING + 1,
            encoding,
            generator,
            width=self.width,
            depth=self.depth,
            num_heads=self.heads,
            max_length=MAX_LENGTH + 2 * NUM_QUESTIONS,
            is_causal=True,
        )

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """New strings at every step, the same for every encoding."""
        return partial(_draw_step, batch_size, seed)

    def loss(self, prediction: Float[Tensor, "batch length symbols"], targets: Tensor) -> Tensor:
        """Cross-entropy of the answers in nats."""
        return symbol_loss(prediction, targets)

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Muon on the layers, Adam on embeddings, norms and phases."""
        return muon_for_layers(members, lr, adam_lr=_ADAM_LR)

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Share of right answers, altogether and by shift."""
        symbols, targets = self.test
        logits = model(symbols).float()
        is_answer = targets != IGNORED
        right = (logits.argmax(-1) == targets)[is_answer].float()
        shifts = symbols[is_answer] - len(ALPHABET)
        by_shift = [100 * float(right[shifts == i].mean()) for i in range(len(_SHIFTS))]
        return Evaluation(
            scores={
                CORRECT.name: 100 * float(right.mean()),
                BITS.name: float(self.loss(logits, targets)) / math.log(2),
            },
            blocks=[
                self.passage(model, encoding),
                Curve("Correct by shift", "shift (places)", "correct (%)", _SHIFTS, by_shift),
            ],
        )

    def passage(self, model: nn.Module, encoding: str) -> Passage:
        """Some test strings with the questions and the model's answers."""
        symbols, targets = (part[:4] for part in self.test)
        answers = model(symbols).argmax(-1)
        tokens = []
        rows = zip(*(part.tolist() for part in (symbols, targets, answers)), strict=True)
        for given, truth, found in rows:
            # The letters before the first question.
            length = next(i for i, right in enumerate(truth) if right != IGNORED) - 1
            tokens.append(Token("".join(_text(symbol) for symbol in given[:length]) + ": "))
            for i in range(length, length + 2 * NUM_QUESTIONS, 2):
                answer, right = _text(found[i + 1]), _text(truth[i + 1])
                mark: Literal["right", "wrong"] = "right" if answer == right else "wrong"
                tokens.append(Token(f"{_text(given[i])}{_text(given[i + 1])}="))
                tokens += [Token(answer, mark, right), Token(" ")]
            tokens.append(Token("\n"))
        return Passage("Questions about strings, answered", tokens)


def draw_questions(
    count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "count length"], Int[Tensor, "count length"]]:
    """Random strings with questions, and the answer at the last symbol of each question.

    Args:
        count: number of strings.
        generator: random number generator.

    Returns:
        Symbols: the string, letter and shift of each question, and padding. Targets: ``IGNORED``
        except at the shifts.
    """
    letters = torch.rand(count, len(ALPHABET), generator=generator).argsort(1)[:, :MAX_LENGTH]
    size = (count, 1)
    start = torch.randint(0, MAX_LENGTH - MIN_LENGTH + 1, size, generator=generator)
    # A place within the string, and a shift that does not leave it.
    place = (
        start
        + (torch.rand(count, NUM_QUESTIONS, generator=generator) * (MAX_LENGTH - start)).long()
    )
    # Shifts by their number in _SHIFTS, which counts on over 0, from the first letter to the last.
    least = (start - place).clamp(min=-MAX_SHIFT)
    most = (MAX_LENGTH - 1 - place).clamp(max=MAX_SHIFT)
    number = torch.rand(place.shape, generator=generator) * (most - least)
    index = least + MAX_SHIFT + number.long()
    shift = torch.tensor(_SHIFTS)[index]
    questions = torch.stack([letters.gather(1, place), len(ALPHABET) + index], -1).flatten(1)
    answers = letters.gather(1, place + shift)
    string = letters.masked_fill(torch.arange(MAX_LENGTH) < start, _PADDING)
    symbols = torch.cat([string, questions], 1)
    targets = torch.full_like(symbols, IGNORED)
    targets[:, MAX_LENGTH + 1 :: 2] = answers
    # The padding in front goes to the end, where no question sees it.
    order = (torch.arange(symbols.shape[1]) + start) % symbols.shape[1]
    return symbols.gather(1, order), targets.gather(1, order)


def _draw_step(batch_size: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
    return draw_questions(batch_size, torch.Generator().manual_seed(seed * 1_000_003 + step))


def _text(symbol: int) -> str:
    """Letter, shift with a minus that no line breaks after, or nothing for padding."""
    if symbol < len(ALPHABET):
        return ALPHABET[symbol]
    return (
        "" if symbol == _PADDING else f"{_SHIFTS[symbol - len(ALPHABET)]:+d}".replace("-", "\u2212")
    )
