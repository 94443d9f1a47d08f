"""Images of every kind become upright float RGB."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import png
import pytest
import tifffile
import torch
from PIL import Image

from scenes import SAMPLES, SceneError, open_image

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
RGB16 = np.random.default_rng(1).integers(0, 65_536, (5, 7, 3), dtype=np.uint16)


def colors(path: Path) -> npt.NDArray[Any]:
    image = open_image(str(path))
    assert image.rgb.dtype == torch.float32
    assert image.name == path.stem
    return image.rgb.numpy()


@pytest.mark.parametrize("suffix", ["png", "tiff", "bmp"])
def test_lossless_8_bit_colors_are_exact(tmp_path: Path, suffix: str) -> None:
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
    with (tmp_path / "a.png").open("wb") as file:
        writer = png.Writer(7, 5, greyscale=False, bitdepth=16)
        writer.write(file, RGB16.reshape(5, -1).tolist())
    np.testing.assert_array_equal(colors(tmp_path / "a.png"), np.float32(RGB16 / 65_535))


def test_16_bit_tiff_keeps_all_bits(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", RGB16, photometric="rgb")
    np.testing.assert_array_equal(colors(tmp_path / "a.tif"), np.float32(RGB16 / 65_535))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_gray_is_repeated_in_the_channels(tmp_path: Path, suffix: str) -> None:
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


def test_alpha_is_laid_over_white(tmp_path: Path) -> None:
    rgba = np.dstack([RGB, np.full((5, 7), 51, dtype=np.uint8)])
    Image.fromarray(rgba).save(tmp_path / "a.png")
    expected = 0.2 * (RGB / 255) + 0.8
    np.testing.assert_allclose(colors(tmp_path / "a.png"), expected, atol=1e-6)


def test_cmyk_goes_through_the_plain_conversion(tmp_path: Path) -> None:
    ink = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    for name in ("a.jpg", "a.tif"):
        ink.save(tmp_path / name)
        np.testing.assert_allclose(colors(tmp_path / name)[0, 0], [1, 0, 0], atol=0.02)


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
    exif = Image.Exif()
    exif[274] = orientation
    options: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    image = Image.fromarray(np.ascontiguousarray(stored))
    image.save(tmp_path / f"a.{suffix}", exif=exif, **options)
    np.testing.assert_array_equal(colors(tmp_path / f"a.{suffix}"), np.float32(RGB / 255))


def test_of_several_frames_the_first_is_taken(tmp_path: Path) -> None:
    frames = [Image.fromarray(RGB), Image.fromarray(RGB[::-1].copy())]
    frames[0].save(tmp_path / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    np.testing.assert_array_equal(colors(tmp_path / "a.webp"), np.float32(RGB / 255))


def test_float_tiff_in_range_is_exact_and_out_of_range_is_refused(tmp_path: Path) -> None:
    values = (RGB / 255).astype(np.float32)
    tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb")
    np.testing.assert_array_equal(colors(tmp_path / "a.tif"), values)
    tifffile.imwrite(tmp_path / "b.tif", values * 37, photometric="rgb")
    with pytest.raises(SceneError, match="outside"):
        open_image(str(tmp_path / "b.tif"))


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    Image.fromarray(np.tile(RGB, (20, 20, 1))).save(tmp_path / "whole.png")
    whole = (tmp_path / "whole.png").read_bytes()
    damaged = {
        "empty.png": b"",
        "text.png": b"this is no image\n" * 9,
        "short.png": whole[: len(whole) // 2],
        "head.png": whole[:20],
        "short.tif": b"II*\0" + b"\1" * 9,
    }
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SceneError, match=f"cannot read .*{name} as an image"):
            open_image(str(tmp_path / name))


def test_missing_files_name_the_samples(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="a sample: astronaut, cat, coffee"):
        open_image("dragon.png")
    with pytest.raises(SceneError, match="no image at"):
        open_image(str(tmp_path / "cat.png"))
    with pytest.raises(SceneError, match="is a folder"):
        open_image(str(tmp_path))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples_open_by_name(name: str) -> None:
    image = open_image(name)
    assert image.rgb.shape[-1] == 3
    assert "bundled sample" in image.source
    assert torch.equal(open_image(f"{name}.png").rgb, image.rgb)


def test_a_file_goes_before_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(RGB).save("cat.png")
    assert open_image("cat.png").size == (7, 5)
