"""Optimizer groups: their states, their settings and the formulas of a step."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc.networks.mlp import MLP, hidden_matrices
from nerf_posenc.training.optimizers import OptimizerGroup, _orthogonal_factors, adam, muon

# Jordan et al. 2024.
QUINTIC = (3.4445, -4.775, 2.0315)


def stepped(group: OptimizerGroup, model: nn.Module, steps: int = 1) -> OptimizerGroup:
    x = torch.linspace(-1, 1, 40).view(20, 2)
    for _ in range(steps):
        group.zero_grad()
        model(x).square().sum().backward()
        group.step()
    return group


def test_a_group_steps_and_clears_all_of_its_parts() -> None:
    model = MLP(2, 3, width=8, depth=2)
    before = [p.detach().clone() for p in model.parameters()]
    group = stepped(muon(model, hidden_matrices(model)), model)
    for parameter, start in zip(model.parameters(), before, strict=True):
        assert not torch.equal(parameter, start)
    group.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_adam_moves_by_its_learning_rate_whatever_the_gradient() -> None:
    # Kingma and Ba 2015: the first step is lr times the sign, down to gradients of epsilon, 1e-15.
    weight = nn.Parameter(torch.zeros(3))
    group = adam(nn.ParameterList([weight]), lr=0.5)
    weight.grad = torch.tensor([1e3, -1e-6, 1e-15])
    group.step()
    expected = torch.tensor([-0.5, 0.5, -0.25])
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-3, atol=0)


def test_complex_weights_have_an_optimizer() -> None:
    weight = nn.Parameter(torch.tensor([1 + 1j, 2 - 1j]))
    group = adam(nn.ParameterList([weight]), lr=0.1)
    weight.abs().square().sum().backward()
    group.step()
    expected = torch.tensor([0.9 + 0.9j, 1.9 - 0.9j])
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-4, atol=0)


def test_muon_alone_needs_no_adam() -> None:
    matrices = [nn.Parameter(torch.eye(4)), nn.Parameter(torch.eye(3))]
    group = muon(nn.ParameterList(matrices), matrices, lr=0.2, lr_power=3.0)
    assert len(group.optimizers) == 1
    group.scale_lrs(0.5)
    assert group.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.2 * 0.125)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (16, 4), (4, 16)])
def test_a_step_of_muon_is_the_learning_rate_times_the_root_of_its_aspect(
    rows: int, columns: int
) -> None:
    # All four singular values are alike: 1/2 of the norm, which the quintic takes near 1.
    value = 0.5
    for _ in range(5):
        value = QUINTIC[0] * value + QUINTIC[1] * value**3 + QUINTIC[2] * value**5
    orthogonal = torch.linalg.qr(torch.randn(max(rows, columns), 4))[0]
    gradient = orthogonal if rows >= columns else orthogonal.T.contiguous()
    weight = nn.Parameter(torch.zeros(rows, columns))
    group = muon(nn.ParameterList([weight]), [weight], lr=0.1)
    weight.grad = gradient.clone()
    group.step()
    length = 0.1 * math.sqrt(max(1, rows / columns)) * value
    torch.testing.assert_close(weight.detach(), -length * gradient, atol=1e-4, rtol=0)


def test_a_matrix_of_zeros_has_no_orthogonal_factor_to_step_along() -> None:
    assert not _orthogonal_factors(torch.zeros(1, 3, 2)).any()


@pytest.mark.parametrize(
    ("shape", "has_bfloat16", "dtype"),
    [
        ((64, 128), True, torch.float32),
        ((65, 128), True, torch.bfloat16),
        ((65, 128), False, torch.float32),
    ],
)
def test_large_matrices_are_iterated_in_bfloat16_where_a_cpu_computes_in_it(
    shape: tuple[int, int], has_bfloat16: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bfloat16, raising=False)
    assert _orthogonal_factors(torch.randn(1, *shape)).dtype == dtype


def test_matrices_without_a_gradient_stay_where_they_are() -> None:
    matrices = [nn.Parameter(torch.eye(3)), nn.Parameter(torch.eye(3))]
    group = muon(nn.ParameterList(matrices), matrices)
    matrices[1].grad = torch.eye(3)
    group.step()
    assert torch.equal(matrices[0], torch.eye(3))
    assert not torch.equal(matrices[1], torch.eye(3))


@pytest.mark.parametrize(
    "build",
    [
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, lr=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.Adagrad(p, lr=0.01),
        lambda p: torch.optim.NAdam(p, lr=0.01),
        lambda p: torch.optim.Adamax(p, lr=0.01),
    ],
)
def test_another_optimizer_goes_on_from_its_saved_state(
    build: Callable[[Any], torch.optim.Optimizer],
) -> None:
    def made() -> tuple[nn.Module, OptimizerGroup]:
        torch.manual_seed(0)
        model = MLP(2, 3, width=8, depth=2)
        return model, OptimizerGroup([build(model.parameters())])

    (model, group), (other, resumed) = made(), made()
    stepped(group, model, 3)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(copy.deepcopy(group.state_dict()))
    stepped(group, model, 2)
    stepped(resumed, other, 2)
    for mine, expected in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("name", ["muon", "adam"])
def test_a_loaded_state_has_the_moments_of_the_saved_and_its_own_settings(name: str) -> None:
    def build(lr: float) -> tuple[nn.Module, OptimizerGroup]:
        torch.manual_seed(0)
        model = MLP(2, 3, width=8, depth=2)
        matrices = hidden_matrices(model)
        return model, adam(model, lr=lr) if name == "adam" else muon(model, matrices, lr=lr)

    model, group = build(0.01)
    state = stepped(group, model, 3).state_dict()
    other = build(0.5)[1]
    other.load_state_dict(state)
    assert other.optimizers[0].param_groups[0]["lr"] == 0.5
    for mine, saved in zip(other.optimizers, state["optimizers"], strict=True):
        loaded = mine.state_dict()["state"]
        assert loaded.keys() == saved["state"].keys()
        for index, moments in saved["state"].items():
            assert all(torch.equal(loaded[index][key], value) for key, value in moments.items())


def damaged(state: dict[str, Any], part: int, index: Any, moments: Any) -> dict[str, Any]:
    """A state whose part has these moments for a parameter."""
    optimizers = [dict(each) for each in state["optimizers"]]
    optimizers[part]["state"] = {**optimizers[part]["state"], index: moments}
    return {"optimizers": optimizers}


def test_moments_that_do_not_fit_are_refused() -> None:
    model = MLP(2, 3, width=8, depth=2)
    group = stepped(muon(model, hidden_matrices(model)), model)
    state = group.state_dict()
    group.load_state_dict(state)
    # Two matrices, and the output's matrix and three biases.
    first, second = state["optimizers"][0]["state"].values()
    good: dict[str, Tensor] = state["optimizers"][1]["state"][0]
    scalar = torch.zeros(())
    for part, index, moments, message in (
        (0, 2, second, "has a parameter 2 of 2"),
        (0, -1, second, "has a parameter -1 of 2"),
        (1, 4, good, "has a parameter 4 of 4"),
        (1, "a", good, "has a parameter 'a' of 4"),
        (0, 0, {}, "parameter 0 must be momentum_buffer of the shape"),
        (0, 1, first, r"parameter 1 must be momentum_buffer of the shape \(8, 8\)"),
        (0, 0, {"momentum_buffer": 3.0}, "parameter 0 must be momentum_buffer"),
        (0, 0, [1], "parameter 0 must be momentum_buffer"),
        (1, 0, second, "parameter 0 must be exp_avg, exp_avg_sq, step of the shape"),
        (1, 0, {**good, "step": torch.zeros(1)}, "parameter 0 must be exp_avg"),
        (1, 0, {**good, "exp_avg": scalar}, "parameter 0 must be exp_avg"),
        (1, 0, {**good, "more": scalar}, "parameter 0 must be exp_avg"),
    ):
        with pytest.raises(ValueError, match=message):
            group.load_state_dict(damaged(state, part, index, moments))
