"""What a run leaves behind."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence

from app import report
from app.report.figures import most_detailed_window, save_frequencies, save_kernels
from nerf_posenc import FourierEncoder
from nerf_posenc.training.loop import Record


def result(encoding: str, psnr: float, height: int = 20, width: int = 30) -> report.PictureResult:
    return report.PictureResult(
        encoding=encoding,
        parameters=1234,
        psnr=psnr,
        ssim=math.nan if math.isinf(psnr) else 0.5,
        seconds=1.25,
        steps=20,
        history=[Record(10, 0.5, 0.1), Record(20, 1.25, 0.0)],
        reconstruction=torch.rand(height, width, 3),
        kernel=report.kernel_of(FourierEncoder(2, 3), 2) if encoding == "fourier" else None,
    )


def test_the_table_counts_gains_from_the_raw_coordinates() -> None:
    lines = report.table([result("none", 20.0), result("fourier", 34.5)]).splitlines()
    assert lines[0].split()[0] == "encoding"
    assert lines[2].split() == ["none", "1,234", "20.00", "0.5000", "1.2", "-"]
    assert lines[3].split() == ["fourier", "1,234", "34.50", "0.5000", "1.2", "+14.50"]
    assert len({len(line) for line in lines}) == 1


def test_without_raw_coordinates_there_is_no_gain() -> None:
    assert report.table([result("fourier", 30.0)]).splitlines()[2].split()[-1] == "-"


def test_metrics_are_json_also_where_a_figure_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    results = [result("none", 20.0), result("fourier", math.inf)]
    report.write_metrics(path, results, {"command": "here"})
    written = json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)
    assert written["command"] == "here"
    assert written["fits"][0]["psnr_db"] == 20.0
    assert written["fits"][1]["psnr_db"] is None
    assert written["fits"][0]["history"][0] == {
        "step": 10,
        "seconds": 0.5,
        "mse": 0.1,
        "psnr_db": 10.0,
    }


def test_the_most_detailed_window_is_that_of_the_largest_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(40, 57, 3, generator=generator)
    energy = torch.zeros(40, 57, dtype=torch.float64)
    energy[:, 1:] += image.mean(-1).diff(dim=1).square()
    energy[1:] += image.mean(-1).diff(dim=0).square()
    for height, width in ((1, 1), (10, 14), (40, 20), (40, 57)):
        means = torch.nn.functional.avg_pool2d(energy[None], (height, width), stride=1)[0]
        expected = divmod(int(means.argmax()), means.shape[1])
        assert most_detailed_window(image, height, width) == expected


def test_the_most_detailed_window_is_where_the_detail_is() -> None:
    picture = torch.full((40, 60, 3), 0.5)
    picture[22:28:2, 41:47] = 1.0
    top, left = most_detailed_window(picture, 10, 12)
    assert top <= 22
    assert top + 10 >= 28
    assert left <= 41
    assert left + 12 >= 47


def test_pictures_are_drawn_for_any_size(tmp_path: Path) -> None:
    for height, width in ((20, 30), (1, 1), (3, 200), (200, 3)):
        results = [result("none", 20.0, height, width), result("fourier", 30.0, height, width)]
        report.save_comparison(tmp_path / "c.png", torch.rand(height, width, 3), results)
        report.save_curves(tmp_path / "p.png", results)
        fits = {result.encoding: result.reconstruction for result in results}
        save_frequencies(tmp_path / "f.png", torch.rand(height, width, 3), fits)
        save_kernels(tmp_path / "k.png", results)
        for name in ("c.png", "p.png", "f.png", "k.png"):
            drawn = np.asarray(Image.open(tmp_path / name).convert("RGB"))
            assert min(drawn.shape[:2]) > 40
            assert drawn.std() > 0


def test_a_film_has_a_frame_a_snapshot_and_fits_that_ended_early_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As WebP, which is read back without a decoder of films.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    def grey(value: float) -> torch.Tensor:
        return torch.full((10, 20, 3), value)

    snapshots = [report.Snapshot(10 * i, 20.0, [grey(i / 5)]) for i in range(1, 4)]
    results = [
        replace(result("none", 20.0), snapshots=snapshots[:1]),
        replace(result("fourier", 30.0), snapshots=snapshots),
    ]
    file = report.write_film(tmp_path / "film", [grey(1.0)], results)
    assert file is not None
    with Image.open(file) as film:
        assert film.width == 3 * 288
        frames = [np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(film)]
    seen = [[int(frame[100, 144 + 288 * column, 0]) for column in range(3)] for frame in frames]
    expected = np.array([[255, 51, 51], [255, 51, 102], [255, 51, 153]])
    assert np.abs(np.array(seen[:3]) - expected).max() <= 3
    # The last frame is held, which may be as one longer frame.
    assert all(np.abs(np.array(row) - expected[2]).max() <= 3 for row in seen[3:])
    assert report.write_film(tmp_path / "none", [grey(1.0)], [result("none", 20.0)]) is None
