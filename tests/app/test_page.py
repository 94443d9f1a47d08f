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
from app.features import similarity_kernel
from app.image_fit import ImageResult
from app.preview import preview_windows
from app.scene_fit import SceneResult
from app.task import Panel
from PIL import Image

from app import report
from app.report.figures import save_views
from app.report.video import write_video
from nerf_posenc import FourierEncoder
from nerf_posenc.radiance.evaluation import ViewScore
from nerf_posenc.radiance.views import evenly_spaced
from nerf_posenc.radiance.volume_rendering import Rendering, visible_depth
from nerf_posenc.training.results import Record, Snapshot
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

HOSTILE = '"><script>alert(1)</script>.png'
HISTORY = [Record(10 * i, 0.5 * i, 0.1 / i) for i in range(1, 30)]


def results_for(original: torch.Tensor) -> list[ImageResult]:
    fits = {
        "none": original.mean((0, 1)).expand_as(original),
        "fourier": (original + 0.05 * torch.randn(original.shape)).clamp(0, 1),
        "gaussian": original,
    }
    return [
        ImageResult(
            encoding=name,
            parameters=1000,
            psnr=math.inf if name == "gaussian" else 20.0,
            ssim=math.nan,
            seconds=14.5,
            steps=290,
            history=HISTORY,
            reconstruction=fit,
            bands=[math.pi, 2 * math.pi] if name == "fourier" else [],
            kernel=similarity_kernel(FourierEncoder(2, 3)) if name == "fourier" else None,
        )
        for name, fit in fits.items()
    ]


def image_panel(name: str, original: torch.Tensor, results: list[ImageResult]) -> list[Panel]:
    return [Panel(name, original, {r.encoding: r.reconstruction for r in results}, {})]


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
    results = results_for(original)
    file = tmp_path_factory.mktemp("page") / "report.html"
    panels = image_panel(HOSTILE, original, results)
    report.write_page(file, HOSTILE, panels, results, {"command": "python train_fit.py", "x": 1})
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
    assert cut(page) == 50
    stage = page.locator("#stage").bounding_box()
    middle = stage["y"] + stage["height"] / 2
    before = page.locator("#stage").screenshot()
    page.mouse.move(stage["x"] + stage["width"] / 2, middle)
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
def test_either_side_shows_what_is_chosen(page: Any) -> None:
    assert page.locator("#left-tag").inner_text() == "none 20.0 dB"
    assert page.locator("#right-tag").inner_text() == "gaussian ∞ dB"
    page.select_option("#right", label="error of fourier")
    assert page.locator("#right-tag").inner_text() == "error of fourier"
    chosen = page.locator(".panes img[data-name='error of fourier']").get_attribute("src")
    assert page.locator("#above").get_attribute("src") == chosen


@needs_chromium
def test_hovering_over_a_curve_gives_its_values(page: Any) -> None:
    chart = page.locator(".chart[aria-label$='against steps']")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)
    tip = chart.locator("xpath=../*[@class='tip']").inner_text()
    assert tip.startswith("steps: ")
    step = int(tip.split("\n")[0].removeprefix("steps: "))
    expected = -10 * math.log10(0.1 / (step / 10))
    assert f"none: {expected:.4g}"[:11] in tip
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


def test_a_series_is_no_network_and_has_no_curve_over_steps(tmp_path: Path) -> None:
    original = smooth_image(64, 64)
    network, *_ = results_for(original)
    point = [Record(0, 0.2, 0.001)]
    series = replace(network, encoding="local-cosine", steps=0, history=point)
    page = tmp_path / "report.html"
    # Whether the chart over seconds, and that over steps, has the series.
    for results, shown in (
        ([network], [False, False]),
        ([network, series], [True, False]),
        ([series], []),
    ):
        report.write_page(page, "image", image_panel("image", original, results), results, {})
        html = page.read_text()
        assert ("A small network on raw coordinates" in html) == bool(shown)
        assert ("malvar1990" in html) == (results[-1] is series)
        curves = re.findall(r"PSNR against (?:seconds|step)</h3>.*?data-series='(.*?)'", html)
        assert ["local-cosine" in curve for curve in curves] == shown


def test_a_large_image_gets_an_overview_and_a_crop_at_full_size(tmp_path: Path) -> None:
    original = torch.full((900, 1600, 3), 0.5)
    original[600:700, 1200:1300] = torch.rand(100, 100, 3)
    results = results_for(original)
    file = tmp_path / "report.html"
    report.write_page(file, "p", image_panel("p", original, results), results, {})
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
    video = report.write_training_video(tmp_path / "learning", windows, recorded)
    assert video is not None
    panels = image_panel("p", original, results)
    report.write_page(file, "p", panels, results, {}, training_videos={"": video})
    assert file.stat().st_size < 8e6


def scene_results(truth: torch.Tensor) -> list[SceneResult]:
    views = []
    for i, view in enumerate(truth):
        depth = torch.rand(view.shape[:2])
        shown = Rendering(view * 0.9, (depth > 0.3).float(), depth)
        views.append(ViewScore(f"view {i}", 25.0, 0.9, shown))
    return [
        SceneResult(
            encoding=name,
            parameters=10,
            psnr=25.0,
            ssim=0.9,
            seconds=2.0,
            steps=20,
            history=HISTORY,
            views=views,
        )
        for name in ("none", "fourier")
    ]


@needs_chromium
def test_a_scene_s_page_lets_one_choose_the_view(browser: Any, tmp_path: Path) -> None:
    truth = torch.rand(9, 16, 16, 3)
    results = scene_results(truth)
    video = report.write_video(tmp_path / "video", truth)
    panels = [
        Panel(
            f"view {i}",
            truth[i],
            {r.encoding: r.views[i].rendering.rgb for r in results},
            {r.encoding: visible_depth(r.views[i].rendering) for r in results},
        )
        for i in evenly_spaced(6, 9)
    ]
    report.write_page(
        tmp_path / "report.html",
        "spheres",
        panels,
        results,
        {},
        turntables={"fourier": video},
        training_videos={"": video},
    )
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
    results = results_for(original)[:1]
    panels = image_panel("p", original, results)
    file = tmp_path / "page.html"
    report.write_page(file, "p", panels, results, {}, training_videos={"": video})
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


def test_views_are_drawn_as_a_figure(tmp_path: Path) -> None:
    truth = torch.rand(4, 12, 16, 3)
    results = scene_results(truth)
    views = {r.encoding: r.views for r in results}
    save_views(tmp_path / "views.png", truth.__getitem__, views, results)
    assert (tmp_path / "views.png").stat().st_size > 10_000
