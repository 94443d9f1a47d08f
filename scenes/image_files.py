"""Image files and bundled samples, as upright RGB.

* 8 and 16 bits without alpha stay as they are, also those of a 16-bit color PNG, which Pillow would
  cut to 8 bits; all other values become float32 in [0, 1], integers divided by the largest value
  of their type, exactly;
* those of an image of more than 2 megapixels are rounded: to 8 bits if the file has 8, else to 16;
* floating-point files are in [0, 1], or of linear light with values above 1: these are mapped to
  [0, 1] by the mu-law;
* gray is repeated in the three channels, a palette is looked up, CMYK goes through
  Pillow's plain conversion (no color profile);
* alpha is composited over white;
* the EXIF orientation is applied;
* of several frames or pages the first is read;
* values stay as they are encoded (sRGB for nearly every file): no profile is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS, Image
from nerf_posenc.plugins import PluginTable
from scenes.builtin.patterns import PATTERNS, open_pattern
from scenes.errors import SceneError
from scenes.reading.worker import Allowance, read_image

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

PixelArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """A bundled image.

    Attributes:
        file: its file.
        source: its author and license.
    """

    file: Path
    source: str


def _as_sample(value: Any) -> Sample:
    if isinstance(value, Sample):
        return value
    raise TypeError(f"a sample is a Sample, not {value}")


SAMPLES: PluginTable[Sample] = PluginTable(
    "nerf_posenc.samples",
    {"cat": Sample(Path(__file__).parent / "builtin" / "cat.png", "Stefan van der Walt, CC0")},
    accept=_as_sample,
)
"""Bundled images by name; another distribution adds one as an entry point of this group."""

IMAGE_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".ppm", ".pgm",
    ".heic", ".heif", ".avif", ".hdr", ".exr",
)  # fmt: skip
"""Endings of the files of a folder that are taken for images."""

# Rows are converted so many pixels at a time, so that nothing of the whole image is held twice.
_STRIP_PIXELS = 1 << 16


MAX_PIXELS = 200_000_000
"""Most pixels of a file by default; what is larger is refused before it is decoded."""


def open_image(
    name_or_path: str,
    *,
    max_pixels: int = MAX_PIXELS,
    background: float = 1.0,
    pattern_size: int = 512,
) -> Image:
    """Open an image file, or a bundled sample or a pattern by its name.

    An existing file is always preferred. Otherwise a name such as ``cat`` or ``cat.png`` stands
    for the sample.

    Args:
        name_or_path: PNG, JPEG, TIFF, WebP, BMP, GIF, PPM, HEIC or AVIF file, or one of
            ``SAMPLES``, or a name that `patterns.open_pattern` knows.
        max_pixels: a file with more is refused before it is decoded.
        background: gray in [0, 1] that transparent pixels are laid over; 1 is white.
        pattern_size: side of a pattern in pixels.

    Raises:
        SceneError: If there is no such file, sample or pattern, or the file cannot be read.
    """
    path = Path(name_or_path)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise SceneError(f"no image at {path}: {error.strerror}") from None
    if is_folder:
        raise SceneError(f"{path} is a folder; give the path of an image in it")
    if exists:
        pixels, _ = read_image(path, max_pixels)
        return image_from_pixels(pixels, name=path.stem, source=str(path), background=background)
    if path.parent == Path() and path.stem in SAMPLES and path.suffix in ("", ".png", ".jpg"):
        sample = SAMPLES[path.stem]
        source = f"bundled sample {path.stem} ({sample.source})"
        pixels, _ = read_image(sample.file, max_pixels)
        return image_from_pixels(pixels, name=path.stem, source=source, background=background)
    if (pattern := open_pattern(name_or_path, pattern_size)) is not None:
        return pattern
    raise SceneError(
        f"no image at {path}; give an image file, a sample: {', '.join(sorted(SAMPLES))}, or a "
        f"pattern: {', '.join(PATTERNS)}"
    )


def image_from_pixels(
    pixels: PixelArray, *, name: str, source: str, background: float = 1.0
) -> Image:
    """Make an image of decoded pixels.

    Args:
        pixels: ``(height, width, channels)``: gray, gray and alpha, RGB or RGBA.
        name: name of the image.
        source: file or other origin of the pixels, for messages.
        background: gray in [0, 1] that transparent pixels are laid over.

    Raises:
        SceneError: If all pixels are transparent.
    """
    rgb, is_transparent = _rgb_from_pixels(pixels, source, background)
    image = Image.from_rgb(rgb, name=name, source=source)
    if is_transparent:
        gray = {0.0: "black", 1.0: "white"}.get(background, f"gray {background:g}")
        image = replace(image, notes=(f"transparent pixels are laid over {gray}",))
    return image.tone_mapped() if rgb.is_floating_point() and float(rgb.max()) > 1 else image


def open_alpha(path: Path, *, max_pixels: int = MAX_PIXELS) -> Float[Tensor, "height width"] | None:
    """Opacity of an image file in [0, 1], upright; None if it has none.

    Raises:
        SceneError: If the file cannot be read.
    """
    pixels, _ = read_image(path, max_pixels)
    if pixels.shape[2] not in (2, 4):
        return None
    return torch.from_numpy(_unit_range(pixels[..., -1]).astype(np.float32))


def images_in(folder: Path) -> list[Path]:
    """Image files of a folder by name, without hidden ones, as macOS leaves beside them."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in IMAGE_SUFFIXES and file.name[0] != "." and file.is_file()
    )


