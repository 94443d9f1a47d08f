"""Make the images of the README from runs of the program.

    python -m docs.make_run_images

Writes the comparison, the training video and a screenshot of the report of the default run, which
takes about two minutes; needs Chromium (``CHROMIUM``, or the one of the path) and playwright.
"""

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import train_fit
from app.report import video

IMAGES = Path(__file__).parent / "images"


def screenshot(page: Path, out: Path) -> None:
    """Take what the report shows first."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", shutil.which("chromium")),
            args=["--no-sandbox"],
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 860})
        tab.goto(page.as_uri())
        tab.screenshot(path=out)
        browser.close()


def main() -> None:
    # An animated WebP plays wherever a README is shown; an MP4 does not.
    video.has_ffmpeg = lambda: False
    with tempfile.TemporaryDirectory() as home:
        run = Path(home) / "run"
        options = ["--image", "cat", "--bands", "10", "--video", "16", "--out", str(run)]
        assert train_fit.main(options) == 0
        shutil.copy(run / "comparison.png", IMAGES / "comparison.png")
        shutil.copy(run / "learning.webp", IMAGES / "learning.webp")
        screenshot(run / "report.html", IMAGES / "report.png")


if __name__ == "__main__":
    main()
