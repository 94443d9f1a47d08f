"""Image files and bundled samples, as upright float32 RGB in [0, 1].

* integers are divided by the largest value of their type (8 bit: 255, 16 bit: 65,535),
  exactly, also for 16-bit color PNG, which Pillow would cut to 8 bits;
* floating-point files must be in [0, 1] already;
* gray is repeated in the three channels, a palette is looked up, CMYK goes through
  Pillow's plain conversion (no color profile);
* alpha is composited over white;
* the EXIF orientation is applied;
* of several frames or pages the first is read;
* values stay as they are encoded (sRGB for nearly every file): no profile is applied.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageOps
import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.images import Image
from scenes.errors import SceneError

SAMPLES = {
    "astronaut": ("astronaut.png", "NASA, public domain"),
    "cat": ("chelsea.png", "Stefan van der Walt, CC0"),
    "coffee": ("coffee.png", "Rachel Michetti, CC0"),
    "hubble": ("hubble_deep_field.jpg", "NASA, public domain"),
    "motorcycle": ("motorcycle_left.png", "Middlebury stereo 2014, CC0"),
    "retina": ("retina.jpg", "Hakan Eren Ucar, CC0"),
    "rocket": ("rocket.jpg", "SpaceX, CC0"),
}
"""Bundled samples: file in scikit-image's wheel, and source."""

_EXIF_ORIENTATION = 274


def open_image(name_or_path: str) -> Image:
    """Open an image file, or a bundled sample by its name.

    An existing file is always preferred. Otherwise a name such as ``cat`` or ``cat.png`` stands
    for the sample.

    Raises:
        SceneError: If there is no such file or sample, or the file cannot be read.
    """
    path = Path(name_or_path)
    if path.is_dir():
        raise SceneError(f"{path} is a folder; give the path of an image in it")
    if path.exists():
        return Image.from_rgb(_rgb_from_file(path), name=path.stem, source=str(path))
    if path.parent == Path() and path.stem in SAMPLES and path.suffix in ("", ".png", ".jpg"):
        file, origin = SAMPLES[path.stem]
        import skimage

        sample = Path(skimage.__file__).parent / "data" / file
        source = f"bundled sample {path.stem} (scikit-image: {file}; {origin})"
        return Image.from_rgb(_rgb_from_file(sample), name=path.stem, source=source)
    raise SceneError(
        f"no image at {path}; give an image file or a sample: {', '.join(sorted(SAMPLES))}"
    )


def rgba_from_file(path: Path) -> Float[Tensor, "height width 4"]:
    """RGB and opacity of an image file, values in [0, 1], not premultiplied.

    Raises:
        SceneError: If the file cannot be read.
    """
    values = _channels_from_file(path)
    gray = values.shape[2] < 3
    rgb = np.repeat(values[..., :1], 3, axis=-1) if gray else values[..., :3]
    opacity = values[..., -1:] if values.shape[2] in (2, 4) else np.ones_like(values[..., :1])
    rgba = np.concatenate([rgb, opacity], axis=-1)
    return torch.from_numpy(np.array(rgba, dtype=np.float32, order="C"))


def _rgb_from_file(path: Path) -> Tensor:
    """RGB over white."""
    values = _channels_from_file(path)
    rgb = values
    if values.shape[2] in (2, 4):
        alpha = values[..., -1:]
        rgb = values[..., :-1] * alpha + (1 - alpha)
    rgb = np.broadcast_to(rgb, (*rgb.shape[:2], 3))
    return torch.from_numpy(np.array(rgb, dtype=np.float32, order="C"))


def _channels_from_file(path: Path) -> npt.NDArray[Any]:
    """Values in [0, 1], ``(height, width, 1...4)``: gray or RGB, with or without alpha."""
    try:
        pixels = _pixels_from_file(path)
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SceneError(
            f"cannot read {path} as an image: it is damaged or of an unknown format ({reason})"
        ) from error
    values = _unit_range(pixels, path)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or not 1 <= values.shape[2] <= 4 or 0 in values.shape:
        raise SceneError(
            f"{path} contains an array of shape {pixels.shape}, not an image of 1 to 4 channels"
        )
    return values


