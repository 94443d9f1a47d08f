"""What holds for every kind of data: one table of small inputs, and a test for each property."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import trimesh
from scipy.io import wavfile

import train_fit
from more.tests.kinds.signals import resumed_to_the_bit
from more.tests.sequences.texts import made_text
from nerf_posenc_app.kinds import KINDS
from tests.small import SMALL_SCENE

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull")

QUICK = ["--steps", "12", "--batch-size", "256", "--width", "16", "--video", "0", "--quiet"]


def write_tones(name: str = "two.wav", rate: int = 8000) -> None:
    """A tone on each of two channels."""
    times = np.arange(rate // 2) / rate
    tones = [0.5 * np.sin(2 * math.pi * hertz * times) for hertz in (300, 500)]
    wavfile.write(name, rate, np.stack(tones, -1).astype(np.float32))


def write_bar(name: str = "a.gif") -> None:
    """A bar that moves by two columns each frame, on a ramp."""
    pixels = np.zeros((6, 16, 24, 3), np.uint8)
    pixels[..., 1] = np.linspace(0, 200, 16, dtype=np.uint8)[:, None]
    for frame in range(6):
        pixels[frame, :, 2 * frame : 2 * frame + 2] = (250, 40, 40)
    iio.imwrite(name, pixels, duration=100, loop=0)


def write_disk(name: str = "scan.npy") -> None:
    """A disk beside the middle, in five slices."""
    y, x = np.mgrid[-1:1:20j, -1:1:24j]
    np.save(name, np.stack([(x**2 + (y - 0.2) ** 2 < 0.3) * 0.8] * 5))


@dataclass(frozen=True)
class Small:
    """A small run of a kind.

    Attributes:
        arguments: its options, without --out.
        fits: fits and references of its table.
        size: size of the data, if it has one.
        write: writes its file.
        is_slow: whether it takes more than a few seconds.
    """

    arguments: list[str]
    fits: list[str]
    size: list[int] | None = None
    write: Callable[[], None] = lambda: None
    is_slow: bool = False


SMALL = {
    "image": Small(
        ["--image", "cat", "--size", "24", "--encodings", "none", "fourier", *QUICK],
        ["none", "fourier"],
        [24, 16],
    ),
    "scene": Small([*SMALL_SCENE, "--quiet"], ["none", "fourier"], [8, 8], is_slow=True),
    "photos": Small([], []),  # COLMAP takes a minute: tests/app/test_photos_runs.py.
    "sequence": Small(
        [
            *("--sequence", "text.txt", "--encodings", "none", "rotary", "--context", "16"),
            *("--depth", "1", "--width", "16", "--steps", "20", "--batch-size", "4", "--quiet"),
        ],
        ["none", "rotary"],
        write=lambda: void(Path("text.txt").write_text(made_text(4000))),
    ),
    "audio": Small(
        ["--audio", "two.wav", "--duration", "0.2", *QUICK],
        ["none", "fourier", "hash"],
        [1600],
        write_tones,
    ),
    "shape": Small(
        ["--shape", "a.stl", "--encodings", "none", "hash", "--eikonal", "0.1", *QUICK],
        ["none", "hash"],
        write=lambda: void(trimesh.creation.box((2.0, 2.0, 1.0)).export("a.stl")),
        is_slow=True,
    ),
    "scan": Small(
        ["--scan", "scan.npy", "--projections", "6", *QUICK],
        ["none", "fourier", "hash", "back-projection", "sart"],
        [24, 24, 5],
        write_disk,
        is_slow=True,
    ),
    "volume": Small(
        ["--volume", "scan.npy", "--encodings", "none", "fourier", *QUICK],
        ["none", "fourier", "linear"],
        [24, 20, 5],
        write_disk,
    ),
    "align": Small(
        ["--align", "cat", "--size", "64", "--encodings", "fourier", "lines-eased", *QUICK],
        ["fourier", "lines-eased"],
        [64, 43],
        is_slow=True,
    ),
    "clip": Small(["--clip", "a.gif", *QUICK], ["none", "fourier", "hash"], [24, 16, 6], write_bar),
}
"""A small run of every kind, by its name."""


def void(_: object) -> None:
    """For a function whose result is not wanted."""


def kinds(*left_out: str) -> list[Any]:
    """Parameters of a test of every kind but some."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if small.is_slow else [])
        for name, small in SMALL.items()
        if name not in ("photos", *left_out)
    ]


