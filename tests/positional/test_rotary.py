"""Rotary embeddings and linear biases."""

import math

import pytest
import torch

from nerf_posenc import RotaryEncoder, alibi_bias, geometric_bands
from nerf_posenc.core import ntk_bands, yarn_bands, yarn_scale
from nerf_posenc.positional import alibi_slopes


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_products_depend_on_the_offset_alone(pairing: str) -> None:
    rotary = RotaryEncoder(16, pairing=pairing)  # type: ignore[arg-type]
    query, key = torch.rand(1, 16).double(), torch.rand(1, 16).double()

    def product(position: int, other: int) -> float:
        rotated = rotary.rotate(query, torch.tensor([position]).double())
        return float((rotated * rotary.rotate(key, torch.tensor([other]).double())).sum())

    for shift in (1, 100, 10_000):
        assert product(7 + shift, 3 + shift) == pytest.approx(product(7, 3), abs=1e-9)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_turns_keep_lengths(pairing: str, num_axes: int) -> None:
    rotary = RotaryEncoder(12, num_axes, pairing=pairing)  # type: ignore[arg-type]
    x = torch.randn(2, 5, 12)
    positions = torch.rand(5) * 50 if num_axes == 1 else torch.rand(5, num_axes) * 50
    torch.testing.assert_close(rotary.rotate(x, positions).norm(dim=-1), x.norm(dim=-1))


def test_both_pairings_turn_the_same_pairs() -> None:
    x, positions = torch.randn(5, 8), torch.arange(5)
    interleaved = RotaryEncoder(8).rotate(x, positions)
    halves = x.unflatten(-1, (4, 2)).transpose(-1, -2).flatten(-2)
    rotated = RotaryEncoder(8, pairing="half").rotate(halves, positions)
    back = rotated.unflatten(-1, (2, 4)).transpose(-1, -2).flatten(-2)
    torch.testing.assert_close(back, interleaved)


def test_without_positions_tokens_count_from_0() -> None:
    queries, rotary = torch.rand(2, 7, 3, 8), RotaryEncoder(8)
    for sequence_dim, length in ((-2, 3), (-3, 7)):
        counted = rotary.rotate(queries, torch.arange(length), sequence_dim=sequence_dim)
        assert torch.equal(rotary.rotate(queries, sequence_dim=sequence_dim), counted)
    with_prefix = rotary.rotate(queries, torch.arange(2), num_prefix=1)
    assert torch.equal(rotary.rotate(queries, num_prefix=1), with_prefix)
    with pytest.raises(ValueError, match="give positions, which have 2 axes"):
        RotaryEncoder(8, 2).rotate(queries)


def test_axes_are_turned_by_their_own_positions() -> None:
    x = torch.randn(6, 8)
    positions = torch.rand(6, 2) * 20
    both = RotaryEncoder(8, 2).rotate(x, positions)
    for axis in range(2):
        half = slice(4 * axis, 4 * axis + 4)
        alone = RotaryEncoder(4).rotate(x[:, half], positions[:, axis])
        torch.testing.assert_close(both[:, half], alone)


def test_offsets_go_on_where_the_cache_ends() -> None:
    rotary = RotaryEncoder(8)
    x = torch.randn(10, 8)
    whole = rotary.rotate(x, torch.arange(10))
    assert torch.equal(rotary.rotate(x[6:], torch.arange(4) + 6), whole[6:])


@pytest.mark.parametrize("start", [0, 65_536, 1_000_000])
def test_far_positions_are_right_inside_bf16_autocast(start: int) -> None:
    positions = torch.arange(start, start + 50)
    with torch.autocast("cpu", torch.bfloat16):
        cosine, sine = RotaryEncoder(32)(positions)
    angles = positions.double()[:, None] * geometric_bands(32)
    assert (cosine[:, ::2].double() - angles.cos()).abs().max() < 3e-7
    assert (sine[:, ::2].double() - angles.sin()).abs().max() < 3e-7


def test_ntk_keeps_the_first_band_and_stretches_the_last() -> None:
    plain, scaled = geometric_bands(64), ntk_bands(64, factor=4.0)
    assert scaled[0] == plain[0]
    assert float(plain[-1] / scaled[-1]) == pytest.approx(4.0)


def test_yarn_keeps_fast_bands_and_interpolates_slow_ones() -> None:
    dim, length, factor = 128, 4096, 8.0
    plain, scaled = geometric_bands(dim), yarn_bands(dim, factor=factor, trained_length=length)
    turns = length * plain / (2 * math.pi)
    # The ramp runs over whole pairs, one more at each end than the exact number of turns.
    assert torch.equal(scaled[turns > 40], plain[turns > 40])
    torch.testing.assert_close(scaled[turns < 0.8], plain[turns < 0.8] / factor)
    ratios = plain / scaled
    assert bool((ratios.diff() >= -1e-12).all())
    assert yarn_scale(factor) == pytest.approx(1.2079441541679836)
    torch.testing.assert_close(yarn_bands(dim, factor=1.0, trained_length=length), plain)


def test_alibi_slopes_of_any_number_of_heads() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert len(alibi_slopes(1)) == 1
    for heads in range(1, 40):
        slopes = alibi_slopes(heads)
        assert len(slopes) == heads
        assert len(set(slopes.tolist())) == heads
        assert slopes.min() > 0
        assert slopes.max() < 1


def test_alibi_bias_is_minus_the_slope_times_the_distance() -> None:
    bias = alibi_bias(4, 3, 5)
    assert bias.shape == (4, 3, 5)
    for query in range(3):
        for key in range(5):
            expected = -alibi_slopes(4) * abs(query + 2 - key)
            torch.testing.assert_close(bias[:, query, key], expected)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (lambda: RotaryEncoder(7), "positive multiple of 2"),
        (lambda: RotaryEncoder(8, 3), "multiple of 2 \\* num_axes = 6"),
        (lambda: RotaryEncoder(8, pairing="both"), "pairing must be"),  # type: ignore[arg-type]
        (
            lambda: RotaryEncoder(8, bands=geometric_bands(4)),
            r"bands must have one number for each pair, \[4\]",
        ),
        (lambda: RotaryEncoder(8).rotate(torch.zeros(3, 6), torch.arange(3)), "length, 8"),
        (lambda: ntk_bands(3, factor=2.0), "even number of 4 or more"),
        (lambda: ntk_bands(8, factor=0.5), "factor must be 1 or more"),
        (lambda: yarn_bands(8, factor=2.0, trained_length=0), "trained_length must be"),
        (lambda: alibi_slopes(0), "num_heads must be 1 or more"),
        (lambda: alibi_bias(2, 5, 3), "num_keys must be num_queries or more"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