def _pixels_from_file(path: Path) -> npt.NDArray[Any]:
    """Stored pixels, upright, ``(height, width)`` or ``(height, width, 1...4)``."""
    with path.open("rb") as file:
        head = file.read(26)
    if not head:
        raise ValueError("the file is empty")
    is_png16 = head[:8] == b"\x89PNG\r\n\x1a\n" and head[24:25] == b"\x10"
    if is_png16:
        return _upright(_read_png16(path), _exif_orientation(path))
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return _read_tiff(path)
    with PIL.Image.open(path) as image:
        upright = PIL.ImageOps.exif_transpose(image)
        if upright.mode in ("I;16", "I;16B", "I;16L", "F"):
            return np.asarray(upright)
        if upright.mode == "I":
            return np.asarray(upright).astype(np.uint16)
        has_alpha = upright.has_transparency_data
        return np.asarray(upright.convert("RGBA" if has_alpha else "RGB"))


def _read_png16(path: Path) -> npt.NDArray[Any]:
    """All 16 bits of a PNG."""
    import png

    with path.open("rb") as file:
        width, height, rows, info = png.Reader(file=file).asDirect()
        pixels = np.vstack([np.asarray(row, dtype=np.uint16) for row in rows])
    return pixels.reshape(height, width, info["planes"])


def _exif_orientation(path: Path) -> int:
    with PIL.Image.open(path) as image:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))


def _read_tiff(path: Path) -> npt.NDArray[Any]:
    """First page of a TIFF, with every bit of its depth."""
    import tifffile

    with tifffile.TiffFile(path) as tiff:
        page: Any = tiff.pages[0]
        orientation = int(page.tags[_EXIF_ORIENTATION].value) if 274 in page.tags else 1
        photometric = page.photometric
        pixels: npt.NDArray[Any] = page.asarray()
        if page.planarconfig == tifffile.PLANARCONFIG.SEPARATE and pixels.ndim == 3:
            pixels = np.moveaxis(pixels, 0, -1)
        if photometric == tifffile.PHOTOMETRIC.PALETTE:
            pixels = np.moveaxis(np.asarray(page.colormap), 0, -1)[pixels]
    kinds = tifffile.PHOTOMETRIC
    if photometric == kinds.MINISWHITE:
        pixels = ~pixels if pixels.dtype == bool else np.iinfo(pixels.dtype).max - pixels
    elif photometric == kinds.SEPARATED:
        inks = np.asarray(_unit_range(pixels, path)[..., :4])
        eight_bit = PIL.Image.fromarray(np.round(inks * 255).astype(np.uint8), mode="CMYK")
        pixels = np.asarray(eight_bit.convert("RGB"))
    elif photometric not in (kinds.MINISBLACK, kinds.RGB, kinds.PALETTE, kinds.YCBCR):
        raise ValueError(f"TIFF color space {photometric.name} is not supported; save it as RGB")
    return _upright(pixels, orientation)


def _upright(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Undo an EXIF orientation (EXIF 2.3, tag 274): 1...8, other values mean 1."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    flip_rows = orientation in (3, 4, 7, 8)
    flip_columns = orientation in (2, 3, 6, 7)
    return pixels[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]


def _unit_range(pixels: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """Scale unsigned integers and booleans to [0, 1]; floating-point values must be there."""
    if pixels.dtype == bool:
        return pixels.astype(np.float32)
    if np.issubdtype(pixels.dtype, np.unsignedinteger):
        return pixels.astype(np.float64) / np.iinfo(pixels.dtype).max
    if np.issubdtype(pixels.dtype, np.floating):
        if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
            raise SceneError(
                f"{path} contains floating-point values outside [0, 1]; scale them into it first"
            )
        return pixels
    raise SceneError(
        f"{path} contains {pixels.dtype} pixels; save it with 8 or 16 bits per channel"
    )
