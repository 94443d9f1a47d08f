"""Memory networks against the formulas of their paper."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from more.tests.sequences.small_stories import moves
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc_attention.memory_networks import MemN2NPositionEncoder
from nerf_posenc_sequences.data.types import Stories, Story, StoryTask, Words
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.system import SystemOptions
from nerf_posenc_sequences.systems.memory_network import ENCODINGS, MARGIN, MemoryNetworkSystem
from nerf_posenc_sequences.systems.memory_network_model import MemoryNetwork
from tests.fits import blocks_of


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_system(**options: object) -> MemoryNetworkSystem:
    return MemoryNetworkSystem(two_facts(), replace(SystemOptions(width=6), **options))  # type: ignore[arg-type]


def two_facts() -> Stories:
    """Questions with no, one and two supporting facts."""
    told = (("a", "took", "b"), ("c", "left"), ("a", "left"), ("c", "took", "b"))
    stories = [
        Story(told, ("where", "b"), "here", (3, 1)),
        Story(told[:2], ("who",), "there", (0,)),
        Story(told[:3], ("why",), "here", ()),
        Story(told[:3], ("where", "a"), "there", (0, 2)),
    ]
    return Stories("facts", "", [StoryTask("1", stories, stories)])


class Formulas:
    """The scores of the paper for one story, memory by memory."""

    def __init__(self, model: MemoryNetwork, system: MemoryNetworkSystem, encoding: str) -> None:
        self.model = model
        self.index = {word: i for i, word in enumerate(system.format.words)}
        self.scale, self.has_time, _ = ENCODINGS[encoding]

    def embed(self, words: Words, table: Tensor) -> Tensor:
        rows = torch.stack([table[self.index[word]] for word in words])
        if self.scale is not None:
            rows = MemN2NPositionEncoder(rows.shape[1], scale=self.scale)(rows)
        return rows.sum(0)

    def y(self, told: Story, slot: int | None) -> Tensor:
        if slot is None:
            return self.model.no_memory[0]
        return self.embed(told.sentences[slot], self.model.fact_sought)

    def preference(self, told: Story, given: list[int], y: int | None, other: int | None) -> float:
        """s(x, y, y') where x is the question and the memories that are given."""
        x = self.embed(told.question, self.model.fact_question)
        for fact in given:
            x = x + self.embed(told.sentences[fact], self.model.fact_found)
        difference = self.y(told, y) - self.y(told, other)
        if self.has_time:
            # No memory is older than all, and the question newer.
            time = given[-1] if given else len(told.sentences)
            own, others = (-1 if slot is None else slot for slot in (y, other))
            assert self.model.older is not None
            for row, is_older in zip(
                self.model.older, (time < own, time < others, own < others), strict=True
            ):
                difference = difference + (row if is_older else -row)
        return float(x @ difference)

    def answers(self, told: Story, given: list[int]) -> Tensor:
        x = self.embed(told.question, self.model.answer_question)
        for fact in given:
            x = x + self.embed(told.sentences[fact], self.model.answer_found)
        return self.model.answers @ x


@pytest.fixture(params=list(ENCODINGS))
def encoding(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@torch.no_grad()
def test_the_loss_is_the_hinge_of_every_pair(encoding: str) -> None:
    system = small_system()
    model = system.build(encoding, generator())
    inputs, targets = system.batches(encoding, 4, 0)(0)
    formulas = Formulas(model, system, encoding)
    expected = 0.0
    for told in system.stories.tasks[0].train:
        given: list[int] = []
        for hop in range(2):
            true = told.supporting[hop] if hop < len(told.supporting) else None
            for other in (None, *range(len(told.sentences))):
                if other == true:
                    continue
                s = formulas.preference(told, given, true, other)
                expected += max(0.0, MARGIN - s)
                if formulas.has_time:
                    back = formulas.preference(told, given, other, true)
                    expected += max(0.0, MARGIN + back)
            if true is None:
                break
            given.append(true)
        scores = formulas.answers(told, given)
        right = scores[formulas.index[told.answer]]
        hinges = (MARGIN - right + scores).clamp(min=0).sum() - MARGIN
        expected += float(hinges)
    loss = system.loss(model(inputs), targets)
    assert float(loss) == pytest.approx(expected / 4, rel=1e-4)


@torch.no_grad()
def test_memories_are_found_by_comparing_each_with_the_winner(encoding: str) -> None:
    system = small_system()
    for seed in range(5):
        model = system.build(encoding, generator(seed))
        formulas = Formulas(model, system, encoding)
        scores, found = model.answer(system.tests[0].inputs)
        for row, told in enumerate(system.stories.tasks[0].test):
            given: list[int] = []
            for _ in range(2):
                winner: int | None = None
                for slot in range(len(told.sentences)):
                    if formulas.preference(told, given, slot, winner) > 0:
                        winner = slot
                if winner is None:
                    break
                given.append(winner)
            expected = [*given, 4, 4][:2]
            assert found[row].tolist() == expected
            torch.testing.assert_close(scores[row], formulas.answers(told, given))


def test_gradients_are_finite(encoding: str) -> None:
    system = small_system()
    model = system.build(encoding, generator())
    inputs, targets = system.batches(encoding, 4, 0)(0)
    system.loss(model(inputs), targets).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("wrong", [{"width": 1}, {"hops": 0}])
def test_sizes_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    arguments = {k: v for k, v in small_system().description("none").items() if k != "words"}
    with pytest.raises(ValueError, match="1 or more"):
        MemoryNetwork(**{**arguments, **wrong}, generator=generator())


def fitted(system: MemoryNetworkSystem, encoding: str, steps: int) -> nn.Module:
    model = system.build(encoding, generator())
    state = FitState(model, system.optimizer([model], system.defaults.lr), steps)
    draw = system.batches(encoding, 32, 0)
    return fit(state, draw, system.loss, schedule=system.schedule).model


def test_it_finds_as_many_memories_as_there_are_facts() -> None:
    assert small_system().hops == 2
    assert small_system(hops=1).hops == 1
    inputs, _ = small_system(hops=3).batches("none", 4, 0)(0)
    assert inputs[3].shape == (4, 3)
    assert (inputs[3][:, 2] == -1).all()


def test_stories_without_facts_are_refused() -> None:
    bare = [Story((("a",),), ("q",), "a", ())]
    with pytest.raises(SequenceError, match="task 1 has no supporting facts"):
        MemoryNetworkSystem(Stories("", "", [StoryTask("1", bare, bare)]), SystemOptions())


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(SequenceError, match="width must be 2"):
        small_system(width=1)


@pytest.mark.slow
def test_write_time_tells_where_somebody_is_now() -> None:
    system = MemoryNetworkSystem(moves(200), SystemOptions(width=20))
    errors = {
        name: system.evaluate(fitted(system, name, 300), name).scores["error_percent"]
        for name in ("none", "temporal")
    }
    assert errors["temporal"] < 3
    assert errors["none"] > 15


def test_the_memory_found_is_shown() -> None:
    system = small_system()
    model = system.build("temporal", generator())
    evaluation = system.evaluate(model, "temporal")
    found = model.answer(system.tests[0].inputs)[1][0].tolist()
    (shown,) = blocks_of(evaluation, HeatMap)
    assert shown.table.shape == (4, 2)
    for hop, slot in enumerate(found):
        expected = [float(i == slot) for i in range(4)]
        assert shown.table[:, hop].tolist() == expected
