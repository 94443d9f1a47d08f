"""The files of a run folder."""

import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence

from nerf_posenc.metrics.image import psnr
from nerf_posenc_app.crops import _block_energies, most_detailed_window
from nerf_posenc_app.kinds.coordinates import PSNR, SSIM
from nerf_posenc_app.report.charts import Chart, Line, _label_rows, chart_svg, save_charts, thinned
from nerf_posenc_app.report.figures import save_comparison
from nerf_posenc_app.report.images import nearness
from nerf_posenc_app.report.page import About, _middle_of_difference
from nerf_posenc_app.report.sections import (
    Panel,
    frequency_content,
    panels,
    sweep_charts,
    training_charts,
)
from nerf_posenc_app.report.tables import gain, gain_text, table
from nerf_posenc_app.report.video import write_training_video
from nerf_posenc_app.runs.saved import write_metrics
from nerf_posenc_app.values.blocks import Evaluation, View
from nerf_posenc_app.values.finding import find
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Point, Result, Snapshot

MEASURES = (PSNR, SSIM)


def result(
    encoding: str, psnr: float, height: int = 20, width: int = 30, run: str | None = None
) -> Result:
    scores = {"psnr_db": psnr, "ssim": math.nan if math.isinf(psnr) else 0.5}
    generator = torch.Generator().manual_seed(0)
    original = torch.rand(height, width, 3, generator=generator)
    view = View("p", original, torch.rand(height, width, 3))
    return Result(
        name=FitName(encoding, run=run),
        parameters=1234,
        seconds=1.25,
        steps=20,
        history=[Point(10, 0.5, 10.0), Point(20, 1.25, math.inf)],
        evaluation=Evaluation(scores, [view]),
    )


def test_the_table_counts_gains_from_the_raw_coordinates() -> None:
    lines = table([result("none", 20.0), result("fourier", 34.5)], MEASURES).splitlines()
    assert lines[0].split()[0] == "encoding"
    assert lines[2].split() == ["none", "1,234", "20.00", "0.5000", "1.2", "-"]
    assert lines[3].split() == ["fourier", "1,234", "34.50", "0.5000", "1.2", "+14.50"]
    assert len({len(line) for line in lines}) == 1


def test_without_raw_coordinates_there_is_no_gain() -> None:
    assert table([result("fourier", 30.0)], MEASURES).splitlines()[2].split()[-1] == "-"


def test_gains_are_relative_to_the_raw_coordinates_of_the_same_run() -> None:
    fits = [
        ("a", "none", 20.0),
        ("a", "fourier", 31.0),
        ("b", "none", 25.0),
        ("b", "fourier", 30.0),
    ]
    results = [result(encoding, psnr, run=run) for run, encoding, psnr in fits]
    assert [gain(r, results, PSNR) for r in results] == [None, 11.0, None, 5.0]


def test_a_gain_is_less_where_lower_is_better() -> None:
    lower = replace(PSNR, higher_is_better=False)
    none, better, worse = result("none", 20.0), result("fourier", 18.5), result("hash", 24.0)
    assert [gain(each, [none, better, worse], lower) for each in (better, worse)] == [1.5, -4.0]
    assert gain_text(better, [none, better], lower) == "+1.50"


def test_gains_are_differences_of_what_is_shown_and_not_over_a_fit_that_was_stopped() -> None:
    none, fourier = result("none", 24.434), result("fourier", 44.177)
    assert gain_text(fourier, [none, fourier], PSNR) == "+19.75"
    stopped = replace(none, is_complete=False)
    assert gain_text(fourier, [stopped, fourier], PSNR) == "-"
    finding = find([stopped, fourier], PSNR)
    assert finding is not None
    assert finding.verdict == "reaches"
    assert "24.43" not in finding.sentence


@pytest.mark.parametrize(("higher_is_better", "best"), [(True, 8), (False, 4)])
def test_the_best_value_of_an_option_is_marked(higher_is_better: bool, best: float) -> None:
    measure = replace(PSNR, higher_is_better=higher_is_better)
    results = [
        replace(result("fourier", psnr), name=FitName("fourier", ("num_bands", bands)))
        for bands, psnr in ((4, 20.0), (8, 30.0), (12, 25.0))
    ]
    (chart,) = sweep_charts(results, [measure])
    assert [mark.x for mark in chart.marks] == [best]
    near = replace(
        results[0], evaluation=Evaluation({PSNR.name: 29.5 if higher_is_better else 24.5})
    )
    (chart,) = sweep_charts([near, *results[1:]], [measure])
    assert not chart.marks


