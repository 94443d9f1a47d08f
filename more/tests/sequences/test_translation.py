"""The Transformer and ConvS2S on pairs: what they can see, how they decode, what they learn."""

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc_app.values.blocks import Curve, Passage
from nerf_posenc_sequences.data.numbers import make_numbers
from nerf_posenc_sequences.data.types import Pair, Pairs
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.layers.attention import RecordedAttention
from nerf_posenc_sequences.layers.convolution import SHRINK
from nerf_posenc_sequences.layers.convolutional_seq2seq import (
    PLACEMENTS,
    ConvolutionalSeq2Seq,
    DecoderLayer,
    SourceAttention,
)
from nerf_posenc_sequences.layers.decoding import beam_search, greedy, normalized
from nerf_posenc_sequences.layers.seq2seq import BEGIN, END, PADDING, UNKNOWN, Memory, Seq2Seq
from nerf_posenc_sequences.layers.symbol_loss import IGNORED
from nerf_posenc_sequences.layers.transformer_seq2seq import TransformerSeq2Seq
from nerf_posenc_sequences.system import System, SystemOptions
from nerf_posenc_sequences.systems import translation, translation_report
from nerf_posenc_sequences.systems.base_system import few_tested
from nerf_posenc_sequences.systems.pair_batches import (
    PairBatches,
    pair_tensors,
    symbols_of,
    until_end,
)
from nerf_posenc_sequences.systems.translation import TranslationSystem
from nerf_posenc_sequences.systems.translation_report import (
    bleu,
    exact_by_length,
    exact_percent,
    source_attention,
    translations_passage,
)
from tests.fits import blocks_of

MODELS = ("transformer", "conv")
SYMBOLS = 11


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_of(name: str, encoding: str, seed: int = 0) -> Seq2Seq:
    shape: dict[str, Any] = {"width": 16, "depth": 2, "max_lengths": (24, 24)}
    if name == "conv":
        return ConvolutionalSeq2Seq(SYMBOLS, SYMBOLS + 2, encoding, generator(seed), **shape).eval()
    model = TransformerSeq2Seq(
        SYMBOLS, SYMBOLS + 2, encoding, generator(seed), num_heads=2, **shape
    )
    return model.eval()


