"""The requirements of a position encoding, at the edge of each."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from docs.naive import (
    binary_codes,
    check_requirements,
    drawn_codes,
    markdown,
    normalized_index_codes,
    requirements_table,
    sinusoidal_codes,
    trained_table,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("size", "holds"), [(1.0, True), (-1.0, True), (1.01, False), (-2, False)])
def test_codes_are_bounded_by_1(size: float, holds: bool) -> None:
    scheme = check_requirements(lambda length: torch.full((length, 2), size))
    assert scheme.bounded == holds


@pytest.mark.parametrize(("off", "holds"), [(0.0, True), (5e-5, True), (2e-4, False)])
def test_codes_are_the_same_within_the_tolerance(off: float, holds: bool) -> None:
    def scheme(length: int) -> Tensor:
        return sinusoidal_codes(length) + off * math.log2(length / 128)

    assert check_requirements(scheme, lengths=(128, 256)).generalizes == holds
    assert check_requirements(scheme, lengths=(128, 256), tolerance=1e-3).generalizes


@pytest.mark.parametrize(("step", "holds"), [(5e-7, False), (2e-6, True)])
def test_codes_are_distinct_beyond_rounding(step: float, holds: bool) -> None:
    found = check_requirements(lambda length: torch.arange(length)[:, None].double() * step)
    assert found.distinct == holds


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


def test_a_scheme_without_embeddings_for_a_length_fails_at_any_length() -> None:
    found = check_requirements(lambda length: binary_codes(length, num_bits=8))
    assert not found.any_length
    assert found.distinct
    assert check_requirements(sinusoidal_codes).any_length
    assert not any(
        vars(check_requirements(lambda length: binary_codes(length, num_bits=2))).values()
    )


def test_what_is_drawn_anew_is_not_deterministic() -> None:
    assert not check_requirements(drawn_codes).deterministic
    assert check_requirements(trained_table).deterministic


def test_the_page_shows_what_is_measured() -> None:
    table = markdown(requirements_table())
    assert table in (ROOT / "docs/why_sinusoids.md").read_text(encoding="utf-8")


def test_the_article_shows_what_is_measured() -> None:
    article = (ROOT / "docs/article.html").read_text(encoding="utf-8")
    shown = re.search(r'<script id="measured-requirements"[^>]*>(.*?)</script>', article)
    assert shown is not None
    assert json.loads(shown[1]) == requirements_table()
