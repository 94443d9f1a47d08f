"""Runs of tasks: their files, mistakes, resuming, comparing, and their page."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from more.tests.small import SMALL_TASK
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc_app.runs.saved import read_metrics
from nerf_posenc_app.values.blocks import Curve, Evaluation
from nerf_posenc_app.values.finding import find
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from nerf_posenc_sequences import load_models, open_sequence
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.system import SystemOptions
from tests.browsers import browser as browser
from tests.browsers import needs_chromium
from tests.signals import resumed_to_the_bit, run_with_signal
from tests.texts import made_text

pytestmark = pytest.mark.usefixtures("own_folder", "text")

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def text(own_folder: None) -> None:
    Path("text.txt").write_text(made_text())


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder, made once."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "text.txt").write_text(made_text())
    arguments = list(SMALL_TASK)
    arguments[1] = str(folder / "text.txt")
    assert train_fit.main([*arguments, "--quiet", "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def run(finished_run: Path, text: None) -> None:
    """A copy of that run folder here."""
    shutil.copytree(finished_run, "run")


def fits(folder: str) -> list[dict[str, Any]]:
    entries = json.loads(Path(folder, "metrics.json").read_text())["fits"]
    # Not the same in two runs.
    for entry in entries:
        del entry["seconds"], entry["history"]
    return list(entries)


def test_a_run_prints_a_table_and_writes_what_compare_and_resume_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train_fit.main([*SMALL_TASK, "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert "characters to train" in printed
    assert "After 30 of the usual 800 steps, too few to compare: " in printed
    header = next(line for line in printed.splitlines() if line.startswith("encoding"))
    assert header.split("  ")[0] == "encoding"
    assert all(
        part in header for part in ("bits per character", "accuracy (%)", "bits at length 64")
    )
    metrics = read_metrics(Path("run"))
    assert metrics.data.kind == "task"
    none, rotary, guess = metrics.fits
    assert guess.is_reference
    assert guess.scores["bits_per_character"] > none.scores["bits_per_character"] - 1
    assert none.scores["perplexity"] == pytest.approx(2 ** none.scores["bits_per_character"])
    entries = json.loads(Path("run/metrics.json").read_text())["fits"]
    gained = none.scores["bits_per_character"] - rotary.scores["bits_per_character"]
    assert entries[1]["gain"] == pytest.approx(gained)
    assert {curve.title for curve in none.blocks(Curve)} >= {"Loss by test length"}
    assert rotary.blocks(HeatMap)[0].table.shape == (4, 17)
    assert train_fit.main(["--resume", "run"]) == 0
    assert "is already complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    "extra",
    [
        [],
        pytest.param(["--seeds", "3"], marks=pytest.mark.slow),
        pytest.param(["--model", "conv"], marks=pytest.mark.slow),
    ],
)
def test_a_task_that_is_resumed_has_the_bits_of_one_that_was_not_interrupted(
    extra: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*SMALL_TASK, *extra]
    if "conv" in extra:
        arguments[3:5] = ["none", "learned"]
    resumed_to_the_bit(monkeypatch, arguments, 4)


def test_a_text_that_has_changed_is_not_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with_signal(monkeypatch, [*SMALL_TASK, "--quiet", "--out", "run"], 1) == 143
    Path("text.txt").write_text(made_text(seed=5))
    capsys.readouterr()
    assert train_fit.main(["--resume", "run"]) == 2
    assert "the data has changed since the run started: text.txt" in capsys.readouterr().err


@pytest.mark.slow
def test_several_seeds_are_trained_at_once_and_their_median_is_reported() -> None:
    assert train_fit.main([*SMALL_TASK, "--seeds", "3", "--quiet", "--out", "run"]) == 0
    trained = [fit for fit in fits("run") if not fit["is_reference"]]
    assert len(trained) == 2
    for fit in trained:
        values = sorted(seed["bits_per_character"] for seed in fit["by_seed"])
        assert len(set(values)) == 3
        assert fit["bits_per_character"] == values[1]


@pytest.mark.usefixtures("run")
def test_a_saved_fit_is_loaded_with_its_system_alone() -> None:
    options = SystemOptions(context=16, width=16, depth=1)
    system = open_sequence("text.txt", options)
    (model,) = load_models("run/fits/rotary.safetensors", system)
    with torch.no_grad():
        scores = system.evaluate(model, "rotary").scores
    assert scores["bits_per_character"] == fits("run")[1]["bits_per_character"]
    other = open_sequence("text.txt", SystemOptions(context=16, width=24, depth=1))
    with pytest.raises(CheckpointError, match="its width is 16, not 24"):
        load_models("run/fits/rotary.safetensors", other)


@pytest.mark.usefixtures("run")
def test_runs_of_one_model_are_compared_and_of_different_ones_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("run").rename("a")
    assert train_fit.main([*SMALL_TASK, "--seed", "1", "--quiet", "--out", "b"]) == 0
    assert train_fit.main([*SMALL_TASK, "--context", "20", "--quiet", "--out", "c"]) == 0
    capsys.readouterr()
    assert train_fit.main(["compare", "a", "b", "--out", "ab.html"]) == 0
    rows = capsys.readouterr().out.splitlines()[3:8]
    # A guess is the same of both runs.
    names = ["a: none", "a: rotary", "a: guess", "b: none", "b: rotary"]
    assert [row.split("  ")[0] for row in rows] == names
    assert float(rows[1].split()[-1]) == pytest.approx(
        float(rows[0].split()[3]) - float(rows[1].split()[3]), abs=0.0015
    )
    assert train_fit.main(["compare", "a", "c", "--out", "ac.html"]) == 2
    assert "measure different things" in capsys.readouterr().err
    assert not Path("ac.html").exists()


@pytest.mark.usefixtures("run")
def test_a_task_is_not_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["render", "run"]) == 2
    assert "is the fit of a task, which has nothing to render" in capsys.readouterr().err


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("measures",), []),
        (("measures", 0, "digits"), 400),
        (("fits", 0, "curves", 0, "ys"), [1.0]),
        (("fits", 0, "passages", 0, "tokens", 0), ["x", "<b>", None]),
        (("fits", 0, "heat_maps", 0, "values"), [[1.0]]),
        (("fits", 0, "bits_per_character"), "many"),
        (("fits", 0, "by_seed"), 3),
        (("data",), "text"),
        (("data", "citations"), [3]),
    ],
)
def test_damaged_metrics_are_refused_in_one_line(
    path: tuple[str | int, ...], value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("run/metrics.json")
    run = json.loads(file.read_text())
    inner = run
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    file.write_text(json.dumps(run))
    capsys.readouterr()
    assert train_fit.main(["compare", "run"]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "is not the folder of a complete run" in printed


@needs_chromium
def test_the_page_shows_text_as_text_and_the_numbers_of_the_metrics(browser: Any) -> None:
    Path("text.txt").write_text((HOSTILE + "\n" + made_text(60)) * 30)
    assert train_fit.main([*SMALL_TASK, "--quiet", "--out", "run"]) == 0
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    seen: list[str] = []
    page.on("dialog", lambda dialog: seen.append("dialog"))
    page.on("request", lambda request: seen.append(request.url))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.goto(Path("run/report.html").resolve().as_uri())
    assert [each for each in seen if not each.startswith(("file:", "data:"))] == []
    none, rotary, _ = read_metrics(Path("run")).fits
    said = page.locator("h1").inner_text()
    assert f"{rotary.scores['bits_per_character']:.3f} (rotary)" in said
    assert f"{none.scores['bits_per_character']:.3f} (none)" in said
    table = page.locator("#scores").inner_text()
    for fit in (none, rotary):
        assert f"{fit.scores['accuracy_percent']:.1f}" in table
        assert math.isfinite(fit.scores["bits_at_4x"])
    passages = page.locator(".passage")
    assert passages.count() == 2
    assert page.locator(".passage .wrong").count() > 0
    assert page.locator(".passage script").count() == 0
    assert page.locator(".heat").count() == 2
    # Nothing is wider than the window.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@needs_chromium
def test_the_page_says_which_scores_are_better_and_what_to_cite(browser: Any) -> None:
    pairs = [f"{' '.join('abcdefg'[: i % 5 + 2])}\t{'xyz'[i % 3]}" for i in range(60)]
    Path("pairs.tsv").write_text("\n".join(dict.fromkeys(pairs)) + "\n")
    small = ["--width", "16", "--depth", "1", "--steps", "5", "--quiet", "--out", "run"]
    assert train_fit.main(["--task", "pairs.tsv", "--encodings", "none", *small]) == 0
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(Path("run/report.html").resolve().as_uri())
    headings = page.locator("#scores th").all_inner_texts()
    assert {"exact (%)", "BLEU", "bits per symbol ↓"} <= set(headings)
    bits = page.locator("#scores th").nth(headings.index("bits per symbol ↓"))
    assert bits.get_attribute("title") == "lower is better"
    # No target has the four symbols of BLEU.
    assert page.locator("#scores td").nth(headings.index("BLEU")).inner_text() == "-"
    fitted, note, *_ = page.locator("p.note").all_inner_texts()
    assert fitted.startswith("Fitted: none: transformer network, 1 x 16 units")
    assert "The test set has 3 pairs; a difference of one changes the score by 33.3 points" in note
    assert "vaswani2017attention" in page.locator("pre").last.inner_text()
    # Keys scroll to what is wider than its frame, and a shadow shows that there is more.
    frame = page.locator(".scroll").first
    assert frame.evaluate("e => e.scrollWidth > e.clientWidth && e.tabIndex === 0")
    assert "gradient" in frame.evaluate("e => getComputedStyle(e).backgroundImage")
    page.close()


def test_a_page_cites_the_papers_of_its_own_model() -> None:
    assert train_fit.main([*SMALL_TASK, "--model", "causal", "--quiet", "--out", "run"]) == 0
    citations = json.loads(Path("run/metrics.json").read_text())["data"]["citations"]
    keys = [citation.partition("{")[2].partition(",")[0] for citation in citations]
    assert keys == ["vaswani2017attention", "su2021roformer", "press2022train"]
    assert train_fit.main(["compare", "run", "--out", "compared.html"]) == 0
    for file in ("run/report.html", "compared.html"):
        cited = Path(file).read_text().partition("<h2>Cite</h2>")[2]
        assert all(cited.count(key) == 1 for key in keys)


def test_no_winner_is_named_where_there_is_none() -> None:
    def result(encoding: str, *seeds: float) -> Result:
        scores, by_seed = {"error": sorted(seeds)[len(seeds) // 2]}, [{"error": s} for s in seeds]
        evaluation = Evaluation(scores, by_seed=by_seed)
        return Result(
            name=FitName(encoding), parameters=1, seconds=1.0, steps=5, evaluation=evaluation
        )

    measure = Measure("error", "error", "%", 1, higher_is_better=False)
    none = result("none", 10.0, 12.0, 14.0)

    def said(*others: Result) -> str:
        finding = find([none, *others], measure)
        assert finding is not None
        return finding.sentence

    assert said(result("a", 3.0, 4.0, 5.0)) == (
        '"a" gained 8.0 points: error 4.0% against 12.0% without it; same 5 steps'
    )
    assert "made no clear difference" in str(said(result("a", 9.0, 10.5, 11.0)))
    assert "lost 4.0 points" in str(said(result("a", 15.0, 16.0, 17.0)))
    assert said() == "error 12.0% (none)"


@pytest.mark.usefixtures("run")
def test_compare_writes_a_new_page_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("comparison.html", "comparison-2.html"):
        assert train_fit.main(["compare", "run"]) == 0
        assert f"wrote runs/{name}" in capsys.readouterr().out


def test_a_fit_that_diverged_has_a_report() -> None:
    small = ["--width", "8", "--depth", "1", "--batch-size", "32", "--encodings", "none"]
    Path("pairs.tsv").write_text("".join(f"{n}\t{n} {n}\n" for n in range(400)))
    arguments = ["--task", "pairs.tsv", "--steps", "1", *small, "--lr", "900", "--quiet"]
    assert train_fit.main([*arguments, "--out", "run"]) in (0, 1)
