"""Indirect indexing: questions about letters, checked against the string by hand."""

import math
from collections import Counter

import pytest
import torch

from nerf_posenc_app.values.blocks import Curve, Passage
from nerf_posenc_sequences import open_sequence
from nerf_posenc_sequences.data.types import Indexing
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.layers.positions import ENCODINGS
from nerf_posenc_sequences.layers.symbol_loss import IGNORED
from nerf_posenc_sequences.system import System, SystemOptions
from nerf_posenc_sequences.systems.indexing import (
    ALPHABET,
    MAX_LENGTH,
    MAX_SHIFT,
    MIN_LENGTH,
    NUM_QUESTIONS,
    IndexingSystem,
    draw_questions,
)


def small() -> IndexingSystem:
    return IndexingSystem(Indexing(), SystemOptions(width=16, depth=1, heads=2))


def test_an_indexing_system_is_a_system() -> None:
    assert isinstance(small(), System)
    assert isinstance(open_sequence("indexing", SystemOptions()), IndexingSystem)


def test_every_answer_is_the_letter_at_the_shift() -> None:
    symbols, targets = draw_questions(1_000, torch.Generator().manual_seed(0))
    lengths: Counter[int] = Counter()
    shifts: Counter[int] = Counter()
    for row, truth in zip(symbols.tolist(), targets.tolist(), strict=True):
        asked = [i for i, target in enumerate(truth) if target != IGNORED]
        string = row[: asked[0] - 1]
        lengths[len(string)] += 1
        assert len(set(string)) == len(string)
        assert max(string) < len(ALPHABET)
        assert len(asked) == NUM_QUESTIONS
        for i in asked:
            shift = string.index(truth[i]) - string.index(row[i - 1])
            shifts[shift] += 1
            names = [-3, -2, -1, 1, 2, 3]
            assert row[i] == len(ALPHABET) + names.index(shift)
    assert set(lengths) == set(range(MIN_LENGTH, MAX_LENGTH + 1))
    assert set(shifts) == set(range(-MAX_SHIFT, MAX_SHIFT + 1)) - {0}


def test_steps_and_seeds_have_strings_of_their_own() -> None:
    draw, other = small().batches("none", 4, 0), small().batches("pope", 4, 1)
    assert torch.equal(draw(3)[0], small().batches("pope", 4, 0)(3)[0])
    assert not torch.equal(draw(3)[0], draw(4)[0])
    assert not torch.equal(draw(3)[0], other(3)[0])


class Oracle(torch.nn.Module):
    """Answers from the string itself, but those about shifts of 3 wrongly."""

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*symbols.shape, len(ALPHABET) + 1)
        for b, row in enumerate(symbols.tolist()):
            for i in range(1, len(row)):
                shift = row[i] - len(ALPHABET)
                if 0 <= shift < 5 and row[i - 1] < len(ALPHABET):
                    place = row.index(row[i - 1]) + (-3, -2, -1, 1, 2)[shift]
                    logits[b, i, row[place]] = 50.0
        return logits


def test_scores_are_shares_of_right_answers() -> None:
    system = small()
    evaluation = system.evaluate(Oracle(), "none")
    symbols, targets = system.test
    wrong = (symbols[targets != IGNORED] == len(ALPHABET) + 5).float().mean()
    # Letter 0 is what the largest of equal logits is.
    lucky = (targets[(targets != IGNORED) & (symbols == len(ALPHABET) + 5)] == 0).float().mean()
    expected = 100 * (1 - wrong * (1 - lucky))
    assert evaluation.scores["correct_percent"] == pytest.approx(float(expected), abs=1e-3)
    bits = float(wrong) * math.log2(len(ALPHABET) + 1)
    assert evaluation.scores["bits_per_answer"] == pytest.approx(bits, rel=1e-3)
    passage, curve = evaluation.blocks
    assert isinstance(curve, Curve)
    assert list(curve.ys)[:-1] == [100.0] * 5
    assert isinstance(passage, Passage)
    shown = [token for token in passage.tokens if token.mark != "given"]
    assert len(shown) == 4 * NUM_QUESTIONS
    assert all((token.mark == "right") == (token.text == token.truth) for token in shown)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_takes_a_step(encoding: str) -> None:
    system = small()
    model = system.build(encoding, torch.Generator().manual_seed(0))
    inputs, targets = system.batches(encoding, 4, 0)(0)
    loss = system.loss(model(inputs), targets)
    loss.backward()
    assert math.isfinite(loss.item())


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(SequenceError, match="--width must be an even multiple"):
        open_sequence("indexing", SystemOptions(width=10, heads=4))
    with pytest.raises(SequenceError, match="--context has no effect on the model indexing"):
        open_sequence("indexing", SystemOptions(context=10))