def symbols(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(UNKNOWN + 1, SYMBOLS, shape, generator=generator(seed))


def toy_pairs(count: int, length: int, seed: int = 0) -> list[Pair]:
    """Sequences of letters, to be reversed."""
    rng = random.Random(seed)
    words = [tuple(rng.choices("abcd", k=rng.randint(1, length))) for _ in range(count)]
    return [(each, each[::-1]) for each in words]


def toy(model: str = "transformer", **options: Any) -> TranslationSystem:
    chosen = replace(SystemOptions(model=model, width=16, depth=1, heads=2), **options)
    pairs = toy_pairs(40, 4)
    return TranslationSystem(Pairs("toy", "toy pairs", pairs, pairs[:9], toy_pairs(7, 9)), chosen)


# What the models see.


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        *itertools.product(["transformer"], ["none", "sinusoidal", "rotary", "alibi", "t5"]),
        *itertools.product(["conv"], ["none", "both"]),
    ],
)
def test_a_later_target_symbol_changes_no_earlier_logit(name: str, encoding: str) -> None:
    model, source, target = model_of(name, encoding), symbols(3, 7), symbols(3, 8, seed=2)
    changed = target.clone()
    changed[:, 5] = (target[:, 5] - UNKNOWN) % (SYMBOLS - UNKNOWN - 1) + UNKNOWN + 1
    before, after = model((source, target)), model((source, changed))
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert (before[:, 5:] - after[:, 5:]).abs().amax((0, 2)).min() > 1e-3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("encoding", ["none", "sinusoidal"])
def test_padding_changes_nothing(name: str, encoding: str) -> None:
    model, source, target = model_of(name, encoding), symbols(3, 7), symbols(3, 6, seed=2)
    padded = [nn.functional.pad(part, (0, 5), value=PADDING) for part in (source, target)]
    alone, beside = model((source, target)), model((padded[0], padded[1]))
    assert torch.allclose(alone, beside[:, :6], atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_source_symbol_and_every_earlier_target_symbol_is_seen(name: str) -> None:
    model = model_of(name, "none")
    source, target = symbols(1, 5), symbols(1, 4, seed=2)
    last = model((source, target))[0, -1]
    for part in (source, target):
        for place in range(part.shape[1]):
            kept = part[0, place].item()
            part[0, place] = UNKNOWN
            assert (model((source, target))[0, -1] - last).abs().max() > 1e-4
            part[0, place] = kept


def test_without_positions_the_encoder_sees_a_bag_of_words() -> None:
    source, order = symbols(2, 9), torch.randperm(9, generator=generator())
    outputs, _ = model_of("transformer", "none").encode(source)
    permuted, _ = model_of("transformer", "none").encode(source[:, order])
    assert torch.allclose(outputs[:, order], permuted, atol=1e-5)


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned", "rotary", "alibi", "kerple", "fire"])
def test_with_positions_the_encoder_sees_the_order(encoding: str) -> None:
    source, order = symbols(2, 9), torch.randperm(9, generator=generator())
    model = model_of("transformer", encoding)
    outputs, permuted = model.encode(source)[0], model.encode(source[:, order])[0]
    assert (outputs[:, order] - permuted).abs().max() > 1e-3


def test_a_convolutional_encoder_without_positions_sees_surroundings_and_not_places() -> None:
    model, source = model_of("conv", "none"), symbols(2, 12)
    moved = torch.cat([symbols(2, 3, seed=5), source], 1)
    outputs, shifted = model.encode(source)[1], model.encode(moved)[1]
    # Two layers of kernel size 3 see two symbols to either side.
    assert torch.allclose(outputs[:, 2:], shifted[:, 5:], atol=1e-5)
    assert (outputs[:, 0] - shifted[:, 3]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("placement", "encoder", "decoder"),
    [(p, p in ("encoder", "both"), p in ("decoder", "both")) for p in PLACEMENTS],
)
def test_learned_positions_are_where_the_placement_says(
    placement: str, encoder: bool, decoder: bool
) -> None:
    names = dict(model_of("conv", placement).named_parameters())
    assert ("source_positions.learned.codes" in names) is encoder
    assert ("target_positions.learned.codes" in names) is decoder


# ConvS2S in formulas.


def test_attention_of_a_convolutional_decoder_is_that_of_the_formulas() -> None:
    attention = SourceAttention(4).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter.requires_grad_(False), generator=generator())
    hidden, embedded = (torch.randn(1, 2, 4, generator=generator(s)).double() for s in (1, 2))
    keys, values = (torch.randn(1, 5, 4, generator=generator(s)).double() for s in (3, 4))
    mask = torch.tensor([[True, True, True, False, True]])
    mixed = attention(hidden, embedded, keys, values, mask)
    for i in range(2):
        query = attention.query.weight @ hidden[0, i] + attention.query.bias + embedded[0, i]
        scores = [math.exp(query @ keys[0, j] / math.sqrt(2 * 4)) for j in (0, 1, 2, 4)]
        parts = [s / sum(scores) * values[0, j] for s, j in zip(scores, (0, 1, 2, 4), strict=True)]
        expected = attention.output.weight @ (2 * sum(parts)) + attention.output.bias
        assert torch.allclose(mixed[0, i], expected, atol=1e-12)


def test_residual_connections_keep_the_variance() -> None:
    layer = DecoderLayer(32, 3)
    shape = (64, 10, 32)
    x, gated, attended = (torch.randn(*shape, generator=generator(seed)) for seed in range(3))
    layer.convolution.gated = lambda x: gated  # type: ignore[method-assign]
    layer.attention.forward = lambda *_: attended  # type: ignore[method-assign]
    output = layer(x, x, x, x, torch.ones(64, 10, dtype=torch.bool))
    assert float(output.var()) == pytest.approx(1, abs=0.03)
    assert torch.allclose(output, x * SHRINK + (gated + attended) / 2, atol=1e-6)


# Decoding.


class Table(Seq2Seq):
    """Log-probabilities of the next symbol that depend on the whole prefix, at random."""

    def __init__(self, num_symbols: int, scale: float = 2.0) -> None:
        super().__init__()
        self.num_symbols, self.scale = num_symbols, scale

    def encode(self, source: Tensor) -> Memory:
        return (source,)

    def decode(self, target: Tensor, memory: Memory) -> Tensor:
        rows = zip(memory[0].tolist(), target.tolist(), strict=True)
        return torch.stack([torch.stack(self._row(s, t)) for s, t in rows])

    def _row(self, source: list[int], target: list[int]) -> list[Tensor]:
        return [self.logits(source, target[:end]) for end in range(1, len(target) + 1)]

    def logits(self, source: list[int], prefix: list[int]) -> Tensor:
        seed = hash((*source, *prefix)) % (1 << 31)
        return self.scale * torch.randn(self.num_symbols, generator=generator(seed))

    def source_attentions(self) -> list[RecordedAttention]:
        return []


