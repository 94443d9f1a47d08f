"""How soon the fields of a page can be turned in Chromium, and the times between its frames.

python -m benchmarks.orbit [PAGE]
"""

import itertools
import statistics
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browsers import CHROMIUM

_PAGE = Path(__file__).parents[1] / "docs" / "orbit.html"
_FRAMES = """() => {
  window.frames_at = [];
  (function next(now) { frames_at.push(now); requestAnimationFrame(next); })(performance.now());
}"""


def main(page: Path) -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 860})
        begin = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        field = tab.locator(".volumes .field")
        field.first.scroll_into_view_if_needed()
        tab.wait_for_selector(".field[data-ready]")
        print(f"ready after {time.perf_counter() - begin:.1f} s, {field.count()} fields")
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
        print(
            f"while dragged: {statistics.median(gaps):.0f} ms a frame, nine of ten below {late:.0f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _PAGE)
