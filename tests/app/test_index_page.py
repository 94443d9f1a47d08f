"""The page of a run of several images."""

import base64
import io
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from nerf_posenc_app.kinds.coordinates import PSNR
from nerf_posenc_app.report.index_page import write_index
from nerf_posenc_app.report.outputs import _write_png
from nerf_posenc_app.report.tables import InputScores
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

SCORES = {
    "000-a&b": {"none": 20.0, "fourier": 31.5},
    "001-<i>": {"none": 9.5, "fourier": math.inf},
    "002-c": {"none": 30.25},
    "003-d": {"none": 30.0, "fourier": 40.0},
}


def index(
    path: Path,
    scores: dict[str, dict[str, float]],
    fits: list[str],
    failures: list[str] | None = None,
) -> None:
    inputs = {name: InputScores(PSNR, row) for name, row in scores.items()}
    texts = {"noun": "image", "command": "python", "report": "report.html"}
    write_index(path, inputs, fits, failures=failures or [], **texts)


def written(folder: Path) -> Path:
    for i, name in enumerate(SCORES):
        (folder / name).mkdir()
        if i < 2:
            _write_png(folder / name / "original.png", torch.rand(40, 60, 3))
    index(folder / "index.html", SCORES, ["none", "fourier"])
    return folder / "index.html"


@needs_chromium
def test_the_table_sorts_by_every_column_and_leads_to_the_reports(
    browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page()
    page.goto(written(tmp_path).as_uri())

    def column(number: int) -> list[str]:
        return [str(t) for t in page.locator(f"tbody td:nth-child({number})").all_inner_texts()]

    assert column(2) == list(SCORES)
    page.locator("th button", has_text="none").click()
    assert column(3) == ["9.50", "20.00", "30.00", "30.25"]
    page.locator("th button", has_text="none").click()
    assert column(3) == ["30.25", "30.00", "20.00", "9.50"]
    page.locator("th button", has_text="gain").click()
    assert column(5) == ["+10.00", "+11.50", "+inf", "-"]
    assert page.locator("tbody img").count() == 2
    href = page.locator("tbody a", has_text="000").get_attribute("href")
    assert href == "000-a%26b/report.html"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_mean_and_spread_are_over_images_with_finite_scores_of_all_fits(tmp_path: Path) -> None:
    text = written(tmp_path).read_text()
    values = [20.0, 30.0]
    assert f"<td>{statistics.mean(values):.2f}</td>" in text
    assert f"<td>{statistics.stdev(values):.2f}</td>" in text
    said = "fourier reached PSNR 35.8 dB on average over 2 images, 25.0 dB without it"
    assert said in text


def test_thumbnails_show_both_fits_and_what_was_left_out_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name, value in (("original", 0.0), ("none", 0.2), ("fourier", 0.8)):
        _write_png(tmp_path / "a" / f"{name}.png", torch.full((20, 30, 3), value))
    scores = {"a": {"none": 10.0, "fourier": 20.0}}
    index(tmp_path / "index.html", scores, ["none", "fourier"], ["cannot read <b>.png"])
    text = (tmp_path / "index.html").read_text()
    assert "<li>cannot read &lt;b&gt;.png</li>" in text
    data = text.split('src="data:image/webp;base64,')[1].split('"')[0]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
    assert abs(pixels[10, 3].mean() / 255 - 0.2) < 0.05
    assert abs(pixels[10, 26].mean() / 255 - 0.8) < 0.05


def test_without_raw_coordinates_there_is_no_column_of_gains(tmp_path: Path) -> None:
    index(tmp_path / "i.html", {"a": {"fourier": 30.0}}, ["fourier"])
    assert "gain of the best</button>" not in (tmp_path / "i.html").read_text()
