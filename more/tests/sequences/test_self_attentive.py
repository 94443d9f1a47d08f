"""The self-attentive sentence embedding."""

from typing import Any

import pytest
import torch

from nerf_posenc_app.values.blocks import Passage
from nerf_posenc_sequences.data.types import LabeledSentences
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.system import SystemOptions
from nerf_posenc_sequences.systems.self_attentive import SelfAttentiveModel, SelfAttentiveSystem
from nerf_posenc_sequences.task import TaskKind, TaskOptions
from tests.fits import blocks_of, fitted

WORDS = ("wave", "band", "phase", "step", "node")


def data(count: int = 240) -> LabeledSentences:
    """Sentences whose label is told by one of their words."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i in range(count):
        length = int(torch.randint(2, 7, (1,), generator=generator))
        words = [WORDS[int(torch.randint(5, (1,), generator=generator))] for _ in range(length)]
        label = ("sine", "cosine")[i % 2]
        words.insert(int(torch.randint(length, (1,), generator=generator)), label + "word")
        made.append((label, tuple(words)))
    return LabeledSentences("made", "made.tsv", made[: count * 3 // 4], made[count * 3 // 4 :])


def system(**options: Any) -> SelfAttentiveSystem:
    return SelfAttentiveSystem(data(), SystemOptions(**{"width": 16, "hops": 3, **options}))


def model(encoding: str = "none") -> SelfAttentiveModel:
    return system().build(encoding, torch.Generator().manual_seed(0)).eval()


def test_attention_is_a_distribution_over_the_words_and_not_the_padding() -> None:
    words = system().test[:20]
    states, attention = model().attention(words)
    assert attention.shape == (20, 3, words.shape[1])
    torch.testing.assert_close(attention.sum(-1), torch.ones(20, 3))
    assert (attention.mT[words == 0] == 0).all()
    assert (states[words == 0] == 0).all()


@pytest.mark.parametrize("encoding", SelfAttentiveSystem.encodings)
def test_padding_changes_nothing(encoding: str) -> None:
    made, words = model(encoding), system().test[:10]
    short = words[:, : int((words > 0).sum(-1).max())]
    torch.testing.assert_close(made(words)[0], made(short)[0])


def test_the_penalty_is_zero_for_rows_on_different_words_and_grows_as_they_agree() -> None:
    # || A A^T - I ||_F^2 in closed form.
    def penalty(attention: torch.Tensor) -> float:
        made = model()
        made.attention = lambda words: (torch.zeros(1, 3, 16), attention[None])  # type: ignore
        return float(made(torch.ones(1, 3, dtype=torch.long))[1])

    assert penalty(torch.eye(3)) == pytest.approx(0.0)
    assert penalty(torch.tensor([[1.0, 0, 0]] * 3)) == pytest.approx(6.0)
    # Uniform rows: every product is 1/3, so 3 (2/3)^2 + 6 (1/3)^2.
    assert penalty(torch.full((3, 3), 1 / 3)) == pytest.approx(2.0)
    prediction, targets = (torch.zeros(1, 2), torch.tensor([6.0])), torch.tensor([0])
    losses = [float(system(penalty=p).loss(prediction, targets)) for p in (0, 0.5)]
    assert losses[1] - losses[0] == pytest.approx(3.0)


@pytest.mark.slow
def test_words_are_found_by_attention_and_the_label_with_them() -> None:
    made = system()
    kind = TaskKind(TaskOptions(), made)
    result = fitted(kind, "none", steps=60, batch_size=32, lr=0.01, num_seeds=2)
    assert result.scores["accuracy_percent"] > 95
    assert result.scores["row_similarity"] < 0.5
    assert len(result.evaluation.by_seed) == 2
    heat_map = result.blocks(HeatMap)[0]
    assert heat_map.table.shape == (3, len(heat_map.columns))


def test_a_label_that_training_lacks_is_counted_as_wrong() -> None:
    made = data()
    strange = LabeledSentences("made", "made.tsv", made.train, [("tangent", ("wave", "band"))] * 4)
    built = SelfAttentiveSystem(strange, SystemOptions(width=16, hops=3))
    network = built.build("none", torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        evaluation = built.evaluate(network, "none")
    assert evaluation.scores["accuracy_percent"] == 0
    (passage,) = blocks_of(evaluation, Passage)
    assert any(token.truth == "none of the training labels" for token in passage.tokens)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(SequenceError, match="must be even"):
        system(width=15)
