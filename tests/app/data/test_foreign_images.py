"""Images as other programs write them: read right, or refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc_app.data import SceneError, open_image
from tests.optional import needs

RGB = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)


def test_bands_that_are_called_gray_are_not_dropped(tmp_path: Path) -> None:
    needs("tifffile")
    import tifffile

    extra: dict[str, Any] = {"photometric": "minisblack", "extrasamples": ["unspecified"] * 2}
    tifffile.imwrite(tmp_path / "a.tif", RGB, planarconfig="contig", **extra)
    with pytest.raises(SceneError, match="has 3 channels and calls them gray; save it as RGB"):
        open_image(str(tmp_path / "a.tif"))


def test_thumbnails_are_passed_over_and_raw_photographs_refused(tmp_path: Path) -> None:
    needs("tifffile")
    import tifffile

    small = RGB[::2, ::2]
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(small, photometric="rgb", subfiletype=1)
        file.write(RGB, photometric="rgb")
    found = open_image(str(tmp_path / "a.tif"))
    torch.testing.assert_close(found.rgb, torch.from_numpy(RGB / np.float32(255)))
    with tifffile.TiffWriter(tmp_path / "a.dng") as file:
        version = [(50706, "B", 4, b"\1\4\0\0", True)]
        file.write(small, photometric="rgb", subfiletype=1, extratags=version)
    with tifffile.TiffWriter(tmp_path / "a.nef") as file:
        file.write(small, photometric="rgb", subfiletype=1, subifds=1)
        file.write(RGB[..., 0], photometric=32803)
    for name in ("a.dng", "a.nef"):
        with pytest.raises(SceneError, match="raw photograph"):
            open_image(str(tmp_path / name))


@pytest.mark.parametrize("suffix", ["heic", "avif"])
def test_photographs_of_phones_are_read_upright(tmp_path: Path, suffix: str) -> None:
    if suffix == "heic":
        needs("pillow_heif")
        import pillow_heif

        pillow_heif.register_heif_opener()
    smooth = np.linspace(0, 255, 48 * 32).reshape(32, 48).astype(np.uint8)
    exif = Image.Exif()
    # A HEIC says by itself how it is turned, whatever its EXIF says.
    exif[274] = 6 if suffix == "avif" else 1
    image = Image.fromarray(np.stack([smooth] * 3, -1))
    image.save(tmp_path / f"a.{suffix}", quality=95, exif=exif)
    read = open_image(str(tmp_path / f"a.{suffix}"))
    expected = np.rot90(smooth, -1 if suffix == "avif" else 0) / 255
    assert read.size == expected.shape[::-1]
    np.testing.assert_allclose(read.rgb[..., 0], expected, atol=0.03)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"PF\n2 2\n", "PFM"),
        (b"P7\nWIDTH 2", "PAM"),
        (bytes(128) + b"DICM", "DICOM"),
        (bytes(344) + b"n+1\0", "NIfTI"),
        (b"PK\x03\x04", "archive"),
        (b"\0\0\0\x18ftypisom", "a video"),
        (b"RIFF\0\0\0\0oops", "damaged or of an unknown format"),
    ],
)
def test_other_formats_are_named_by_what_they_are(tmp_path: Path, head: bytes, name: str) -> None:
    for suffix in ("jpg", "png"):
        (tmp_path / f"a.{suffix}").write_bytes(head + bytes(64))
        with pytest.raises(SceneError, match=name):
            open_image(str(tmp_path / f"a.{suffix}"))
