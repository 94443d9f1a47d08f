"""Pages by the rules of axe-core: ``npm pack axe-core``, and its axe.min.js in AXE_CORE."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import train_fit
from tests.browsers import browser as browser
from tests.browsers import needs_chromium
from tests.small import SMALL_RUN, SMALL_SEQUENCE
from tests.texts import made_text

AXE = os.environ.get("AXE_CORE", "")

pytestmark = pytest.mark.skipif(not AXE, reason="needs AXE_CORE, the path of axe.min.js")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path("text.txt").write_text(made_text())
        image = ["--encodings", "none", "fourier", *SMALL_RUN, "--quiet"]
        assert train_fit.main(["--image", "cat", *image, "--out", "image"]) == 0
        assert train_fit.main(["--image", "cat", "--held-out", *image, "--out", "held"]) == 0
        assert train_fit.main([*SMALL_SEQUENCE, "--quiet", "--out", "sequence"]) == 0
        assert train_fit.main(["compare", "image", "held", "--out", "compared.html"]) == 0
        yield {
            "image": folder / "image/report.html",
            "held-out": folder / "held/report.html",
            "sequence": folder / "sequence/report.html",
            "comparison": folder / "compared.html",
        }
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["image", "held-out", "sequence", "comparison"])
def test_no_report_has_a_serious_violation(
    kind: str, scheme: str, browser: Any, pages: dict[str, Path]
) -> None:
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, viewport={"width": 1280, "height": 800}
    )
    page = context.new_page()
    page.goto(pages[kind].as_uri())
    page.add_script_tag(content=Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    context.close()
    severe = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] != "minor"]
    assert severe == []
