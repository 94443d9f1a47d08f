"""Run folders: locked while they are written, whole or without ``metrics.json``."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import train_fit
from nerf_posenc.training.checkpoints import load_checkpoint
from nerf_posenc_app.kinds.image import auto
from nerf_posenc_app.kinds.kind import Fit
from nerf_posenc_app.report import outputs
from nerf_posenc_app.runs import saved
from nerf_posenc_app.runs.saved import METRICS, read_metrics
from nerf_posenc_app.runs.train import Session
from tests.signals import run_with_signal
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull", "no_report")

RUN = ["--image", "cat", "--encodings", "none", "fourier", *SMALL_RUN]


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
        patch.setattr(outputs, "write_page", no_space)
        assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "cannot write the report to run: No space left on device; resume with" in errors
    assert {p.name for p in Path("run").iterdir()} == {".lock", "fits", "run.json"}
    assert train_fit.main(["compare", "run", "--out", "page.html"]) == 2
    assert "the run is not complete; continue it with --resume" in capsys.readouterr().err
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert Path("run/report.html").exists()


def test_a_fit_that_cannot_be_saved_ends_the_run_with_the_last_one_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*RUN, "--quiet", "--out", "run"]
    assert run_with_signal(monkeypatch, arguments, 1) == 143
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(saved, "save_checkpoint", no_space)
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
def test_a_fit_that_runs_out_of_memory_leaves_the_others(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(fit: Fit[Any], training: Session) -> None:
        if fit.name.encoding == "fourier":
            raise error
        original(fit, training)

    original = train_fit.train
    monkeypatch.setattr(train_fit, "train", train)
    options = ["--encodings", "fourier", "none", "--quiet", *SMALL_RUN]
    assert train_fit.main([*options, "--out", "run"]) == 1
    said = "fourier: out of memory; use a smaller --batch-size, --width"
    assert said in capsys.readouterr().err
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["name"] for fit in metrics["fits"]] == ["none"]


def test_overwrite_begins_anew(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--encodings", "none", *SMALL_RUN, "--out", "run"]
    assert train_fit.main([*arguments, "--quiet"]) == 0
    shutil.copy("run/none.png", "first.png")
    Path("run/mine.txt").write_text("mine")
    # Fits of the earlier run would pass for those of the new one; other files are not ours.
    shutil.copy("run/fits/none.safetensors", "run/fits/fourier.safetensors")
    Path("run/fits/mine.safetensors").write_text("mine")
    assert train_fit.main([*arguments, "--overwrite", "--seed", "1"]) == 0
    assert Path("run/none.png").read_bytes() != Path("first.png").read_bytes()
    assert "wrote run/; open run/report.html" in capsys.readouterr().out
    assert Path("run/mine.txt").read_text() == "mine"
    assert sorted(file.stem for file in Path("run/fits").iterdir()) == ["mine", "none"]


def test_a_folder_that_is_lost_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = Session.finish

    def lose(session: Session) -> None:
        shutil.rmtree("run")
        original(session)

    monkeypatch.setattr(Session, "finish", lose)
    assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 1
    errors = capsys.readouterr().err
    assert errors == (
        "train_fit.py: error: cannot write run/fits/none.safetensors: No such file or directory\n"
    )


def test_what_is_interrupted_before_the_first_fit_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(auto, "sigma_between_pixels", interrupted)
    options = ["--encodings", "gaussian", "--sigma", "auto", "--quiet", *SMALL_RUN]
    assert train_fit.main([*options, "--out", "run"]) == 130
    assert capsys.readouterr().err == "train_fit.py: stopped\n"
    assert list(Path().iterdir()) == []


def test_a_folder_that_was_only_just_begun_is_taken_again() -> None:
    Path("run").mkdir()
    for name in (".lock", ".0123.partial.run.json"):
        Path("run", name).write_text("")
    assert train_fit.main(["--encodings", "none", "--quiet", *SMALL_RUN, "--out", "run"]) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
NAMES = st.sampled_from(["fits", "image", "scene", "config", "command", "versions"])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=st.dictionaries(NAMES, JSON) | JSON)
def test_any_json_is_read_as_metrics_or_refused(tmp_path: Path, run: Any) -> None:
    (tmp_path / METRICS).write_text(json.dumps(run))
    with pytest.raises(ValueError, match=r".+"):
        read_metrics(tmp_path)
