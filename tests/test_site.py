"""The documentation as a site that is opened from disk."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import browser as browser
from tests.browsers import needs_chromium

ROOT = Path(__file__).parent.parent
# Questions in the words of newcomers, and the page that answers each.
QUESTIONS = {
    "how many frequencies": "howto/choose",
    "L=10": "howto/choose",
    "spectral bias": "why_sinusoids",
    "overfitting": "howto/troubleshooting",
    "blurry image": "howto/troubleshooting",
    "noisy image": "howto/troubleshooting",
    "custom encoding": "howto/encoder",
    "positional encoding for images": "howto/choose",
    "error bars": "howto/image",
    "tensorboard": "howto/image",
    "continue training": "howto/saved",
    "super resolution": "howto/saved",
    "export onnx": "howto/saved",
    "install": "index",
    "windows": "index",
    "inpainting": "howto/samples",
    "latex": "report",
    "out of memory": "howto/gpu",
    "nerf from my photos": "howto/my_photos",
    "my own nerf": "howto/my_nerf",
    "vit position embedding": "more/my_model",
    "load nerf checkpoint": "howto/checkpoint",
}


@pytest.mark.slow
@needs_chromium
def test_the_search_finds_the_answer_from_disk_and_no_request_leaves(
    browser: Any, tmp_path: Path
) -> None:
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
    missed = {}
    for question, answer in QUESTIONS.items():
        page.locator(".md-search__input").press("Control+A")
        page.keyboard.type(question)
        page.wait_for_timeout(800)
        links = page.locator(".md-search-result__item > a").evaluate_all("a => a.map(x => x.href)")
        found = list(dict.fromkeys(link.split(".html")[0] for link in links))[:2]
        if not any(link.endswith(f"/{answer}") for link in found):
            missed[question] = [link.split(str(tmp_path))[-1] for link in found]
    assert not missed
    assert all(url.startswith("file:") for url in requests), requests
    page.close()
