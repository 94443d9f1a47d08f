"""Runs that are interrupted and resumed."""

import csv
import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import train_fit
from nerf_posenc import __version__
from nerf_posenc.training.checkpoints import load_checkpoint, save_checkpoint
from nerf_posenc_app.runs.run import resume_command
from tests.signals import require_same_bits, run_with_signal
from tests.small import SMALL_RUN, SMALL_SCENE, write_noise

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull", "no_report")

RUNS = {
    "image": ["--image", "cat", "--encodings", "none", "fourier", *SMALL_RUN],
    "held-out": ["--held-out", "--encodings", "fourier", *SMALL_RUN],
    "poses": [
        *(*SMALL_SCENE, "--field", "auto", "--refine-poses", "--disturb-poses", "0.1"),
        *("--steps", "60"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("image", 1),
        ("image", 5),
        pytest.param("held-out", 2, marks=pytest.mark.slow),
        # While poses are searched for.
        pytest.param("poses", 1, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_resumed_has_the_bits_of_one_that_was_not_interrupted(
    kind: str, record: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_noise()
    arguments = [*RUNS[kind], "--quiet", "--out"]
    assert run_with_signal(monkeypatch, [*arguments, "part"], record) == 143
    command = resume_command(Path("part"))
    assert f"train_fit.py: stopped; resume with: {command}\n" in capsys.readouterr().err
    assert not Path("part/metrics.json").exists()
    assert train_fit.main(["--resume", "part", "--quiet"]) == 0
    assert train_fit.main([*arguments, "whole"]) == 0
    require_same_bits("part", "whole")


def test_ctrl_c_ends_a_fit_then_the_run_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*RUNS["image"], "--out", "run"]
    assert run_with_signal(monkeypatch, arguments, 1, number=signal.SIGINT) == 0
    printed = capsys.readouterr().out
    assert (
        "stopped none at step 10 of 30; goes on with fourier; press again to quit; resume with: "
        in printed
    )
    # A command that this terminal runs.
    assert shutil.which(resume_command(Path("run")).split()[0]) == sys.executable
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["steps"] for fit in fits] == [10, 30]
    # The fit that was ended early is what is missing; the second press ends the run.
    resume = ["--resume", "run"]
    assert run_with_signal(monkeypatch, resume, 1, number=signal.SIGINT) == 0
    assert "none continues at step 10 of 30" in capsys.readouterr().out
    assert run_with_signal(monkeypatch, [*RUNS["image"], "--out", "two"], 1, 2, number=2) == 130
    assert "--resume two" in capsys.readouterr().err
    assert not Path("two/metrics.json").exists()
    assert train_fit.main(resume) == train_fit.main(["--resume", "two", "--quiet"]) == 0
    assert "fourier was fitted before" in capsys.readouterr().out
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["steps"] for fit in fits] == [30, 30]
    require_same_bits("run", "two")
    capsys.readouterr()
    assert train_fit.main(resume) == 0
    assert capsys.readouterr().out == "run is already complete; there is nothing to resume\n"
    Path("run/report.html").unlink()
    assert train_fit.main([*resume, "--quiet"]) == 0
    assert Path("run/report.html").exists()


def test_a_fit_is_saved_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []

    def noted(path: Path, values: dict[str, Any], *, token: str) -> None:
        saved.append((path.stem, values["fit"]["step"]))

    monkeypatch.setattr("nerf_posenc_app.runs.saved.save_checkpoint", noted)
    options = [*RUNS["image"], "--encodings", "none", "--quiet"]
    assert train_fit.main([*options, "--save-every", "1e-9", "--out", "a"]) == 0
    assert train_fit.main([*options, "--out", "b"]) == 0
    assert saved == [("none", 10), ("none", 20), ("none", 30), ("none", 30)]


def test_only_the_run_that_was_begun_is_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (20, 20), "red").save("mine.png")
    arguments = ["--image", "mine.png", *SMALL_RUN, "--quiet", "--out", "run"]
    assert run_with_signal(monkeypatch, arguments, 1) == 143

    def refused(message: str, *more: str) -> None:
        capsys.readouterr()
        assert train_fit.main(["--resume", "run", *more]) == 2
        assert message in capsys.readouterr().err

    Image.new("RGB", (20, 20), "blue").save("mine.png")
    refused("the data has changed since the run started: mine.png, or a mask")
    Path("mine.png").unlink()
    refused("no image at mine.png")
    state = json.loads(Path("run/run.json").read_text())
    for change, message in (
        ({"version": 99}, f"{__version__} wrote it in version 99 of its format, and this"),
        ({"format": "soup"}, "its format is not 'nerf_posenc run'"),
        ({"options": {**state["options"], "steps": "3"}}, "steps must be an integer; it is '3'"),
        ({"options": {**state["options"], "steps": 0}}, "--steps must be 1 or more"),
        ({"kind": "soup"}, "there is no kind of data 'soup'"),
        ({"digest": ""}, "no checksum of the data"),
    ):
        Path("run/run.json").write_text(json.dumps({**state, **change}))
        refused(message)
    Path("run/run.json").write_text("{")
    refused("cannot read run.json")
    Path("run/run.json").write_text(json.dumps(state))
    refused("--steps is for a new run, not for this", "--steps", "9")
    refused("--save-every must be above 0; got nan", "--save-every", "nan")
    assert train_fit.main(["--resume", "nowhere"]) == 2
    assert "this is not a run folder: it has no run.json" in capsys.readouterr().err


def test_a_run_is_resumed_from_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (20, 20), "red").save("mine.png")
    Image.new("L", (20, 20), "white").save("mask.png")
    data = ["--image", "mine.png", "--mask", "mask.png"]
    arguments = [*data, *SMALL_RUN, "--quiet", "--out", "run"]
    assert run_with_signal(monkeypatch, arguments, 1) == 143
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert train_fit.main(["--resume", "../run", "--quiet"]) == 0
    assert Path("../run/metrics.json").exists()


