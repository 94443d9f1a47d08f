"""Inputs of further kinds that were made to hang, to lead elsewhere, or to take the machine.

SECURITY.md promises what is tested here. Each input is made by its test.
"""

import json
import os
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import train_fit
from nerf_posenc_app.data import SceneError
from nerf_posenc_kinds.data.captures import Capture, capture_folder, photo_files, reconstruct
from nerf_posenc_kinds.data.clips import open_clip
from nerf_posenc_kinds.data.meshes import open_shape
from tests.app.test_attacks import require_cut_off_refused
from tests.optional import needs

pytestmark = pytest.mark.usefixtures("own_folder")


def write_clip(name: str, frames: int = 12) -> None:
    """Write a video of a test pattern."""
    needs("imageio_ffmpeg")
    import imageio_ffmpeg

    exe = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=64x48:rate=12",
    ]
    subprocess.run([*exe, "-frames:v", str(frames), "-y", name], check=True)


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:{}\n#EXTINF:1,\n{}\n"
MANIFEST = "<MPD><Period><AdaptationSet><BaseURL>file://{}</BaseURL></AdaptationSet></Period></MPD>"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.mp4", PLAYLIST.format(1, "{private}") + "#EXT-X-ENDLIST\n"),
        ("x.m3u8", PLAYLIST.format(1, "{private}") + "#EXT-X-ENDLIST\n"),
        ("x.m3u8", PLAYLIST.format(100000, "{private}")),
        ("x.mp4", MANIFEST.format("{private}")),
        ("x.mpd", MANIFEST.format("{private}")),
        ("x.mp4", "ffconcat version 1.0\nfile link.ts\n"),
        ("x.ans", "ffmpeg's tty demuxer takes any text for a video\n" * 50),
    ],
)
def test_no_clip_reads_another_file(name: str, text: str) -> None:
    Path("private").mkdir()
    write_clip("private/a.ts")
    private = Path("private/a.ts").resolve()
    Path("link.ts").symlink_to(private)
    Path(name).write_text(text.replace("{private}", str(private)))
    began = time.monotonic()
    with pytest.raises(SceneError, match="neither an animation nor a video"):
        open_clip(name, num_frames=9, size=16)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("option", "name"),
    [("--clip", "a.mp4"), ("--shape", "a.obj"), ("--scan", "a.npy"), ("--audio", "a.wav")],
)
def test_no_pipe_is_waited_for(option: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(name)
    began = time.monotonic()
    assert train_fit.main([option, name]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert time.monotonic() - began < 5


def test_what_a_mesh_names_is_not_opened() -> None:
    for pipe in ("f.mtl", "pipe.bin"):
        os.mkfifo(pipe)
    corners = ["v 0 0 0", "v 1 0 0", "v 0 1 0", "v 0 0 1"]
    faces = ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
    Path("a.obj").write_text("\n".join(["mtllib f.mtl", *corners, "usemtl x", *faces]) + "\n")
    assert len(open_shape("a.obj").faces) == 4
    text = json.dumps(
        {
            "asset": {"version": "2.0"},
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "bufferViews": [{"buffer": 0, "byteLength": 36}],
            "buffers": [{"byteLength": 36, "uri": "pipe.bin"}],
        }
    ).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A)
    Path("a.glb").write_bytes(head + text)
    with pytest.raises(SceneError, match="in another file"):
        open_shape("a.glb")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "more", "said"),
    [
        ((8000, 8000), [], "give a smaller --size or fewer --projections"),
        ((512, 512), ["--projections", "10000"], "2,621,440,000 samples"),
    ],
)
def test_scans_are_counted_before_they_are_projected(
    size: tuple[int, int], more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("L", size, 255).save("a.png")
    began = time.monotonic()
    assert train_fit.main(["--scan", "a.png", *more]) == 2
    assert said in capsys.readouterr().err
    assert time.monotonic() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(190_000_000 // 13784, 13784), (200_000, 8, 8), (2_000_000, 8, 8)]
)
def test_sparse_arrays_take_no_more_than_files_of_their_size(
    shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    array = np.lib.format.open_memmap("a.npy", mode="w+", dtype=np.float32, shape=shape)
    array[(0,) * len(shape)] = 1
    del array
    began = time.process_time()
    assert train_fit.main(["--scan", "a.npy"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert time.process_time() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize("what", ["polygon", "materials", "chain", "instances"])
def test_meshes_that_look_harmless_take_no_more_than_ten_seconds(what: str) -> None:
    rng = np.random.default_rng(0)
    if what == "polygon":
        angles = np.arange(150_000) * (2 * np.pi / 150_000)
        radii = 1 + 0.1 * rng.random(len(angles))
        rows = [
            f"v {r * np.cos(a):.6f} {r * np.sin(a):.6f} 0"
            for r, a in zip(radii, angles, strict=True)
        ]
        face = "f " + " ".join(str(i + 1) for i in range(len(angles)))
        Path("a.obj").write_text("\n".join([*rows, face]) + "\n")
    elif what == "materials":
        Path("a.obj").write_text("usemtl a\nusemtl b\n" * 400_000)
    else:
        count = 200_000
        nodes: list[dict[str, Any]] = [{"children": [i + 1]} for i in range(count - 1)] + [
            {"mesh": 0}
        ]
        if what == "instances":
            nodes = [{"mesh": 0}] * count
        position = {"bufferView": 0, "componentType": 5126, "count": 36, "type": "VEC3"}
        text = json.dumps(
            {
                "scenes": [{"nodes": [0] if what == "chain" else list(range(count))}],
                "nodes": nodes,
                "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
                "accessors": [position],
                "bufferViews": [{"buffer": 0, "byteLength": 432}],
                "buffers": [{"byteLength": 432}],
            }
        ).encode()
        text += b" " * (-len(text) % 4)
        binary = rng.random(108).astype("<f4").tobytes()
        chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
        chunks += struct.pack("<II", len(binary), 0x004E4942) + binary
        Path("a.glb").write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    began = time.process_time()
    with pytest.raises(SceneError):
        open_shape("a.obj" if Path("a.obj").exists() else "a.glb")
    assert time.process_time() - began < 10


def test_a_story_of_all_sentences_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for i in range(0, 30_000, 2):
        lines += [f"{i + 1} mary went there", f"{i + 2} where is mary?\tthere\t{i + 1}"]
    Path("babi").mkdir()
    for split in ("train", "test"):
        Path(f"babi/qa1_x_{split}.txt").write_text("\n".join(lines) + "\n")
    assert train_fit.main(["--task", "babi"]) == 2
    assert "sentences before their questions" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("out", ["a.mp4", "b.webp"])
def test_what_a_full_disk_cuts_is_no_success(out: str) -> None:
    write_clip("a.mov")
    data = ["--clip", "a.mov", "--steps", "2", "--width", "8", "--video", "0"]
    require_cut_off_refused(data, [], out)


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "{}",
        '{"left_out": 3, "num_photos": 9, "brightness_spread": 0}',
        '{"left_out": {}, "num_photos": "9", "brightness_spread": 0}',
        '{"left_out": {"a": 3}, "num_photos": 9, "brightness_spread": 0}',
        '{"left_out": {}, "num_photos": 9, "brightness_spread": "much"}',
        '{"left_out": {}, "num_photos": 9, "brightness_spread": NaN}',
    ],
)
def test_a_damaged_capture_is_one_line(record: str) -> None:
    Path("capture").mkdir()
    Path("capture/photos.json").write_text(record)
    with pytest.raises(SceneError, match=r"photos\.json is damaged; remove capture"):
        reconstruct(Path("photos"), Path("capture"))


def test_a_capture_is_found_by_what_the_photographs_contain() -> None:
    for folder in ("a", "b/a", "c/a"):
        Path(folder).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (9, 9), (i, 0, 0)).save(f"{folder}/{i}.png")
    Path("c/a/2.png").write_bytes(Path("c/a/1.png").read_bytes())
    os.utime("b/a/1.png", (1, 1))
    own, copied, changed = (capture_folder(Path(f), Path("runs")) for f in ("a", "b/a", "c/a"))
    assert own == copied != changed
    Path("capture").mkdir()
    values = {"left_out": {}, "num_photos": 3, "brightness_spread": 0.0}
    Path("capture/photos.json").write_text(json.dumps(values))
    assert reconstruct(Path("a"), Path("capture")) == Capture(Path("capture"), 3, {})
    assert len(photo_files(Path("a"))) == 3


def test_a_mesh_of_another_size_is_another_mesh() -> None:
    needs("igl")
    from nerf_posenc_kinds.shape import ShapeKind, ShapeOptions

    digests = set()
    for scale, shift in ((1, 0), (2, 0), (1, 5)):
        corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        rows = [f"v {scale * x + shift} {scale * y} {scale * z}" for x, y, z in corners]
        Path("a.obj").write_text("\n".join([*rows, "f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]))
        digests.add(ShapeKind(ShapeOptions(shape="a.obj")).digest())
    assert len(digests) == 3
