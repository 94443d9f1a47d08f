"""Runs of the companion's kinds by several processes."""

import pytest

from nerf_posenc_app.cli import parse
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs.processes import require_distributable
from tests.app.test_processes import EXACT, require_losses_of_one
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")

SCAN = [*("--scan", "shepp-logan", "--size", "24", "--encodings", "none"), *SMALL_RUN[2:], *EXACT]


def test_a_task_is_for_one_process() -> None:
    kind, options = parse(["--task", "topics"])
    with pytest.raises(UsageError, match="--task is for one process"):
        require_distributable(kind, options)


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_with_the_same_global_batch() -> None:
    require_losses_of_one(SCAN)
