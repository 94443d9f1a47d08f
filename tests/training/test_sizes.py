"""Frequency bands and hash grids by the resolution of the data and the number of features."""

import math

import pytest
import torch

from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.metrics.spectrum import nyquist_frequency
from nerf_posenc.training.grid_sizes import hash_grid
from nerf_posenc.training.recipes import default_bands


def test_the_default_bands_end_in_the_octave_below_the_nyquist_frequency() -> None:
    for resolution in range(4, 3000, 7):
        highest = 2 ** (default_bands(resolution) - 1) * math.pi
        nyquist = nyquist_frequency(resolution, 1)
        assert nyquist / 4 < highest <= nyquist
        assert default_bands(2 * resolution) == default_bands(resolution) + 1


@pytest.mark.parametrize("most", [1000, 65_536, 500_000])
def test_a_hash_grid_keeps_within_its_features(most: int) -> None:
    grid = hash_grid(2, 512, num_features=most)
    assert grid.table.numel() <= most
    assert grid.resolutions[-1] == pytest.approx(512, abs=1)


@pytest.mark.parametrize("pixels", [1, 2, 16])
def test_a_grid_of_a_small_image_ends_at_its_pixels(pixels: int) -> None:
    grid = hash_grid(2, pixels, num_features=10_000_000)
    assert isinstance(grid, HashGridEncoder)
    assert max(grid.resolutions) <= max(2, pixels) + 1


@pytest.mark.parametrize("finest", [16, 100, 1024])
def test_the_finest_level_has_a_vertex_per_sample(finest: int) -> None:
    grid = hash_grid(2, finest)
    assert grid.resolutions[-1] == pytest.approx(finest, abs=1)
    assert grid.resolutions[0] == 16


def test_no_features_make_no_grid() -> None:
    with pytest.raises(ValueError, match="no hash grid has only 3 features"):
        hash_grid(2, 64, num_features=3)


def test_sizes_take_no_random_numbers_from_torch() -> None:
    before = torch.get_rng_state()
    hash_grid(2, 64, num_features=20_000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())
