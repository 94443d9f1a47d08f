"""Runs that are interrupted and resumed, and folders that are whole or say that they are not."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from PIL import Image

import train_fit
from app import fit_file, image_fit, prepare, progress, report, run_many
from app.progress import _Session
from nerf_posenc.training import loop
from nerf_posenc.training.checkpoints import load_checkpoint
from tests.faults.soak import content, same
from tests.small import SMALL_RUN, SMALL_SCENE

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull", "no_report")

MANY = ["--images", "cat", "rocket", "--stack", "on", "--encodings", "none", "fourier"]
RUNS = {
    "image": ["--image", "cat", "--encodings", "none", "fourier", *SMALL_RUN],
    "held-out": ["--held-out", "--encodings", "fourier", *SMALL_RUN],
    "stacked": [*MANY, *SMALL_RUN],
    "scene": [*SMALL_SCENE, "--turntable", "1"],
}


def signalled(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], *records: int, number: int = 15
) -> int:
    """Run the program, which gets a signal at these records of its fits; return its status."""
    count = 0

    def save_and_signal(session: _Session) -> None:
        nonlocal count
        count += 1
        original(session)
        if count in records:
            os.kill(os.getpid(), number)

    original = _Session.save_if_due
    with monkeypatch.context() as patch:
        patch.setattr(_Session, "save_if_due", save_and_signal)
        return train_fit.main(arguments)


@pytest.mark.parametrize(
    ("kind", "record"), [("image", 1), ("image", 5), ("held-out", 2), ("stacked", 5), ("scene", 4)]
)
def test_a_run_that_is_resumed_has_the_bits_of_one_that_was_not_interrupted(
    kind: str, record: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*RUNS[kind], "--quiet", "--out"]
    assert signalled(monkeypatch, [*arguments, "part"], record) == 143
    assert "train_fit.py: stopped; resume with: python train_fit.py --resume part\n" in (
        capsys.readouterr().err
    )
    assert not Path("part/metrics.json").exists()
    assert train_fit.main(["--resume", "part", "--quiet"]) == 0
    assert train_fit.main([*arguments, "whole"]) == 0
    part, whole = content(Path("part")), content(Path("whole"))
    assert part.keys() == whole.keys()
    assert [name for name in whole if not same(part[name], whole[name])] == []


def test_ctrl_c_ends_a_fit_then_the_run_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*RUNS["image"], "--out", "run"]
    assert signalled(monkeypatch, arguments, 1, number=signal.SIGINT) == 0
    printed = capsys.readouterr().out
    assert "stopped none at step 10 of 30; press again to quit; resume with: python" in printed
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["steps"] for fit in fits] == [10, 30]
    # The fit that was ended early is what is missing; the second press ends the run.
    resume = ["--resume", "run"]
    assert signalled(monkeypatch, resume, 1, number=signal.SIGINT) == 0
    assert signalled(monkeypatch, [*RUNS["image"], "--out", "two"], 1, 2, number=2) == 130
    assert "--resume two" in capsys.readouterr().err
    assert not Path("two/metrics.json").exists()
    assert train_fit.main(resume) == train_fit.main(["--resume", "two", "--quiet"]) == 0
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["steps"] for fit in fits] == [30, 30]
    one, two = content(Path("run")), content(Path("two"))
    assert [name for name in one if not same(one[name], two[name])] == []
    capsys.readouterr()
    assert train_fit.main(resume) == 0
    assert capsys.readouterr().out == "run is complete: nothing is missing\n"
    Path("run/report.html").unlink()
    assert train_fit.main([*resume, "--quiet"]) == 0
    assert Path("run/report.html").exists()


def test_a_fit_is_saved_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []

    def noted(path: Path, values: dict[str, Any]) -> None:
        saved.append((path.stem, values["fit"]["step"]))

    monkeypatch.setattr(fit_file, "save_checkpoint", noted)
    options = [*RUNS["image"], "--encodings", "none", "--quiet"]
    assert train_fit.main([*options, "--save-every", "1e-9", "--out", "a"]) == 0
    assert train_fit.main([*options, "--out", "b"]) == 0
    assert saved == [("none", 10), ("none", 20), ("none", 30), ("none", 30)]


def test_only_the_run_that_was_begun_is_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (20, 20), "red").save("mine.png")
    arguments = ["--image", "mine.png", *SMALL_RUN, "--quiet", "--out", "run"]
    assert signalled(monkeypatch, arguments, 1) == 143

    def refused(message: str, *more: str) -> None:
        capsys.readouterr()
        assert train_fit.main(["--resume", "run", *more]) == 2
        assert message in capsys.readouterr().err

    Image.new("RGB", (20, 20), "blue").save("mine.png")
    refused("mine.png has changed since the run")
    Path("mine.png").unlink()
    refused("no image at mine.png")
    state = json.loads(Path("run/run.json").read_text())
    for change, message in (
        ({"version": 99}, "of version 99, and this program reads 1"),
        ({"format": "soup"}, "its format is not 'nerf_posenc run'"),
        ({"arguments": [3]}, "arguments must be a list of strings"),
        ({"arguments": ["--steps", "0"]}, "--steps must be 1 or more"),
        ({"is_part": True}, "one of several images"),
    ):
        Path("run/run.json").write_text(json.dumps({**state, **change}))
        refused(message)
    Path("run/run.json").write_text("{")
    refused("cannot read run.json")
    refused("--resume takes the options of the run", "--steps", "9")
    refused("--save-every must be a finite number", "--save-every", "nan")
    assert train_fit.main(["--resume", "nowhere"]) == 2
    assert "there is no run: it has no run.json" in capsys.readouterr().err


def test_a_run_is_resumed_from_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (20, 20), "red").save("mine.png")
    arguments = ["--image", "mine.png", *SMALL_RUN, "--quiet", "--out", "run"]
    assert signalled(monkeypatch, arguments, 1) == 143
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert train_fit.main(["--resume", "../run", "--quiet"]) == 0
    assert Path("../run/metrics.json").exists()


def test_a_damaged_fit_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert signalled(monkeypatch, [*RUNS["image"], "--quiet", "--out", "run"], 5) == 143
    file = Path("run/fits/none.safetensors")
    file.write_bytes(file.read_bytes()[:-5])
    assert train_fit.main(["--resume", "run", "--quiet"]) == 1
    errors = capsys.readouterr().err
    assert "none: run/fits/none.safetensors is not a checkpoint, or is damaged" in errors
    assert "remove the file to fit it anew" in errors
    file.unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0


def test_two_runs_never_write_to_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    with FileLock("run/.lock"):
        assert train_fit.main(["--out", "run", *SMALL_RUN]) == 2
        assert "another run is writing to run" in capsys.readouterr().err
    # What a process that died leaves is a file without a lock.
    assert train_fit.main(["--out", "run", "--quiet", "--encodings", "none", *SMALL_RUN]) == 0
    with FileLock("run/.lock"):
        assert train_fit.main(["--resume", "run"]) == 2
        assert "another run is writing to run" in capsys.readouterr().err


def no_space(*args: object, **kwargs: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_report_that_cannot_be_written_keeps_the_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(report, "write_page", no_space)
        assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "cannot write the report to run: No space left on device; resume with" in errors
    assert {p.name for p in Path("run").iterdir()} == {".lock", "fits", "run.json"}
    assert train_fit.main(["compare", "run", "--out", "page.html"]) == 2
    assert "the run is not complete; go on with it by --resume" in capsys.readouterr().err
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert Path("run/report.html").exists()


def test_a_fit_that_cannot_be_saved_ends_the_run_with_the_last_one_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*RUNS["image"], "--quiet", "--out", "run"]
    assert signalled(monkeypatch, arguments, 1) == 143
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(fit_file, "save_checkpoint", no_space)
        assert train_fit.main(["--resume", "run", "--quiet", "--save-every", "1e-9"]) == 1
    warning, error = capsys.readouterr().err.splitlines()
    assert "warning: cannot write run/fits/none.safetensors" in warning
    assert "the fit goes on" in warning
    assert "error: cannot write run/fits/none.safetensors: No space left" in error
    assert load_checkpoint(Path("run/fits/none.safetensors"))["fit"]["step"] == 10


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
    ],
)
def test_batches_too_large_for_the_memory_are_halved_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = []

    def too_large(most: int) -> Callable[..., Any]:
        def fit(state: Any, draw_batch: Any, *args: Any, **kwargs: Any) -> Any:
            sizes.append(len(draw_batch(0)[1]))
            if sizes[-1] > most:
                raise error
            return original(state, draw_batch, *args, **kwargs)

        return fit

    original = loop.fit
    options = ["--encodings", "none", "--quiet", *SMALL_RUN, "--out"]
    monkeypatch.setattr(progress, "fit", too_large(100))
    assert train_fit.main([*options, "run"]) == 0
    warning = capsys.readouterr().err
    assert "none: out of memory with batches of 200; once more with 100" in warning
    assert sizes == [200, 100]
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["fits_with"]["none"]["batch_size"] == 100
    monkeypatch.setattr(progress, "fit", too_large(10))
    assert train_fit.main([*options, "small"]) == 1
    assert "out of memory; use a smaller --batch-size, --width" in capsys.readouterr().err
    assert not Path("small").exists()


def test_overwrite_begins_anew() -> None:
    arguments = ["--encodings", "none", "--quiet", *SMALL_RUN, "--out", "run"]
    assert train_fit.main(arguments) == 0
    shutil.copy("run/none.png", "first.png")
    assert train_fit.main([*arguments, "--overwrite", "--seed", "1"]) == 0
    assert Path("run/none.png").read_bytes() != Path("first.png").read_bytes()


def test_several_images_go_on_with_those_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (9, 9), "red").save("a.png")
    Path("b.png").write_text("no image")
    arguments = ["--images", "a.png", "b.png", "cat", *SMALL_RUN, "--encodings", "none"]
    assert train_fit.main([*arguments, "--quiet", "--out", "run"]) == 1
    written = Path("run/000-a/metrics.json").stat().st_mtime_ns
    Image.new("RGB", (9, 9), "blue").save("b.png")
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert Path("run/000-a/metrics.json").stat().st_mtime_ns == written
    table = Path("run/images.txt").read_text()
    assert "mean of 3" in table
    assert train_fit.main(["--resume", "run/000-a"]) == 2
    assert "one of several images" in capsys.readouterr().err


def test_a_folder_that_is_lost_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = _Session.finish

    def lose(session: _Session) -> None:
        shutil.rmtree("run")
        original(session)

    monkeypatch.setattr(_Session, "finish", lose)
    assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 1
    errors = capsys.readouterr().err
    assert errors == (
        "train_fit.py: error: cannot write run/fits/none.safetensors: No such file or directory\n"
    )


def test_no_more_images_wait_than_one_ensemble_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = image_fit.fit_images

    def noted(images: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(images))
        return original(images, *args, **kwargs)

    monkeypatch.setattr(run_many, "MOST_MEMBERS", 2)
    monkeypatch.setattr(run_many, "fit_images", noted)
    names = ["cat", "rocket", "coffee"]
    options = [
        "--stack",
        "on",
        "--encodings",
        "none",
        "--quiet",
        *SMALL_RUN,
        "--video",
        "0",
    ]
    assert train_fit.main(["--images", *names, *options, "--out", "run"]) == 0
    # The last one waits alone and is fitted alone.
    assert sizes == [2]
    assert "mean of 3" in Path("run/images.txt").read_text()


def test_what_is_interrupted_before_the_first_fit_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare, "choose_sigma", interrupted)
    options = ["--encodings", "gaussian", "--sigma", "auto", "--quiet", *SMALL_RUN]
    assert train_fit.main([*options, "--out", "run"]) == 130
    assert capsys.readouterr().err == "train_fit.py: stopped\n"
    assert list(Path().iterdir()) == []


def test_a_folder_that_was_only_just_begun_is_taken_again() -> None:
    Path("run").mkdir()
    for name in (".lock", ".run.json.partial"):
        Path("run", name).write_text("")
    assert train_fit.main(["--encodings", "none", "--quiet", *SMALL_RUN, "--out", "run"]) == 0
