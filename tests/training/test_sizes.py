"""Models within a number of parameters are as large as they can be."""

from dataclasses import replace

import pytest
import torch

from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model
from nerf_posenc.training.grid_sizes import hash_grid, level_nodes


def size_of(model: CoordinateModel) -> int:
    encoder, network = make_coordinate_model(model)
    return num_parameters(encoder) + num_parameters(network)


@pytest.mark.parametrize("most", [2000, 30_000, 207_000])
@pytest.mark.parametrize("encoding", ["none", "fourier", "gaussian"])
def test_a_network_is_as_wide_as_it_can_be(encoding: str, most: int) -> None:
    options = CoordinateModel(encoding, resolution=128, num_parameters=most)
    _, network = make_coordinate_model(options)
    assert isinstance(network, MLP)
    width = network[0].out_features
    assert isinstance(width, int)
    assert size_of(options) <= most
    wider = replace(options, num_parameters=None, width=width + 1)
    assert size_of(wider) > most


@pytest.mark.parametrize("network", ["siren", "wire", "mfn"])
def test_other_networks_keep_within_the_number_too(network: str) -> None:
    options = CoordinateModel(network, num_parameters=50_000)
    assert 45_000 < size_of(options) <= 50_000


@pytest.mark.parametrize("most", [5000, 30_000, 207_000, 1_000_000])
def test_a_grid_takes_what_its_network_leaves(most: int) -> None:
    options = CoordinateModel("hash", resolution=768, width=64, depth=2, num_parameters=most)
    assert 0.75 * most < size_of(options) <= most


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


@pytest.mark.parametrize("encoding", ["none", "fourier", "hash"])
def test_a_number_that_is_too_small_is_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match="parameters or more; got 10"):
        make_coordinate_model(CoordinateModel(encoding, resolution=64, num_parameters=10))


@pytest.mark.parametrize("finest", [16, 100, 1024])
def test_a_grid_ends_at_the_finest_level_that_is_asked_for(finest: int) -> None:
    grid = hash_grid(2, 200, max_resolution=finest)
    assert grid.resolutions[-1] == pytest.approx(finest, abs=1)
    assert tuple(grid.resolutions) == level_nodes(finest)
    same = hash_grid(2, 200, max_resolution=200)
    assert same.resolutions == hash_grid(2, 200).resolutions


def test_levels_out_of_range_or_given_twice_are_refused() -> None:
    for finest in (15, 1 << 30):
        with pytest.raises(ValueError, match=f"max_resolution must be 16 to .* got {finest}"):
            hash_grid(2, 64, max_resolution=finest)
    with pytest.raises(ValueError, match="not both"):
        hash_grid(2, 64, max_resolution=64, num_features=10_000)


def test_no_features_make_no_grid() -> None:
    with pytest.raises(ValueError, match="no hash grid has only 3 features"):
        hash_grid(2, 64, num_features=3)


def test_sizes_take_no_random_numbers_from_torch() -> None:
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(0)
    for encoding in ("hash", "fourier"):
        model = CoordinateModel(encoding, resolution=64, num_parameters=20_000)
        make_coordinate_model(model, generator=generator)
    assert torch.equal(before, torch.get_rng_state())
