"""Language modeling by characters: masked, causal, or causal with convolutions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.kinds.sequence import guessed
from nerf_posenc_app.values.blocks import Curve, Evaluation, Passage
from nerf_posenc_sequences.data.types import Text
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.language_models import ConvolutionalLM, TransformerLM
from nerf_posenc_sequences.layers.optimizers import muon_for_layers
from nerf_posenc_sequences.layers.positions import ADDED, ENCODINGS
from nerf_posenc_sequences.layers.symbol_loss import IGNORED, symbol_loss
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.attention_maps import (
    attention_by_offset,
    recording,
    self_attentions,
)
from nerf_posenc_sequences.systems.base_system import BaseSystem
from nerf_posenc_sequences.systems.language_report import (
    ACCURACY,
    BITS,
    PERPLEXITY,
    bits_at,
    loss_by_position,
    marked_tokens,
)

MASKED_SHARE = 0.15
# Test windows hold about this many symbols at every length.
_TEST_SYMBOLS = 1 << 15
_SHOWN = 320

_FIVE = ("none", "sinusoidal", "learned", "rotary", "alibi")

_LESSONS = {
    "transformer": "Attention is blind to order: without positions this model sees which "
    "characters surround a hidden one, but not where they stand.",
    "causal": "A causal model can count the characters before it, so it works without positions, "
    "though worse. At lengths beyond those of training, encodings differ: embeddings of positions "
    "that were not trained mislead it, and a bias by distance does not.",
    "conv": "A convolution sees its neighbors in order, so this model hardly needs to be told "
    "positions (Gehring et al. 2017, table 4).",
}

_CITATIONS = {
    "transformer": (papers.VASWANI, papers.DEVLIN, papers.SU),
    "causal": (papers.VASWANI, papers.SU, papers.PRESS),
    "conv": (papers.GEHRING,),
}


class LanguageSystem(BaseSystem):
    """A language model with its text; see [System][nerf_posenc_sequences.system.System].

    Masked: 15% of the characters are hidden and predicted from all others (Devlin et al. 2019,
    without the random and unchanged replacements, which matter for fine-tuning alone). Causal: each
    character is predicted from those before it, and the model is tested at lengths that it was not
    trained at (Press et al. 2022).

    Args:
        data: text to train and to test on.
        options: ``model`` is ``"transformer"`` (masked), ``"causal"`` or ``"conv"``.

    Raises:
        SequenceError: If the text is shorter than the context, or an option does not fit.
    """

    def __init__(self, data: Text, options: SystemOptions) -> None:
        self.model = options.model or "transformer"
        self.name, self.source = data.name, data.source
        self.is_masked = self.model == "transformer"
        self.encodings: Mapping[str, str] = ADDED if self.model == "conv" else ENCODINGS
        if self.is_masked:
            # xPos decays from earlier to later positions.
            self.encodings = {k: v for k, v in ENCODINGS.items() if k != "xpos"}
        self.default_encodings = tuple(encoding for encoding in _FIVE if encoding in self.encodings)
        self.context = options.context or (32 if self.is_masked else 128)
        factors = (1, 2, 4) if self.is_masked else (1, 2, 4, 8)
        self.lengths = [self.context * factor for factor in factors]
        self.width = options.width or (128 if self.model == "conv" else 96)
        self.depth = options.depth or (4 if self.model == "conv" else 2)
        self.heads = options.heads or 4
        if self.model != "conv" and self.width % (2 * self.heads):
            raise SequenceError(
                f"--width must be an even multiple of --heads; got {self.width} and {self.heads}"
            )
        heads = set() if self.model == "conv" else {"heads"}
        self.uses = frozenset({"context", "depth"} | heads)
        self.lesson = _LESSONS[self.model]
        self.citations = _CITATIONS[self.model]
        self.defaults = SystemDefaults(steps=800, batch_size=64 if self.is_masked else 32, lr=0.02)
        self.measures = (BITS, PERPLEXITY, ACCURACY, bits_at(4 * self.context))
        texts = ["\n".join(part) for part in (data.train, data.test)]
        self.alphabet = sorted(set(texts[0]))
        self.train, self.test = (self.encode(text) for text in texts)
        self._require_length()

    @property
    def num_symbols(self) -> int:
        """Characters, one for those that do not occur in training, and the mask."""
        return len(self.alphabet) + 2

    @property
    def _mask(self) -> int:
        return len(self.alphabet) + 1

    def encode(self, text: str) -> Int[Tensor, " length"]:
        """Numbers of the characters of a text, for a model's input."""
        index = {character: i for i, character in enumerate(self.alphabet)}
        unknown = len(self.alphabet)
        return torch.tensor([index.get(character, unknown) for character in text])

    def _require_length(self) -> None:
        for part, symbols in (("training", self.train), ("test", self.test)):
            longest = self.context if part == "training" else self.lengths[-1]
            if len(symbols) < longest + 1:
                raise SequenceError(
                    f"{self.source}: its {part} text has {len(symbols):,} characters and needs "
                    f"{longest + 1:,} for a context of {self.context}; use a longer text or a "
                    "smaller --context"
                )

    def decode(self, symbols: Int[Tensor, " length"]) -> str:
        """Text of predicted numbers; what is no character of the training text is a ``?``."""
        known = len(self.alphabet)
        return "".join(self.alphabet[i] if i < known else "?" for i in symbols.tolist())

    def guess(self) -> dict[str, float]:
        """Characters by how frequent they are."""
        bits, percent = guessed(self.train, self.test, self.num_symbols)
        last = self.measures[-1].name
        return {BITS.name: bits, PERPLEXITY.name: 2**bits, ACCURACY.name: percent, last: bits}

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        what = "hidden" if self.is_masked else "next"
        return [
            f"text     {len(self.train):,} characters to train, {len(self.test):,} to test, "
            f"{len(self.alphabet)} distinct",
            f"model    {self.model}: predicts {what} characters in windows of {self.context}",
        ]

    def data(self) -> Iterable[Tensor]:
        """All symbols."""
        return self.train, self.test

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt."""
        return {
            "alphabet": "".join(self.alphabet),
            "context": self.context,
            "width": self.width,
            "depth": self.depth,
            "heads": self.heads,
        }

    def build(self, encoding: str, generator: torch.Generator) -> nn.Module:
        """Make a model."""
        shape = {"width": self.width, "depth": self.depth, "max_length": self.lengths[-1]}
        if self.model == "conv":
            return ConvolutionalLM(self.num_symbols, encoding, generator, **shape)
        return TransformerLM(
            self.num_symbols,
            encoding,
            generator,
            num_heads=self.heads,
            is_causal=not self.is_masked,
            **shape,
        )

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Random windows, the same for every encoding."""
        return partial(self._draw, self.train, self.context, batch_size, seed)

    def _draw(
        self, text: Tensor, length: int, batch_size: int, seed: int, step: int
    ) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(text) - length, (batch_size,), generator=generator)
        return self._examples(text[starts[:, None] + torch.arange(length + 1)], generator)

    def _examples(self, windows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets of windows that are one symbol longer."""
        if not self.is_masked:
            return windows[:, :-1], windows[:, 1:]
        inputs = windows[:, :-1]
        hidden = torch.rand(inputs.shape, generator=generator) < MASKED_SHARE
        # A window without a hidden symbol has no loss.
        hidden[:, 0] |= ~hidden.any(-1)
        return inputs.masked_fill(hidden, self._mask), inputs.masked_fill(~hidden, IGNORED)

    def loss(self, prediction: Float[Tensor, "batch length symbols"], targets: Tensor) -> Tensor:
        """Cross-entropy of the predicted symbols in nats."""
        return symbol_loss(prediction, targets)

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Muon on the layers, Adam on embeddings and norms."""
        return muon_for_layers(members, lr)

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Bits per character at each test length, and what the report shows."""
        by_length = {length: self._losses(model, length) for length in self.lengths}
        bits = {length: float(losses.nanmean()) for length, (losses, _) in by_length.items()}
        _, right = by_length[self.context]
        longest = by_length[self.lengths[-1]][0]
        curves = [
            Curve(
                "Loss by test length",
                "length (characters)",
                "bits per character",
                list(bits),
                list(bits.values()),
                log_x=True,
            ),
            loss_by_position("Loss by position, trained length", by_length[self.context][0]),
            loss_by_position(f"Loss by position, {self.lengths[-1]} characters", longest),
        ]
        maps: list[HeatMap] = []
        if self.model != "conv":
            maps.append(self._attention(model))
        return Evaluation(
            scores={
                BITS.name: bits[self.context],
                PERPLEXITY.name: 2 ** bits[self.context],
                ACCURACY.name: 100 * float(right.nanmean()),
                "bits_at_4x": bits[4 * self.context],
            },
            blocks=[self.passage(model, encoding), *curves, *maps],
        )

    def _losses(self, model: nn.Module, length: int) -> tuple[Tensor, Tensor]:
        """Bits, and 1 for a right prediction, by window and position; NaN where none was asked."""
        windows = self._windows(length)
        generator = torch.Generator().manual_seed(length)
        inputs, targets = self._examples(windows, generator)
        losses, right = [], []
        for x, y in zip(inputs.split(16), targets.split(16), strict=True):
            logits = model(x).float()
            nats = F.cross_entropy(logits.mT, y, ignore_index=IGNORED, reduction="none")
            is_asked = y != IGNORED
            losses.append((nats / math.log(2)).masked_fill(~is_asked, torch.nan))
            right.append((logits.argmax(-1) == y).float().masked_fill(~is_asked, torch.nan))
        return torch.cat(losses), torch.cat(right)

    def _windows(self, length: int) -> Int[Tensor, "windows length"]:
        """Windows of the test text, evenly spread and one symbol longer than the length."""
        available = (len(self.test) - 1) // length
        count = min(available, max(4, _TEST_SYMBOLS // length))
        starts = torch.linspace(0, len(self.test) - length - 1, count).long()
        return self.test[starts[:, None] + torch.arange(length + 1)]

    def _attention(self, model: nn.Module) -> HeatMap:
        """Mean attention of every head by the offset from the query to the key."""
        windows = self._windows(self.context)[:16]
        inputs, _ = self._examples(windows, torch.Generator().manual_seed(0))
        with recording(self_attentions(model)) as attentions:
            model(inputs)
            return attention_by_offset(attentions, is_causal=not self.is_masked)

    def passage(self, model: nn.Module, encoding: str) -> Passage:
        """Test text with the model's predictions."""
        count = max(1, min(_SHOWN, len(self.test) - 1) // self.context)
        windows = self.test[: count * self.context].unflatten(0, (count, self.context))
        # The target of a window's last symbol in a causal model is the next window's first.
        following = self.test[self.context : count * self.context + 1 : self.context]
        windows = torch.cat([windows, following[:, None]], dim=1)
        inputs, targets = self._examples(windows, torch.Generator().manual_seed(0))
        predicted = model(inputs).argmax(-1)
        title = "Hidden characters, filled in" if self.is_masked else "Next characters, predicted"
        return Passage(title, marked_tokens(inputs, targets, predicted, self.alphabet))
