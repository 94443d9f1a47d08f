"""Every line of the table of recipes gives the numbers of its library."""

import pytest
import torch

from tests.recipes.recipe import Recipe
from tests.recipes.recipes import RECIPES
from tests.recipes.vectors import small_vectors

ALL = pytest.mark.parametrize(
    "recipe", RECIPES, ids=[f"{recipe.what}: {recipe.vector}" for recipe in RECIPES]
)

# The largest band, 2 pi 2^16 of nerfstudio's mip-NeRF, multiplies the rounding of float32
# coordinates, which the library was not given.
LARGEST_BAND = 1.5e-2


@ALL
def test_in_float64_a_recipe_gives_the_librarys_numbers(recipe: Recipe) -> None:
    assert recipe.error(torch.float64) <= recipe.tolerance


@ALL
def test_in_float32_a_recipe_is_near_them(recipe: Recipe) -> None:
    assert recipe.error(torch.float32) <= LARGEST_BAND


def test_a_looser_tolerance_has_a_reason() -> None:
    assert all(recipe.remark for recipe in RECIPES if recipe.tolerance > 1e-6)


def test_no_recipe_is_there_twice() -> None:
    lines = [(recipe.what, recipe.line) for recipe in RECIPES]
    assert len(set(lines)) == len(lines) >= 50


def test_what_is_named_of_the_short_vectors_exists() -> None:
    named = {r.vector.split("/", 1)[1] for r in RECIPES if r.vector.startswith("encoding/")}
    assert named <= set(small_vectors())
