"""Runs of the companion's kinds on a real GPU; skipped where there is none.

python -m pytest -m slow more/tests/test_gpu.py
"""

import pytest

from more.tests.pretended_gpu import RUNS, write_data
from tests.pretended_gpu import SEQUENCE, interrupted_and_resumed
from tests.test_gpu import pytestmark as pytestmark
from tests.test_gpu import require_whole_run


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("name", [*RUNS, "sources"])
def test_runs_are_stopped_and_resumed(name: str) -> None:
    write_data()
    sources = f"--task sources --encodings none sinusoidal {SEQUENCE}"
    interrupted_and_resumed((sources if name == "sources" else RUNS[name]).split())
    require_whole_run()