def scored(model: Table, source: list[int], target: tuple[int, ...]) -> float:
    """Length-normalized log-probability, one symbol after the other."""
    prefix, total = [BEGIN], 0.0
    for symbol in target:
        total += float(model.logits(source, prefix).log_softmax(0)[symbol])
        prefix.append(symbol)
    penalty: float = ((5 + len(target)) / 6) ** 0.6
    return total / penalty


def test_a_beam_of_one_is_greedy() -> None:
    source = symbols(6, 3)
    for model in (Table(5), model_of("transformer", "sinusoidal"), model_of("conv", "both")):
        taken = greedy(model, source, 7)
        searched = beam_search(model, source, 7, 1)
        assert torch.equal(nn.functional.pad(taken, (0, 7 - taken.shape[1])), searched)


def test_greedy_takes_the_most_probable_symbol_each_time() -> None:
    model, source = Table(5), symbols(4, 3)
    taken = greedy(model, source, 6)
    for row, words in zip(taken.tolist(), source.tolist(), strict=True):
        prefix = [BEGIN]
        for symbol in row[: row.index(END) + 1] if END in row else row:
            assert symbol == int(model.logits(words, prefix).argmax())
            prefix.append(symbol)
        assert set(row[len(prefix) - 1 :]) <= {PADDING}


def test_a_wide_beam_finds_the_most_probable_sequence() -> None:
    model, source, limit = Table(4), symbols(5, 2), 3
    found = beam_search(model, source, limit, 4**limit)
    others = [symbol for symbol in range(4) if symbol != END]
    ended = [(*start, END) for n in range(limit) for start in itertools.product(others, repeat=n)]
    for row, words in zip(found.tolist(), source.tolist(), strict=True):
        best = max(ended, key=lambda target: scored(model, words, target))
        assert tuple(row[: row.index(END) + 1]) == best


def test_a_longer_sequence_may_be_less_probable() -> None:
    equal = torch.tensor([-3.0])
    assert normalized(equal, 1) == equal
    assert normalized(equal, 10) > normalized(equal, 9)
    assert float(normalized(equal, 7)) == pytest.approx(-3 / 2**0.6)


def test_decoding_ends_at_the_limit() -> None:
    class Endless(Table):
        def logits(self, source: list[int], prefix: list[int]) -> Tensor:
            return super().logits(source, prefix).index_fill(0, torch.tensor([END]), -1e9)

    model, source = Endless(5), symbols(3, 2)
    assert greedy(model, source, 4).shape == (3, 4)
    assert (beam_search(model, source, 4, 2) != PADDING).any(1).all()


# Data.


def test_vocabularies_keep_words_apart_from_special_symbols() -> None:
    vocabulary = symbols_of([("a", "<end>"), ("b", "a")])
    assert len(vocabulary) == 4 + 3
    indices = vocabulary.encode(("b", "<end>", "c", "a"))
    assert vocabulary.decode(until_end([*indices, END, indices[0]])) == (
        "b",
        "<end>",
        "<unknown>",
        "a",
    )
    assert not {PADDING, BEGIN, END} & set(indices)
    assert indices[2] == UNKNOWN


def test_targets_are_what_follows() -> None:
    pairs = [(("x", "y"), ("a",)), (("x",), ("b", "a"))]
    tensors = pair_tensors(pairs, symbols_of([("x", "y")]), symbols_of([("a", "b")]))
    assert tensors.source.tolist() == [[4, 5, END], [4, END, PADDING]]
    assert tensors.target.tolist() == [[BEGIN, 4, PADDING], [BEGIN, 5, 4]]
    assert tensors.following.tolist() == [[4, END, IGNORED], [5, 4, END]]


def test_a_batch_depends_on_the_seed_and_the_step_alone() -> None:
    system = toy()
    draws = [system.batches(encoding, 8, 3) for encoding in ("none", "rotary")]
    for step in (7, 0, 4):
        (first, following), (second, same) = draws[0](step), draws[1](step)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        assert torch.equal(following, same)
    other = system.batches("none", 8, 4)(7)
    assert not torch.equal(other[1], draws[0](7)[1])


