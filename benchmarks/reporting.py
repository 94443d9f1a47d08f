"""What the report costs a default run, and how soon its page can be used.

    python -m benchmarks.reporting [--image IMAGE]

Runs the program with its default encodings on an image and measures the time from the end of the
last fit to the end of the run; then opens the page in headless Chromium (``CHROMIUM``, or the one
of the path) and measures the time until its script has run and a key moves the divider.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import train_fit
from app.runs import run
from benchmarks.timing import machine

_ROUNDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--image", default="cat")
    options = parser.parse_args()
    print(machine())
    spent: list[float] = []
    original = run.finish

    def timed(prepared: Any) -> bool:
        started = time.perf_counter()
        is_whole = original(prepared)
        spent.append(time.perf_counter() - started)
        return is_whole

    run.finish = timed
    home = Path(tempfile.mkdtemp())
    started = time.perf_counter()
    assert train_fit.main(["--image", options.image, "--quiet", "--out", str(home / "run")]) == 0
    total = time.perf_counter() - started
    share = 100 * spent[0] / total
    print(f"report: {spent[0]:.1f} s of {total:.1f} s, {share:.1f}% of the run")
    page = home / "run/report.html"
    ready, answered = zip(*(opened(page) for _ in range(_ROUNDS)), strict=True)
    print(
        f"page of {page.stat().st_size / 1e6:.1f} MB: interactive after "
        f"{statistics.median(ready):.0f} ms, the divider answers a key in "
        f"{statistics.median(answered):.0f} ms (medians of {_ROUNDS})"
    )
    shutil.rmtree(home)
    return 0


def opened(page: Path) -> tuple[float, float]:
    """Milliseconds until the page's script has run, and until a key moves the divider."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", shutil.which("chromium")),
            args=["--no-sandbox"],
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 720})
        tab.goto(page.as_uri())
        ready = tab.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
        divider = tab.locator("[role=slider]").first
        before = divider.get_attribute("aria-valuenow")
        divider.focus()
        started = time.perf_counter()
        tab.keyboard.press("ArrowRight")
        tab.wait_for_function(
            "before => document.querySelector('[role=slider]').getAttribute('aria-valuenow')"
            " !== before",
            arg=before,
        )
        answered = 1000 * (time.perf_counter() - started)
        browser.close()
    return ready, answered


if __name__ == "__main__":
    raise SystemExit(main())
