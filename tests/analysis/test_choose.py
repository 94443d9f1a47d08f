"""Choices by short fits. Sigma for scattered samples: units do not matter, detail does."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc.analysis.choose import choose, choose_sigma, fit_samples

QUICK = 20


def samples(frequency: float, in_dim: int = 2) -> tuple[Tensor, Tensor]:
    points = 2 * torch.rand(300, in_dim, generator=torch.Generator().manual_seed(0)) - 1
    return points, (frequency * points.sum(-1, keepdim=True)).sin()


@pytest.mark.parametrize("in_dim", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 4))])
def test_finer_detail_takes_a_larger_sigma(in_dim: int) -> None:
    coarse, fine = (
        choose_sigma(*samples(frequency / math.sqrt(in_dim), in_dim), num_steps=QUICK).sigma
        for frequency in (2.0, 25.0)
    )
    assert 0 < 1.5 * coarse < fine


def test_samples_of_any_type_have_a_sigma() -> None:
    points = torch.rand(40, 2)
    values = points.sum(1, keepdim=True).sin()
    sigma = choose_sigma(points, values, num_steps=3).sigma
    for types in ((torch.float64, torch.float32), (torch.float64, torch.float64)):
        found = choose_sigma(points.to(types[0]), values.to(types[1]), num_steps=3).sigma
        assert found == pytest.approx(sigma, rel=0.05)


@pytest.mark.slow
def test_sigma_is_in_cycles_per_unit_of_the_points() -> None:
    points, values = samples(6.0)
    found = choose_sigma(points, values, num_steps=QUICK)
    # Powers of two, so that the same numbers are fitted.
    far = choose_sigma(1024 * points, values, num_steps=QUICK)
    assert far.sigma == pytest.approx(found.sigma / 1024, rel=0.02)
    other = choose_sigma(points, 40 * values + 7, num_steps=QUICK)
    assert other.sigma == pytest.approx(found.sigma, rel=0.02)
    assert choose_sigma(points, values, num_steps=QUICK) == found


def test_values_beyond_the_outputs_of_the_network_are_refused() -> None:
    points = torch.rand(20, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"in \[0, 1\]; got 950 to 950: scale them"):
        fit_samples(points, torch.full((20, 1), 950.0), 1.0, num_steps=1)
    assert fit_samples(points, points[:, :1], 1.0, num_steps=1)(torch.rand(3, 2)).shape == (3, 1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("octave", [-3.4, -0.8, 0.3, 2.2])
def test_the_least_of_errors_that_are_a_parabola_is_found(
    octave: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(sigma: float, _: Tensor) -> float:
        return math.exp(0.3 * (math.log2(sigma) - octave) ** 2)

    module = "nerf_posenc.analysis.choose"
    monkeypatch.setattr(f"{module}._fit", lambda points, values, sigma, *_: sigma)
    monkeypatch.setattr(f"{module}.predict", lambda model, points: model)
    monkeypatch.setattr(f"{module}.mse", error)
    points = torch.tensor([-10.0, 10.0]).repeat(8)[:, None]
    # Ten units are half of the extent.
    found = choose_sigma(points, torch.rand(16, 1))
    assert found.sigma == pytest.approx(2**octave / 10)
    assert min(found.held_out_errors) <= found.sigma <= max(found.held_out_errors)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("points", "values"),
    [
        (torch.rand(9, 2), torch.rand(9, 1)),
        (torch.rand(20, 2), torch.rand(19, 1)),
        (torch.rand(20, 2), torch.rand(20)),
        (torch.ones(20, 2), torch.rand(20, 1)),
        (torch.full((20, 2), math.nan), torch.rand(20, 1)),
        (torch.rand(20, 2), torch.full((20, 1), math.inf)),
    ],
)
def test_samples_that_tell_nothing_are_refused(points: Tensor, values: Tensor) -> None:
    with pytest.raises(ValueError, match="points"):
        choose_sigma(points, values)


def test_constant_values_have_some_sigma() -> None:
    points = torch.rand(30, 3)
    assert choose_sigma(points, torch.ones(30, 1), num_steps=2).sigma > 0


def test_a_descent_finds_the_least_of_errors_that_fall_and_rise() -> None:
    for least in range(7):
        for start in range(7):
            costs = [float(abs(n - least)) for n in range(7)]
            best, errors = choose(range(7), costs.__getitem__, start=start)
            assert best == least
            # Nothing is tried beyond the neighbors of the way.
            assert set(errors) <= {*range(min(least, start) - 1, max(least, start) + 2)}
    names = ["c", "a", "b"]
    assert choose(names, {"a": 2.0, "b": 1.0, "c": 3.0}.__getitem__)[0] == "b"
