"""The examples run, and find what they say."""

import importlib
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("unchecked")


def run(name: str) -> Any:
    return importlib.import_module(f"more.examples.{name}").main()


@pytest.mark.slow
def test_a_vit_runs_at_another_resolution_than_it_was_trained_at() -> None:
    accuracy = run("vit_rotary")
    assert min(accuracy.values()) > 0.9


@pytest.mark.slow
def test_a_video_model_needs_positions() -> None:
    loss = run("video_diffusion")
    assert loss["rotary, three axes"] < 0.8 * loss["no positions"]


@pytest.mark.slow
def test_bands_solve_an_equation_that_raw_coordinates_do_not() -> None:
    error = run("pinn")
    assert error.pop("the coordinate") > 0.5
    assert max(error.values()) < 0.1