def test_one_pass_shows_every_pair_once() -> None:
    system = toy()
    draw = PairBatches(system.training, 8, seed=0)
    seen = torch.cat([draw(step)[0][0] for step in range(5)])
    assert sorted(seen.tolist()) == sorted(system.training.source.tolist())


def test_data_that_cannot_be_used_is_refused() -> None:
    long = [(("a",) * 257, ("b",))]
    with pytest.raises(SequenceError, match=r"257 symbols, a a a a a \.\.\., and the most are 256"):
        TranslationSystem(
            Pairs("x", "x.tsv", [*toy_pairs(3, 2), *long], toy_pairs(3, 2)), SystemOptions()
        )
    with pytest.raises(SequenceError, match="no pairs to test on"):
        TranslationSystem(Pairs("x", "x.tsv", toy_pairs(3, 2), []), SystemOptions())
    with pytest.raises(SequenceError, match="multiple of --heads; got 18 and 4"):
        toy(width=18, heads=4)
    with pytest.raises(SequenceError, match="--depth and --beam 1 or more"):
        toy(beam=0)


def test_without_sacrebleu_bleu_alone_is_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (translation, translation_report):
        monkeypatch.setattr(module, "has_sacrebleu", lambda: False)
    system = toy()
    assert any("BLEU is left out" in note and "[sequences]" in note for note in system.notes())
    with torch.no_grad():
        scores = system.evaluate(system.build("none", generator(0)), "none").scores
    assert {*scores} == {measure.name for measure in system.measures}
    assert "bleu" not in scores


# The systems.


@pytest.mark.parametrize("name", MODELS)
def test_a_system_is_one_and_builds_the_same_model_from_the_same_seed(name: str) -> None:
    system = toy(name)
    assert isinstance(system, System)
    assert "none" in system.encodings
    assert set(system.default_encodings) <= set(system.encodings)
    for encoding in system.encodings:
        models = [system.build(encoding, generator(5)).state_dict() for _ in range(2)]
        assert all(torch.equal(models[0][key], models[1][key]) for key in models[0])
        inputs, targets = system.batches(encoding, 4, 0)(0)
        logits = system.build(encoding, generator())(inputs)
        loss = float(system.loss(logits.detach(), targets))
        assert 0.5 < loss / math.log(len(system.target_vocabulary)) < 2


@pytest.mark.parametrize("name", MODELS)
def test_an_evaluation_has_every_measure_and_attention_that_sums_to_one(name: str) -> None:
    system = toy(name)
    model = system.build("sinusoidal", generator()).eval()
    with torch.no_grad():
        evaluation = system.evaluate(model, "sinusoidal")
    assert set(evaluation.scores) == {measure.name for measure in system.measures}
    assert blocks_of(evaluation, Passage)
    weights = blocks_of(evaluation, HeatMap)[0].table
    assert torch.allclose(weights.sum(1), torch.ones(len(weights)), atol=1e-5)
    assert len(blocks_of(evaluation, HeatMap)) == (2 if name == "transformer" else 1)
    for shown in blocks_of(evaluation, HeatMap):
        assert shown.table.isfinite().all()
        assert shown.table.shape == (len(shown.rows), len(shown.columns))
    tested, longer = blocks_of(evaluation, Curve)
    assert max(tested.xs) <= 4 < max(longer.xs)
    assert tested.title != longer.title


def test_without_longer_pairs_their_measure_is_not_a_number() -> None:
    pairs = [(("a",) * 4, ("b",) * 4)] * 10
    system = TranslationSystem(Pairs("x", "x", pairs, pairs), SystemOptions(width=16, depth=1))
    with torch.no_grad():
        scores = system.evaluate(system.build("none", generator()).eval(), "none").scores
    assert math.isnan(scores["exact_longer_percent"])
    assert not any(math.isnan(scores[key]) for key in scores if key != "exact_longer_percent")


def test_bits_are_those_of_the_true_symbols() -> None:
    system = toy()
    model = system.build("rotary", generator()).eval()
    total, count = 0.0, 0
    with torch.no_grad():
        scores = system.evaluate(model, "rotary").scores
        for pair in system.test:
            one = pair_tensors([pair], system.source_vocabulary, system.target_vocabulary)
            chances = model((one.source, one.target))[0].double().softmax(-1)
            for i, symbol in enumerate(one.following[0].tolist()):
                total -= math.log2(chances[i, symbol])
                count += 1
    assert scores["bits_per_symbol"] == pytest.approx(total / count, abs=1e-4)


