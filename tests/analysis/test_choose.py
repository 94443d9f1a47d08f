"""Sigma for scattered samples: units do not matter, detail does."""

import math

import pytest
import torch
from torch import Tensor

from nerf_posenc.analysis import choose_sigma, spectrum_of_samples

QUICK = 25


def samples(frequency: float, in_dim: int = 2) -> tuple[Tensor, Tensor]:
    points = 2 * torch.rand(300, in_dim, generator=torch.Generator().manual_seed(0)) - 1
    return points, (frequency * points.sum(-1, keepdim=True)).sin()


@pytest.mark.parametrize("in_dim", [1, 2, 4])
def test_finer_detail_takes_a_larger_sigma(in_dim: int) -> None:
    coarse, fine = (
        choose_sigma(*samples(frequency / math.sqrt(in_dim), in_dim), num_steps=QUICK).sigma
        for frequency in (2.0, 25.0)
    )
    assert 0 < 1.5 * coarse < fine


def test_sigma_is_in_cycles_per_unit_of_the_points() -> None:
    points, values = samples(6.0)
    found = choose_sigma(points, values, num_steps=QUICK)
    # Powers of two, so that the same numbers are fitted.
    far = choose_sigma(1024 * points, values, num_steps=QUICK)
    assert far.sigma == pytest.approx(found.sigma / 1024, rel=0.02)
    other = choose_sigma(points, 40 * values + 7, num_steps=QUICK)
    assert other.sigma == pytest.approx(found.sigma, rel=0.02)
    assert choose_sigma(points, values, num_steps=QUICK) == found


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("octave", [-3.4, -0.8, 0.3, 2.2])
def test_the_least_of_errors_that_are_a_parabola_is_found(
    octave: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def error(sigma: float, _: Tensor) -> float:
        return math.exp(0.3 * (math.log2(sigma) - octave) ** 2)

    module = "nerf_posenc.analysis.scattered"
    monkeypatch.setattr(f"{module}.fit_samples", lambda points, values, sigma, *_: sigma)
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
    for measure in (choose_sigma, spectrum_of_samples):
        with pytest.raises(ValueError, match="points"):
            measure(points, values)


def test_constant_values_have_some_sigma() -> None:
    points = torch.rand(30, 3)
    assert choose_sigma(points, torch.ones(30, 1), num_steps=2).sigma > 0


def points_in_a_cube(in_dim: int) -> Tensor:
    return 2 * torch.rand(4000, in_dim, generator=torch.Generator().manual_seed(1)) - 1


@pytest.mark.parametrize(("in_dim", "octaves"), [(1, 10), (2, 5), (3, 3), (4, 2)])
def test_a_wave_is_in_its_octave(in_dim: int, octaves: int) -> None:
    points = points_in_a_cube(in_dim)
    # From one whole cycle in the box on: what is less is hardly told from a trend.
    for octave in range(1, octaves):
        wave = torch.cos(2**octave * math.pi * points[:, :1] + 0.3)
        found = spectrum_of_samples(points, wave)
        assert found.energy[octave] > 0.9 * found.variance
        assert found.variance == pytest.approx(float(wave.var(0, correction=0)), rel=1e-4)


def test_energies_add_up_in_any_unit() -> None:
    points = points_in_a_cube(2)
    waves = [torch.cos(2**k * math.pi * points[:, [axis]]) for k, axis in ((1, 0), (3, 1))]
    # Of two values as of one: their variances add up.
    for values in (waves[0] + waves[1], torch.cat(waves, dim=-1)):
        found = spectrum_of_samples(1e4 * points + 7, 100 * values - 3)
        assert found.share_below == pytest.approx([0, 0.5, 0.5, 1, 1], abs=0.1)
        assert found.variance == pytest.approx(1e4, rel=0.1)


def test_noise_is_in_the_last_octave_and_constants_are_in_none() -> None:
    points = points_in_a_cube(2)
    noise = torch.randn(4000, 1, generator=torch.Generator().manual_seed(2))
    assert spectrum_of_samples(points, noise).share_below[-2] < 0.2
    # A tenth is rounded, and so is the mean.
    constant = torch.full((4000, 1), 0.1)
    assert all(map(math.isnan, spectrum_of_samples(points, constant).share_below))
    assert spectrum_of_samples(points, 1e-17 * noise).variance == pytest.approx(1e-34, rel=0.1)
    # As few samples as there may be, of two types.
    few = spectrum_of_samples(torch.rand(10, 4).double(), torch.rand(10, 1))
    assert few.share_below == pytest.approx([1.0])
