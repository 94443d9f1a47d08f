"""Files that claim too much, lead elsewhere, or lack a decoder: one error that names them."""

import builtins
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.image_files import stored_pixels
from nerf_posenc_app.data.reading.decoding import read_pixels
from tests.corpora import image_corpus, image_of, scene_corpus
from tests.optional import needs

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", sorted(image_corpus()))
def test_every_format_is_read_and_limited_before_it_is_decoded(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(image_of(name))
    width, height = open_image(str(path)).size
    whole = open_image(str(path), max_pixels=width * height)
    assert torch.equal(whole.rgb, open_image(str(path)).rgb)
    with pytest.raises(
        SceneError, match=r"more than the limit of [\d,]+; raise it by --max-pixels"
    ):
        open_image(str(path), max_pixels=width * height - 1)
    with pytest.raises(SceneError, match="more than the limit"):
        stored_pixels(path, max_pixels=width * height - 1)


def png_of(width: int, height: int, depth: int, color: int) -> bytes:
    """A PNG whose header claims a size and whose content is one row of zeros."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1 + width)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("depth", "color"), [(1, 0), (8, 2), (8, 6), (16, 0), (16, 2), (16, 6)])
def test_a_png_that_claims_too_much_is_refused_by_its_header(
    tmp_path: Path, depth: int, color: int
) -> None:
    (tmp_path / "bomb.png").write_bytes(png_of(20_000, 20_000, depth, color))
    with pytest.raises(
        SceneError, match="20000 x 20000 pixels, more than the limit of 200,000,000"
    ):
        open_image(str(tmp_path / "bomb.png"))


def test_a_png_of_16_bits_that_ends_early_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "short.png").write_bytes(png_of(4, 900, 16, 0))
    with pytest.raises(SceneError, match="damaged"):
        open_image(str(tmp_path / "short.png"))


@pytest.mark.parametrize("compression", ["tiff_lzw", "jpeg", "tiff_deflate", "packbits"])
def test_compressed_tiffs_are_read(tmp_path: Path, compression: str) -> None:
    needs("tifffile", "imagecodecs")
    rgb = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    quality: dict[str, Any] = {"quality": 100} if compression == "jpeg" else {}
    Image.fromarray(rgb).save(tmp_path / "a.tif", compression=compression, **quality)
    expected = np.asarray(Image.open(tmp_path / "a.tif")) / 255
    np.testing.assert_allclose(open_image(str(tmp_path / "a.tif")).rgb, expected, atol=2 / 255)


def test_a_fax_is_read(tmp_path: Path) -> None:
    needs("tifffile", "imagecodecs")
    bits = np.random.default_rng(0).integers(0, 2, (20, 30)).astype(bool)
    Image.fromarray(bits).save(tmp_path / "a.tif", compression="group4")
    assert torch.equal(
        open_image(str(tmp_path / "a.tif")).rgb[..., 0].bool(), torch.from_numpy(bits)
    )


def read_here(path: Path, max_pixels: int) -> Any:
    """Read in this process, where a package can be taken away."""
    return read_pixels(path, max_pixels)


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [("imagecodecs", "deep.png", "imagecodecs"), ("tifffile", "a.tif", "tifffile")],
)
def test_a_missing_package_is_named_and_no_file_is_called_damaged(
    module: str, name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(image_corpus()[name])
    original = builtins.__import__

    def without(wanted: str, *args: Any, **kwargs: Any) -> Any:
        if wanted == module:
            raise ImportError(wanted)
        return original(wanted, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("nerf_posenc_app.data.image_files.read_image", read_here)
    with pytest.raises(SceneError, match=rf"needs? {package}: pip install '\.\[images\]'"):
        open_image(name)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tqdm", "jinja2"])
def test_a_missing_package_of_the_program_is_named_with_what_installs_it(
    tmp_path: Path, package: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "finders = [finder.find_spec for finder in sys.meta_path]\n"
        "class Others:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {package!r}: return None\n"
        "        found = (find(name, *rest) for find in finders)\n"
        "        return next((spec for spec in found if spec is not None), None)\n"
        "sys.meta_path[:] = [Others()]\n"
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "train_fit.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    needed = f"train_fit.py needs {package}: pip install '.[app]' in the clone of nerf_posenc"
    assert done.stderr == f"{needed}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--image", "pipe"],
        ["--image", ""],
        ["--image", "\0"],
        ["--image", "x" * 5000],
        ["--scene", ""],
        ["--scene", "x" * 5000],
        ["--scene", "\0"],
        ["--out", "x" * 5000],
        ["--out", "\0"],
        ["--resume", "\0"],
        ["--resume", "x" * 5000],
        ["compare", "x" * 5000],
        ["render", "\0"],
        ["--sigma", "1e300", "--encodings", "gaussian"],
        ["--save-every", "nan"],
        ["--max-pixels", "0"],
        ["--image", "cat", "--max-pixels", "9"],
    ],
    ids=lambda arguments: " ".join(arguments)[:30].replace("\0", "null"),
)
def test_a_path_that_is_none_gets_one_line(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    status = train_fit.main([*arguments, *([] if "--resume" in arguments else ["--quiet"])])
    errors = capsys.readouterr().err
    assert status == 2
    assert errors.count("\n") == 1
    assert errors.startswith("train_fit.py: error: ")


def changed_scene(tmp_path: Path, change: dict[str, Any]) -> Path:
    folder = tmp_path / "scene"
    shutil.copytree(scene_corpus()["transforms"], folder)
    file = folder / "transforms.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"train_filenames": 3},
        {"train_filenames": [["nested"]]},
        {"train_filenames": ["../../etc/passwd"]},
        {"train_filenames": ["nul\0"]},
        {"fl_x": 10**400},
        {"fl_x": 1e300},
        {"frames": {"file_path": "a"}},
    ],
    ids=lambda change: f"{change}"[:40],
)
def test_transforms_of_other_types_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(SceneError):
        open_scene(str(changed_scene(tmp_path, change)))


def test_a_table_that_claims_a_billion_rows_is_refused_by_its_header(tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    shutil.copytree(scene_corpus()["llff"], folder)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 17)}
    )
    (folder / "poses_bounds.npy").write_bytes(header.getvalue())
    with pytest.raises(SceneError, match="its header claims"):
        open_scene(str(folder))


@pytest.mark.slow
def test_a_colmap_model_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    needs("pycolmap")
    folder = tmp_path / "scene"
    shutil.copytree(scene_corpus()["colmap"], folder)
    file = folder / "sparse/0/points3D.bin"
    file.write_bytes(file.read_bytes()[:447])
    with pytest.raises(SceneError, match=r"cannot read .*sparse.0"):
        open_scene(str(folder))


@pytest.mark.parametrize(
    ("name", "at", "message"),
    [("points3D", 16, "1 points of the model are not finite"), ("images", 12, "is not finite")],
)
def test_numbers_of_a_colmap_model_that_are_not_finite_are_named(
    tmp_path: Path, name: str, at: int, message: str
) -> None:
    needs("pycolmap")
    folder = tmp_path / "scene"
    shutil.copytree(scene_corpus()["colmap"], folder)
    file = folder / f"sparse/0/{name}.bin"
    data = bytearray(file.read_bytes())
    data[at : at + 8] = struct.pack("<d", np.nan)
    file.write_bytes(data)
    try:
        notes = " ".join(open_scene(str(folder)).notes)
    except SceneError as error:
        notes = str(error)
    assert message in notes


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20_000, 2), (2, 17_000)])
def test_a_very_long_image_keeps_its_report(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", size, "red").save("long.png")
    options = ["--image", "long.png", "--steps", "2", "--width", "8", "--video", "0", "--quiet"]
    assert train_fit.main([*options, "--encodings", "none", "--out", "run"]) == 0
    assert Path("run/report.html").stat().st_size > 1000


def test_one_constant_color_that_is_fitted_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (16, 16), (10, 200, 30)).save("flat.png")
    options = ["--image", "flat.png", "--steps", "10", "--width", "8", "--video", "0"]
    assert train_fit.main([*options, "--encodings", "none", "--out", "run"]) == 0
    assert "a constant" not in capsys.readouterr().out
