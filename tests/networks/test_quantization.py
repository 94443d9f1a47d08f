"""What rounding changes, and what it stores."""

import math

import pytest
import torch
from nerf_posenc.networks.local_cosine import LocalCosineSeries
from torch import nn

from nerf_posenc import HashGridEncoder
from nerf_posenc.images import Image
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.networks.quantization import quantize


def network() -> MLP:
    return MLP(10, 3, width=32, depth=2, generator=torch.Generator().manual_seed(0))


def series(parameters: int = 3000) -> LocalCosineSeries:
    generator = torch.Generator().manual_seed(0)
    rgb = torch.rand(40, 48, 3, generator=generator)
    made = LocalCosineSeries()
    made.fit(Image.from_rgb(rgb), parameters)
    return made


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


def test_a_series_in_8_bits_stores_its_mask_and_its_scales() -> None:
    original = series()
    rounded = quantize(original, 8)
    groups = original.frequencies
    lowest, used = int((groups % 64 == 0).sum()), len(groups.unique())
    coefficients = len(original.coefficients)
    expected = 8 * coefficients + 8 * lowest + 32 * used
    others = 16 * (original.color.numel() + original.num_index_parameters)
    assert rounded.num_bits == expected + others


def test_a_series_in_8_bits_has_256_levels_per_frequency_and_small_errors() -> None:
    original = series()
    rounded = quantize(original, 8).module
    assert isinstance(rounded, LocalCosineSeries)
    for group in original.frequencies.unique():
        mine = original.frequencies == group
        after, before = rounded.coefficients[mine], original.coefficients[mine]
        if group % 64:
            assert len(after.abs().unique()) <= 128
        root = before.abs().sqrt()
        level = (root.max() - root.min()) / 127
        # Half a level on the scale of square roots, and the rounding of the bounds.
        assert bool(((after.abs().sqrt() - root).abs() <= 0.51 * level + 1e-3).all())


def test_a_series_too_small_for_scales_is_the_same_in_8_bits_as_in_16() -> None:
    original = series(300)
    halves, eighths = quantize(original, 16), quantize(original, 8)
    assert eighths.num_bits == halves.num_bits
    for before, after in zip(halves.module.parameters(), eighths.module.parameters(), strict=True):
        assert torch.equal(after, before)


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
