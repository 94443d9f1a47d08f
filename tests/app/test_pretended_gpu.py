"""What a first run on a GPU would meet: two devices, types without a kernel, waits in each step."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.optional import needs
from tests.pretended_gpu import NEEDS, RUNS

PARTS = 2
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_runs_stay_on_one_device_are_resumed_and_wait_for_it_rarely(part: int) -> None:
    run_on("cuda", ["encoders", *(name for name in RUNS if name not in NEEDS)][part::PARTS])


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_optional_runs_stay_on_one_device_too(name: str) -> None:
    needs(*NEEDS[name])
    run_on("cuda", [name])


@pytest.mark.slow
def test_nothing_asks_a_mac_for_float64() -> None:
    run_on("mps", ["encoders", "image", "auto", "proposal", "text"])


def run_on(device: str, names: list[str], module: str = "tests.pretended_gpu") -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, device, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