def test_the_error_of_a_panel_is_that_of_its_score() -> None:
    generator = torch.Generator().manual_seed(0)
    original, fit = torch.rand(2, 6, 7, 3, generator=generator)
    weights = torch.rand(6, 7, generator=generator)
    window = (slice(1, 4), slice(2, 7))
    for scored in (None, weights):
        panel = Panel("p", original, {"none": fit}, {}, [], scored=scored)
        kept = None if scored is None else scored[window]
        assert panel.psnr("none") == pytest.approx(psnr(fit, original, scored))
        assert panel.psnr("none", window) == pytest.approx(
            psnr(fit[window], original[window], kept)
        )


def test_labels_of_marks_do_not_meet_at_the_right_edge() -> None:
    # The last one stands to the left of its mark, where the one before it stands to the right.
    assert _label_rows([100.0, 570.0, 626.0]) == [0, 0, 1]


def test_metrics_are_json_also_where_a_figure_is_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    results = [result("none", 20.0), result("fourier", math.inf), result("hash", math.nan)]
    run = {"command": "here"}
    write_metrics(path, About(title="", measures=MEASURES, training=MEASURES[0], run=run), results)
    written = json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)
    assert written["command"] == "here"
    assert written["fits"][0]["psnr_db"] == 20.0
    assert written["fits"][1]["psnr_db"] == "inf"
    assert written["fits"][2]["psnr_db"] is None
    assert written["fits"][0]["history"] == [
        {"step": 10, "seconds": 0.5, "psnr_db": 10.0},
        {"step": 20, "seconds": 1.25, "psnr_db": "inf"},
    ]


def test_the_most_detailed_window_is_that_of_the_largest_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(40, 57, 3, generator=generator)
    energy = torch.zeros(40, 57, dtype=torch.float64)
    energy[:, 1:] += image.mean(-1).diff(dim=1).square()
    energy[1:] += image.mean(-1).diff(dim=0).square()
    for height, width in ((1, 1), (10, 14), (40, 20), (40, 57)):
        means = torch.nn.functional.avg_pool2d(energy[None], (height, width), stride=1)[0]
        expected = divmod(int(means.argmax()), means.shape[1])
        rows, columns = most_detailed_window(image, height, width)
        assert (rows.start, columns.start) == expected
        assert (rows.stop - rows.start, columns.stop - columns.start) == (height, width)


def test_a_thinned_line_keeps_its_extremes_and_ends() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    values[[333, 601]] = -9.0, 9.0
    points = [(float(i), float(y)) for i, y in enumerate(values)]
    kept = thinned(points, 40)
    assert {points[0], points[333], points[601], points[-1]} <= set(kept)
    assert kept == sorted(kept)
    assert len(kept) <= 42


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.7, 12.2), (19.98, 20.03), (7.0, 640.0)])
@pytest.mark.parametrize("log", [False, True])
def test_a_chart_s_ticks_lie_on_its_axes_and_its_names_apart(
    bounds: tuple[float, float], log: bool
) -> None:
    low, high = bounds
    if log and low <= 0:
        low, high = 0.02, high + 5
    # Lines that all end in one point.
    lines = [Line(f"line {i}", [low, high], [low + i / 9 * (high - low), low], i) for i in range(5)]
    chart = Chart(title="t", x_label="x", y_label="y", lines=lines, log_x=log, log_y=log)
    root = ElementTree.fromstring(chart_svg(chart, is_page=False))
    elements = [(each.tag, each.attrib) for each in root.iter()]
    grid = [at for _, at in elements if at.get("class") == "grid"]
    down = [float(at["y1"]) for at in grid if at["y1"] == at["y2"]]
    across = [float(at["x1"]) for at in grid if at["x1"] == at["x2"]]
    left, right = (float(grid[0][key]) for key in ("x1", "x2"))
    top, bottom = (float(next(at for at in grid if at["x1"] == at["x2"])[k]) for k in ("y1", "y2"))
    assert all(left <= x <= right for x in across)
    assert all(top <= y <= bottom for y in down)
    assert min(len(down), len(across)) >= 2
    ends = sorted(float(at["y"]) for _, at in elements if at.get("class", "").startswith("end"))
    assert len(ends) == 5
    assert min(b - a for a, b in itertools.pairwise(ends)) > 12
    assert ends[-1] <= float(root.attrib["height"])


