"""What all tests share."""

import builtins
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several threads per worker would wait for one another. Subprocesses of tests inherit this.
    os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import jaxtyping
import pytest
import torch

from tests import small

# Modules of checks that several test modules share.
pytest.register_assert_rewrite(
    "tests.encoders.family", "tests.kind_properties", "tests.mistakes", "tests.signals"
)


# A test of a property is no test of the time that a busy machine takes for it.
hypothesis.settings.register_profile("any time", deadline=None)
hypothesis.settings.load_profile("any time")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--jaxtyping-packages"):
        # The library imports them for type checkers alone; its annotations are strings, in which
        # beartype looks the names up when a function is checked.
        for name in ("Bool", "Float", "Inexact", "Int", "Num", "Shaped", "UInt"):
            setattr(builtins, name, getattr(jaxtyping, name))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    # torch.manual_seed would also keep a traceback for each kind of GPU, which takes milliseconds.
    torch.default_generator.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Call the library as a user does, without the run-time checks of shapes and types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_hull() -> Iterator[None]:
    """Begin fits of scenes with few cells; see `tests.small`."""
    with small.without_hull():
        yield


@pytest.fixture
def no_report() -> Iterator[None]:
    """Write an empty page and no figures; see `tests.small`."""
    with small.quick_report():
        yield


@pytest.fixture
def figures() -> None:
    """Draw the figures of a run, which others leave out."""


@pytest.fixture(autouse=True)
def _no_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    drawn = "figures" in request.fixturenames
    with contextlib.nullcontext() if drawn else small.without_figures():
        yield
