"""Images of every kind become upright float RGB."""

import importlib.util
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from nerf_posenc.images import unit_range
from nerf_posenc_app.data import SceneError, open_image
from nerf_posenc_app.data.image_files import image_of
from nerf_posenc_app.data.reading.record import Decoded
from tests.corpora import tiff_of
from tests.optional import needs

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
RGB16 = np.random.default_rng(1).integers(0, 65_536, (5, 7, 3), dtype=np.uint16)


def needs_for(name: str, *deep: str) -> None:
    """Skip the test where what reads a file of this name or ending is not installed."""
    if name.endswith(("tif", "tiff")):
        needs("tifffile")
    elif name in deep:
        needs("imagecodecs")


def colors(path: Path) -> npt.NDArray[Any]:
    image = open_image(str(path))
    assert image.rgb.dtype == torch.float32
    assert image.name == path.stem
    return image.rgb.numpy()


@pytest.mark.parametrize("suffix", ["png", "tiff", "bmp"])
def test_lossless_8_bit_colors_are_exact(tmp_path: Path, suffix: str) -> None:
    needs_for(suffix)
    Image.fromarray(RGB).save(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(colors(tmp_path / f"a.{suffix}"), np.float32(RGB / 255))


def test_lossless_webp_is_exact(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "a.webp", lossless=True)
    np.testing.assert_array_equal(colors(tmp_path / "a.webp"), np.float32(RGB / 255))


def test_jpeg_is_close(tmp_path: Path) -> None:
    flat = np.full((16, 16, 3), 100, dtype=np.uint8)
    Image.fromarray(flat).save(tmp_path / "a.jpg", quality=95)
    np.testing.assert_allclose(colors(tmp_path / "a.jpg"), 100 / 255, atol=0.01)


def test_16_bit_color_png_keeps_all_bits(tmp_path: Path) -> None:
    needs("imagecodecs")
    rows = [row.astype(">u2").tobytes() for row in RGB16]
    (tmp_path / "a.png").write_bytes(png_bytes(7, 16, 2, rows))
    np.testing.assert_array_equal(colors(tmp_path / "a.png"), np.float32(RGB16 / 65_535))


def test_16_bit_tiff_keeps_all_bits(tmp_path: Path) -> None:
    needs("tifffile")
    (tmp_path / "a.tif").write_bytes(tiff_of(RGB16))
    np.testing.assert_array_equal(colors(tmp_path / "a.tif"), np.float32(RGB16 / 65_535))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_gray_is_repeated_in_the_channels(tmp_path: Path, suffix: str) -> None:
    needs_for(suffix)
    Image.fromarray(RGB16[..., 0]).save(tmp_path / f"a.{suffix}")
    expected = np.float32(RGB16[..., :1] / 65_535)
    np.testing.assert_array_equal(
        colors(tmp_path / f"a.{suffix}"), np.broadcast_to(expected, (5, 7, 3))
    )


def test_gray_and_bilevel_are_repeated_in_the_channels(tmp_path: Path) -> None:
    Image.fromarray(RGB[..., 0]).save(tmp_path / "gray.png")
    expected = np.broadcast_to(np.float32(RGB[..., :1] / 255), (5, 7, 3))
    np.testing.assert_array_equal(colors(tmp_path / "gray.png"), expected)
    bilevel = RGB[..., :1] > 127
    Image.fromarray(bilevel[..., 0]).save(tmp_path / "bilevel.png")
    expected = np.broadcast_to(np.float32(bilevel), (5, 7, 3))
    np.testing.assert_array_equal(colors(tmp_path / "bilevel.png"), expected)


def test_palettes_are_looked_up(tmp_path: Path) -> None:
    indexed = Image.fromarray(RGB).quantize(4)
    indexed.save(tmp_path / "a.png")
    expected = np.float32(np.asarray(indexed.convert("RGB")) / 255)
    np.testing.assert_array_equal(colors(tmp_path / "a.png"), expected)


def test_alpha_is_laid_over_white_and_said(tmp_path: Path) -> None:
    rgba = np.dstack([RGB, np.full((5, 7), 51, dtype=np.uint8)])
    Image.fromarray(rgba).save(tmp_path / "a.png")
    expected = 0.2 * (RGB / 255) + 0.8
    np.testing.assert_allclose(colors(tmp_path / "a.png"), expected, atol=1e-6)
    read = open_image(str(tmp_path / "a.png"))
    assert read.notes == ("transparent pixels are blended with white",)
    assert read.resized(4).notes == read.notes
    rgba[..., 3] = 255
    Image.fromarray(rgba).save(tmp_path / "b.png")
    assert open_image(str(tmp_path / "b.png")).notes == ()


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_cmyk_goes_through_the_plain_conversion(tmp_path: Path, suffix: str) -> None:
    needs_for(suffix)
    ink = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    ink.save(tmp_path / f"a.{suffix}")
    np.testing.assert_allclose(colors(tmp_path / f"a.{suffix}")[0, 0], [1, 0, 0], atol=0.02)


def png_bytes(width: int, bits: int, color_type: int, rows: list[bytes], *more: bytes) -> bytes:
    """A PNG of unfiltered rows, with more chunks before its pixels."""

    def chunk(kind_and_data: bytes) -> bytes:
        length = struct.pack(">I", len(kind_and_data) - 4)
        return length + kind_and_data + struct.pack(">I", zlib.crc32(kind_and_data))

    header = b"IHDR" + struct.pack(">IIBBBBB", width, len(rows), bits, color_type, 0, 0, 0)
    pixels = b"IDAT" + zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, (header, *more, pixels, b"IEND")))


