"""Models of several seeds: each must become what it would alone."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc.networks import MLP
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.loop import FitState, fit, mse
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc_sequences.ensemble import Ensemble, member_batches, member_losses


def member(seed: int) -> MLP:
    return MLP(3, 2, width=8, depth=2, generator=torch.Generator().manual_seed(seed))


def draw(seed: int):  # type: ignore[no-untyped-def]
    def batch(step: int) -> tuple[Tensor, Tensor]:
        # Members may have batches of different lengths.
        x = torch.rand(16 + seed, 3, generator=torch.Generator().manual_seed(100 * seed + step))
        return x, x[:, :2].square()

    return batch


def state_of(model: nn.Module, members: Sequence[nn.Module], optimizer: str) -> FitState:
    matrices = [matrix for each in members for matrix in hidden_matrices(each)]
    group: OptimizerGroup = recipes.make_optimizer(model, optimizer, 0.01, matrices=matrices)
    return FitState(model, group, 30)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_members_train_as_if_each_were_alone(optimizer: str) -> None:
    alone = []
    for seed in range(3):
        model = member(seed)
        alone.append(fit(state_of(model, [model], optimizer), draw(seed)))
    members = [member(seed) for seed in range(3)]
    state = state_of(Ensemble(members), members, optimizer)
    fit(state, member_batches([draw(s) for s in range(3)]), member_losses(mse))
    for i, (mine, other) in enumerate(zip(members, alone, strict=True)):
        for a, b in zip(mine.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(a, b)
        losses = [record.loss for record in other.history]
        assert [each[i] for each in state.member_losses] == pytest.approx(losses, rel=1e-5)
    # The history is the mean over members.
    for record, each in zip(state.history, state.member_losses, strict=True):
        assert record.loss == pytest.approx(sum(each) / 3, rel=1e-5)


def test_losses_of_several_members_go_on_from_what_was_saved() -> None:
    def new_state() -> FitState:
        members = [member(seed) for seed in range(2)]
        return state_of(Ensemble(members), members, "adam")

    draws, loss = member_batches([draw(0), draw(1)]), member_losses(mse)
    whole = fit(new_state(), draws, loss)
    first, second = new_state(), new_state()
    fit(first, draws, loss, should_stop=lambda: first.step == 13)
    second.load_state_dict(first.state_dict())
    fit(second, draws, loss)
    assert second.member_losses == whole.member_losses
    assert [len(each) for each in whole.member_losses] == [2, 2, 2]
