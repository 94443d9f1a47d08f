"""The page of a run, driven in a real browser."""

import base64
import io
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc.metrics.image import psnr
from nerf_posenc_app.crops import preview_windows
from nerf_posenc_app.kinds.coordinates import ABOUT, PSNR, SSIM
from nerf_posenc_app.report.figures import save_comparison
from nerf_posenc_app.report.page import About, _opened, write_page
from nerf_posenc_app.report.sections import Panel, panels
from nerf_posenc_app.report.video import write_video
from nerf_posenc_app.values.blocks import Evaluation, View
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Point, Result, Snapshot
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

HOSTILE = '"><script>alert(1)</script>.png'
HISTORY = [Point(10 * i, 0.5 * i, 10 * math.log10(10 * i)) for i in range(1, 30)]


def about(title: str = "p", **changes: Any) -> About:
    run = {"command": "python train_fit.py", "x": 1}
    known = About(title=title, measures=(PSNR, SSIM), training=PSNR, run=run, lead=ABOUT)
    return replace(known, **changes)


def decoded(url: str) -> Any:
    """Values in [0, 1] of an image of the page."""
    data = base64.b64decode(url.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64) / 255


def results_for(original: torch.Tensor, title: str = "p") -> list[Result]:
    fits = {
        "none": original.mean((0, 1)).expand_as(original),
        "fourier": (original + 0.05 * torch.randn(original.shape)).clamp(0, 1),
        "gaussian": original,
    }
    results = []
    for name, fit in fits.items():
        is_fourier = name == "fourier"
        bands = [math.pi, 2 * math.pi] if is_fourier else []
        view = View(title, original, fit, bands=bands)
        scores = {"psnr_db": math.inf if name == "gaussian" else 20.0, "ssim": math.nan}
        results.append(
            Result(
                name=FitName(name),
                parameters=1000,
                seconds=14.5,
                steps=290,
                history=HISTORY,
                evaluation=Evaluation(scores, [view]),
            )
        )
    return results


def with_scores(result: Result, **scores: float) -> Result:
    known = {**result.scores, **scores}
    return replace(result, evaluation=replace(result.evaluation, scores=known))


def smooth_image(height: int, width: int) -> torch.Tensor:
    noise = torch.rand(1, 3, height // 8, width // 8)
    coarse = torch.nn.functional.interpolate(noise, (height, width), mode="bicubic")
    fine = 0.1 * torch.rand(1, 3, height, width)
    return (0.8 * coarse + fine)[0].permute(1, 2, 0).clamp(0, 1).contiguous()


def blurred(image: torch.Tensor, size: int) -> torch.Tensor:
    padded = image.permute(2, 0, 1)[None]
    mean = torch.nn.functional.avg_pool2d(padded, size, 1, size // 2, count_include_pad=False)
    return mean[0].permute(1, 2, 0)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    original = smooth_image(96, 144)
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_page(file, about(HOSTILE), results_for(original, HOSTILE))
    return file


@pytest.fixture
def page(browser: Any, page_file: Path) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1100, "height": 800})
    complaints: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append("dialog"))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(page_file.as_uri())
    yield opened
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    opened.close()


def cut(page: Any) -> float:
    style = page.evaluate("getComputedStyle(document.getElementById('over')).clipPath")
    return float(style.split()[-1].removesuffix("%)"))


@needs_chromium
def test_the_divider_moves_and_reveals(page: Any) -> None:
    stage = page.locator("#stage").bounding_box()
    middle = stage["y"] + stage["height"] / 2
    before = page.locator("#stage").screenshot()
    page.mouse.move(stage["x"] + cut(page) / 100 * stage["width"], middle)
    page.mouse.down()
    page.mouse.move(stage["x"] + stage["width"] / 4, middle, steps=4)
    page.mouse.up()
    assert cut(page) == pytest.approx(25, abs=1)
    assert page.locator("#stage").screenshot() != before
    page.locator("#stage").focus()
    page.keyboard.press("ArrowRight")
    assert cut(page) == pytest.approx(27, abs=1)
    page.locator("#cut").focus()
    page.keyboard.press("Home")
    assert cut(page) == 0


