"""Stories as tensors, their batches, and sentences as sums of words."""

import pytest
import torch

from more.tests.sequences.small_stories import moves
from nerf_posenc_attention.memory_networks import MemN2NPositionEncoder
from nerf_posenc_sequences.data.types import Stories, Story, StoryTask
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.system import SystemOptions
from nerf_posenc_sequences.systems.memn2n import MemN2NSystem
from nerf_posenc_sequences.systems.sentences import SentenceEncoder
from nerf_posenc_sequences.systems.story_batches import StoryBatches, encode_stories, story_format


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_position_weights_are_those_of_the_encoder(scale: float) -> None:
    words = torch.tensor([[3, 1, 2, 0, 0], [1, 1, 4, 2, 3], [0, 0, 0, 0, 0]])
    tables = torch.randn(2, 5, 7, generator=generator())
    table = torch.cat([torch.zeros(2, 1, 7), tables[:, :4]], 1)
    encoder = MemN2NPositionEncoder(7, scale=scale)
    expected = [encoder(t[words], lengths=(words > 0).sum(1)).sum(1) for t in table]
    encoded = SentenceEncoder(7, 5, scale)(words, tables[0, :4], tables[1, :4])
    torch.testing.assert_close(encoded, tuple(expected))


def test_a_bag_is_the_sum_of_its_words() -> None:
    table = torch.randn(4, 3, generator=generator())
    (encoded,) = SentenceEncoder(3, 4, None)(torch.tensor([2, 2, 4, 0]), table)
    torch.testing.assert_close(encoded, 2 * table[1] + table[3])


def test_padding_is_zero() -> None:
    (encoded,) = SentenceEncoder(3, 4, 1.0)(torch.zeros(2, 4, dtype=torch.long), torch.ones(5, 3))
    assert not encoded.any()


def test_the_latest_sentences_are_kept() -> None:
    told = tuple((word,) for word in "abcd")
    long = Story(told, ("q",), "a", (3, 0))
    stories = Stories("", "", [StoryTask("1", [long], [long])])
    layout = story_format(stories, max_memories=3)
    rows = encode_stories([long], layout)
    assert [layout.words[i - 1] for i in rows.memories[0, :, 0]] == ["b", "c", "d"]
    assert rows.ages.tolist() == [[3, 2, 1]]
    assert rows.supporting.tolist() == [[2, -1]]
    assert layout.words[int(rows.answers[0])] == "a"


def test_padding_follows_in_every_direction() -> None:
    stories = moves(10)
    rows = encode_stories(stories.tasks[0].train, story_format(stories, max_memories=50))
    for row, told in enumerate(stories.tasks[0].train):
        count = len(told.sentences)
        assert (rows.memories[row, :count] > 0).all()
        assert not rows.memories[row, count:].any()
        assert rows.ages[row, :count].tolist() == list(range(count, 0, -1))
        assert not rows.ages[row, count:].any()


def test_a_task_without_questions_is_refused() -> None:
    one = moves(2).tasks[0]
    empty = Stories("", "", [StoryTask("9", one.train, ())])
    with pytest.raises(SequenceError, match="task 9 has 2 training and 0 test"):
        story_format(empty, max_memories=5)
    with pytest.raises(SequenceError, match="no tasks"):
        story_format(Stories("none", "", []), max_memories=5)


def test_stories_without_sentences_are_refused() -> None:
    bare = [Story((), ("why",), "so", ())]
    with pytest.raises(SequenceError, match="no sentences"):
        story_format(Stories("", "", [StoryTask("1", bare, bare)]), max_memories=5)


def test_batches_depend_on_seed_and_step_alone() -> None:
    system = MemN2NSystem(moves(), SystemOptions())
    one, other = (system.batches("temporal", 8, 3) for _ in range(2))
    for step in (5, 0, 2):
        (*inputs, answers), (*others, targets) = one(step), other(step)
        torch.testing.assert_close(inputs, others)
        assert answers.equal(targets)


def test_a_pass_has_every_question_once() -> None:
    system = MemN2NSystem(moves(), SystemOptions())
    draw = StoryBatches(system.training, 9, seed=1)
    rows = torch.cat([draw.rows(step) for step in range(4)])
    assert sorted(rows.tolist()) == list(range(36))
