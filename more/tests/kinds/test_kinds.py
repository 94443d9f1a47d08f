"""What holds for every kind of the companion: a table of small inputs, and each property."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import trimesh
from scipy.io import wavfile

from nerf_posenc_app.kinds import COMPANION
from tests import kind_properties
from tests.kind_properties import QUICK, Small, kinds, saved, written
from tests.texts import made_text

pytestmark = pytest.mark.usefixtures("own_folder")


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


def turn_clip(name: str = "a.gif") -> None:
    """The frames of a clip from the last to the first."""
    iio.imwrite(name, iio.imread(name)[::-1], duration=100, loop=0)


def write_disk(name: str = "scan.npy", value: float = 0.8) -> None:
    """A disk beside the middle, in five slices."""
    y, x = np.mgrid[-1:1:20j, -1:1:24j]
    np.save(name, np.stack([(x**2 + (y - 0.2) ** 2 < 0.3) * value] * 5))


def write_box(height: float = 1.0) -> None:
    """A box as a mesh."""
    trimesh.creation.box((2.0, 2.0, height)).export("a.stl")


SMALL = {
    "task": Small(
        [
            *("--task", "text.txt", "--encodings", "none", "rotary", "--context", "16"),
            *("--depth", "1", "--width", "16", "--steps", "20", "--batch-size", "4", "--quiet"),
        ],
        ["none", "rotary", "guess"],
        write=lambda: Path("text.txt").write_text(made_text(4000)),
        change=lambda: Path("text.txt").write_text(made_text(4000)[::-1]),
    ),
    "audio": Small(
        ["--audio", "two.wav", "--duration", "0.2", *QUICK],
        ["none", "fourier", "hash"],
        [1600],
        write_tones,
        lambda: write_tones(rate=7000),
    ),
    "shape": Small(
        ["--shape", "a.stl", "--encodings", "none", "hash", "--eikonal", "0.1", *QUICK],
        ["none", "hash"],
        write=write_box,
        change=lambda: write_box(1.5),
        is_slow=True,
    ),
    "scan": Small(
        ["--scan", "scan.npy", "--projections", "6", *QUICK],
        ["none", "fourier", "hash", "back-projection", "sart"],
        [24, 24, 5],
        write_disk,
        lambda: write_disk(value=0.4),
        is_slow=True,
    ),
    "volume": Small(
        ["--volume", "scan.npy", "--encodings", "none", "fourier", *QUICK],
        ["none", "fourier", "linear"],
        [24, 20, 5],
        write_disk,
        lambda: write_disk(value=0.4),
    ),
    "align": Small(
        ["--align", "cat", "--size", "64", "--encodings", "fourier", "fourier-eased", *QUICK],
        ["fourier", "fourier-eased"],
        [64, 43],
        is_slow=True,
    ),
    "clip": Small(
        ["--clip", "a.gif", *QUICK], ["none", "fourier", "hash"], [24, 16, 6], write_bar, turn_clip
    ),
}
"""A small run of every kind but photographs, whose cameras take COLMAP a minute."""


@pytest.fixture(autouse=True)
def _small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score shapes by few points and views."""
    for name, value in {"_POOL": 1 << 12, "_SCORED": 1 << 12, "_NODES": 24}.items():
        monkeypatch.setattr(f"nerf_posenc_kinds.shape.{name}", value)
    for side in ("_SLICE_SIDE", "_PREVIEW_SIDE", "_VIEW_SIDE"):
        monkeypatch.setattr(f"nerf_posenc_kinds.shape.{side}", 24)


def test_every_kind_is_in_the_table() -> None:
    assert {*SMALL, "photos"} == {*COMPANION}


@pytest.mark.parametrize("kind", kinds(SMALL))
def test_a_run_is_reported_compared_and_resumed_to_the_bit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind_properties.require_resumed_to_the_bit(kind, SMALL[kind], monkeypatch)


@pytest.mark.parametrize("kind", ["clip", "scan", "volume"])
def test_a_fit_begins_at_the_mean_and_one_that_stays_there_is_named(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind_properties.require_flat_fit_named(kind, capsys)


@pytest.mark.parametrize("kind", kinds(SMALL, "align"))
def test_data_that_has_changed_is_not_resumed(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind_properties.require_changed_data_refused(SMALL[kind], capsys)


@pytest.mark.parametrize("kind", kinds(SMALL))
def test_a_saved_fit_is_rendered_where_there_is_something_to_render(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind_properties.require_rendered(kind, SMALL[kind], capsys)


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
    ("audio", "a.wav", written(b"\x89PNG\r\n\x1a\n"), "is not a WAV, FLAC or OGG file"),
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
    (
        "shape",
        "a.png",
        written(b"\x89PNG\r\n\x1a\n"),
        "is not a mesh file; give one of .obj, .ply, .stl, .off, .glb",
    ),
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
    kind_properties.require_refused(kind, name, message, capsys)
