"""Small files that claim to be large, each opened in a process that is watched.

    python -m tools.attacks [NAME ...]

Each is to end within 12 s of the processor, two of which are the import of torch, and 2.5 GB: read,
or refused by a line that names it. What takes more is marked.
"""

import argparse
import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

from tools.corpora import run_corpus, scene_corpus

_SECONDS, _MEGABYTES = 12, 2500
_ROOT = Path(__file__).parents[1]
_IMAGE = "from scenes import open_image; open_image('{}')"
_SCENE = "from scenes import open_scene; open_scene('scene')"
_FIT = "import train_fit, sys; sys.exit(train_fit.main({}))"

ATTACKS: dict[str, tuple[str, Callable[[], object]]] = {}
"""What is run, and what makes its files in the current folder."""


def attack(run: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register a function under its name."""

    def register(make: Callable[[], object]) -> Callable[[], object]:
        ATTACKS[make.__name__.replace("_", "-")] = run, make
        return make

    return register


def png(width: int, height: int, bits: int, kind: int, data: bytes) -> bytes:
    """A PNG of given compressed data (PNG specification, sections 5 and 11)."""
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    parts = (b"IHDR" + head, b"IDAT" + data, b"IEND")
    chunks = (struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def deflated(block: bytes, count: int) -> bytes:
    """The same bytes, many times, compressed."""
    deflate = zlib.compressobj(9)
    parts = [deflate.compress(block) for _ in range(count)]
    return b"".join(parts) + deflate.flush()


def rows(width: int, height: int, bits: int, channels: int, filter_type: int) -> bytes:
    """Compressed rows of zeros with a filter."""
    return deflated(bytes([filter_type]) + bytes(width * bits * channels // 8), height)


@attack(_IMAGE.format("a.png"))
def png_that_inflates_to_3_gb() -> None:
    """16 bits, 4 x 4."""
    Path("a.png").write_bytes(png(4, 4, 16, 2, deflated(bytes(1 << 20), 3 << 10)))


@attack(_IMAGE.format("a.tif"))
def tiff_that_inflates_to_4_gb() -> None:
    """Deflate, 4 x 4."""
    data = deflated(bytes(1 << 20), 4 << 10)
    tags = {256: 4, 257: 4, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: 4, 279: len(data)}
    lines = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    where = 8 + len(data) + len(data) % 2
    head = b"II*\0" + struct.pack("<I", where) + data + b"\0" * (len(data) % 2)
    Path("a.tif").write_bytes(head + struct.pack("<H", len(tags)) + lines + bytes(4))


@attack(_IMAGE.format("a.png"))
def png_of_25_megapixels_in_16_bits() -> None:
    """RGBA, filter 4, which a decoder in Python undoes byte by byte."""
    Path("a.png").write_bytes(png(5000, 5000, 16, 6, rows(5000, 5000, 16, 4, 4)))


@attack(_IMAGE.format("a.png"))
def gray_png_of_25_megapixels_in_16_bits() -> None:
    """Filter 4."""
    Path("a.png").write_bytes(png(5000, 5000, 16, 0, rows(5000, 5000, 16, 1, 4)))


def _bilevel(side: int = 14136) -> bytes:
    return png(side, side, 1, 0, rows(side, side, 1, 1, 0))


@attack(_IMAGE.format("a.png"))
def bilevel_png_of_200_megapixels() -> None:
    """20 kB."""
    Path("a.png").write_bytes(_bilevel())


@attack(_IMAGE.format("a.png"))
def rgba_png_of_200_megapixels() -> None:
    """0.8 MB."""
    Path("a.png").write_bytes(png(14142, 14142, 8, 6, rows(14142, 14142, 8, 4, 0)))


@attack(_IMAGE.format("a.tif"))
def float64_tiff_of_200_megapixels() -> None:
    """1.6 MB."""
    tifffile.imwrite("a.tif", np.zeros((14142, 14142)), compression="zlib", rowsperstrip=64)


@attack(_IMAGE.format("a.tif"))
def cmyk_tiff_of_200_megapixels() -> None:
    """0.8 MB."""
    inks = np.zeros((14142, 14142, 4), np.uint8)
    tifffile.imwrite("a.tif", inks, compression="zlib", photometric="separated", rowsperstrip=64)


@attack(_IMAGE.format("a.jpg"))
def jpeg_of_repeated_scans() -> None:
    """8,000 x 8,000, its last scan 300 times."""
    Image.new("RGB", (8000, 8000)).save("a.jpg", progressive=True)
    data = Path("a.jpg").read_bytes()
    last = data[data.rindex(b"\xff\xda") : -2]
    Path("a.jpg").write_bytes(data[:-2] + 300 * last + b"\xff\xd9")


@attack(_IMAGE.format("a.ppm"))
def ppm_of_comments() -> None:
    """50 MB."""
    Path("a.ppm").write_bytes(b"P6\n" + b"#\n" * 25_000_000 + b"1 1 255\nabc")


@attack(_IMAGE.format("a.ppm"))
def ppm_of_384_mb_of_text() -> None:
    """P3, 8,000 x 8,000."""
    Path("a.ppm").write_bytes(b"P3\n8000 8000 255\n" + b"0 " * (3 * 8000 * 8000))


@attack(_IMAGE.format("a.bmp"))
def bmp_of_200_megapixels() -> None:
    """RLE8, 1 MB."""
    width = height = 14142
    data = b"".join(b"\xff\0" * (width // 255 + 1) + b"\0\0" for _ in range(height)) + b"\0\1"
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(data), 0, 0, 256, 0)
    offset = 14 + 40 + 1024
    file = struct.pack("<2sIHHI", b"BM", offset + len(data), 0, 0, offset)
    Path("a.bmp").write_bytes(file + head + bytes(1024) + data)


def _frames(names: list[str], **camera: float) -> None:
    """A scene whose frames have these images."""
    folder = scene_corpus()["transforms"]
    meta = json.loads((folder / "transforms.json").read_text())
    poses = [frame["transform_matrix"] for frame in meta["frames"]]
    frames = [
        {"file_path": name, "transform_matrix": poses[i % len(poses)]}
        for i, name in enumerate(names)
    ]
    os.mkdir("scene")
    pinhole = {key: meta[key] for key in ("fl_x", "fl_y", "cx", "cy", "w", "h")}
    text = json.dumps({**pinhole, **camera, "frames": frames})
    Path("scene/transforms.json").write_text(text)


@attack(_SCENE)
def frames_without_images() -> None:
    """200,000."""
    _frames([f"{i}.png" for i in range(200_000)])


@attack(_SCENE)
def frames_without_images_within_the_limit() -> None:
    """9,999."""
    _frames([f"{i}.png" for i in range(9_999)])


@attack(_SCENE)
def frames_of_one_image() -> None:
    """9,999."""
    _frames(["a.png"] * 9_999)
    Image.new("RGB", (16, 12)).save("scene/a.png")


@attack(_SCENE)
def views_of_200_megapixels() -> None:
    """9 of one file of 20 kB."""
    _frames(["a.png"] * 9)
    Path("scene/a.png").write_bytes(_bilevel())


@attack(_SCENE)
def views_of_25_megapixels() -> None:
    """40 of one file."""
    _frames(["a.png"] * 40)
    Path("scene/a.png").write_bytes(_bilevel(5000))


@attack(_SCENE)
def views_with_a_lens() -> None:
    """9 of 25 megapixels."""
    _frames(["a.png"] * 9, k1=1e-9)
    Path("scene/a.png").write_bytes(_bilevel(5000))


def _copied(kind: str) -> None:
    shutil.copytree(scene_corpus()[kind], "scene")


def _sparse(path: str, size: int) -> None:
    with open(path, "ab") as file:
        file.truncate(size)


@attack(_SCENE)
def colmap_of_a_billion_points() -> None:
    """Beside a sparse file of 4 TB."""
    _copied("colmap")
    Path("scene/sparse/0/points3D.bin").write_bytes(struct.pack("<Q", 1 << 30) + bytes(1000))
    _sparse("scene/sparse/0/notes.txt", 4 << 40)


@attack(_SCENE)
def transforms_of_60_mb() -> None:
    """Of {}."""
    os.mkdir("scene")
    Path("scene/transforms.json").write_text('{"frames": [' + "{}," * 20_000_000 + "{}]}")


@attack(_SCENE)
def sparse_table_of_poses() -> None:
    """2.7 GB."""
    _copied("llff")
    table = np.lib.format.open_memmap("scene/poses_bounds.npy", "w+", np.float64, (20_000_000, 17))
    del table


def _cameras(**values: object) -> None:
    frame = {"transform_matrix": np.eye(4).tolist()}
    Path("cameras.json").write_text(json.dumps({"frames": [frame], "fl_x": 9000, **values}))


_RENDER = _FIT.format("['render', 'run', '--cameras', 'cameras.json', '--out', 'a.png']")


def _run(kind: str) -> None:
    shutil.copytree(run_corpus()[kind], "run")


@attack(_RENDER)
def camera_of_a_billion_pixels() -> None:
    """32,768 x 32,768."""
    _run("scene")
    _cameras(w=32768, h=32768)


@attack(_RENDER)
def camera_that_is_a_pipe() -> None:
    """Nobody writes to it."""
    _run("scene")
    os.mkfifo("cameras.json")


@attack(_FIT.format("['--sequence', 'pipe.txt', '--steps', '1']"))
def sequence_that_is_a_pipe() -> None:
    """Nobody writes to it."""
    os.mkfifo("pipe.txt")


def _changed(kind: str, **model: object) -> None:
    """A run whose checkpoints say something else of their model."""
    from nerf_posenc.training.checkpoints import load_checkpoint, save_checkpoint

    _run(kind)
    for file in Path("run/fits").glob("*.safetensors"):
        saved = load_checkpoint(file)
        options = saved["model"]["options"]
        for name, value in model.items():
            (options if name in options else saved["model"])[name] = value
        save_checkpoint(file, saved)


_AGAIN = _FIT.format("['render', 'run', '--out', 'a.png']")


@attack(_AGAIN)
def fit_of_a_trillion_pixels() -> None:
    """1,000,000 x 1,000,000."""
    _changed("image", size=[1_000_000, 1_000_000])


@attack(_AGAIN)
def fit_of_a_long_image() -> None:
    """1 x 40,000,000."""
    _changed("image", size=[1, 40_000_000])


@attack(_AGAIN)
def fit_of_a_million_layers() -> None:
    """Of one unit each."""
    _changed("image", width=1, depth=1_000_000)


@attack(_AGAIN)
def field_of_a_billion_samples() -> None:
    """Along each ray."""
    _changed("scene", num_samples=1_000_000_000)


@attack(_AGAIN)
def checkpoint_with_a_header_of_90_mb() -> None:
    """JSON of {}."""
    _run("image")
    header = b'{"__metadata__":{"content":"' + b"{}," * 30_000_000 + b'"}}'
    for file in Path("run/fits").glob("*.safetensors"):
        file.write_bytes(struct.pack("<Q", len(header)) + header)


@attack(_FIT.format("['compare', 'run', 'other', '--out', 'c.html']"))
def metrics_of_63_mb() -> None:
    """Of {}."""
    _run("image")
    shutil.copytree("run", "other")
    Path("run/metrics.json").write_text('{"fits": [' + "{}," * 21_000_000 + "{}]}")


@attack(_FIT.format("['compare', 'run', 'other', '--out', 'c.html']"))
def compared_images_of_169_megapixels() -> None:
    """0.5 MB each."""
    _run("image")
    data = png(13000, 13000, 8, 2, rows(13000, 13000, 8, 3, 0))
    for file in Path("run").rglob("*.png"):
        file.write_bytes(data)
    shutil.copytree("run", "other")


@attack(_FIT.format("['--resume', 'run']"))
def run_that_raises_the_limit_of_pixels() -> None:
    """To 10^10, for a PNG of 40,000 x 40,000."""
    _run("image")
    file = Path("run/run.json")
    state = json.loads(file.read_text())
    arguments = [*state["arguments"], "--max-pixels", "10000000000"]
    arguments[arguments.index("--image") + 1] = os.path.abspath("a.png")
    file.write_text(json.dumps({**state, "arguments": arguments}))
    (Path("run/metrics.json")).unlink()
    Path("a.png").write_bytes(png(40000, 40000, 8, 2, rows(40000, 40000, 8, 3, 0)))


@attack(_FIT.format("['--resume', 'run']"))
def run_of_five_million_images() -> None:
    """In its run.json."""
    _run("image")
    file = Path("run/run.json")
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "arguments": ["--images", *["a.png"] * 5_000_000]}))
    (Path("run/metrics.json")).unlink()


def watched(code: str) -> tuple[str, float, float]:
    """Run Python code; return its last words, seconds of the processor, and megabytes."""
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            ["timeout", "60", sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
            stdout=words,
            stderr=words,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        words.seek(0)
        lines = words.read().decode(errors="replace").strip().splitlines()
    said = lines[-1] if lines else "read"
    if process.returncode == 124:
        said = "not ended after 60 s"
    return said, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print a line for each attack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(ATTACKS))
    names = parser.parse_args().names or list(ATTACKS)
    for name in names:
        code, make = ATTACKS[name]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            make()
            said, seconds, megabytes = watched(code)
        is_late = seconds > _SECONDS or megabytes > _MEGABYTES
        mark = "***" if is_late or "Traceback" in said else "   "
        print(f"{mark} {name:42} {seconds:5.1f} s {megabytes:6.0f} MB  {said[:110]}", flush=True)


if __name__ == "__main__":
    main()
