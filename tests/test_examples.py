"""The examples run, and find what they say."""

import importlib
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("unchecked")


def run(name: str) -> Any:
    return importlib.import_module(f"examples.{name}").main()


@pytest.mark.slow
def test_bands_recover_a_photograph_that_raw_coordinates_blur() -> None:
    raw, bands = run("first_fit")
    assert bands > raw + 4


def test_a_ported_nerf_gives_the_same_output() -> None:
    assert run("nerf_checkpoint") < 1e-5


@pytest.mark.slow
def test_encodings_recover_what_raw_coordinates_do_not() -> None:
    psnr = run("siren_or_bands")
    raw = psnr.pop("ReLU on raw coordinates")
    assert all(other > raw + 3 for other in psnr.values())


@pytest.mark.slow
def test_a_field_of_filtered_features_does_not_alias() -> None:
    psnr = run("filtered_image")
    points, areas = psnr["points"], psnr["areas, filtered by the box"]
    assert all(area > point + 6 for area, point in zip(areas[1:], points[1:], strict=True))


@pytest.mark.slow
def test_a_decoder_finds_the_cells_inside_a_box() -> None:
    assert run("prompt_encoder") > 0.5
