"""What all tests share."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Call the library as a user does, without the run-time checks of shapes and types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
