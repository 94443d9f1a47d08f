"""End-to-end memory networks against their formulas, and their data."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from more.tests.sequences.small_stories import moves
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc_app.values.blocks import Curve, Passage
from nerf_posenc_attention import LearnedPositionEncoder
from nerf_posenc_attention.memory_networks import MemN2NPositionEncoder
from nerf_posenc_sequences.data.types import Story
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.system import SystemOptions
from nerf_posenc_sequences.systems.clipped_sgd import ClippedSGD
from nerf_posenc_sequences.systems.memn2n import ENCODINGS, MemN2NSystem
from nerf_posenc_sequences.systems.memn2n_model import MemN2N
from tests.fits import blocks_of


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_system(**options: object) -> MemN2NSystem:
    return MemN2NSystem(moves(), replace(SystemOptions(width=6), **options))  # type: ignore[arg-type]


def fitted(system: MemN2NSystem, encoding: str, steps: int) -> nn.Module:
    model = system.build(encoding, generator())
    optimizer = system.optimizer([model], system.defaults.lr)
    state = FitState(model, optimizer, steps)
    return fit(state, system.batches(encoding, 32, 0), system.loss, schedule=lambda _: 1.0).model


def by_hand(model: MemN2N, system: MemN2NSystem, told: Story, scale: float | None) -> Tensor:
    """One story, hop by hop and memory by memory."""
    index = {word: i for i, word in enumerate(system.format.words)}

    def embed(words: tuple[str, ...], table: Tensor) -> Tensor:
        rows = torch.stack([table[index[word]] for word in words])
        if scale is not None:
            rows = MemN2NPositionEncoder(rows.shape[1], scale=scale)(rows)
        return rows.sum(0)

    def hop(state: Tensor, first: int) -> Tensor:
        inputs = torch.stack([embed(s, model.embeddings[first]) for s in told.sentences])
        outputs = torch.stack([embed(s, model.embeddings[first + 1]) for s in told.sentences])
        if len(model.ages):
            # T_A and T_C count from the latest memory back.
            of_inputs, of_outputs = (
                each.table(len(inputs)).flip(0)
                for each in model.ages[first : first + 2]
                if isinstance(each, LearnedPositionEncoder)
            )
            inputs, outputs = inputs + of_inputs, outputs + of_outputs
        exps = [math.exp(float(row @ state)) for row in inputs]
        # Empty memories have the score 0.
        total = sum(exps) + system.format.max_memories - len(exps)
        return torch.stack([e / total * row for e, row in zip(exps, outputs, strict=True)]).sum(0)

    if model.tying == "adjacent":
        state = embed(told.question, model.embeddings[0])
        for k in range(model.hops):
            state = state + hop(state, k)
        scores: Tensor = model.embeddings[-1] @ state
        return scores
    assert model.question_embedding is not None
    assert model.between is not None
    assert model.answers is not None
    state = embed(told.question, model.question_embedding)
    for _ in range(model.hops):
        state = state @ model.between + hop(state, 0)
    return model.answers @ state


@pytest.mark.parametrize("tying", ["adjacent", "layer-wise"])
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_scores_are_those_of_the_formulas(encoding: str, tying: str) -> None:
    system = small_system(tying=tying, hops=2)
    model = system.build(encoding, generator())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
        scores = model(system.tests[0].inputs)
        for row in range(5):
            told = system.stories.tasks[0].test[row]
            expected = by_hand(model, system, told, ENCODINGS[encoding].position_scale)
            torch.testing.assert_close(scores[row], expected, atol=1e-4, rtol=1e-4)


def test_tying_sets_the_number_of_weights() -> None:
    words, slots = len(small_system().format.words), small_system().format.max_memories
    counts = {
        tying: sum(
            p.numel()
            for p in small_system(tying=tying, hops=4).build("temporal", generator()).parameters()
        )
        for tying in ("adjacent", "layer-wise")
    }
    assert counts["adjacent"] == 5 * 6 * (words + slots)
    assert counts["layer-wise"] == 2 * 6 * (words + slots) + 2 * 6 * words + 6 * 6


@pytest.mark.parametrize("wrong", [{"width": 1}, {"hops": 0}, {"tying": "loose"}])
def test_sizes_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    arguments = {k: v for k, v in small_system().description("none").items() if k != "words"}
    with pytest.raises((ValueError, TypeError)):
        MemN2N(**{**arguments, **wrong}, generator=generator())


def test_each_model_is_clipped_by_itself() -> None:
    models = [nn.Linear(3, 1, bias=False) for _ in range(2)]
    before = [model.weight.detach().clone() for model in models]
    gradients = torch.tensor([[[3.0, 0.0, 4.0]], [[0.03, 0.0, 0.04]]])
    for model, gradient in zip(models, gradients, strict=True):
        model.weight.grad = gradient.clone()
    ClippedSGD(models, lr=0.5, max_norm=2, loss_scale=10).step()
    # Norms of 50 and 0.5; the first is cut to 2.
    torch.testing.assert_close(before[0] - models[0].weight, 0.5 * gradients[0] * 2 / 5)
    torch.testing.assert_close(before[1] - models[1].weight, 0.5 * gradients[1] * 10)


def test_limits_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ClippedSGD([nn.Linear(1, 1)], lr=1, max_norm=0)


def test_its_state_is_saved_and_loaded() -> None:
    system = small_system()
    model = system.build("none", generator())
    optimizer = system.optimizer([model], 0.1)
    system.loss(model(system.tests[0].inputs), system.tests[0].answers).backward()
    optimizer.step()
    system.optimizer([model], 0.1).load_state_dict(optimizer.state_dict())


def test_the_rate_halves_after_every_quarter() -> None:
    system = small_system()
    assert [system.schedule(p) for p in (0.0, 0.249, 0.25, 0.5, 0.999)] == [1, 1, 0.5, 0.25, 0.125]


def test_a_tenth_of_the_training_questions_is_left_out() -> None:
    assert len(small_system().training) == 36
    assert small_system().defaults.steps == 100
    joint = MemN2NSystem(moves(tasks=3), SystemOptions())
    assert (len(joint.training), joint.width, joint.defaults.steps) == (108, 50, 180)


@pytest.mark.slow
def test_ages_of_memories_tell_where_somebody_is_now() -> None:
    system = MemN2NSystem(moves(200), SystemOptions(hops=1))
    errors = {
        encoding: system.evaluate(fitted(system, encoding, 250), encoding).scores["error_percent"]
        for encoding in ("none", "temporal")
    }
    assert errors["temporal"] < 10
    assert errors["none"] > 15


def test_the_evaluation_has_the_error_of_every_task() -> None:
    system = MemN2NSystem(moves(tasks=3), SystemOptions(width=4))
    model = system.build("none", generator())
    evaluation = system.evaluate(model, "none")
    wrong = []
    for rows in system.tests:
        wrong.append(100 * float((model(rows.inputs).argmax(1) != rows.answers).float().mean()))
    assert list(blocks_of(evaluation, Curve)[0].ys) == pytest.approx(wrong)
    assert evaluation.scores["error_percent"] == pytest.approx(sum(wrong) / 3)
    assert sum(evaluation.scores.values()) == pytest.approx(100)
    assert {measure.name for measure in system.measures} == set(evaluation.scores)


def test_attention_has_a_row_per_sentence_and_a_column_per_hop() -> None:
    system = small_system(hops=2)
    evaluation = system.evaluate(system.build("temporal", generator()), "temporal")
    sentences = system.stories.tasks[0].test[0].sentences
    (shown,) = blocks_of(evaluation, HeatMap)
    assert list(shown.rows) == [" ".join(sentence) for sentence in sentences]
    assert tuple(shown.table.shape) == (len(sentences), 2)
    assert float(shown.table.sum(0).max()) <= 1 + 1e-6


def test_wrong_answers_are_shown_with_the_right_ones() -> None:
    system = small_system()
    model = system.build("none", generator())
    with torch.no_grad():
        evaluation = system.evaluate(model.eval(), "none")
    passage = blocks_of(evaluation, Passage)[0]
    answers = [token for token in passage.tokens if token.mark != "given"]
    predicted = model(system.tests[0].inputs).argmax(1)
    for row, token in enumerate(answers):
        told = system.stories.tasks[0].test[row]
        assert token.text == system.format.words[int(predicted[row])]
        assert (token.mark == "right") == (token.text == told.answer)
        assert token.truth == (None if token.mark == "right" else told.answer)
    assert blocks_of(system.evaluate(model, "none"), Passage)[0] == passage


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(SequenceError, match="hops 1 or more"):
        small_system(hops=0)
