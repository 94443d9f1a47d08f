"""Batched ensembles: each member must become what it would alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import train_fit
from nerf_posenc.networks import MLP
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.ensemble import Ensemble, member_losses, stacked_draws
from nerf_posenc.training.loop import FitState, fit, mse
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_module_that_stands_in_two_places_is_that_of_each_member() -> None:
    shared = [nn.Linear(4, 4) for _ in range(2)]
    members = [nn.Sequential(layer, nn.Tanh(), layer) for layer in shared]
    ensemble, inputs = Ensemble(members), torch.rand(2, 5, 4)
    for _ in range(2):  # The second time finds what the first one left.
        outputs = ensemble(inputs)
        for x, y, member in zip(inputs, outputs, members, strict=True):
            torch.testing.assert_close(y, member(x))
    assert [name for name, _ in members[0].named_parameters()] == ["0.weight", "0.bias"]


def fits_of(folder: str) -> dict[str, Any]:
    return {f["encoding"]: f for f in json.loads(Path(folder, "metrics.json").read_text())["fits"]}


def test_members_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 1 member or more"):
        Ensemble([])
    with pytest.raises(ValueError, match="same shapes"):
        Ensemble([MLP(2, 3), MLP(2, 3, width=8)])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_fit_takes_the_same_steps() -> None:
    small = [*SMALL_RUN, "--encodings", "fourier", "--quiet", "--video", "0"]
    assert train_fit.main([*small, "--out", "plain"]) == 0
    assert train_fit.main([*small, "--compile", "--out", "compiled"]) == 0
    plain, compiled = (
        [r["mse"] for r in fits_of(f)["fourier"]["history"]] for f in ("plain", "compiled")
    )
    assert compiled == pytest.approx(plain, rel=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_a_compiler_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    torch.compiler.reset()
    arguments = ["--compile", "--encodings", "none", "--quiet", "--out", "run", *SMALL_RUN]
    with torch._inductor.config.patch({"force_disable_caches": True, "cpp.cxx": (None, "/no/c++")}):
        assert train_fit.main(arguments) == 1
    assert "leave out --compile" in capsys.readouterr().err
    assert not Path("run").exists()


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


@pytest.mark.parametrize("is_stackable", [True, False])
def test_every_member_runs_its_own_inputs_with_its_own_weights_and_buffers(
    is_stackable: bool,
) -> None:
    members = [member(seed) for seed in range(3)]
    inputs = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(0))
    together = Ensemble(members, is_stackable=is_stackable)(inputs)
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
        ensemble = Ensemble([Sum(1.0), Sum(3.0)], is_stackable=is_stackable)
        expected = torch.stack([2 * x[0], 6 * x[1]])
        torch.testing.assert_close(ensemble((x, (x,))), expected)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_members_train_as_if_each_were_alone(optimizer: str) -> None:
    def make(model: nn.Module, members: Sequence[nn.Module]) -> OptimizerGroup:
        matrices = [matrix for each in members for matrix in hidden_matrices(each)]
        return recipes.make_optimizer(model, optimizer, 0.01, matrices=matrices)

    alone = []
    for seed in range(3):
        model = member(seed)
        alone.append(fit(FitState(model, make(model, [model]), 30), draw(seed)))
    members = [member(seed) for seed in range(3)]
    ensemble = Ensemble(members)
    state = FitState(ensemble, make(ensemble, members), 30)
    fit(state, stacked_draws([draw(s) for s in range(3)]), member_losses(mse))
    for i, (mine, other) in enumerate(zip(members, alone, strict=True)):
        for a, b in zip(mine.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)
        losses = [record.loss for record in other.history]
        assert [each[i] for each in state.member_losses] == pytest.approx(losses, rel=2e-3)
    # The history is the mean over members.
    for record, each in zip(state.history, state.member_losses, strict=True):
        assert record.loss == pytest.approx(sum(each) / 3, rel=1e-5)


def test_losses_of_several_members_go_on_from_what_was_saved() -> None:
    def new_state() -> FitState:
        ensemble = Ensemble([member(seed) for seed in range(2)])
        return FitState(ensemble, adam(ensemble, lr=0.01), 20)

    draws, loss = stacked_draws([draw(0), draw(1)]), member_losses(mse)
    whole = fit(new_state(), draws, loss)
    first, second = new_state(), new_state()
    fit(first, draws, loss, should_stop=lambda: first.step == 13)
    second.load_state_dict(first.state_dict())
    fit(second, draws, loss)
    assert second.member_losses == whole.member_losses
    assert [len(each) for each in whole.member_losses] == [2, 2]
