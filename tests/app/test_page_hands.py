"""What a reader does with a page first: sees the headline, scrolls, drags, clicks."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nerf_posenc_app.kinds.coordinates import PSNR, SSIM
from nerf_posenc_app.report.page import write_page
from nerf_posenc_app.values.finding import find
from nerf_posenc_app.values.measures import Measure
from tests.app.test_page import about, results_for, smooth_image, with_scores
from tests.app.test_page import page as page
from tests.app.test_page import page_file as page_file
from tests.browsers import browser as browser
from tests.browsers import needs_chromium


@needs_chromium
def test_the_headline_is_that_of_the_metrics(browser: Any, tmp_path: Path) -> None:
    original = smooth_image(96, 144)
    found = results_for(original)[:2]
    results = [with_scores(r, psnr_db=20.0 + 7.26 * i) for i, r in enumerate(found)]
    write_page(tmp_path / "page.html", about(finding=find(results, PSNR)), results)
    opened = browser.new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.locator("h1").inner_text() == (
        '"fourier" gained 7.3 dB: PSNR 27.26 dB against 20.00 dB without it'
    )
    assert opened.locator("h1 + .clause").inner_text() == "same 290 steps"
    held_out = replace(PSNR, quantity="PSNR, held-out")
    found_there = about(measures=(held_out, SSIM), finding=find(results, held_out))
    write_page(tmp_path / "held_out.html", found_there, results)
    opened.goto((tmp_path / "held_out.html").as_uri())
    assert "PSNR, held-out 27.26 dB" in opened.locator("h1").inner_text()
    assert "PSNR, held-out (dB)" in opened.locator("#scores").inner_text()
    opened.close()


@needs_chromium
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_headline_and_comparison_stand_above_the_fold(
    browser: Any, page_file: Path, width: int, height: int
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": height})
    opened.goto(page_file.as_uri())
    stage = opened.locator("#stage").bounding_box()
    assert stage["y"] + stage["height"] <= height
    assert opened.locator("h1").bounding_box()["y"] < stage["y"]
    opened.close()


@needs_chromium
def test_a_table_of_many_columns_fits_a_small_screen(browser: Any, tmp_path: Path) -> None:
    original = smooth_image(96, 144)
    more = [Measure(f"score_{i}", f"score {i} (dB)") for i in range(3)]
    results = [
        replace(
            with_scores(r, **{measure.name: 12.34 for measure in more}),
            name=replace(r.name, run="run"),
            parameters=207_000,
        )
        for r in results_for(original)
    ]
    names = [r.label for r in results]
    path, measures = tmp_path / "page.html", (PSNR, SSIM, *more)
    write_page(path, about(measures=measures, groups={"p, 144 x 96": names}), results)
    opened = browser.new_page(viewport={"width": 1100, "height": 800})
    opened.goto(path.as_uri())
    wide = "document.querySelector('#scores').parentElement"
    assert opened.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")
    assert opened.locator("#scores thead th").count() == 10
    opened.close()


@needs_chromium
@pytest.mark.parametrize("width", [375, 1280])
def test_no_labels_of_a_chart_lie_on_each_other(browser: Any, page_file: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800})
    opened.goto(page_file.as_uri())
    charts = opened.evaluate(
        """[...document.querySelectorAll(".chart")].map((chart) =>
          [...chart.querySelectorAll("text")]
            .map((text) => [text.textContent, text.getBoundingClientRect().toJSON()])
            .filter(([, box]) => box.width))"""
    )
    for labels in charts:
        for (one, a), (other, b) in itertools.combinations(labels, 2):
            across = min(a["right"], b["right"]) - max(a["left"], b["left"])
            # The box of a line of text is higher than its letters.
            down = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
            assert across <= 1 or down <= 4, (one, other)
    opened.close()


@needs_chromium
def test_the_wheel_scrolls_the_page_until_an_image_is_clicked(page: Any) -> None:
    stage = page.locator("#stage").bounding_box()
    page.mouse.move(stage["x"] + 40, stage["y"] + 40)
    page.mouse.wheel(0, 120)
    page.wait_for_timeout(400)
    assert page.evaluate("scrollY") > 60
    assert (
        page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--zoom')")
        == "1"
    )


@needs_chromium
def test_touch_scrolls_the_page_over_the_images(browser: Any, page_file: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    opened = context.new_page()
    opened.goto(page_file.as_uri())
    for selector in ("#stage", ".panes.current .view"):
        action = f"getComputedStyle(document.querySelector('{selector}')).touchAction"
        assert opened.evaluate(action) == "pan-y"
    stage = opened.locator("#stage").bounding_box()
    client = context.new_cdp_session(opened)
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    for i in range(11):
        kind = "touchStart" if i == 0 else "touchMove"
        points = [{"x": x, "y": y - 20 * i}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        opened.wait_for_timeout(20)
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    opened.wait_for_timeout(300)
    assert opened.evaluate("scrollY") > 100
    context.close()


@needs_chromium
def test_the_divider_is_a_slider_and_follows_a_drag_anywhere(page: Any) -> None:
    handle = page.locator("#handle")
    assert handle.get_attribute("role") == "slider"
    handle.focus()
    start = int(handle.get_attribute("aria-valuenow"))
    page.keyboard.press("ArrowLeft")
    assert int(handle.get_attribute("aria-valuenow")) == start - 2
    stage = page.locator("#stage").bounding_box()
    page.mouse.move(stage["x"] + 0.2 * stage["width"], stage["y"] + 30)
    page.mouse.down()
    page.mouse.move(stage["x"] + 0.8 * stage["width"], stage["y"] + 30, steps=4)
    page.mouse.up()
    assert handle.get_attribute("aria-valuenow") == "80"


@needs_chromium
def test_a_click_on_a_thumbnail_selects_it(page: Any) -> None:
    page.locator(".panes.current img[data-name='error of none']").click()
    assert page.locator("#right-tag").inner_text() == "error of none"


@needs_chromium
def test_text_is_legible_at_every_width(browser: Any, page_file: Path) -> None:
    opened = browser.new_page()
    opened.goto(page_file.as_uri())
    for width in (340, 500, 800, 1280):
        opened.set_viewport_size({"width": width, "height": 800})
        sizes = opened.evaluate(
            "[...document.querySelectorAll('.chart text')].map(t => parseFloat(getComputedStyle(t)"
            ".fontSize) * t.ownerSVGElement.getBoundingClientRect().width / 640)"
        )
        assert min(sizes) >= 11.9
    opened.close()
