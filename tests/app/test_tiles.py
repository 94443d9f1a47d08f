"""Tile pyramids of large images, and the page that loads them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from nerf_posenc_app.report.page import write_page
from nerf_posenc_app.report.tiles import TilePyramid, write_tiles
from nerf_posenc_app.values.blocks import View
from tests.app.test_page import about, results_for
from tests.browsers import browser as browser
from tests.browsers import needs_chromium


def smooth(height: int, width: int) -> Tensor:
    """Slow waves, which JPEG keeps."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    waves = [torch.sin(x / 90 + i) * torch.cos(y / 70 - i) for i in range(3)]
    return (127 + 100 * torch.stack(waves, dim=-1)).round().byte()


def joined(folder: Path, level: int, rows: int, columns: int) -> np.ndarray:
    """The image of one level."""
    parts = [
        np.concatenate(
            [np.asarray(PIL.Image.open(folder / f"{level}-{r}-{c}.jpg")) for c in range(columns)],
            axis=1,
        )
        for r in range(rows)
    ]
    return np.concatenate(parts)


def test_tiles_are_the_image_and_its_means(tmp_path: Path) -> None:
    image = smooth(700, 1101)
    pyramid = write_tiles(tmp_path, {"original": image, "a b": image})
    assert pyramid == TilePyramid(["original", "a b"], 1101, 700, 3)
    expected = image.double()
    for level, (rows, columns) in enumerate([(2, 3), (1, 2), (1, 1)]):
        found = joined(tmp_path / "tiles" / "a%20b", level, rows, columns)
        assert found.shape == (-(-700 // 2**level), -(-1101 // 2**level), 3)
        assert np.abs(found - expected.numpy()).mean() < 1.5
        flat = expected.permute(2, 0, 1)[None]
        padding = (0, flat.shape[3] % 2, 0, flat.shape[2] % 2)
        padded = torch.nn.functional.pad(flat, padding, mode="replicate")
        expected = torch.nn.functional.avg_pool2d(padded, 2)[0].permute(1, 2, 0)
    assert len(list((tmp_path / "tiles" / "original").iterdir())) == 6 + 2 + 1


def test_an_image_of_16_bits_has_tiles(tmp_path: Path) -> None:
    image = smooth(40, 60)
    write_tiles(tmp_path, {"original": (image.int() * 257).to(torch.uint16)})
    found = joined(tmp_path / "tiles" / "original", 0, 1, 1)
    assert np.abs(found - image.double().numpy()).mean() < 1.5


@pytest.fixture
def large_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("nerf_posenc_app.report.page.LOSSLESS_PIXELS", 10_000)
    monkeypatch.setattr("nerf_posenc_app.report.tiles._SIDE", 64)
    original = smooth(200, 400)
    results = results_for(original[:64, :64] / 255)[:2]
    shown = {result.label: original // (i + 2) for i, result in enumerate(results)}
    results = [
        replace(r, evaluation=replace(r.evaluation, blocks=[View("p", original, shown[r.label])]))
        for r in results
    ]
    tiles = replace(write_tiles(tmp_path, {"original": original, **shown}), side=64)
    file = tmp_path / "report.html"
    write_page(file, about(), results, tiles=tiles)
    return file


SHOWN = """[...document.querySelectorAll('#under-tiles img')].map((tile) => ({
  file: tile.src.split('/').slice(-2).join('/'), loaded: tile.complete && tile.naturalWidth > 0,
  box: tile.getBoundingClientRect().toJSON()}))"""


@needs_chromium
def test_zooming_in_loads_the_tiles_that_are_seen(browser: Any, large_page: Path) -> None:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(large_page.as_uri())
    opened.wait_for_timeout(200)
    # The overview has fewer pixels than the stage: 7 x 4 tiles.
    assert len(opened.evaluate(SHOWN)) == 28
    for _ in range(6):
        opened.click("#closer")
    opened.wait_for_function(f"({SHOWN}).length == 2 && ({SHOWN}).every((tile) => tile.loaded)")
    stage = opened.locator("#stage").bounding_box()
    zoom = 1.5**6
    tiles = {tile["file"].split("/")[1]: tile["box"] for tile in opened.evaluate(SHOWN)}
    # The middle of the image, row 100 and column 200, lies in the middle of the stage.
    assert set(tiles) == {"0-1-2.jpg", "0-1-3.jpg"}
    scale = stage["width"] * zoom / 400
    box = tiles["0-1-3.jpg"]
    assert box["width"] == pytest.approx(64 * scale, rel=1e-3)
    middle = stage["x"] + stage["width"] / 2
    assert box["x"] == pytest.approx(middle + (192 - 200) * scale, abs=1)
    opened.click("#whole")
    opened.wait_for_timeout(200)
    assert len(opened.evaluate(SHOWN)) == 28
    assert errors == []
    opened.close()


@needs_chromium
def test_tiles_follow_the_chosen_fit(browser: Any, large_page: Path) -> None:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto(large_page.as_uri())
    for _ in range(6):
        opened.click("#closer")
    for index, name in ((0, "original"), (1, None)):
        opened.select_option("#left", index=index)
        opened.wait_for_timeout(300)
        folders = {tile["file"].split("/")[0] for tile in opened.evaluate(SHOWN)}
        expected = opened.evaluate("document.getElementById('under').alt") if name is None else name
        assert folders == {expected}
    opened.select_option("#which", index=1)
    opened.wait_for_timeout(300)
    assert opened.evaluate(SHOWN) == []
    opened.close()


def test_a_page_without_tiles_takes_no_files(tmp_path: Path) -> None:
    original = smooth(64, 96) / 255
    write_page(tmp_path / "p.html", about(), results_for(original)[:1])
    page = (tmp_path / "p.html").read_text()
    assert "img-src data:;" in page
    assert "pyramid" not in page
