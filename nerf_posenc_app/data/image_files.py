"""Images, from files or by the names of those that ship with the program, as upright RGB.

* 8 and 16 bits without alpha stay as they are, also those of a 16-bit color PNG, which Pillow would
  cut to 8 bits; all other values become float32 in [0, 1], integers divided by the largest value
  of their type, exactly;
* those of an image of more than 2 megapixels are rounded: to 8 bits if the file has 8, else to 16;
* Radiance and OpenEXR files hold linear light, and so do floating-point files with values above 1:
  light is mapped to [0, 1] by the mu-law;
* gray is repeated in the three channels, a palette is looked up, CMYK goes through
  Pillow's plain conversion (no color profile);
* alpha is composited over white;
* the EXIF orientation is applied;
* of several frames or pages the first is read, and a note says so;
* values stay as they are encoded (sRGB for nearly every file): no profile is applied, and a note
  names another one than sRGB;
* pixels without a value (NaN) get the weight 0.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.images import LARGE_PIXELS, Image
from nerf_posenc_app.data.arrays import record_in_memory
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.inside import files_in
from nerf_posenc_app.data.reading.record import Decoded, PixelArray, turned, unit_values
from nerf_posenc_app.data.reading.worker import Allowance, read_image
from nerf_posenc_app.data.shipped import made_by, shipped, shipped_file

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Shaped


IMAGE_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".ppm", ".pgm",
    ".heic", ".heif", ".avif", ".hdr", ".exr",
)  # fmt: skip
"""Endings of the files of a folder that are taken for images."""

# Rows are converted in blocks of this many pixels, so that no second image is in memory.
_STRIP_PIXELS = 1 << 16

# Largest difference between the channels of a mask, as a share of white: that of gray in JPEG.
_LARGEST_TINT = 32 / 255

# With fewer pixels, more than half of the star would be gray.
_SIDES = 64, 8192

MAX_PIXELS = 200_000_000
"""Most pixels of a file by default; what is larger is refused before it is decoded."""


def open_image(
    name_or_path: str,
    *,
    max_pixels: int = MAX_PIXELS,
    background: float = 1.0,
    size: int | None = None,
    as_light: bool = False,
) -> Image:
    """Open an image file, or one that ships with the program by its name.

    An existing file is always preferred. Otherwise a name such as ``cat``, ``cat.png`` or
    ``zone-plate`` stands for an image that ships with the program.

    Args:
        name_or_path: PNG, JPEG, TIFF, WebP, BMP, GIF, PPM, HEIC, AVIF, Radiance, OpenEXR or
            ``.npy`` file, or a name.
        max_pixels: a file with more is refused before it is decoded.
        background: gray in [0, 1] that transparent pixels are blended with; 1 is white.
        size: side in pixels of an image that is made by formula, 64 to 8,192; None for 512.
        as_light: whether linear light stays what it is, to be masked and averaged before
            `Image.tone_mapped` maps it to [0, 1].

    Raises:
        SceneError: If there is no such file or name, or the file cannot be read.
    """
    path = Path(name_or_path).expanduser()
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise SceneError(f"no image at {path}: {error.strerror}") from None
    if is_folder:
        raise SceneError(
            f"{path} is a folder; give the path of an image in it, or --scene "
            f"{shlex.quote(str(path))} if its images are views of one scene"
        )
    source = str(path)
    if not exists:
        file = shipped_file("image", name_or_path)
        if file is None:
            names = ", ".join(shipped("image"))
            is_scene = shipped_file("scene", name_or_path) is not None
            scene = f"{path} is a scene: --scene {path}, or " if is_scene else ""
            raise SceneError(f"no image at {path}; {scene}give an image file, or a name: {names}")
        if file.suffix == ".py":
            if size is not None and not _SIDES[0] <= size <= _SIDES[1]:
                raise SceneError(
                    f"{name_or_path} needs a --size of {_SIDES[0]} to {_SIDES[1]:,}; got {size}"
                )
            source = f"{file.stem}, made by formula"
            record = record_in_memory(made_by(file, "image", size))
            return image_of(record, name=path.stem, source=source)
        path, source = file, f"{file.name}, which ships with the program"
    record = read_image(path, max_pixels)
    name = Path(name_or_path).stem
    image = image_of(record, name=name, source=source, background=background)
    return image.tone_mapped() if image.is_light and not as_light else image


def image_of(record: Decoded, *, name: str, source: str, background: float = 1.0) -> Image:
    """Make an upright image of what a file holds.

    Args:
        record: the decoded pixels. What is transparent is laid over the background; pixels without
            a value get the weight 0; linear light stays light.
        name: name of the image.
        source: file or other origin of the pixels, for messages.
        background: gray in [0, 1] that transparent pixels are blended with.

    Raises:
        SceneError: If all pixels are transparent.
    """
    rgb, notes = _rgb_over(record, source, background), list[str]()
    image = Image.from_rgb(rgb, name=name, source=source)
    if record.is_transparent:
        gray = {0.0: "black", 1.0: "white"}.get(background, f"gray {background:g}")
        notes.append(f"transparent pixels are blended with {gray}")
    if record.has_value is not None:
        upright = turned(record.has_value, record.orientation)
        image = replace(image, weights=torch.from_numpy(upright.astype(np.float32)))
        missing = int((~record.has_value).sum())
        notes.append(f"{missing:,} pixels have no value (NaN), and are neither fitted nor scored")
    if record.dropped:
        notes.append(f"not read: {', '.join(record.dropped)}")
    return replace(image, is_light=record.is_light, notes=tuple(notes))


def image_in_memory(pixels: Any, *, is_light: bool = False) -> Image:
    """Make an image of an array or a tensor, as `record_in_memory` takes it."""
    record = record_in_memory(pixels, is_light=is_light)
    return image_of(record, name="image", source="image in memory")


def straight_image(
    record: Decoded, *, name: str, source: str
) -> tuple[Image, Float[Tensor, "height width"] | None]:
    """Make an upright image of the colors of a file before its opacity is applied.

    Returns:
        The image, and the opacity in [0, 1]; None if there is none.
    """
    image = image_of(replace(record, opacity=None), name=name, source=source)
    if record.opacity is None:
        return image, None
    upright = turned(record.opacity, record.orientation)
    return image, torch.from_numpy(unit_values(upright).astype(np.float32))


def read_mask(
    mask: Path | Tensor,
    name: str,
    *,
    max_pixels: int = MAX_PIXELS,
    is_upright: bool = True,
    allowance: Allowance | None = None,
) -> Bool[Tensor, "height width"]:
    """Read a mask: what is above half of the largest value is kept.

    Values that are all 0 or 1, in whatever type, are 0 and 1.

    Args:
        mask: a file, or values ``(height, width)`` in [0, 1].
        name: name of the mask, for messages.
        max_pixels: a file with more is refused before it is decoded.
        is_upright: whether the EXIF orientation of the file is applied.
        allowance: limits on reading it and others of a scene; None for its own limits.

    Raises:
        SceneError: If it cannot be read, or has colors, transparent pixels or linear light.
    """
    if isinstance(mask, Tensor):
        return mask > 0.5
    record = read_image(mask, max_pixels, allowance=allowance)
    if record.is_transparent:
        raise SceneError(f"{name} has transparent pixels; save it in black and white")
    if record.has_value is not None:
        raise SceneError(f"{name} has pixels without a value (NaN); set them to 0 or 1")
    # JPEG makes the channels of gray differ by some 20 of 255 at its edges.
    tint = unit_values(record.values.max(-1)) - unit_values(record.values.min(-1))
    if tint.max() > _LARGEST_TINT:
        raise SceneError(f"{name} has colors; save it in black and white: white is kept")
    gray = record.values[..., record.values.shape[-1] // 2]
    gray = turned(gray, record.orientation) if is_upright else gray
    is_binary = gray.dtype.kind == "u" and int(gray.max()) <= 1
    kept = gray > 0 if is_binary else unit_values(gray) > 0.5
    return torch.from_numpy(np.ascontiguousarray(kept))


def images_in(folder: Path) -> list[Path]:
    """Image files of a folder, by name; see `files_in`."""
    return files_in(folder, IMAGE_SUFFIXES)


def stored_pixels(
    path: Path, *, max_pixels: int = MAX_PIXELS, allowance: Allowance | None = None
) -> tuple[Shaped[Tensor, "height width channels"], Decoded]:
    """RGB of a view as it is stored, and its opacity if it has one, not premultiplied.

    The EXIF orientation is not applied: cameras and poses are those of the stored pixels.

    Args:
        path: path of the file.
        max_pixels: a file with more is refused before it is decoded.
        allowance: limits on reading it and others of a scene; None for its own limits.

    Returns:
        8 or 16 bits of a file that has them, else float32 in [0, 1], linear light encoded as sRGB;
        and what the file holds.

    Raises:
        SceneError: If the file cannot be read, or has values above 1, or pixels without a value.
    """
    record = read_image(path, max_pixels, allowance=allowance)
    if record.values.dtype.kind == "f" and float(record.values.max()) > 1:
        raise SceneError(f"{path} contains values above 1; views are in [0, 1]: scale them into it")
    if record.has_value is not None:
        raise SceneError(f"{path} has pixels without a value (NaN); leave them out by a mask")
    height, width, _ = record.values.shape
    opacity = record.opacity
    is_kept = record.values.dtype in (np.uint8, np.uint16)
    dtype = record.values.dtype if is_kept else np.dtype(np.float32)
    stored = np.empty((height, width, 3 if opacity is None else 4), dtype)
    for rows in _strips(record.values):
        colors = record.values[rows] if is_kept else unit_values(record.values[rows])
        stored[rows, :, :3] = _encoded_as_srgb(colors) if record.is_light else colors
        if opacity is not None:
            stored[rows, :, 3] = opacity[rows] if is_kept else unit_values(opacity[rows])
    return torch.from_numpy(stored), record


def _encoded_as_srgb(light: PixelArray) -> PixelArray:
    """Encode linear light in [0, 1] as sRGB (IEC 61966-2-1)."""
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def _rgb_over(record: Decoded, source: str, background: float) -> Tensor:
    """Upright RGB over a gray, in the type that the pixels have or that their values need."""
    pixels, opacity = record.values, record.opacity
    height, width, _ = pixels.shape
    if opacity is not None and not opacity.any():
        raise SceneError(
            f"{source} is fully transparent: its alpha is 0 everywhere; save it without alpha"
        )
    dtype: Any = np.float32
    if pixels.dtype in (np.uint8, np.uint16) and opacity is None:
        dtype = pixels.dtype
    elif height * width > LARGE_PIXELS and not record.is_light:
        dtype = np.uint8 if pixels.dtype.itemsize == 1 else np.uint16
    rgb = np.empty((height, width, 3), dtype=dtype)
    for rows in _strips(pixels):
        if dtype == pixels.dtype and opacity is None:
            rgb[rows] = pixels[rows]
            continue
        values = unit_values(pixels[rows])
        if opacity is not None:
            alpha = unit_values(opacity[rows])[..., None]
            values = values * alpha + background * (1 - alpha)
        rgb[rows] = values if dtype == np.float32 else np.rint(values * np.iinfo(dtype).max)
    return torch.from_numpy(np.ascontiguousarray(turned(rgb, record.orientation)))


def _strips(pixels: PixelArray) -> list[slice]:
    height = max(1, _STRIP_PIXELS // pixels.shape[1])
    return [slice(top, top + height) for top in range(0, len(pixels), height)]
