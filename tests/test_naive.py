"""The requirements of a position encoding, at the edge of each."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from docs.naive import binary_codes, check_requirements, normalized_index_codes, sinusoidal_codes


def growing(by: float, length: int) -> Tensor:
    """Codes whose largest norm grows by this factor as the length doubles."""
    line = torch.linspace(0, 1, length, dtype=torch.float64)[:, None]
    return line * torch.tensor(by).double() ** math.log2(length)


@pytest.mark.parametrize(("by", "holds"), [(1.0, True), (1.15, True), (1.25, False), (1.9, False)])
def test_growth_is_fast_from_a_fifth_per_doubling(by: float, holds: bool) -> None:
    assert check_requirements(lambda length: growing(by, length)).no_fast_growth == holds


@pytest.mark.parametrize(("size", "holds"), [(1.0, True), (-1.0, True), (1.01, False), (-2, False)])
def test_codes_are_bounded_by_1(size: float, holds: bool) -> None:
    scheme = check_requirements(lambda length: torch.full((length, 2), size))
    assert scheme.bounded == holds


@pytest.mark.parametrize(("off", "holds"), [(0.0, True), (5e-5, True), (2e-4, False)])
def test_codes_are_the_same_within_the_tolerance(off: float, holds: bool) -> None:
    def scheme(length: int) -> Tensor:
        return sinusoidal_codes(length) + off * math.log2(length / 128)

    assert check_requirements(scheme, lengths=(128, 256)).same_code_at_any_length == holds
    assert check_requirements(scheme, lengths=(128, 256), tolerance=1e-3).same_code_at_any_length


@pytest.mark.parametrize(("step", "holds"), [(5e-5, False), (2e-4, True)])
def test_codes_are_distinct_beyond_the_tolerance(step: float, holds: bool) -> None:
    found = check_requirements(lambda length: torch.arange(length)[:, None].double() * step)
    assert found.all_distinct == holds


@pytest.mark.parametrize(
    ("lengths", "offsets"),
    [((10,), (1,)), ((10, 19), (1,)), ((10, 5), (1,)), ((10, 20), (10,)), ((10, 20), (0,))],
)
def test_lengths_that_do_not_double_and_offsets_beyond_the_first_are_refused(
    lengths: Sequence[int], offsets: Sequence[int]
) -> None:
    with pytest.raises(ValueError, match="give two lengths or more"):
        check_requirements(sinusoidal_codes, lengths=lengths, offsets=offsets)
    assert check_requirements(sinusoidal_codes, lengths=(10, 20), offsets=(1, 9)).bounded


def test_binary_codes_write_the_position_out() -> None:
    codes = binary_codes(16, num_bits=4)
    weights = torch.tensor([1.0, 2.0, 4.0, 8.0])
    assert (codes @ weights).tolist() == list(range(16))
    assert binary_codes(3).shape == (3, 16)


def test_normalized_indices_of_one_position_are_0() -> None:
    assert normalized_index_codes(1).tolist() == [[0.0]]
    assert normalized_index_codes(2).tolist() == [[0.0], [1.0]]


def test_sinusoidal_codes_are_32_pairs_of_unit_length() -> None:
    codes = sinusoidal_codes(5)
    assert codes.shape == (5, 64)
    torch.testing.assert_close(codes.norm(dim=1), torch.full((5,), math.sqrt(32)))
