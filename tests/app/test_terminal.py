"""Terminals that are gone, full, or of another encoding; names that they cannot show."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import train_fit
from nerf_posenc_app.terminal import Stream, lasting_streams, printable
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")

ROOT = Path(__file__).parents[2]


class Broken(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_stream_that_breaks_raises_nothing_and_remembers() -> None:
    stream = Stream(Broken())
    for _ in range(2):
        print("lost", file=stream, flush=True)
    assert isinstance(stream.error, BrokenPipeError)


def test_what_an_encoding_lacks_is_escaped() -> None:
    target = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    stream = Stream(target)
    print("12 \N{MULTIPLICATION SIGN} 日本", file=stream, flush=True)
    assert stream.error is None
    assert target.buffer.getvalue() == b"12 \\xd7 \\u65e5\\u672c\n"


def test_the_streams_are_given_back() -> None:
    before = sys.stdout, sys.stderr
    with contextlib.suppress(KeyError), lasting_streams():
        assert sys.stdout is not before[0]
        raise KeyError
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_was_closed_before_is_no_error(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As with `>&-` in a shell.
    monkeypatch.setattr(sys, closed, None)
    assert train_fit.main(["--version"]) == 0
    assert train_fit.main(["--steps", "0"]) == 2
    assert getattr(sys, closed) is None


def test_an_error_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--image", "a" * 100_000]) == 2
    assert len(capsys.readouterr().err) < 3000


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("cat.png", "cat.png"),
        ("a\x1b[31m\r\x07b", "a?[31m??b"),
        ("caf\udce9", "caf?"),
        ("\ud800x", "?x"),
        ("日", "日"),
    ],
)
def test_names_cannot_command_the_terminal(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.slow
def test_umlauts_are_refused_where_the_locale_has_none_with_what_mends_it() -> None:
    Image.new("RGB", (9, 9), "red").save("Tasse ü.png")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, str(ROOT / "train_fit.py"), "--image", "Tasse ü.png", *SMALL_RUN]
    done = subprocess.run(
        [*command, "--encodings", "none", "--out", "run"],
        env={**os.environ, **plain},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"set PYTHONUTF8=1" in done.stderr
    assert not Path("run").exists()


def test_an_image_of_any_name_is_fitted_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    path = "café red\x1b[31m new\nline.png"
    Image.new("RGB", (9, 9), "red").save(path)
    options = [*SMALL_RUN, "--encodings", "none"]
    assert train_fit.main(["--image", path, *options]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    (folder,) = Path("runs").iterdir()
    assert (folder / "report.html").stat().st_size > 1000
    assert train_fit.main(["compare", str(folder), "--out", "page.html"]) == 0


def test_a_name_that_is_no_text_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # A run of it could be neither resumed nor compared.
    for words in (["--image", os.fsdecode(b"caf\xe9.png")], ["--out", os.fsdecode(b"caf\xe9")]):
        assert train_fit.main(words) == 2
        assert "is no text in this locale; rename the file or folder" in capsys.readouterr().err
    assert [*Path().iterdir()] == []


@pytest.mark.slow
def test_a_run_outlives_a_terminal_that_is_gone() -> None:
    program = [sys.executable, str(ROOT / "train_fit.py"), *SMALL_RUN, "--encodings", "none"]
    reader, writer = os.pipe()
    os.close(reader)  # As `2>&1 | head -1` leaves it.
    done = subprocess.run([*program, "--out", "run"], stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert Path("run/metrics.json").exists()


def test_a_full_disk_behind_the_output_is_an_error_and_the_run_is_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert train_fit.main([*SMALL_RUN, "--encodings", "none", "--out", "run"]) == 1
    assert "cannot print: [Errno 28] No space left on device" in capsys.readouterr().err
    assert Path("run/metrics.json").exists()
