"""Time from the input of each slider of docs/article.html to the end of its drawing, in Chromium.

python -m benchmarks.article
"""

from playwright.sync_api import sync_playwright

from docs.make_article import PAGE
from tests.browsers import CHROMIUM

_MEASURE = """async () => {
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


def main() -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(reduced_motion="reduce")
        page.goto(PAGE.as_uri())
        print("slider                     median ms   largest ms")
        for name, (median, largest) in page.evaluate(_MEASURE).items():
            print(f"{name:26} {median:9.1f} {largest:12.1f}")


if __name__ == "__main__":
    main()
