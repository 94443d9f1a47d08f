"""What a first run on a GPU would meet: two devices, types without a kernel, waits in each step."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pretended_gpu import RUNS

PARTS = 2
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_runs_stay_on_one_device_are_resumed_and_wait_for_it_rarely(part: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pretended_gpu", *list(RUNS)[part::PARTS]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