@needs_chromium
def test_zoom_and_pan_are_the_same_in_all_images(page: Any) -> None:
    def transforms() -> set[str]:
        script = "[...document.querySelectorAll('.view img')].map(i => getComputedStyle(i).scale"
        script += " + new DOMMatrix(getComputedStyle(i).transform).a)"
        return set(page.evaluate(script))

    assert len(transforms()) == 1
    stage = page.locator("#stage").bounding_box()
    page.mouse.move(stage["x"] + 30, stage["y"] + 40)
    page.mouse.click(stage["x"] + 30, stage["y"] + 40)
    page.mouse.wheel(0, -800)
    zoomed = transforms()
    assert len(zoomed) == 1
    assert float(zoomed.pop().removeprefix("none")) > 3
    shift = "new DOMMatrix(getComputedStyle(document.getElementById('under')).transform).e"
    before = page.evaluate(shift)
    page.mouse.move(stage["x"] + 130, stage["y"] + 40)
    page.mouse.down()
    page.mouse.move(stage["x"] + 110, stage["y"] + 40, steps=3)
    page.mouse.up()
    assert page.evaluate(shift) == pytest.approx(before - 20, abs=2)
    page.get_by_text("whole image").click()
    assert transforms() == {"none1"}


@needs_chromium
def test_tags_are_of_what_is_shown(browser: Any, tmp_path: Path) -> None:
    original = smooth_image(150, 200)
    none, *others = results_for(original)
    # The whole image has the score of the table.
    score = psnr(none.blocks(View)[0].reconstruction, original)
    write_page(tmp_path / "page.html", about(), [with_scores(none, psnr_db=score), *others])
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    left, right = page.locator("#left-tag"), page.locator("#right-tag")
    shown = []
    # The crop that the page opens on, then the whole image.
    for _ in range(2):
        under, original = (
            decoded(page.locator(name).get_attribute("src"))
            for name in ("#under", ".panes.current img[data-name=original]")
        )
        shown.append(-10 * math.log10(np.square(under - original).mean()))
        assert float(left.inner_text().split()[1]) == pytest.approx(shown[-1], abs=0.1)
        assert right.inner_text().startswith("gaussian ∞ dB")
        framed = page.locator("#frame").bounding_box()["width"]
        whole = page.locator("#whole-image img").bounding_box()["width"]
        assert framed / whole == pytest.approx(under.shape[1] / 200, abs=0.02)
        page.get_by_text("whole image").click()
    assert shown[0] != pytest.approx(shown[1], abs=0.1)
    page.get_by_label("zoom in").click()
    assert left.inner_text() == "none"
    page.close()


@needs_chromium
def test_either_side_shows_what_is_chosen(page: Any) -> None:
    assert page.locator("#left-tag").inner_text().startswith("none ")
    assert page.locator("#right-tag").inner_text().startswith("gaussian ∞ dB")
    page.select_option("#right", label="error of fourier")
    assert page.locator("#right-tag").inner_text() == "error of fourier"
    chosen = page.locator(".panes img[data-name='error of fourier']").get_attribute("src")
    assert page.locator("#above").get_attribute("src") == chosen


@needs_chromium
def test_hovering_over_a_curve_gives_its_values(page: Any) -> None:
    chart = page.locator(".chart[aria-label$='against training steps']")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    tip = chart.locator("xpath=../*[@class='tip']").inner_text()
    assert tip.startswith("training steps: ")
    step = int(tip.split("\n")[0].removeprefix("training steps: "))
    expected = -10 * math.log10(0.1 / (step / 10))
    assert f"none: {expected:.5g}\n" in tip
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert chart.locator("xpath=../*[@class='tip']").inner_text() != tip


