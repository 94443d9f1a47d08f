"""Pixels of image files: what is too large is refused by its header, before it is decoded."""

import contextlib
import io
import itertools
import logging
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageCms

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.hdr import hdr_size, read_hdr
from nerf_posenc_app.data.reading.record import Decoded, PixelArray
from nerf_posenc_app.plugins import how_to_install

_RAW = "a raw photograph; develop it to JPEG or TIFF"
_AS_ARRAY = "save its values in [0, 1] by numpy.save as a .npy file"
_AS_FLOATS = "bring its values to [0, 1] and save them as a floating-point TIFF"
_AS_IMAGE = "save it as PNG or JPEG (docs/howto/my_photos.md)"
_VIDEO = "a video, not an image"
# Kinds of files that are not read, by their bytes at a place.
_OTHERS = (
    (8, b"crx ", _RAW),
    (4, b"ftyp", _VIDEO),
    (0, b"\x1a\x45\xdf\xa3", _VIDEO),
    *((0, mark, _RAW) for mark in (b"FUJIFILM", b"IIRO", b"IIU\0")),
    *((0, mark, f"JPEG XL; {_AS_IMAGE}") for mark in (b"\xff\x0a", b"\0\0\0\x0cJXL ")),
    *((0, mark, f"JPEG 2000; {_AS_IMAGE}") for mark in (b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP")),
    (0, b"8BPS", f"a Photoshop document; {_AS_IMAGE}"),
    (0, b"<svg", f"an SVG drawing; {_AS_IMAGE}"),
    (0, b"P7\n", f"PAM; {_AS_IMAGE}"),
    (0, b"PF\n", f"PFM of colors; {_AS_FLOATS}"),
    (128, b"DICM", "DICOM, not an image"),
    (344, b"n+1\0", "a NIfTI volume, not an image"),
    (0, b"\x1f\x8b", "compressed by gzip"),
    (0, b"PK\x03\x04", f"an archive, as .npz and .zip are; {_AS_ARRAY}"),
)

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM")
# Brands of an ISO base media file (bytes 8 to 12) that holds images: HEIC by pillow-heif.
_HEIC = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
_AVIF = (b"avif", b"avis")
_TIFF_HEADS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ORIENTATION_TAG = 274
_DNG_VERSION_TAG = 50706
# Flags of a WebP (RFC 9649, section 2.7).
_WEBP_ANIMATED, _WEBP_ALPHA = 0x02, 0x10
# Color filter arrays and linear raw values (DNG 1.4, "PhotometricInterpretation").
_SENSOR_VALUES = (32803, 34892)
# Maximum bytes of a PPM whose pixels are written as text.
_MAX_TEXT = 1 << 25
# Header of a binary PPM: width, height and the largest value, with comments before each.
_PPM = re.compile(rb"P[2356]" + rb"(?:\s|#[^\n]*\n)+(\d{1,9})" * 3 + rb"\s")
# Negative values of linear light, relative to the mean, that are taken for 0: reducing an image
# with a sharp filter leaves some.
_RINGING = 0.05
# Maximum bytes of a decoded pixel: four channels of 64 bits.
_MOST_BYTES_PER_PIXEL = 32


# tifffile logs oddities of a file; problems that matter raise an error.
logging.getLogger("tifffile").addHandler(logging.NullHandler())


Answer = tuple[PixelArray, PixelArray | None, PixelArray | None, dict[str, Any]]
"""A `Decoded` as the worker sends it: its arrays, and its other fields by name."""


def read_pixels(path: Path, max_pixels: int) -> Answer:
    """Read the pixels of an image file, as they are stored.

    Args:
        path: PNG, JPEG, TIFF, WebP, BMP, GIF, PPM, HEIC, AVIF, Radiance, OpenEXR or ``.npy`` file;
            of several frames or pages the first is read, without those that say that they are
            thumbnails.
        max_pixels: a file with more is refused before it is decoded.

    Returns:
        The fields of a `Decoded`.

    Raises:
        SceneError: If the file cannot be read, or contains no such image.
    """
    try:
        found = _decode(path, max_pixels)
    except (SceneError, MemoryError):
        raise
    except OSError as error:
        if error.strerror is not None:
            raise SceneError(f"cannot read {path}: {error.strerror}") from None
        raise _damaged(path, error) from error
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        raise _damaged(path, error) from error
    record = _checked(found, path)
    facts = {
        "is_light": record.is_light,
        "orientation": record.orientation,
        "dropped": list(record.dropped),
    }
    return record.values, record.opacity, record.has_value, facts


def _record(
    path: Path, pixels: PixelArray, orientation: int = 1, dropped: tuple[str, ...] = ()
) -> Decoded:
    """Split an array into colors and opacity.

    Raises:
        SceneError: If it is no image of 1 to 4 channels.
    """
    shape = pixels.shape
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or not 1 <= pixels.shape[2] <= 4 or 0 in pixels.shape:
        raise SceneError(
            f"{path} contains an array of shape {shape}, not an image of 1 to 4 channels"
        )
    has_alpha = pixels.shape[2] in (2, 4)
    colors = pixels[..., :-1] if has_alpha else pixels
    # Floating-point values above 1 can only be light.
    is_light = pixels.dtype.kind == "f" and bool((colors > 1).any())
    opacity = pixels[..., -1] if has_alpha else None
    return Decoded(colors, opacity, None, is_light, orientation, dropped)


def _damaged(path: Path, error: Exception) -> SceneError:
    # Pillow names the file again.
    reason = " ".join(str(error).replace(f" {str(path)!r}", "").split())[:200]
    if (name := other_format(path)) is not None:
        return SceneError(f"cannot read {path} as an image: it is {name}")
    return SceneError(
        f"cannot read {path} as an image: it is damaged or of an unknown format"
        f"{reason and f' ({reason})'}; save it again as PNG or JPEG"
    )


def other_format(path: Path) -> str | None:
    """Format of a file by its first bytes, and how to convert it; None if it is unknown."""
    with path.open("rb") as file:
        head = file.read(352)
    if _brands(head) & {*_HEIC, *_AVIF}:  # Images in the container of videos.
        return None
    return next((name for start, mark, name in _OTHERS if head[start:].startswith(mark)), None)


def _checked(record: Decoded, path: Path) -> Decoded:
    """A record of a type that is read, without what ringing leaves below 0, and without NaN.

    Raises:
        SceneError: If values are of another type, negative or infinite, or none is a number.
    """
    pixels = record.values
    if np.issubdtype(pixels.dtype, np.bool_) or np.issubdtype(pixels.dtype, np.unsignedinteger):
        return record
    if not np.issubdtype(pixels.dtype, np.floating):
        raise SceneError(
            f"{path} contains {pixels.dtype} pixels; save it with 8 or 16 bits per channel"
        )
    is_missing = np.asarray(np.isnan(pixels).any(-1))
    if record.opacity is not None:
        is_missing |= np.isnan(record.opacity)
        record = replace(record, opacity=np.nan_to_num(record.opacity))
    if is_missing.any():
        # Missing pixels are NaN in scientific data.
        if is_missing.all():
            raise SceneError(f"{path} has no value: all pixels are NaN")
        filled = np.where(is_missing[..., None], 0, pixels).astype(pixels.dtype)
        record = replace(record, values=filled, has_value=~is_missing)
        pixels = record.values
    least, largest = float(pixels.min()), float(pixels.max())
    if record.is_light and -_RINGING * pixels.mean(dtype=np.float64) <= least < 0:
        return replace(record, values=np.maximum(pixels, 0))
    if not (least >= 0 and largest < math.inf):
        raise SceneError(
            f"{path} contains floating-point values that are negative or not finite; mend them "
            "first"
        )
    return record


def _decode(path: Path, max_pixels: int) -> Decoded:
    """Contents of a file, by the first bytes of its format."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    if not head:
        raise ValueError("the file is empty")
    if head[:8] == b"\x89PNG\r\n\x1a\n" and head[24:25] == b"\x10":
        width, height = (int.from_bytes(head[i : i + 4]) for i in (16, 20))
        _require_size(width, height, max_pixels, path)
        return _record(path, *_read_png16(path))
    if (size := hdr_size(path, head)) is not None:
        _require_size(*size, max_pixels, path)
        return read_hdr(path, head)
    if head[:6] == b"\x93NUMPY":
        return _record(path, _read_npy(path, max_pixels))
    if head[:4] in _TIFF_HEADS:
        return _record(path, *_read_tiff(path, max_pixels))
    if head[:2] in (b"P1", b"P2", b"P3") and path.stat().st_size > _MAX_TEXT:
        raise SceneError(f"{path} has its pixels as text; save it as a binary PPM, PNG or JPEG")
    if (ppm := _PPM.match(head)) and int(ppm[3]) != 255:
        return _record(path, _read_ppm(path, ppm, max_pixels))
    formats: tuple[str, ...] = _FORMATS
    if brands := _brands(head) & {*_HEIC, *_AVIF}:
        formats = ("AVIF",) if brands & {*_AVIF} else _heif_format(path)
    with opened(path, max_pixels, formats) as image:
        if brands & {*_AVIF} and b"prem" in head[:4096]:
            # The colors are stored multiplied by the opacity, which Pillow does not tell.
            image.info["premultiplied_alpha"] = True
        is_gray_png = image.format == "PNG" and image.mode == "L" and head[24] < 8
        if is_gray_png and "transparency" in image.info:
            # Pillow scales gray values to 8 bits, but not the one that is transparent.
            image.info["transparency"] *= 255 // (2 ** head[24] - 1)
        return _of_pillow(path, image)


def _brands(head: bytes) -> set[bytes]:
    """Major and compatible brands of an ISO base media file; empty for others."""
    if head[4:8] != b"ftyp":
        return set()
    size = int.from_bytes(head[:4])
    return {head[8:12], *(head[i : i + 4] for i in range(16, min(size, len(head)), 4))}


def _heif_format(path: Path) -> tuple[str, ...]:
    """Pillow's name of HEIC, once what decodes it is there."""
    try:
        import pillow_heif
    except ImportError:
        raise SceneError(
            f"{path} is HEIC, which needs pillow-heif: {how_to_install('images')}"
        ) from None
    pillow_heif.register_heif_opener()
    return ("HEIF",)


def _require_size(width: int, height: int, max_pixels: int, path: Path) -> None:
    if width * height > max_pixels:
        raise SceneError(
            f"{path} has {width} x {height} pixels, more than the limit of {max_pixels:,}; raise "
            "it by --max-pixels, or reduce the image"
        )


@contextlib.contextmanager
def opened(path: Path, max_pixels: int, formats: tuple[str, ...]) -> Iterator[PIL.Image.Image]:
    """Open an image with Pillow, with our pixel limit instead of its own."""
    limit = PIL.Image.MAX_IMAGE_PIXELS
    PIL.Image.MAX_IMAGE_PIXELS = None
    try:
        with warnings.catch_warnings():
            # Of metadata that we do not read.
            warnings.simplefilter("ignore")
            with PIL.Image.open(_as_pillow_takes_it(path), formats=formats) as image:
                _require_size(*image.size, max_pixels, path)
                yield image
    finally:
        PIL.Image.MAX_IMAGE_PIXELS = limit


def _as_pillow_takes_it(path: Path) -> Path | io.BytesIO:
    """The file, with what Pillow does not see in its header put right.

    An animated WebP has an alpha even if its header does not announce any: what no frame has drawn
    on is transparent. An AVIF may have another major brand, with its own among the compatible ones.
    """
    with path.open("rb") as file:
        head = file.read(1 << 10)
        if head[8:12] not in _AVIF and _brands(head) & {*_AVIF}:
            return io.BytesIO(head[:8] + b"avif" + head[12:] + file.read())
        if head[8:16] != b"WEBPVP8X" or not head[20] & _WEBP_ANIMATED:
            return path
        return io.BytesIO(head[:20] + bytes([head[20] | _WEBP_ALPHA]) + head[21:] + file.read())


def _of_pillow(path: Path, image: PIL.Image.Image) -> Decoded:
    orientation = int(image.getexif().get(_ORIENTATION_TAG, 1))
    dropped = _dropped(image)
    if image.mode in ("I;16", "I;16B", "I;16L", "F"):
        return _record(path, np.asarray(image), orientation, dropped)
    if image.mode == "I":
        return _record(path, np.asarray(image).astype(np.uint16), orientation, dropped)
    pixels = colors_of(image)
    # Many programs leave the fourth byte of a BMP 0, and none shows such an image as empty.
    if image.format == "BMP" and pixels.shape[2] == 4 and not pixels[..., 3].any():
        pixels = pixels[..., :3]
    if image.info.get("premultiplied_alpha") and pixels.shape[2] == 4:
        pixels = _with_alpha(pixels, 3, "associated")
    return _record(path, pixels, orientation, dropped)


def _dropped(image: PIL.Image.Image) -> tuple[str, ...]:
    """Frames after the first, and a color profile other than sRGB."""
    losses = []
    if (count := getattr(image, "n_frames", 1)) > 1:
        losses.append(f"{count - 1} further frames")
    if (bits := image.info.get("bit_depth", 8)) > 8:
        losses.append(f"the lowest {bits - 8} of {bits} bits")
    profile = image.info.get("icc_profile")
    if profile and (name := _profile_name(profile)) and "srgb" not in name.lower():
        losses.append(f"the color profile {name}")
    return tuple(losses)


def _profile_name(profile: bytes) -> str:
    """Name of an ICC profile of RGB colors; empty for others."""
    if profile[16:20] != b"RGB ":
        return ""
    try:
        opened = PIL.ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return " ".join(PIL.ImageCms.getProfileDescription(opened).split())[:40]
    except Exception:  # A damaged profile: nothing is said of it.
        return ""


def colors_of(image: PIL.Image.Image) -> npt.NDArray[np.uint8]:
    """RGB of 8 bits, or RGBA of an image that has transparent pixels."""
    mode = "RGBA" if image.has_transparency_data else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))


