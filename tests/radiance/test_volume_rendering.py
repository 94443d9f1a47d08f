"""Volume rendering and occupancy, against closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.volume_rendering import composite, weights_from_density


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_light_is_neither_made_nor_lost(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    density, lengths = torch.rand(2, 5, 20, generator=generator, dtype=torch.float64) * 3
    weights = weights_from_density(density, lengths)
    passed = torch.exp(-(density * lengths).sum(-1))
    torch.testing.assert_close(weights.sum(-1) + passed, torch.ones(5).double())
    assert bool((weights >= 0).all())


def test_an_opaque_sample_hides_what_is_behind_it() -> None:
    weights = weights_from_density(torch.tensor([0.0, 1e10, 5.0]), torch.ones(3))
    assert weights.tolist() == [0.0, 1.0, 0.0]
    endless = weights_from_density(torch.tensor([1.0, 0.5]), torch.tensor([1.0, 1e10]))
    assert float(endless.sum()) == pytest.approx(1.0)


def test_two_panes_of_glass_mix_their_colors_over_the_background() -> None:
    # Each pane stops half of the light: red first, then green, then the blue behind.
    density = torch.full((1, 2), math.log(2))
    weights = weights_from_density(density, torch.ones(1, 2))
    colors = torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]])
    rendering = composite(
        weights, colors, torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 0, 1.0]])
    )
    torch.testing.assert_close(rendering.rgb, torch.tensor([[0.5, 0.25, 0.25]]))
    torch.testing.assert_close(rendering.opacity, torch.tensor([0.75]))
    torch.testing.assert_close(rendering.depth, torch.tensor([(0.5 * 1 + 0.25 * 3) / 0.75]))


def test_gradients_are_those_of_finite_differences() -> None:
    density = torch.rand(2, 6, dtype=torch.float64, requires_grad=True)
    colors = torch.rand(2, 6, 3, dtype=torch.float64, requires_grad=True)
    lengths, distances = torch.rand(2, 2, 6, dtype=torch.float64)

    def rendering(density: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
        weights = weights_from_density(density, lengths)
        return composite(weights, colors, distances, torch.ones(2, 3).double()).rgb

    assert torch.autograd.gradcheck(rendering, (density, colors))


def ball(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.norm(dim=-1) < 0.5, 100.0, 0.0)


def test_a_grid_saves_and_loads() -> None:
    grid, other = OccupancyGrid(4), OccupancyGrid(4)
    grid.update(ball, seed=0)
    other.load_state_dict(grid.state_dict())
    assert bool((other.occupied == grid.occupied).all())


@pytest.mark.parametrize(
    "arguments", [{"resolution": 0}, {"threshold": 0.0}, {"threshold": 1.0}, {"decay": 1.0}]
)
def test_bad_grids_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        OccupancyGrid(**arguments)  # type: ignore[arg-type]
