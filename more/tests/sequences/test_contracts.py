"""Built-in tasks show what their pages say; `more.tools.contracts` runs all of them by default."""

import pytest
import torch

from more.tests.sequences.test_memn2n import fitted
from more.tools.contracts import CONTRACTS, broken, metrics_of
from nerf_posenc_sequences.data.types import Stories
from nerf_posenc_sequences.data.world import make_stories
from nerf_posenc_sequences.system import SystemOptions
from nerf_posenc_sequences.systems.memn2n import MemN2NSystem


@pytest.mark.slow
def test_positions_of_words_tell_who_is_north_of_whom() -> None:
    made = make_stories(1000, 400, 0)
    task = [task for task in made.tasks if task.name == "two arguments"]
    system = MemN2NSystem(Stories(made.name, made.source, task), SystemOptions())
    torch.manual_seed(0)
    errors = {
        encoding: system.evaluate(fitted(system, encoding, 2800), encoding).scores["error_percent"]
        for encoding in ("temporal", "position-temporal")
    }
    # A bag of words leaves two sentences of which one is right.
    assert errors["temporal"] > 35
    assert errors["position-temporal"] < 25


@pytest.mark.slow
def test_the_self_attentive_model_is_better_than_a_guess() -> None:
    contract = CONTRACTS["self_attentive.md"]
    assert not broken(contract, metrics_of(contract, seeds=1))