@pytest.fixture(autouse=True)
def _small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score shapes by few points and views."""
    for name, value in {"_POOL": 1 << 12, "_SCORED": 1 << 12, "_NODES": 24}.items():
        monkeypatch.setattr(f"nerf_posenc_kinds.shape.{name}", value)
    for side in ("_SLICE_SIDE", "_PREVIEW_SIDE", "_VIEW_SIDE"):
        monkeypatch.setattr(f"nerf_posenc_kinds.shape.{side}", 24)


def test_every_kind_is_in_the_table() -> None:
    assert set(SMALL) == set(KINDS)


@pytest.mark.parametrize("kind", kinds())
def test_a_run_is_reported_compared_and_resumed_to_the_bit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SMALL[kind]
    small.write()
    whole = resumed_to_the_bit(monkeypatch, small.arguments, 2)
    assert [fit["name"] for fit in whole["fits"]] == small.fits
    assert whole["data"].get("size") == small.size
    assert whole["data"]["kind"] == kind
    page, compared = (Path(name).read_text() for name in ("whole/report.html", "both.html"))
    for measure in whole["measures"]:
        assert f">{measure['label']}" in page
        assert f">{measure['label']}" in compared
    for fit in whole["fits"]:
        assert fit["name"] in page
        assert f"part: {fit['name']}" in compared


@pytest.mark.parametrize("kind", ["image", "clip", "scan", "volume"])
def test_a_fit_begins_at_the_mean_and_one_that_stays_there_is_named(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Faint noise far from the middle of the range. A slice of it is empty outside of its disk.
    noise = np.random.default_rng(0).normal(0.12, 0.02, (5, 24, 24)).clip(0, 1)
    stored = np.round(255 * noise).astype(np.uint8)
    np.save("a.npy", noise)
    iio.imwrite("a.png", stored[0])
    iio.imwrite("a.gif", stored.repeat(4, 1).repeat(4, 2), loop=0)
    file = {"image": "a.png", "clip": "a.gif"}.get(kind, "a.npy")
    arguments = [f"--{kind}", file, "--encodings", "none", *QUICK[:-1], "--lr", "1e-9"]
    assert train_fit.main([*arguments, "--out", "run"]) == 0
    note = "the fit none is hardly better than a constant, which has "
    flat = float(capsys.readouterr().out.partition(note)[2].split()[0])
    (fit, *_) = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert flat - 1.5 < fit["psnr_db"] < flat + 0.5


@pytest.mark.parametrize("kind", kinds("image", "scene", "align"))
def test_data_that_has_changed_is_not_resumed(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = SMALL[kind]
    small.write()
    assert train_fit.main([*small.arguments, "--out", "run"]) == 0
    (file,) = (path for path in Path().iterdir() if path.is_file())
    if kind == "sequence":
        file.write_text(made_text(4000)[::-1])
    elif kind == "audio":
        write_tones(file.name, rate=7000)
    elif kind in ("scan", "volume"):
        np.save(file, np.load(file) / 2)
    elif kind == "shape":
        trimesh.creation.box((2.0, 2.0, 1.5)).export(file.name)
    else:
        iio.imwrite(file, iio.imread(file)[::-1], duration=100, loop=0)
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run"]) == 2
    assert "has changed since the run began" in capsys.readouterr().err


@pytest.mark.parametrize("kind", kinds())
def test_a_saved_fit_is_rendered_where_there_is_something_to_render(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = SMALL[kind]
    small.write()
    assert train_fit.main([*small.arguments, "--out", "run"]) == 0
    status = train_fit.main(["render", "run", "--encoding", small.fits[1], "--quiet"])
    if KINDS[kind].rendered_by:
        assert status == 0
        assert len(list(Path("run/renders").iterdir())) == 1
    else:
        assert status == 2
        assert "which has nothing to render" in capsys.readouterr().err or kind == "align"


def written(data: bytes) -> Callable[[str], object]:
    """Write a file of these bytes."""
    return lambda name: Path(name).write_bytes(data)


def saved(values: Any) -> Callable[[str], object]:
    """Write an array."""
    return lambda name: np.save(name, values, allow_pickle=True)


def sampled(values: Any) -> Callable[[str], object]:
    """Write a sound."""
    return lambda name: wavfile.write(name, 8000, values)


CORNER = np.eye(9, k=8)  # Its one pixel lies in a corner, which no line crosses.

# What is no data of a kind: file, what writes it, and the words of the error.
BAD: list[tuple[str, str, Callable[[str], object], str]] = [
    ("audio", "a.wav", sampled(np.zeros(500, np.int16)), "is silent"),
    ("audio", "a.wav", sampled(np.ones(1, np.int16)), "has 1 samples"),
    ("audio", "a.wav", sampled(np.full(99, np.nan, np.float32)), "not finite"),
    ("audio", "a.wav", sampled(np.ones((99, 3), np.int16)), "of 3 channels"),
    ("audio", "a.wav", written(b"RIFF" + b"\xff" * 60), "cannot read a.wav"),
    ("audio", "a.wav", written(b"\x89PNG\r\n\x1a\n"), "is no WAV, FLAC or OGG file"),
    ("audio", "a.wav", lambda name: Path(name).mkdir(), "there is no file a.wav"),
    ("audio", "a.wav", lambda name: None, "there is no file a.wav"),
    ("scan", "a.npy", saved(np.full((20, 20), np.nan)), "must hold finite numbers"),
    ("scan", "a.npy", saved(np.full((20, 20), 7.0)), "must hold values in [0, 1]"),
    ("scan", "a.npy", saved(np.zeros((3, 3))), "has 3 x 3 pixels; 8 are needed"),
    ("scan", "a.npy", saved(np.zeros((0, 9))), "a.npy is empty"),
    ("scan", "a.npy", saved(np.zeros(20)), "must be (height, width) or (depth, height, wi"),
    ("scan", "a.npy", saved(np.zeros((0, 20, 20))), "a.npy is empty"),
    ("scan", "a.npy", saved(np.ones((20, 20, 3))), "has 3 x 20 pixels; 8 are needed"),
    ("scan", "a.npy", saved(np.array([[{}]])), "not an array of numbers"),
    ("scan", "a.npy", written(b"\x93NUMPY"), "not an array of numbers"),
    ("scan", "a.npy", lambda name: None, "there is no file"),
    ("scan", "a.npy", saved(np.zeros((9, 9))), "0 everywhere"),
    ("scan", "a.npy", saved(CORNER), "0 everywhere"),
    ("shape", "a.obj", written(b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"), "a mesh needs faces"),
    ("shape", "a.obj", written(b"v 0 0 0\nv 0 0 0\nv 0 0 0\nf 1 2 3\n"), "no triangles"),
    ("shape", "a.obj", written(b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), "lies in a plane"),
    ("shape", "a.obj", written(b"v inf 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), "not finite"),
    ("shape", "a.obj", written(b""), "a.obj"),
    ("shape", "a.ply", written(b"ply\nformat ascii 1.0\n"), "cannot read a.ply"),
    ("shape", "a.png", written(b"\x89PNG\r\n\x1a\n"), "is no mesh: .obj, .ply, .stl, .off, .glb"),
    ("shape", "a.stl", lambda name: None, "there is no file a.stl"),
    ("clip", "a.clip", written(b""), "cannot read"),
    ("clip", "a.clip", written(b"GIF89a broken"), "cannot read"),
    ("clip", "a.clip", written(b"#EXTM3U\nhttp://localhost/a.ts\n"), "cannot read"),
    ("clip", "a.png", lambda name: iio.imwrite(name, np.zeros((8, 8, 3), np.uint8)), "one frame"),
    ("clip", "a.gif", lambda name: None, "there is no file"),
]


@pytest.mark.parametrize(("kind", "name", "write", "message"), BAD)
def test_what_is_no_data_of_the_kind_is_refused_in_one_line(
    kind: str,
    name: str,
    write: Callable[[str], object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(name)
    assert train_fit.main([f"--{kind}", name, *QUICK]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
