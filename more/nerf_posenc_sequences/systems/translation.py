"""Translation of sequences: the Transformer and ConvS2S."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_app.kinds.sequence import guessed
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_sequences.data.types import Pair, Pairs, Words
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.convolutional_seq2seq import PLACEMENTS, ConvolutionalSeq2Seq
from nerf_posenc_sequences.layers.decoding import beam_search, greedy
from nerf_posenc_sequences.layers.optimizers import muon_for_layers
from nerf_posenc_sequences.layers.positions import ENCODINGS
from nerf_posenc_sequences.layers.seq2seq import Seq2Seq
from nerf_posenc_sequences.layers.symbol_loss import IGNORED, symbol_loss
from nerf_posenc_sequences.layers.transformer_seq2seq import TransformerSeq2Seq
from nerf_posenc_sequences.system import SystemDefaults, SystemOptions
from nerf_posenc_sequences.systems import papers
from nerf_posenc_sequences.systems.attention_maps import attention_by_offset, recording
from nerf_posenc_sequences.systems.base_system import BaseSystem, few_tested
from nerf_posenc_sequences.systems.pair_batches import (
    PairBatches,
    PairTensors,
    pair_tensors,
    require_lengths,
    symbols_of,
    until_end,
)
from nerf_posenc_sequences.systems.translation_report import (
    BITS,
    BLEU,
    EXACT,
    EXACT_LONGER,
    MEASURES,
    bleu,
    exact_by_length,
    exact_percent,
    has_sacrebleu,
    source_attention,
    translations_passage,
)

# One layer sees two symbols to either side, so that the hundreds of the thousands and of the units
# look the same without positions; three layers see most of a number, and need none.
_KERNEL_SIZE = 5
# Of embeddings, convolutions and norms; at 1e-2 the loss of ConvS2S rises on the way.
_ADAM_LR = 3e-3
_MOST_DECODED = 500
_NUM_SHOWN = 8
_CHUNK = 128

_LESSONS = {
    "transformer": "Attention is blind to order: without positions the encoder sees a bag of "
    "words, and three hundred and forty is the same as forty and three hundred. Its decoder can "
    "count the symbols that it has written, the encoder cannot.",
    "conv": "Convolutions see their neighbors in order, so that it matters little where positions "
    "are added, or whether at all, if the layers together see far enough. One layer of kernel size "
    "5 does not, so that positions help, most of all the encoder: the order that Gehring et al. "
    "(2017, table 4) report, a BLEU of 21.7 with positions on both sides, 21.5 in the encoder "
    "alone, 21.3 in the decoder alone, and 21.2 without.",
}


class TranslationSystem(BaseSystem):
    """A Transformer or ConvS2S with its pairs; see [System][nerf_posenc_sequences.system.System].

    Args:
        data: pairs to train and to test on.
        options: ``model`` is ``"transformer"`` (Vaswani et al. 2017) or ``"conv"`` (Gehring et al.
            2017); ``width``, ``depth``, ``heads`` (of the Transformer) and ``beam`` apply.

    Raises:
        SequenceError: If there are no pairs, one is too long, or an option does not fit.
    """

    def __init__(self, data: Pairs, options: SystemOptions) -> None:
        self.model = options.model or "transformer"
        self.name, self.source, self.joiner = data.name, data.source, data.joiner
        heads = set() if self.model == "conv" else {"heads"}
        self.uses = frozenset({"depth", "beam"} | heads)
        self.lesson = _LESSONS[self.model]
        self.is_conv = self.model == "conv"
        self.citations = (papers.GEHRING if self.is_conv else papers.VASWANI,)
        if self.is_conv:
            self.encodings = dict(PLACEMENTS)
            self.default_encodings = ("none", "encoder", "decoder", "both")
        else:
            # xPos decays from earlier to later positions.
            self.encodings = {k: v for k, v in ENCODINGS.items() if k != "xpos"}
            self.default_encodings = ("none", "sinusoidal", "learned", "rotary")
        self.width = options.width or (96 if self.is_conv else 128)
        self.depth = options.depth or (1 if self.is_conv else 2)
        self.heads = options.heads or 4
        self.beam = options.beam
        self._require_options()
        require_lengths(data)
        self.train_pairs, self.test, self.longer = data.train, data.test, data.longer
        measures = (m for m in MEASURES[1:] if m is not BLEU or has_sacrebleu())
        self.measures = (replace(EXACT, count=len(data.test)), *measures)
        self.source_vocabulary = symbols_of(source for source, _ in data.train)
        self.target_vocabulary = symbols_of(target for _, target in data.train)
        self.training = self._tensors(data.train)
        every = [*data.train, *data.test, *data.longer]
        self.max_lengths = (
            max(len(source) for source, _ in every) + 1,
            # Translations may be longer than all targets.
            max(len(target) for _, target in every) + 2,
        )
        self.defaults = SystemDefaults(steps=400 if self.is_conv else 600, batch_size=128, lr=0.02)

    def _require_options(self) -> None:
        if not self.is_conv and self.width % (2 * self.heads):
            raise SequenceError(
                f"--width must be an even multiple of --heads; got {self.width} and {self.heads}"
            )
        if min(self.width, self.depth, self.beam) < 1 or self.width % 2:
            raise SequenceError(
                "--width must be even, and it, --depth and --beam 1 or more; got "
                f"{self.width}, {self.depth} and {self.beam}"
            )

    def _tensors(self, pairs: Sequence[Pair]) -> PairTensors:
        return pair_tensors(pairs, self.source_vocabulary, self.target_vocabulary)

    def guess(self) -> dict[str, float]:
        """Symbols of targets by how frequent they are, which make no translation."""
        train, test = (self._tensors(pairs).following for pairs in (self.train_pairs, self.test))
        train, test = train[train >= 0], test[test >= 0]
        bits, _ = guessed(train, test, int(torch.cat([train, test]).max()) + 1)
        scores = {EXACT.name: 0.0, BLEU.name: math.nan, BITS.name: bits}
        return {measure.name: scores.get(measure.name, 0.0) for measure in self.measures}

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        longer = f", {len(self.longer):,} longer ones" if self.longer else ""
        search = "greedily" if self.beam == 1 else f"by beam search of width {self.beam}"
        return [
            f"pairs    {len(self.train_pairs):,} to train, {len(self.test):,} to test{longer}; "
            f"{len(self.source_vocabulary)} and {len(self.target_vocabulary)} symbols",
            f"model    {self.model}: {self.depth} + {self.depth} layers of width {self.width}, "
            f"decoded {search}",
        ]

    def notes(self) -> list[str]:
        """Whether few pairs are tested, and what is needed for BLEU."""
        install = how_to_install("sequences", companion=True)
        missing = [] if has_sacrebleu() else [f"BLEU is left out: it needs sacreBLEU, {install}"]
        return [*few_tested("pair", len(self.test)), *missing]

    def data(self) -> Iterable[Tensor]:
        """All symbols."""
        for pairs in filter(None, (self.train_pairs, self.test, self.longer)):
            tensors = self._tensors(pairs)
            yield from (tensors.source, tensors.following)

    def description(self, encoding: str) -> dict[str, Any]:
        """Description from which the model is rebuilt."""
        return {
            "system": self.model,
            "encoding": encoding,
            "source_symbols": list(self.source_vocabulary.symbols),
            "target_symbols": list(self.target_vocabulary.symbols),
            "max_lengths": list(self.max_lengths),
            "width": self.width,
            "depth": self.depth,
            "heads": self.heads,
            "kernel_size": _KERNEL_SIZE,
        }

    def build(self, encoding: str, generator: torch.Generator) -> Seq2Seq:
        """Make a model."""
        sizes = len(self.source_vocabulary), len(self.target_vocabulary)
        shape: dict[str, Any] = {
            "width": self.width,
            "depth": self.depth,
            "max_lengths": self.max_lengths,
        }
        if self.is_conv:
            return ConvolutionalSeq2Seq(
                *sizes, encoding, generator, kernel_size=_KERNEL_SIZE, **shape
            )
        return TransformerSeq2Seq(*sizes, encoding, generator, num_heads=self.heads, **shape)

    def batches(self, encoding: str, batch_size: int, seed: int) -> DrawBatch:
        """Shuffled pairs, padded to the longest of training."""
        return PairBatches(self.training, batch_size, seed=seed)

    def loss(self, prediction: Float[Tensor, "batch target symbols"], targets: Tensor) -> Tensor:
        """Cross-entropy of the next symbols in nats."""
        return symbol_loss(prediction, targets)

    def optimizer(self, members: Sequence[nn.Module], lr: float) -> OptimizerGroup:
        """Muon on the linear layers, Adam on everything else."""
        return muon_for_layers(members, lr, adam_lr=_ADAM_LR)

    def evaluate(self, model: nn.Module, encoding: str) -> Evaluation:
        """Translate test sources, and show where the decoder looks."""
        assert isinstance(model, Seq2Seq)
        test, longer = _spread(self.test, _MOST_DECODED), _spread(self.longer, _MOST_DECODED)
        translations, of_longer = self.translate(model, test), self.translate(model, longer)
        curves = [exact_by_length(translations, test)]
        if longer:
            curves.append(exact_by_length(of_longer, longer, are_longer=True))
        scores = {
            EXACT.name: exact_percent(translations, test),
            BLEU.name: bleu(translations, test),
            EXACT_LONGER.name: exact_percent(of_longer, longer),
            BITS.name: self._bits_per_symbol(model, test),
        }
        return Evaluation(
            scores={measure.name: scores[measure.name] for measure in self.measures},
            blocks=[
                translations_passage(translations[:_NUM_SHOWN], test[:_NUM_SHOWN], self.joiner),
                *curves,
                *self._maps(model, test),
            ],
        )

    def translate(self, model: Seq2Seq, pairs: Sequence[Pair]) -> list[Words]:
        """Translations of the sources of pairs.

        They end at the latest after one symbol more than the longest target.
        """
        translations: list[Words] = []
        limit = max((len(target) for _, target in pairs), default=0) + 1
        for start in range(0, len(pairs), _CHUNK):
            source = self._tensors(pairs[start : start + _CHUNK]).source
            if self.beam == 1:
                symbols = greedy(model, source, limit)
            else:
                symbols = beam_search(model, source, limit, self.beam)
            translations += [
                self.target_vocabulary.decode(until_end(row)) for row in symbols.tolist()
            ]
        return translations

    def _bits_per_symbol(self, model: Seq2Seq, pairs: Sequence[Pair]) -> float:
        nats, count = 0.0, 0
        for start in range(0, len(pairs), _CHUNK):
            batch = self._tensors(pairs[start : start + _CHUNK])
            symbols = int((batch.following != IGNORED).sum())
            nats += symbols * float(self.loss(model((batch.source, batch.target)), batch.following))
            count += symbols
        return nats / count / math.log(2)

    def _maps(self, model: Seq2Seq, pairs: Sequence[Pair]) -> list[HeatMap]:
        """Attention to the source of one pair, and of a Transformer's encoder by offset."""
        # The middle one by length of source, so that there is something to see.
        pair = sorted(pairs, key=lambda pair: len(pair[0]))[len(pairs) // 2]
        batch = self._tensors([pair])
        with recording(model.source_attentions()) as attentions:
            model((batch.source, batch.target))
            weights = [each.recorded[0] for each in attentions if each.recorded is not None]
            maps = [source_attention(weights, pair)]
        if isinstance(model, TransformerSeq2Seq):
            source = self._tensors(_of_one_length(pairs)).source
            with recording(model.encoder_attentions()) as attentions:
                model.encode(source)
                folded = attention_by_offset(attentions, is_causal=False)
            # No two symbols are further apart than the sources are long.
            is_known = folded.table.isfinite().all(0)
            columns = [c for c, known in zip(folded.columns, is_known, strict=True) if known]
            title = "Attention by offset in the encoder"
            maps.append(HeatMap.of(title, folded.table[:, is_known], folded.rows, columns))
        return maps


def _spread(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """At most so many pairs, evenly spread."""
    if len(pairs) <= most:
        return list(pairs)
    return [pairs[int(i)] for i in torch.linspace(0, len(pairs) - 1, most)]


def _of_one_length(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs whose sources are of that length of which there are the most symbols."""
    by_length: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_length.setdefault(len(pair[0]), []).append(pair)
    return max(by_length.values(), key=lambda group: len(group) * len(group[0][0]))
