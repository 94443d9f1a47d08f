"""Every line of the table of equivalents gives the numbers of its library."""

import pytest
import torch

from tests.equivalents.equivalent import Equivalent
from tests.equivalents.equivalents import EQUIVALENTS
from tests.equivalents.vectors import small_vectors

ALL = pytest.mark.parametrize(
    "equivalent", EQUIVALENTS, ids=[f"{each.what}: {each.vector}" for each in EQUIVALENTS]
)

# The largest band, 2 pi 2^16 of nerfstudio's mip-NeRF, multiplies the rounding of float32
# coordinates, which the library was not given.
LARGEST_BAND = 1.5e-2


@ALL
def test_in_float64_a_recipe_gives_the_librarys_numbers(equivalent: Equivalent) -> None:
    assert equivalent.error(torch.float64) <= equivalent.tolerance


@ALL
def test_in_float32_a_recipe_is_near_them(equivalent: Equivalent) -> None:
    assert equivalent.error(torch.float32) <= LARGEST_BAND


def test_a_looser_tolerance_has_a_reason() -> None:
    assert all(equivalent.remark for equivalent in EQUIVALENTS if equivalent.tolerance > 1e-6)


def test_no_recipe_is_there_twice() -> None:
    lines = [(equivalent.what, equivalent.line) for equivalent in EQUIVALENTS]
    assert len(set(lines)) == len(lines) >= 50


def test_what_is_named_of_the_short_vectors_exists() -> None:
    named = {r.vector.split("/", 1)[1] for r in EQUIVALENTS if r.vector.startswith("encoding/")}
    assert named <= set(small_vectors())