def test_the_detail_of_blocks_is_that_of_their_pixels() -> None:
    image = torch.rand(19, 30, 3, generator=torch.Generator().manual_seed(0))
    gray = image.mean(-1).double()
    energy = torch.zeros(24, 32, dtype=torch.float64)
    energy[:19, 1:30] += gray.diff(dim=1).square()
    energy[1:19, :30] += gray.diff(dim=0).square()
    expected = energy.unflatten(0, (3, 8)).unflatten(2, (4, 8)).sum((1, 3))
    torch.testing.assert_close(_block_energies(image, 8), expected)


@pytest.mark.slow
def test_images_are_drawn_for_any_size(tmp_path: Path) -> None:
    for height, width in ((1, 1), (3, 200), (200, 3)):
        results = [result("none", 20.0, height, width), result("fourier", 30.0, height, width)]
        shown = panels(results)
        save_comparison(tmp_path / "c.png", shown, results, PSNR)
        drawn = np.asarray(Image.open(tmp_path / "c.png").convert("RGB"))
        assert min(drawn.shape[:2]) > 40
        assert drawn.std() > 0
        frequencies = frequency_content(shown[0], results).charts
        for name, charts in (("p", training_charts(results, PSNR)), ("f", frequencies)):
            save_charts(tmp_path / f"{name}.svg", charts)
            root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert float(root.attrib["height"]) > 40


def test_a_training_video_has_a_frame_per_snapshot_and_repeats_the_last_of_each_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As WebP, which Pillow can read back.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    def gray(value: float) -> torch.Tensor:
        return torch.full((10, 20, 3), value)

    snapshots = [Snapshot(10 * i, 20.0, [gray(i / 5)]) for i in range(1, 4)]
    results = [
        replace(result("none", 20.0), snapshots=snapshots[:1]),
        replace(result("fourier", 30.0), snapshots=snapshots),
    ]
    file = write_training_video(tmp_path / "video", [gray(1.0)], results, PSNR)
    assert file is not None
    with Image.open(file) as video:
        assert video.width == 3 * 288
        frames = [np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(video)]
    seen = [[int(frame[100, 144 + 288 * column, 0]) for column in range(3)] for frame in frames]
    expected = np.array([[255, 51, 51], [255, 51, 102], [255, 51, 153]])
    assert np.abs(np.array(seen[:3]) - expected).max() <= 3
    # The last frame is held, which may be as one longer frame.
    assert all(np.abs(np.array(row) - expected[2]).max() <= 3 for row in seen[3:])
    assert (
        write_training_video(tmp_path / "none", [gray(1.0)], [result("none", 20.0)], PSNR) is None
    )


def test_a_horizon_leaves_the_depths_of_what_is_near_apart() -> None:
    depth = torch.full((10, 20), 1000.0)
    depth[:, :5], depth[:, 5:10] = 1.0, 2.0
    depth[0] = math.nan
    (near,) = nearness([depth])
    assert torch.allclose(near[1:, :5], torch.ones(()))
    assert torch.allclose(near[1:, 5:10], torch.tensor(0.5), atol=1e-3)
    assert near[1:, 10:].max() == 0
    assert near[0].isnan().all()
    assert nearness([torch.full((2, 2), math.nan)])[0].isnan().all()
    assert nearness([]) == []


def test_the_divider_starts_in_the_middle_of_what_differs() -> None:
    left = torch.zeros(10, 40, 3)
    right = left.clone()
    right[2:5, 30:] = 0.5
    # Columns 30 to 39 of 40 differ: half of them lie beyond 87.5%.
    assert _middle_of_difference(left, right) == pytest.approx(87.5, abs=2)
    assert _middle_of_difference(left, left) == pytest.approx(50, abs=2)


def test_a_band_reaches_a_deviation_above_and_below_its_line() -> None:
    line = Line("none", [1, 2, 3], [20.0, 22.0, 24.0], 0, [1.0, 0.5, 0.0])
    svg = chart_svg(Chart(title="t", x_label="x", y_label="y", lines=[line]))

    def ys(shape: str) -> list[float]:
        found = re.search(rf'<{shape} class="[^"]*" points="([^"]*)"', svg)
        assert found is not None
        return [float(point.split(",")[1]) for point in found[1].split()]

    drawn, around = ys("polyline"), ys("polygon")
    per_db = (drawn[0] - drawn[2]) / 4
    reach = [per_db, per_db / 2, 0.0]
    above, below = around[:3], around[:2:-1]
    assert [y - a for y, a in zip(drawn, above, strict=True)] == pytest.approx(reach, abs=0.2)
    assert [b - y for y, b in zip(drawn, below, strict=True)] == pytest.approx(reach, abs=0.2)
    alone = chart_svg(Chart(title="t", x_label="x", y_label="y", lines=[replace(line, spread=())]))
    assert "polygon" not in alone
