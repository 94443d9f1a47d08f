"""How soon pages can be used in headless Chromium, and what the report costs a default run.

    python -m benchmarks.pages [--image IMAGE] [--orbit PAGE]

The report: the time from the end of the last fit to the end of the run, then until the page's
script has run and until a key moves the divider. The fields of a page: until they are shown, and
the times between frames while one is dragged. The article: from the input of each slider to the end
of its drawing.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import train_fit
from app.runs import run
from benchmarks.timing import machine
from docs.make_article import PAGE as ARTICLE
from tests.browsers import CHROMIUM

_ORBIT = Path(__file__).parents[1] / "docs" / "orbit.html"
_ROUNDS = 5
_FRAMES = """() => {
  window.frames_at = [];
  (function next(now) { frames_at.push(now); requestAnimationFrame(next); })(performance.now());
}"""
_SLIDERS = """async () => {
  const found = {};
  const sliders = document.querySelectorAll("figure[data-figure]:not([data-figure=train]) input");
  for (const slider of sliders) {
    const times = [], span = slider.max - slider.min;
    for (let i = 0; i <= 10; i++) {
      slider.value = +slider.min + span * i / 10;
      // Drawing happens in the next frame, before this callback, which was asked for later.
      const begin = await new Promise(requestAnimationFrame);
      slider.dispatchEvent(new Event("input"));
      const end = await new Promise((done) => requestAnimationFrame(() => done(performance.now())));
      times.push(Math.max(0, end - begin - 1000 / 60));
    }
    times.sort((a, b) => a - b);
    found[`${slider.closest("figure").dataset.figure} ${slider.name}`] = [times[5], times[10]];
  }
  return found;
}"""


def report(browser: Browser, image: str) -> None:
    """Run the program on an image, and open its page."""
    spent: list[float] = []
    original = run.finish

    def timed(prepared: Any) -> bool:
        started = time.perf_counter()
        is_whole = original(prepared)
        spent.append(time.perf_counter() - started)
        return is_whole

    run.finish = timed
    with tempfile.TemporaryDirectory() as home:
        started = time.perf_counter()
        assert train_fit.main(["--image", image, "--quiet", "--out", f"{home}/run"]) == 0
        total = time.perf_counter() - started
        share = 100 * spent[0] / total
        print(f"report: {spent[0]:.1f} s of {total:.1f} s, {share:.1f}% of the run")
        page = Path(home, "run", "report.html")
        ready, answered = zip(*(opened(browser, page) for _ in range(_ROUNDS)), strict=True)
        print(
            f"page of {page.stat().st_size / 1e6:.1f} MB: interactive after "
            f"{statistics.median(ready):.0f} ms, the divider answers a key in "
            f"{statistics.median(answered):.0f} ms (medians of {_ROUNDS})"
        )


def opened(browser: Browser, page: Path) -> tuple[float, float]:
    """Milliseconds until the page's script has run, and until a key moves the divider."""
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
    tab.close()
    return ready, answered


def orbit(browser: Browser, page: Path) -> None:
    """Drag the first field of a page."""
    tab = browser.new_page(viewport={"width": 1280, "height": 860})
    begin = time.perf_counter()
    tab.goto(page.resolve().as_uri())
    field = tab.locator(".volumes .field")
    field.first.scroll_into_view_if_needed()
    tab.wait_for_selector(".field[data-ready]")
    print(f"{field.count()} fields ready after {time.perf_counter() - begin:.1f} s")
    tab.wait_for_timeout(1000)
    box = field.first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.evaluate(_FRAMES)
    for i in range(120):
        tab.mouse.move(x + i, y - i / 4)
        tab.wait_for_timeout(16)
    times = tab.evaluate("frames_at")
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    late = gaps[int(0.9 * len(gaps))]
    print(f"while dragged: {statistics.median(gaps):.0f} ms a frame, nine of ten below {late:.0f}")
    tab.close()


def article(browser: Browser) -> None:
    """Move each slider of the article."""
    page = browser.new_page(reduced_motion="reduce")
    page.goto(ARTICLE.as_uri())
    print("slider                     median ms   largest ms")
    for name, (median, largest) in page.evaluate(_SLIDERS).items():
        print(f"{name:26} {median:9.1f} {largest:12.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--image", default="cat")
    parser.add_argument("--orbit", type=Path, default=_ORBIT, help="page with a field")
    options = parser.parse_args()
    print(machine())
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        report(browser, options.image)
        orbit(browser, options.orbit)
        article(browser)


if __name__ == "__main__":
    main()