def test_a_complete_run_of_seeds_is_known_to_be_and_is_compared_with_one_of_other_measures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_noise()
    run = ["--image", "noise.png", "--steps", "4", "--width", "8", "--depth", "1", "--video", "0"]
    run += ["--encodings", "none", "--quiet", "--out"]
    assert train_fit.main([*run, "seeds", "--seeds", "2", "--seed", "5"]) == 0
    assert train_fit.main([*run, "between", "--held-out"]) == 0
    kept = Path("seeds/metrics.json").read_bytes()
    assert train_fit.main(["--resume", "seeds"]) == 0
    assert "already complete" in capsys.readouterr().out
    assert Path("seeds/metrics.json").read_bytes() == kept
    assert train_fit.main(["compare", "seeds", "between", "--csv", "scores.csv"]) == 0
    with Path("scores.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == "seeds"]
    assert [row["seed"] for row in rows] == ["5", "6"]


def test_a_repetition_that_was_removed_is_fitted_again() -> None:
    words = [*RUNS["image"], "--seeds", "2", "--quiet", "--out", "run"]
    assert train_fit.main(words) == 0
    file = Path("run/fits/none-1.safetensors")
    file.unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert file.exists()


def test_a_damaged_fit_of_a_complete_run_is_named_and_its_scores_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train_fit.main([*RUNS["image"], "--quiet", "--out", "run"]) == 0
    kept = Path("run/metrics.json").read_bytes()
    file = Path("run/fits/none.safetensors")
    file.write_bytes(file.read_bytes()[:-5])
    assert train_fit.main(["--resume", "run"]) == 2
    assert f"{file} is not a checkpoint, or is damaged" in capsys.readouterr().err
    assert Path("run/metrics.json").read_bytes() == kept
    file.unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert file.exists()


def test_a_damaged_fit_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with_signal(monkeypatch, [*RUNS["image"], "--quiet", "--out", "run"], 5) == 143
    file = Path("run/fits/none.safetensors")
    file.write_bytes(file.read_bytes()[:-5])
    assert train_fit.main(["--resume", "run", "--quiet"]) == 1
    errors = capsys.readouterr().err
    assert "none: run/fits/none.safetensors is not a checkpoint, or is damaged" in errors
    assert "remove the file to fit it again" in errors
    part = Path("run/fits/fourier.safetensors")
    values = load_checkpoint(part)
    for name, value in (("seconds", "x"), ("history", [{"step": 1, "seconds": 1, "loss": -1}])):
        save_checkpoint(part, {**values, "fit": {**values["fit"], name: value}})
        assert train_fit.main(["--resume", "run", "--quiet"]) == 1
        assert f"fourier: {part} cannot be resumed: " in capsys.readouterr().err
    save_checkpoint(part, values)
    file.unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
