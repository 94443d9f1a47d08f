"""BERT's examples and model."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from nerf_posenc_sequences.data.types import Text
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.layers.bert_model import BertModel
from nerf_posenc_sequences.system import System, SystemOptions
from nerf_posenc_sequences.systems.bert import BertSystem
from tests.texts import made_text

LENGTH = 20


def system(**options: Any) -> BertSystem:
    # Every word occurs once, so that a pair says where in the text it is from.
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
    text = Text("made", "made.txt", [" ".join(words)], [made_text(300)])
    return BertSystem(
        text, SystemOptions(**{"width": 16, "depth": 1, "context": LENGTH, **options})
    )


def batch(made: BertSystem, size: int = 500) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    inputs, targets = made.batches("none", size, seed=0)(0)
    return inputs, targets


def restored(made: BertSystem, size: int = 500) -> tuple[Tensor, Tensor, Tensor]:
    """Words before they were masked, segments, and whether the second part follows."""
    (words, segments, masked), targets = batch(made, size)
    return words.scatter(1, masked, targets[:, :-1]), segments, targets[:, -1]


def test_bert_is_a_system() -> None:
    assert isinstance(system(), System)


def test_an_example_is_two_runs_of_the_text_between_special_symbols() -> None:
    made = system()
    names = made.vocabulary.symbols
    index = {int(number): place for place, number in enumerate(made.train)}
    lengths = set()
    for words, segments, follows in zip(*map(Tensor.tolist, restored(made)), strict=True):
        shown = [names[word] for word in words]
        assert shown[0] == "[CLS]"
        assert shown[-1] == "[SEP]"
        middle = shown.index("[SEP]")
        assert shown.count("[SEP]") == 2
        assert segments == [0] * (middle + 1) + [1] * (LENGTH - middle - 1)
        first = [index[word] for word in words[1:middle]]
        second = [index[word] for word in words[middle + 1 : -1]]
        for part in (first, second):
            assert part == list(range(part[0], part[0] + len(part)))
        if follows:
            assert second[0] == first[-1] + 1
        lengths.add(len(first))
    assert len(lengths) > 5


def test_half_of_the_second_parts_follow() -> None:
    _, _, follows = restored(system(), 4000)
    assert float(follows.float().mean()) == pytest.approx(0.5, abs=0.03)


def test_of_the_predicted_words_most_are_masked_some_random_and_some_left() -> None:
    made = system()
    (words, _, masked), targets = batch(made, 4000)
    given, truth = words.gather(1, masked), targets[:, :-1]
    assert masked.shape[1] == round(0.15 * (LENGTH - 3))
    assert (masked.diff(dim=1) > 0).all()
    class_, separator, mask = map(made.vocabulary.symbols.index, ("[CLS]", "[SEP]", "[MASK]"))
    is_mask = given == mask
    assert float(is_mask.float().mean()) == pytest.approx(0.8, abs=0.02)
    assert float((given == truth).float().mean()) == pytest.approx(0.1, abs=0.02)
    specials = torch.tensor([class_, separator])
    assert not torch.isin(truth, specials).any()
    assert not torch.isin(given, specials).any()


def untrained(encoding: str) -> tuple[BertSystem, BertModel]:
    made = system()
    return made, made.build(encoding, torch.Generator().manual_seed(0)).eval()


@pytest.mark.parametrize("encoding", BertSystem.encodings)
def test_positions_and_segments_are_what_lets_the_model_tell_words_apart(encoding: str) -> None:
    made, model = untrained(encoding)
    (words, segments, masked), _ = batch(made, 4)
    # The two words beside the boundary change places; both are seen by the prediction of [CLS].
    order = torch.arange(LENGTH)
    order[[2, 3]] = order[[3, 2]]
    moved = model((words[:, order], segments, masked * 0 + 1))[1]
    same = torch.allclose(moved, model((words, segments, masked * 0 + 1))[1], atol=1e-5)
    has_positions = "position" in encoding or "sinusoidal" in encoding
    assert same != has_positions
    other = model((words, 1 - segments, masked))[1]
    assert torch.allclose(other, model((words, segments, masked))[1]) == ("segment" not in encoding)


def test_the_loss_of_equal_logits_is_that_of_a_guess() -> None:
    made = system()
    inputs, targets = batch(made, 6)
    num_words = len(made.vocabulary)
    logits = torch.zeros(6, inputs[2].shape[1], num_words)
    loss = made.loss((logits, torch.zeros(6, 2)), targets)
    assert float(loss) == pytest.approx(math.log(num_words) + math.log(2), rel=1e-5)


def test_words_of_any_alphabet_are_whole() -> None:
    text = Text("made", "made.txt", ["Straße 한국어 café, x2 " * 20], ["Straße 한국어 " * 20])
    words = BertSystem(text, SystemOptions(context=8, width=16)).vocabulary.symbols
    assert {"straße", "한국어", "café", ",", "x", "2"} <= set(words)


def test_a_short_text_and_a_short_context_are_refused() -> None:
    with pytest.raises(SequenceError, match="8 words or more"):
        system(context=4)
    with pytest.raises(SequenceError, match="use a longer text or a smaller --context"):
        system(context=400)
