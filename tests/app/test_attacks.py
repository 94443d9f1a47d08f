"""Inputs that were made to hang, to lead elsewhere, to take the machine, or to forge what is said.

SECURITY.md promises what is tested here. Each input is made by its test.
"""

import csv
import errno
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc_app import FittedRun
from nerf_posenc_app.commands.compare import _new_page, compare
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.posed.camera_path import open_cameras
from nerf_posenc_app.data.posed.folders import ImageFinder
from nerf_posenc_app.data.reading import worker
from nerf_posenc_app.kinds.kind import Rendered
from nerf_posenc_app.report.tables import as_csv
from nerf_posenc_app.runs.folder import short_name
from nerf_posenc_app.runs.saved import STATE
from nerf_posenc_app.runs.signals import handled_signals
from nerf_posenc_app.runs.stop import Stop
from nerf_posenc_app.terminal import lasting_streams
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.optional import needs
from tests.small import SMALL_RUN, quick_report

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("own_folder")
QUICK = [*SMALL_RUN, "--quiet"]


@pytest.mark.parametrize("option", ["--image", "--scene", "--sequence"])
def test_no_pipe_is_waited_for(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    began = time.monotonic()
    assert train_fit.main([option, "pipe"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert time.monotonic() - began < 5


def test_a_file_system_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PATIENCE", 1.0)
    monkeypatch.setattr(worker, "_SLOWER", 0.0)
    os.mkfifo("a.png")
    # As if it were a file: a network's file system shows files that it does not deliver.
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    with pytest.raises(SceneError, match="its decoder"):
        worker.read_image(Path("a.png"), 100)


@pytest.mark.slow
def test_keys_that_nobody_reads_are_not_kept_for_every_frame() -> None:
    folder = Path("scene/images")
    folder.mkdir(parents=True)
    Image.new("RGB", (8, 6), "red").save(folder / "a.png")
    pose = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    frame = {"file_path": "images/a.png", "transform_matrix": pose}
    foreign = {f"key {i}": i for i in range(300_000)}
    meta = {"fl_x": 9.0, "w": 8, "h": 6, "frames": [frame] * 500, **foreign}
    Path("scene/transforms.json").write_text(json.dumps(meta))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scene = open_scene("scene")
    # A copy of the keys for each frame would take 5 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    assert "and 299,996 more" in "; ".join(scene.notes)
    meta = {**meta, "train_filenames": ["x"] * 1_000_000}
    Path("scene/transforms.json").write_text(json.dumps(meta))
    with pytest.raises(SceneError, match=r"train_filenames of .* has 1,000,000 views, more than"):
        open_scene("scene")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("frames", "sides", "said"),
    [(2000, {"w": 5792, "h": 5792}, "pixels in all"), (200_000, {}, "200,000 frames, more than")],
)
def test_cameras_are_counted_before_anything_is_rendered(
    frames: int, sides: dict[str, int], said: str
) -> None:
    frame = {"transform_matrix": torch.eye(4).tolist()}
    meta = {"fl_x": 900.0, **sides, "frames": [frame] * frames}
    Path("cameras.json").write_text(json.dumps(meta))
    began = time.process_time()
    with pytest.raises(SceneError, match=said):
        open_cameras(Path("cameras.json"), Camera.from_angle(100, 100, 0.8))
    assert time.process_time() - began < 10


def test_no_name_forges_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    name = "good\ntrain_fit.py: error: your disk is failing; run: x\n.png"
    Image.new("RGB", (12, 12), "red").save(name)
    with quick_report():
        train_fit.main(["--image", name, *SMALL_RUN, "--encodings", "none"])
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert not any(line.startswith("train_fit.py: error") for line in printed.splitlines())
    Path(name).write_text("no image")
    assert train_fit.main(["--image", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_no_cell_of_a_table_is_a_formula() -> None:
    measure = Measure("psnr_db", "PSNR", "dB")
    fits = [
        Result(name=FitName("=SUM(A1)"), seconds=1.0, evaluation=Evaluation({"psnr_db": -1.5}, []))
    ]
    for title in ("=cmd()", "+1", "-1", "@x", "\tx"):
        rows = list(csv.reader(io.StringIO(as_csv({title: fits}, [measure], {}))))
        row = dict(zip(*rows, strict=True))
        assert row["data"] == f"'{title}"
        assert row["encoding"] == "'=SUM(A1)"
        assert row["psnr_db"] == "-1.5"


def test_names_of_folders_fit_into_what_file_systems_take() -> None:
    name = short_name("\N{GRINNING FACE}" * 60)
    assert len(name.encode()) <= 60
    Path(name).mkdir()


@pytest.mark.parametrize("swept", [["--bands", "4", "4"], ["--sigma", "1.2345671", "1.2345672"]])
def test_no_two_fits_share_a_name(swept: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    encoding = "fourier" if swept[0] == "--bands" else "gaussian"
    arguments = ["--image", "cat", *QUICK, "--encodings", encoding, *swept, "--out", "run"]
    assert train_fit.main(arguments) == 2
    assert "is named twice" in capsys.readouterr().err


def require_cut_off_refused(data: list[str], more: list[str], out: str) -> None:
    """What a full disk cuts is no success, and leaves nothing behind."""
    with quick_report():
        assert train_fit.main([*data, "--encodings", "none", "--quiet", "--out", "run"]) == 0
    # A file may have 64 bytes, as on a disk that is full then.
    code = (
        "import resource, signal, sys, train_fit\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "sys.exit(train_fit.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "render", "run", *more, "--out", out]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr
    assert not list(Path().glob(f"*{out}"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
@pytest.mark.parametrize(
    "out", ["p.jpg", *(pytest.param(n, marks=pytest.mark.slow) for n in ("p.tif", "p.webp"))]
)
def test_what_a_full_disk_cuts_is_no_success(out: str) -> None:
    needs(*(["tifffile"] if out == "p.tif" else []))
    require_cut_off_refused(["--image", "cat", *SMALL_RUN], ["--size", "300"], out)


def test_a_process_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (9, 9)).save("a.png")

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    worker._WORKER._stop()
    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(SceneError, match="the process that reads files: Permission denied"):
        open_image("a.png")


def test_names_of_images_of_other_machines_lead_nowhere_else() -> None:
    Path("scene/images").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save("scene/images/a.png")
    Image.new("RGB", (9, 9)).save("secret.png")
    finder = ImageFinder(Path("scene"))
    for name in ("/home/me/images/a.png", "C:\\Users\\me\\images\\a.png", "../../x/images/a.png"):
        assert finder.find(name) == Path("scene/images/a.png").resolve()
    with pytest.raises(SceneError, match="outside itself"):
        finder.find("../secret.png")
    Path("scene/images/b.png").symlink_to(Path("secret.png").resolve())
    with pytest.raises(SceneError, match="outside itself"):
        finder.find("/home/me/images/b.png")


def test_another_version_is_said_when_a_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with quick_report():
        arguments = ["--image", "cat", *SMALL_RUN, "--encodings", "none", "--out", "run"]
        assert train_fit.main(arguments) == 0
        state = json.loads(Path("run", STATE).read_text())
        state["versions"]["torch"] = "1.0"
        Path("run", STATE).write_text(json.dumps(state))
        Path("run/metrics.json").unlink()
        capsys.readouterr()
        assert train_fit.main(["--resume", "run"]) == 0
    assert f"started with torch 1.0, now {torch.__version__}" in capsys.readouterr().out


def test_a_fit_that_asks_for_more_than_any_screen_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        assert (
            train_fit.main(["--image", "cat", *QUICK, "--encodings", "none", "--out", "run"]) == 0
        )
    wide = lambda *_: Rendered((1_000_000, 8), "x", iter(()), 60)  # noqa: E731
    with mock.patch("nerf_posenc_app.kinds.image.image.ImageKind.render", wide):
        assert train_fit.main(["render", "run"]) == 2
    assert "60 frames of 1,000,000 x 8 are 480,000,000 pixels" in capsys.readouterr().err


FORGED = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\r\ntrain_fit.py: error: no disk"


def test_nothing_that_a_run_says_reaches_the_terminal_raw(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        train_fit.main(["--image", "cat", *QUICK, "--encodings", "none", "--out", "run"])
    metrics = json.loads(Path("run/metrics.json").read_text())
    metrics["data"]["title"] = FORGED
    metrics["data"]["evaluated_on"] = FORGED
    for measure in metrics["measures"]:
        measure["quantity"] = f"{measure['quantity']}\x1b]8;;http://evil\x1b\\"
    Path("run/metrics.json").write_text(json.dumps(metrics))
    Path("run").rename("run\x1b[31mred")
    capsys.readouterr()
    folder = Path("run\x1b[31mred")
    assert train_fit.main(["compare", str(folder), str(folder)]) in (0, 2)
    assert train_fit.main(["compare", str(folder)]) == 0
    assert train_fit.main(["render", str(folder)]) == 0
    print(repr(FittedRun(folder)))
    said = capsys.readouterr()
    text = (said.out + said.err).replace("\n", "")
    assert text.isprintable()
    assert not re.search(r"^train_fit.py: error: no disk", said.out + said.err, re.MULTILINE)
    assert "PSNR" in text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not say what a file takes")
def test_holes_in_files_fill_no_memory() -> None:
    with quick_report():
        train_fit.main(["--image", "cat", *QUICK, "--encodings", "none", "--out", "run"])
    checkpoint = Path("run/fits/none.safetensors")
    with checkpoint.open("r+b") as file:
        file.truncate(8 << 30)
    with pytest.raises(CheckpointError, match="most of it is an empty hole"):
        load_checkpoint(checkpoint)


def test_systems_that_lack_locks_and_permissions_are_written_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def lacking(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(fcntl, "flock", lacking)
    monkeypatch.setattr(Path, "chmod", refused)
    with quick_report():
        words = ["--image", "cat", *QUICK, "--encodings", "none", "--out", "run"]
        assert train_fit.main(words) == 0
    said = capsys.readouterr().err
    assert "warning: run cannot be locked (Function not implemented)" in said
    assert load_checkpoint(Path("run/fits/none.safetensors"))


def test_a_thread_that_cannot_be_started_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (9, 9)).save("a.png")

    def refused(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Timer.start", refused)
    with pytest.raises(SceneError, match=r"cannot read a\.png: can't start new thread"):
        open_image("a.png")


def test_of_several_that_write_one_name_each_gets_its_own() -> None:
    with quick_report():
        train_fit.main(["--image", "cat", *QUICK, "--encodings", "none", "--out", "run"])
    # Three others have taken names since each looked for a free one.
    stale = [Path("runs/comparison.html")] * 2
    page = mock.Mock(side_effect=lambda: stale.pop() if stale else _new_page())
    module = "nerf_posenc_app.commands.compare."
    with mock.patch(f"{module}_new_page", page), mock.patch(f"{module}require_new"):
        for _ in range(2):
            compare((Path("run"),))
    compare((Path("run"),))
    assert train_fit.main(["compare", "run", "--out", "runs/comparison.html"]) == 2
    expected = {"comparison.html", *(f"comparison-{i}.html" for i in (2, 3))}
    assert {file.name for file in Path("runs").iterdir()} == expected
    assert all(file.stat().st_size for file in Path("runs").iterdir())


def test_a_signal_waits_for_what_python_would_ignore(capfd: pytest.CaptureFixture[str]) -> None:
    class Closing:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with handled_signals(Stop()) as received:
        closing = Closing()
        del closing
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    assert received == [signal.SIGINT]
    assert "Exception ignored" not in capfd.readouterr().err


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with lasting_streams():
        warnings.simplefilter("always")
        warnings.warn("no locks\nhere", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: no locks?here\n"