@needs_chromium
def test_a_hostile_name_is_text(page: Any, page_file: Path) -> None:
    assert page.locator(".eyebrow").inner_text().startswith(HOSTILE)
    assert "<script>alert(1)" not in page_file.read_text()


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1100])
def test_nothing_runs_off_the_page_in_any_width_or_scheme(
    browser: Any, page_file: Path, width: int, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colors = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    paper, ink = (sum(map(int, color[4:-1].split(","))) / 3 for color in colors)
    assert (ink < 60 and paper > 200) if scheme == "light" else (ink > 200 and paper < 60)
    page.close()


@needs_chromium
def test_images_and_table_are_there_without_javascript(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    for name in ("original", "none", "fourier", "error of fourier"):
        assert page.locator(f".panes img[data-name='{name}']").is_visible()
    assert page.locator("#scores tbody tr").count() == 3
    assert not page.locator("#stage").is_visible()
    context.close()


@pytest.mark.parametrize(("count", "opened"), [(1, 0), (2, 1)])
def test_only_the_page_of_several_fits_opens_on_a_part(
    count: int, opened: int, tmp_path: Path
) -> None:
    write_page(tmp_path / "a.html", about(), results_for(smooth_image(120, 200))[:count])
    assert f"let current = {opened}," in (tmp_path / "a.html").read_text()


def test_a_reference_has_no_training_curve(tmp_path: Path) -> None:
    fit, *_ = results_for(smooth_image(64, 64))
    reference = replace(fit, name=FitName("bicubic"), steps=0, history=(), is_reference=True)
    page = tmp_path / "report.html"
    write_page(page, about(), [fit, reference])
    curves = re.findall(
        r"PSNR against (?:seconds|step)</h3>.*?data-series='(.*?)'", page.read_text()
    )
    assert ["bicubic" in curve for curve in curves] == [False, False]
    write_page(page, about(), [reference])
    assert "PSNR against" not in page.read_text()


@pytest.mark.slow
def test_a_large_image_gets_an_overview_and_a_crop_at_full_size(tmp_path: Path) -> None:
    original = torch.full((900, 1600, 3), 0.5)
    original[600:700, 1200:1300] = torch.rand(100, 100, 3)
    results = results_for(original)
    file = tmp_path / "report.html"
    write_page(file, about(), results)
    page = file.read_text()
    assert "p, reduced from 1600 x 900" in page
    encoded = re.findall(r'src="data:image/webp;base64,([^"]*)" alt="original"', page)
    assert encoded[0] == encoded[1]  # Beside the comparison, and among the images.
    del encoded[0]
    overview, crop = (Image.open(io.BytesIO(base64.b64decode(data))) for data in encoded)
    assert overview.width * overview.height < 710_000
    assert overview.width / overview.height == pytest.approx(16 / 9, rel=0.01)
    assert crop.size == (512, 512)
    # The crop is lossless and contains all of the detail.
    noise = (original[600:700, 1200:1300] * 255).round().numpy().astype(np.uint8)
    pixels = np.asarray(crop)
    found = np.argwhere((pixels[:413, :413] == noise[0, 0]).all(-1))
    assert any(np.array_equal(pixels[y : y + 100, x : x + 100], noise) for y, x in found)


@pytest.mark.slow
def test_the_page_of_a_photograph_is_under_8_mb(tmp_path: Path) -> None:
    # Noise over a smooth image compresses worse than any photograph.
    original = smooth_image(512, 768)
    results = results_for(original)
    file = tmp_path / "report.html"
    windows = [original[window] for window in preview_windows(original)]
    # From blurred to sharp, as fits go.
    snapshots = [
        Snapshot(i, 20.0, [blurred(window, 31 - 2 * i) for window in windows]) for i in range(16)
    ]
    recorded = [replace(result, snapshots=snapshots) for result in results]
    write_page(file, about(), recorded, originals=windows)
    assert file.stat().st_size < 8e6


@needs_chromium
def test_training_is_scrubbed_played_and_paused(browser: Any, tmp_path: Path) -> None:
    window = smooth_image(40, 60)
    frames = [Snapshot(10 * i, 20.0 + i, [blurred(window, 9 - 2 * i)]) for i in range(4)]
    first, *rest = results_for(window)
    # A fit that ended early keeps its last snapshot.
    recorded = [replace(first, snapshots=frames[:2]), *(replace(r, snapshots=frames) for r in rest)]
    write_page(tmp_path / "report.html", about(), recorded, originals=[window])
    page = browser.new_page(viewport={"width": 390, "height": 800})
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto((tmp_path / "report.html").as_uri())
    captions = page.locator(".learning figcaption span")
    assert captions.nth(0).inner_text() == "step 10, PSNR 21.00 dB"
    assert captions.nth(1).inner_text() == "step 30, PSNR 23.00 dB"
    shown = page.locator(".learning [data-fit='1'] img")
    last = shown.get_attribute("src")
    page.locator("#learning-at").evaluate(
        "(slider) => { slider.value = 0; slider.dispatchEvent(new Event('input')); }"
    )
    assert captions.nth(1).inner_text() == "step 0, PSNR 20.00 dB"
    assert shown.get_attribute("src") != last
    page.locator("#learning-play").click()
    page.wait_for_timeout(700)
    page.locator("#learning-play").click()
    assert int(page.locator("#learning-at").input_value()) > 0
    stopped = page.locator("#learning-at").input_value()
    page.wait_for_timeout(600)
    assert page.locator("#learning-at").input_value() == stopped
    # Legible on a phone: text of 12 pixels or more, and nothing beyond the edge.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not messages
    page.close()


def scene_results(truth: torch.Tensor) -> list[Result]:
    views = []
    for i, view in enumerate(truth):
        depth = torch.rand(view.shape[:2])
        views.append(View(f"view {i}", view, view * 0.9, depth.where(depth > 0.3, math.nan)))
    return [
        Result(
            name=FitName(name),
            parameters=10,
            seconds=2.0,
            steps=20,
            history=HISTORY,
            evaluation=Evaluation({"psnr_db": 25.0, "ssim": 0.9}, views),
        )
        for name in ("none", "fourier")
    ]


@needs_chromium
def test_a_page_of_several_views_lets_one_choose(browser: Any, tmp_path: Path) -> None:
    truth = torch.rand(9, 16, 16, 3)
    video = write_video(tmp_path / "video", truth)
    videos = {"Training progress": {"": video}, "Turntable": {"fourier": video}}
    write_page(tmp_path / "report.html", about("spheres"), scene_results(truth), videos=videos)
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#which option").count() == 6
    before = page.locator("#under").get_attribute("src")
    page.select_option("#which", index=3)
    assert page.locator("#under").get_attribute("src") != before
    page.select_option("#right", label="depth of fourier")
    assert page.locator("#right-tag").inner_text() == "depth of fourier"
    assert page.locator(".videos video, .videos img").count() == 1
    assert page.locator(".learning video, .learning img").count() == 1
    page.close()


@needs_chromium
def test_captions_of_the_training_video_have_the_page_s_colors_in_dark_mode(
    browser: Any, tmp_path: Path
) -> None:
    frames = torch.zeros(2, 140, 288, 3)
    frames[:, :40] = 1
    video = write_video(tmp_path / "learning", frames)
    original = smooth_image(24, 36)
    file = tmp_path / "page.html"
    videos = {"Training progress": {"": video}}
    write_page(file, about(), results_for(original)[:1], videos=videos)
    for scheme, expected in (("light", 255), ("dark", 0x19)):
        page = browser.new_page(color_scheme=scheme)
        page.goto(file.as_uri())
        page.locator(".clip").scroll_into_view_if_needed()
        page.wait_for_function("document.querySelector('.clip').style.length > 0")
        page.wait_for_timeout(300)
        shown = np.asarray(
            Image.open(io.BytesIO(page.locator(".clip").screenshot())).convert("RGB")
        )
        assert np.abs(shown[20, 200].astype(int) - expected).max() < 12
        assert shown[60, 200].max() < 12
        page.close()


@pytest.mark.parametrize("count", [1, 4])
def test_views_are_drawn_as_a_figure(count: int, tmp_path: Path) -> None:
    results = scene_results(torch.rand(count, 12, 16, 3))
    save_comparison(tmp_path / "views.png", panels(results), results, PSNR)
    assert (tmp_path / "views.png").stat().st_size > 10_000


def test_a_page_opens_on_the_whole_and_not_on_a_section_of_it() -> None:
    dark, light = torch.zeros(8, 8, 3), torch.ones(8, 8, 3)
    whole = Panel("mesh", dark, {"none": 0.9 * dark + 0.1, "hash": dark}, {}, [])
    section = Panel("slice", dark, {"none": light, "hash": dark}, {}, [], is_section=True)
    assert _opened([section, whole])[2] == 1
    assert _opened([section])[2] == 0


def test_a_fit_has_the_score_of_the_table_and_not_that_of_its_image_of_8_bits(
    tmp_path: Path,
) -> None:
    original = smooth_image(20, 30)
    results = results_for(original)[:2]
    results = [with_scores(each, psnr_db=57.31 + i) for i, each in enumerate(results)]
    write_page(tmp_path / "page.html", about(), results)
    text = (tmp_path / "page.html").read_text()
    for score in ("57.3 dB", "58.3 dB"):
        assert score in text
