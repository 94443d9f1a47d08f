"""The notebook of the tutorial is that of its source, small, and runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nerf_posenc_app import fit
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "notebooks" / "tutorial.ipynb"
SOURCE = NOTEBOOK.with_suffix(".py")


def test_the_notebook_has_the_cells_of_its_source_and_small_outputs() -> None:
    source = SOURCE.read_text(encoding="utf-8")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert len(cells) == source.count("\n# %%") > 10
    for cell in cells:
        text = "".join(cell["source"])
        is_code = cell["cell_type"] == "code"
        lines = text.splitlines() if is_code else [f"# {line}".strip() for line in text.split("\n")]
        assert "\n".join(lines) in source, f"run docs/make_notebook.py: {text[:80]}"
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 6
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert NOTEBOOK.stat().st_size < 500_000


@pytest.mark.slow
def test_every_cell_runs_in_a_fresh_kernel(tmp_path: Path) -> None:
    for name in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(name, reason="needs pip install -e '.[docs]'")
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "docs" / "make_notebook.py")),
            *("--out", str(tmp_path / "made.ipynb")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "made.ipynb").read_text(encoding="utf-8")
    assert "equal to the bit: True" in made
    cells = json.loads(made)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    committed = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["source"] for cell in cells] == [cell["source"] for cell in committed]


@needs_chromium
def test_a_page_of_a_run_cannot_reach_the_notebook_that_shows_it(
    browser: Any, tmp_path: Path
) -> None:
    run = fit(
        image=np.zeros((12, 12), np.uint8),
        encodings=["none"],
        steps=2,
        video=0,
        quiet=True,
        out=tmp_path / "run",
    )
    hostile = "<script>parent.postMessage('ran', '*'); parent.document.title = 'owned'</script>"
    (tmp_path / "run/report.html").write_text(hostile)
    page = browser.new_page()
    page.set_content(
        "<title>notebook</title><script>var said; onmessage = e => said = e.data</script>"
    )
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", run._repr_html_())
    page.wait_for_function("said === 'ran'")
    assert page.title() == "notebook"
