"""The documentation as a site that is opened from disk."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import browser as browser
from tests.browsers import needs_chromium

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@needs_chromium
def test_the_search_works_from_disk_and_no_request_leaves(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("material", reason="needs pip install -e '.[docs]'")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("hash grid")
    page.locator(".md-search-result__item").first.wait_for()
    assert "HashGridEncoder" in page.locator(".md-search-result__list").inner_text()
    assert all(url.startswith("file:") for url in requests), requests
    page.close()
