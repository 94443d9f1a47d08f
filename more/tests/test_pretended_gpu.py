"""What a first run of the companion's kinds on a GPU would meet."""

import pytest

from more.tests.pretended_gpu import RUNS
from tests.app.test_pretended_gpu import run_on

PARTS = 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_runs_stay_on_one_device_are_resumed_and_wait_for_it_rarely(part: int) -> None:
    run_on("cuda", [*RUNS][part::PARTS], "more.tests.pretended_gpu")


@pytest.mark.slow
def test_nothing_asks_a_mac_for_float64() -> None:
    run_on("mps", ["audio", "stories", "text"], "more.tests.pretended_gpu")