def stored_pixels(
    path: Path, *, max_pixels: int = MAX_PIXELS, allowance: Allowance | None = None
) -> tuple[Shaped[Tensor, "height width channels"], int]:
    """RGB of an image file as it is stored, and its alpha if it has one, not premultiplied.

    The EXIF orientation is not applied: cameras and poses are those of the stored pixels.

    Args:
        path: path of the file.
        max_pixels: a file with more is refused before it is decoded.
        allowance: what reading it and others of a scene may take; None is its own.

    Returns:
        8 or 16 bits of a file that has them, else float32 in [0, 1]; and the EXIF orientation.

    Raises:
        SceneError: If the file cannot be read.
    """
    pixels, orientation = read_image(path, max_pixels, is_upright=False, allowance=allowance)
    if pixels.dtype.kind == "f" and float(pixels.max()) > 1:
        raise SceneError(f"{path} contains values above 1; views are in [0, 1]: scale them into it")
    height, width, channels = pixels.shape
    num_colors = channels - (channels in (2, 4))
    is_kept = pixels.dtype in (np.uint8, np.uint16)
    dtype = pixels.dtype if is_kept else np.dtype(np.float32)
    stored = np.empty((height, width, channels - num_colors + 3), dtype)
    for rows in _strips(pixels):
        values = pixels[rows] if is_kept else _unit_range(pixels[rows])
        stored[rows, :, :3] = values[..., :num_colors]
        stored[rows, :, 3:] = values[..., num_colors:]
    return torch.from_numpy(stored), orientation


def _rgb_from_pixels(pixels: PixelArray, source: str, background: float) -> tuple[Tensor, bool]:
    """RGB over a gray, in the type that the pixels have or that their values need.

    Returns:
        The values, and whether some are transparent.
    """
    height, width, channels = pixels.shape
    has_alpha = channels in (2, 4)
    if has_alpha and not pixels[..., -1].any():
        raise SceneError(
            f"{source} is fully transparent: its alpha is 0 everywhere; save it without alpha"
        )
    if pixels.dtype in (np.uint8, np.uint16) and not has_alpha:
        kept = np.empty((height, width, 3), dtype=pixels.dtype)
        kept[...] = pixels
        return torch.from_numpy(kept), False
    dtype: Any = np.float32
    is_hdr = pixels.dtype.kind == "f" and float(pixels.max()) > 1
    if height * width > LARGE_PIXELS and not is_hdr:
        dtype = np.uint8 if pixels.dtype.itemsize == 1 else np.uint16
    rgb, is_transparent = np.empty((height, width, 3), dtype=dtype), False
    for rows in _strips(pixels):
        values = _unit_range(pixels[rows])
        if has_alpha:
            alpha = values[..., -1:]
            is_transparent |= bool((alpha < 1).any())
            values = values[..., :-1] * alpha + background * (1 - alpha)
        if dtype != np.float32:
            values = np.rint(values * np.iinfo(dtype).max)
        rgb[rows] = values
    return torch.from_numpy(rgb), is_transparent


def _strips(pixels: PixelArray) -> list[slice]:
    height = max(1, _STRIP_PIXELS // pixels.shape[1])
    return [slice(top, top + height) for top in range(0, len(pixels), height)]


def _unit_range(pixels: PixelArray) -> PixelArray:
    """Scale unsigned integers and booleans to [0, 1], exactly; floats are there already."""
    if np.issubdtype(pixels.dtype, np.unsignedinteger):
        return pixels.astype(np.float64) / np.iinfo(pixels.dtype).max
    return pixels.astype(np.float64)
