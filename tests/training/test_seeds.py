"""Several seeds trained as one: each as if it were alone."""

import pytest
import torch
from nerf_posenc.training.seeds import SeedEnsemble, SeedLoss, stacked_draws
from torch import Tensor, nn

from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import adam


def member(seed: int) -> nn.Sequential:
    norm = nn.BatchNorm1d(8)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), norm, nn.Linear(8, 2)).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    norm.load_state_dict({**norm.state_dict(), "running_mean": torch.randn(8, generator=generator)})
    return model


def draw(seed: int):  # type: ignore[no-untyped-def]
    def batch(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(100 * seed + step)
        x = torch.rand(16, 3, generator=generator)
        return x, x[:, :2].square()

    return batch


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction - target).square().mean()


@pytest.mark.parametrize("is_stackable", [True, False])
def test_every_member_runs_its_own_inputs_with_its_own_weights_and_buffers(
    is_stackable: bool,
) -> None:
    members = [member(seed) for seed in range(3)]
    inputs = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(0))
    together = SeedEnsemble(members, is_stackable=is_stackable)(inputs)
    for i in range(3):
        torch.testing.assert_close(together[i], members[i](inputs[i]))


def test_nested_inputs_are_split_by_member() -> None:
    class Sum(nn.Module):
        def __init__(self, weight: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(weight))

        def forward(self, inputs: tuple[Tensor, tuple[Tensor]]) -> Tensor:
            return self.weight * (inputs[0] + inputs[1][0])

    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(0))
    for is_stackable in (True, False):
        ensemble = SeedEnsemble([Sum(1.0), Sum(3.0)], is_stackable=is_stackable)
        expected = torch.stack([2 * x[0], 6 * x[1]])
        torch.testing.assert_close(ensemble((x, (x,))), expected)


def test_members_train_as_if_each_were_alone() -> None:
    alone = []
    for seed in range(3):
        model = member(seed)
        fit(FitState(model, adam(model, lr=0.01), 30), draw(seed), mse)
        alone.append(model)
    members = [member(seed) for seed in range(3)]
    ensemble = SeedEnsemble(members)
    loss = SeedLoss(mse)
    state = FitState(ensemble, adam(ensemble, lr=0.01), 30)
    fit(state, stacked_draws([draw(s) for s in range(3)]), loss, on_record=lambda s: loss.record())
    for mine, other in zip(members, alone, strict=True):
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    # The history is the mean over members, and each member's own loss is kept.
    for record, losses in zip(state.history, loss.histories, strict=True):
        assert record.loss == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_a_loss_of_several_seeds_goes_on_from_what_was_saved() -> None:
    loss, other = SeedLoss(mse), SeedLoss(mse)
    x = torch.rand(2, 4, 2)
    for _ in range(3):
        loss(x, x + 1)
    other.load_state_dict(loss.state_dict())
    for each in (loss, other):
        each(x, x + 3)
        each.record()
    assert loss.histories == other.histories == [[3.0, 3.0]]


def test_models_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="same shapes"):
        SeedEnsemble([nn.Linear(2, 3), nn.Linear(2, 4)])
    with pytest.raises(ValueError, match="one model or more"):
        SeedEnsemble([])