def test_exact_translations_are_counted_by_length() -> None:
    pairs = [(("a",), ("b",)), (("a", "a"), ("b", "c")), (("c", "a"), ("b",))]
    translations = [("b",), ("b",), ("b",)]
    assert exact_percent(translations, pairs) == pytest.approx(200 / 3)
    curve = exact_by_length(translations, pairs)
    assert (list(curve.xs), list(curve.ys)) == ([1, 2], [100.0, 50.0])


def test_bleu_is_undefined_where_no_target_has_four_symbols() -> None:
    short = toy_pairs(5, 3)
    assert math.isnan(bleu([target for _, target in short], short))
    pairs = [*short, (("a",), ("a", "b", "c", "d"))]
    assert bleu([target for _, target in pairs], pairs) == pytest.approx(100)


def test_a_small_test_set_is_remarked_on() -> None:
    assert toy().notes() == [
        "the test set has 9 pairs; a difference of one changes the score by 11.1 points"
    ]
    assert few_tested("pair", 1) == [
        "the test set has 1 pair; a difference of one changes the score by 100 points"
    ]
    assert few_tested("pair", 100) == []
    # One of 20 in a task of two is half of its share.
    assert few_tested("question", 20, 40) == [
        "the test set has 60 questions; a difference of one changes the score by up to 2.5 points"
    ]


@pytest.mark.parametrize(("name", "key"), [("transformer", "vaswani2017"), ("conv", "gehring2017")])
def test_a_system_cites_its_own_paper(name: str, key: str) -> None:
    (citation,) = toy(name).citations
    assert citation.startswith(f"@inproceedings{{{key}")


def test_a_passage_marks_what_is_wrong_and_what_is_missing() -> None:
    pairs = [(("x", "y"), ("a", "b", "c", "d"))]
    passage = translations_passage([("a", "e", "c")], pairs, " ")
    marks = [(token.text, token.mark, token.truth) for token in passage.tokens]
    assert [m for m in marks if m[0] != " "] == [
        ("x y → ", "given", None),
        ("a", "right", None),
        ("e", "wrong", "b"),
        ("c", "right", None),
        ("_", "wrong", "d"),
        ("\n", "given", None),
    ]


def test_attention_is_averaged_over_layers_and_heads() -> None:
    layers = [torch.tensor([[[1.0, 0.0]], [[0.5, 0.5]]]), torch.tensor([[[0.0, 1.0]]])]
    shown = source_attention(layers, (("x",), ()))
    assert torch.allclose(shown.table, torch.tensor([[0.375, 0.625]]))
    assert (shown.rows, shown.columns) == (["<end>"], ["x", "<end>"])


def train(system: TranslationSystem, encoding: str, steps: int) -> float:
    """Exact translations of the test pairs in percent."""
    model = system.build(encoding, generator())
    optimizer = system.optimizer([model], system.defaults.lr)
    draw = system.batches(encoding, 32, 0)
    for step in range(steps):
        inputs, targets = draw(step)
        optimizer.scale_lrs(system.schedule(step / steps))
        optimizer.zero_grad()
        system.loss(model(inputs), targets).backward()
        for part in optimizer.optimizers:
            part.step()
    with torch.no_grad():
        return exact_percent(system.translate(model.eval(), system.test), system.test)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "encoding"), [("transformer", "sinusoidal"), ("conv", "both")])
def test_a_model_learns_to_reverse(name: str, encoding: str) -> None:
    options = SystemOptions(model=name, width=32, depth=1, heads=2)
    words = list(itertools.product("abcd", repeat=4))
    random.Random(0).shuffle(words)
    pairs: list[Pair] = [(each, each[::-1]) for each in words]
    system = TranslationSystem(Pairs("reverse", "reverse", pairs[40:], pairs[:40]), options)
    assert train(system, encoding, 120) > 90


def test_numbers_of_the_built_in_data_fit_the_system() -> None:
    system = TranslationSystem(make_numbers(300, 30), SystemOptions(beam=2))
    assert system.training.source.shape[0] == 300
    assert "beam search of width 2" in system.summary()[1]
    assert sum(len(part) for part in system.data()) == 2 * (300 + 30 + 1000)
