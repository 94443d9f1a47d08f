"""What rounding changes, and what it stores."""

import math

import pytest
import torch
from torch import nn

from nerf_posenc import HashGridEncoder
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.networks.quantization import quantize


def network() -> MLP:
    return MLP(10, 3, width=32, depth=2, generator=torch.Generator().manual_seed(0))


def test_in_float16_every_parameter_is_the_nearest_half() -> None:
    original = network()
    rounded = quantize(original, 16)
    assert rounded.num_bits == 16 * num_parameters(original)
    for before, after in zip(original.parameters(), rounded.module.parameters(), strict=True):
        assert torch.equal(after, before.half().float())


def test_in_8_bits_no_parameter_moves_by_more_than_half_a_level_of_its_block() -> None:
    layer = nn.Linear(64, 8, bias=False)
    rounded = quantize(layer, 8)
    assert isinstance(rounded.module, nn.Linear)
    level = layer.weight.detach().abs().amax(1, keepdim=True) / 127
    moved = (rounded.module.weight - layer.weight).abs()
    # The scale itself is rounded to half precision.
    assert bool((moved <= 0.5 * level * 1.1).all())
    assert rounded.num_bits == 8 * 512 + 16 * 8
    for row in rounded.module.weight:
        assert len(row.unique()) <= 255


def test_the_network_after_a_large_grid_stays_in_float16() -> None:
    generator = torch.Generator().manual_seed(0)
    grid = HashGridEncoder(2, 4, log2_table_size=16, base_resolution=64, generator=generator)
    model = nn.Sequential(grid, MLP(grid.out_dim, 3, width=16, depth=2, generator=generator))
    rounded = quantize(model, 8)
    small, large = num_parameters(model[1]), grid.table.numel()
    assert small < 0.04 * large
    assert rounded.num_bits == 16 * small + 8 * large + 16 * math.ceil(large / 64)
    for before, after in zip(
        model[1].parameters(), list(rounded.module.parameters())[1:], strict=True
    ):
        assert torch.equal(after, before.half().float())


def test_of_many_equal_tensors_only_a_small_share_stays_in_float16() -> None:
    layers = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(100)))
    rounded = quantize(layers, 8)
    assert rounded.num_bits == 4 * 256 * 16 + 96 * (256 * 8 + 4 * 16)


@pytest.mark.parametrize("bits", [8, 16])
def test_what_is_rounded_stays_as_it_is_when_rounded_again(bits: int) -> None:
    once = quantize(network(), bits).module
    twice = quantize(once, bits).module
    for before, after in zip(once.parameters(), twice.parameters(), strict=True):
        assert torch.allclose(after, before, rtol=1e-6, atol=0)


def test_the_model_itself_stays_as_it_is() -> None:
    original = network()
    before = [p.clone() for p in original.parameters()]
    quantize(original, 8)
    assert all(torch.equal(a, b) for a, b in zip(before, original.parameters(), strict=True))


@pytest.mark.parametrize("bits", [4, 7, 32])
def test_other_numbers_of_bits_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits must be 8 or 16"):
        quantize(network(), bits)


def test_complex_and_zero_parameters_are_rounded_too() -> None:
    module = nn.Module()
    module.register_parameter("weights", nn.Parameter(torch.zeros(80, dtype=torch.complex64)))
    rounded = quantize(module, 8)
    assert rounded.num_bits == 8 * 160 + 16 * 3
    assert not next(rounded.module.parameters()).any()