def tiff_bytes(size: tuple[int, int], samples: int, bits: int, data: bytes, **tags: int) -> bytes:
    """An uncompressed TIFF of one strip (TIFF 6.0, section 2)."""
    width, height = size
    entries = {256: width, 257: height, 259: 1, 262: tags.get("photometric", 1), 273: 8}
    entries |= {277: samples, 278: height, 279: len(data)}
    if "extra" in tags:
        entries[338] = tags["extra"]
    padded = data + b"\0" * (len(data) % 2)
    first = 8 + len(padded)
    # All samples have as many bits: a list after the directory if they do not fit into 4 bytes.
    end = first + 2 + 12 * (len(entries) + 1) + 4
    lines = {tag: struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items()}
    where = struct.pack("<I", end) if samples > 2 else struct.pack("<HH", bits, bits)
    lines[258] = struct.pack("<HHI", 258, 3, samples) + where
    directory = struct.pack("<H", len(lines)) + b"".join(lines[tag] for tag in sorted(lines))
    rest = struct.pack(f"<I{samples}H", 0, *[bits] * samples)
    return b"II*\0" + struct.pack("<I", first) + padded + directory + rest


DEEP = struct.pack(">4H", 0, 1000, 30000, 65535)
CONFORMANCE = {
    # Name: bytes, and the RGB of each pixel over white.
    "sbit.png": (png_bytes(4, 16, 0, [DEEP], b"sBIT\x0c"), [0, 1000 / 65535, 30000 / 65535, 1]),
    "gray2-trns.png": (png_bytes(4, 2, 0, [b"\x1b"], b"tRNS\0\1"), [0, 1, 2 / 3, 1]),
    "gray4-trns.png": (png_bytes(2, 4, 0, [b"\x3c"], b"tRNS\0\3"), [1, 12 / 15]),
    "gray16-trns.png": (png_bytes(4, 16, 0, [DEEP], b"tRNS\x03\xe8"), [0, 1, 30000 / 65535, 1]),
    "deep.ppm": (b"P6 1 # a remark\n1\n65535\n" + struct.pack(">3H", 1, 2, 65535), [1 / 65535]),
    "10bit.ppm": (b"P6\n1 1 1023\n" + struct.pack(">3H", 512, 0, 1023), [512 / 1023]),
    "premultiplied.tif": (
        tiff_bytes((2, 1), 4, 8, bytes([51, 0, 102, 102, 0, 0, 0, 0]), photometric=2, extra=1),
        [(51 + 153) / 255, 1],
    ),
    "straight.tif": (
        tiff_bytes((1, 1), 4, 8, bytes([51, 0, 102, 102]), photometric=2, extra=2),
        [(51 * 102 / 255 + 153) / 255],
    ),
    "unspecified.tif": (
        tiff_bytes((1, 1), 4, 8, bytes([51, 0, 102, 102]), photometric=2, extra=0),
        [51 / 255],
    ),
    "gray-premultiplied.tif": (
        tiff_bytes((1, 1), 2, 16, struct.pack("<2H", 20000, 40000), extra=1),
        [(20000 + 25535) / 65535],
    ),
    "gray12.tif": (tiff_bytes((2, 1), 1, 12, b"\x12\x3f\xff"), [0x123 / 4095, 1]),
    "gray4.tif": (tiff_bytes((2, 1), 1, 4, b"\x3c"), [3 / 15, 12 / 15]),
    "gray2.tif": (tiff_bytes((4, 1), 1, 2, b"\x1b"), [0, 1 / 3, 2 / 3, 1]),
}