def _read_png16(path: Path) -> tuple[PixelArray, int]:
    """All 16 bits of a PNG: of gray by Pillow, of colors, which it would cut, by libpng."""
    with PIL.Image.open(path, formats=("PNG",)) as image:
        orientation = int(image.getexif().get(_ORIENTATION_TAG, 1))
        if image.mode == "I;16" and "transparency" not in image.info:
            return np.asarray(image), orientation
    try:
        import imagecodecs
    except ImportError:
        raise SceneError(
            f"{path} is a PNG of 16 bits, which needs imagecodecs: {how_to_install('images')}"
        ) from None
    return imagecodecs.png_decode(path.read_bytes()), orientation


def _read_npy(path: Path, max_pixels: int) -> PixelArray:
    """An array ``(height, width)`` or ``(height, width, channels)`` written by ``numpy.save``."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    dtype = array.dtype.newbyteorder("=")
    if array.ndim not in (2, 3) or (dtype.kind not in "fb" and dtype not in (np.uint8, np.uint16)):
        raise SceneError(
            f"{path} must be an array (height, width) or (height, width, 3 or 4) of uint8, uint16 "
            f"or floating-point numbers; it is {array.dtype} {array.shape}"
        )
    _require_size(array.shape[1], array.shape[0], max_pixels, path)
    # Numbers of 64 bits, and truth values, count as float32.
    return np.array(array, np.float32 if dtype.kind == "b" or dtype.itemsize > 4 else dtype)


def _read_ppm(path: Path, header: re.Match[bytes], max_pixels: int) -> PixelArray:
    """A PGM or PPM whose largest value is not 255, to which Pillow would round it."""
    width, height, largest = (int(number) for number in header.groups())
    _require_size(width, height, max_pixels, path)
    if not 0 < largest <= 65535:
        raise ValueError(f"its largest value is {largest}, and a PPM has 1 to 65535")
    channels = 3 if header[0][1:2] in b"36" else 1
    count = width * height * channels
    if header[0][1:2] in b"23":
        words = path.read_bytes()[header.end() :].split()[:count]
        values = np.array([int(word) for word in words])
    else:
        kind = ">u2" if largest > 255 else "u1"
        values = np.fromfile(path, kind, count, offset=header.end())
    pixels = values.reshape(height, width, channels)
    return pixels.astype(np.uint16) if largest == 65535 else pixels / np.float32(largest)


def _read_tiff(path: Path, max_pixels: int) -> tuple[PixelArray, int]:
    """First page of a TIFF that is no thumbnail, with every bit of its depth."""
    try:
        import tifffile
    except ImportError:
        raise SceneError(
            f"{path} is a TIFF, which needs tifffile: {how_to_install('images')}"
        ) from None
    with tifffile.TiffFile(path) as tiff:
        page = _full_page(tiff, path)
        _require_size(page.imagewidth, page.imagelength, max_pixels, path)
        channels = page.size // max(1, page.imagewidth * page.imagelength)
        if channels > 4 or page.nbytes > _MOST_BYTES_PER_PIXEL * max_pixels:
            raise SceneError(f"{path} has {channels} channels, not 1 to 4")
        orientation = int(page.tags[_ORIENTATION_TAG].value) if 274 in page.tags else 1
        photometric, bits = page.photometric, page.bitspersample
        if photometric == tifffile.PHOTOMETRIC.MINISBLACK and channels > 2:
            raise SceneError(f"{path} has {channels} channels and calls them gray; save it as RGB")
        num_colors = 3 if photometric == tifffile.PHOTOMETRIC.RGB else 1
        extra = page.extrasamples[0] if page.extrasamples else tifffile.EXTRASAMPLE.UNSPECIFIED
        is_jpeg = page.compression in (tifffile.COMPRESSION.JPEG, tifffile.COMPRESSION.OJPEG)
        if photometric == tifffile.PHOTOMETRIC.YCBCR and not is_jpeg:
            raise SceneError(f"{path} is a TIFF in the color space YCbCr; save it as RGB")
        pixels: PixelArray = page.asarray(maxworkers=1)
        if page.planarconfig == tifffile.PLANARCONFIG.SEPARATE and pixels.ndim == 3:
            pixels = np.moveaxis(pixels, 0, -1)
        if photometric == tifffile.PHOTOMETRIC.PALETTE:
            pixels = _color_table(page)[pixels]
        elif pixels.dtype.kind == "u" and bits < 8 * pixels.dtype.itemsize:
            # 2 to 14 bits are unpacked into 8 or 16.
            pixels = pixels / np.float32(2**bits - 1)
    kinds, kinds_of_alpha = tifffile.PHOTOMETRIC, tifffile.EXTRASAMPLE
    if photometric == kinds.MINISWHITE:
        white = np.iinfo(pixels.dtype).max if pixels.dtype.kind == "u" else 1
        pixels = ~pixels if pixels.dtype == bool else white - pixels
    elif photometric == kinds.SEPARATED:
        pixels = _checked(Decoded(pixels), path).values
        scale = (
            255 if np.issubdtype(pixels.dtype, np.floating) else 255 / np.iinfo(pixels.dtype).max
        )
        inks = np.round(pixels[..., :4] * np.float32(scale)).astype(np.uint8)
        pixels = np.asarray(PIL.Image.fromarray(inks, mode="CMYK").convert("RGB"))
    elif photometric in (kinds.RGB, kinds.MINISBLACK) and channels > num_colors:
        is_known = extra in (kinds_of_alpha.ASSOCALPHA, kinds_of_alpha.UNASSALPHA)
        alpha = "associated" if extra == kinds_of_alpha.ASSOCALPHA else "straight"
        pixels = _with_alpha(pixels, num_colors, alpha) if is_known else pixels[..., :num_colors]
    elif photometric not in (kinds.MINISBLACK, kinds.RGB, kinds.PALETTE, kinds.YCBCR):
        raise ValueError(f"TIFF color space {photometric.name} is not supported; save it as RGB")
    return pixels, orientation


def _color_table(page: Any) -> PixelArray:
    table = np.moveaxis(np.asarray(page.colormap), 0, -1)
    # Some programs multiply 8 bits by 256, not by 257.
    return table if (table & 255).any() else (table >> 8) * np.uint16(257)


def _full_page(tiff: Any, path: Path) -> Any:
    """The first page that does not call itself a reduced version of another one.

    Raises:
        SceneError: If the file is a raw photograph.
    """
    first = tiff.pages[0]
    pages = itertools.chain([first], first.pages or (), tiff.pages[1:] if first.is_reduced else ())
    page = next((page for page in pages if not page.is_reduced), first)
    if _DNG_VERSION_TAG in first.tags or page.photometric in _SENSOR_VALUES:
        raise SceneError(f"cannot read {path} as an image: it is {_RAW}")
    return page


def _with_alpha(pixels: PixelArray, num_colors: int, alpha: str) -> PixelArray:
    """Colors that are not multiplied by the alpha that follows them.

    Args:
        pixels: colors and alpha.
        num_colors: number of colors.
        alpha: ``"associated"`` if the colors are multiplied by it.
    """
    if alpha != "associated":
        return pixels[..., : num_colors + 1]
    is_integer = pixels.dtype.kind == "u"
    largest = np.iinfo(pixels.dtype).max if is_integer else 1
    colors, opacity = np.split(
        pixels[..., : num_colors + 1] / np.float32(largest), [num_colors], axis=-1
    )
    straight = np.divide(colors, opacity, out=np.zeros_like(colors), where=opacity > 0)
    # Rounding lifts integers above 1; floating-point values above 1 are light.
    straight = straight.clip(max=1) if is_integer else straight
    return np.concatenate([straight, opacity], axis=-1)