@pytest.mark.parametrize("name", sorted(CONFORMANCE))
def test_pixels_are_those_of_the_specification(tmp_path: Path, name: str) -> None:
    needs_for(name, "gray16-trns.png")
    data, reds = CONFORMANCE[name]
    (tmp_path / name).write_bytes(data)
    rgb = unit_range(open_image(str(tmp_path / name)).pixels)
    torch.testing.assert_close(rgb[0, :, 0], torch.tensor(reds).float(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (tiff_bytes((1, 1), 3, 8, b"abc", photometric=6), "color space YCbCr; save it as RGB"),
        (b"P6\n1 1\n70000\n" + bytes(12), "70000, and a PPM has 1 to 65535"),
    ],
)
def test_what_cannot_be_read_right_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    needs_for("tif" if data[:2] == b"II" else "ppm")
    (tmp_path / "image").write_bytes(data)
    with pytest.raises(SceneError, match=said):
        open_image(str(tmp_path / "image"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_exif_orientation_is_undone(tmp_path: Path, orientation: int, suffix: str) -> None:
    # What a camera stores when it is held that way: the inverse of the upright transform.
    stored = {
        1: RGB,
        2: RGB[:, ::-1],
        3: RGB[::-1, ::-1],
        4: RGB[::-1],
        5: RGB.swapaxes(0, 1),
        6: np.rot90(RGB, 1),
        7: RGB[::-1, ::-1].swapaxes(0, 1),
        8: np.rot90(RGB, -1),
    }[orientation]
    needs_for(suffix)
    exif = Image.Exif()
    exif[274] = orientation
    options: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    image = Image.fromarray(np.ascontiguousarray(stored))
    image.save(tmp_path / f"a.{suffix}", exif=exif, **options)
    np.testing.assert_array_equal(colors(tmp_path / f"a.{suffix}"), np.float32(RGB / 255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_without_a_value_are_turned_with_the_image(orientation: int) -> None:
    has_value = np.random.default_rng(0).random((5, 8)) < 0.6
    colors_of_values = np.repeat(has_value[..., None], 3, -1).astype(np.float32)
    record = Decoded(colors_of_values, has_value=has_value, orientation=orientation)
    image = image_of(record, name="a", source="a.tif")
    assert image.weights is not None
    assert torch.equal(image.rgb[..., 0], image.weights)


def test_of_several_frames_the_first_is_taken(tmp_path: Path) -> None:
    frames = [Image.fromarray(RGB), Image.fromarray(RGB[::-1].copy())]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    np.testing.assert_array_equal(colors(tmp_path / "a.webp"), np.float32(RGB / 255))


@pytest.mark.parametrize("suffix", ["tif", "npy"])
def test_floats_in_range_are_exact_and_negative_values_are_refused(
    tmp_path: Path, suffix: str
) -> None:
    values = (RGB / 255).astype(np.float32)
    needs_for(suffix)
    for name, stored in (("a", values), ("b", values - 0.5)):
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(tiff_of(stored)) if suffix == "tif" else np.save(path, stored)
    np.testing.assert_array_equal(colors(tmp_path / f"a.{suffix}"), values)
    with pytest.raises(SceneError, match="negative"):
        open_image(str(tmp_path / f"b.{suffix}"))


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    Image.fromarray(np.tile(RGB, (20, 20, 1))).save(tmp_path / "whole.png")
    whole = (tmp_path / "whole.png").read_bytes()
    damaged = {
        "empty.png": b"",
        "text.png": b"this is no image\n" * 9,
        "short.png": whole[: len(whole) // 2],
        "head.png": whole[:20],
    }
    if importlib.util.find_spec("tifffile") is not None:
        damaged["short.tif"] = b"II*\0" + b"\1" * 9
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SceneError, match=f"cannot read .*{name} as an image"):
            open_image(str(tmp_path / name))


def test_missing_files_name_the_images_that_ship(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match=r"or a name: bandlimited, cat, star, zone-plate"):
        open_image("dragon.png")
    with pytest.raises(SceneError, match="no image at"):
        open_image(str(tmp_path / "cat.png"))
    with pytest.raises(SceneError, match="is a folder"):
        open_image(str(tmp_path))


def test_the_cat_opens_by_its_name() -> None:
    image = open_image("cat")
    assert image.rgb.shape[-1] == 3
    assert "ships with the program" in image.source
    assert torch.equal(open_image("cat.png").rgb, image.rgb)


def test_a_file_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(RGB).save("cat.png")
    assert open_image("cat.png").size == (7, 5)
