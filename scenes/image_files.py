"""A picture, from a file or a bundled sample, as coordinates and colours.

However a file stores its pixels, they become upright float32 RGB in [0, 1]:

* integers are divided by the largest value of their type (8 bit: 255, 16 bit: 65,535),
  exactly, also for 16-bit colour PNG, which Pillow would cut to 8 bits;
* floating-point files must hold [0, 1] already;
* grey is repeated in the three channels, a palette is looked up, CMYK goes through
  Pillow's plain conversion (no colour profile);
* alpha is laid over white;
* the EXIF orientation is applied;
* of several frames or pages the first is taken;
* values stay as they are encoded (sRGB for nearly every file): no profile is applied.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from scenes.scene import SceneError

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


@dataclass(frozen=True)
class Picture:
    """A picture and where it came from.

    Attributes:
        name: stem of the file or name of the sample.
        colours: float32 RGB in [0, 1].
        source: one line on where it came from.
    """

    name: str
    colours: Float[Tensor, "height width 3"]
    source: str

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        height, width, _ = self.colours.shape
        return width, height

    def coordinates(self) -> Float[Tensor, "num_pixels 2"]:
        """Pixel centres (x, y), row by row: x right, y down, the longer side spanning [-1, 1]."""
        width, height = self.size
        pixel = 2 / max(width, height)
        x = (torch.arange(width, dtype=torch.float64) + 0.5 - width / 2) * pixel
        y = (torch.arange(height, dtype=torch.float64) + 0.5 - height / 2) * pixel
        grid = torch.meshgrid(x, y, indexing="xy")
        return torch.stack(grid, dim=-1).reshape(-1, 2).float()

    @property
    def nyquist(self) -> float:
        """Highest angular frequency that the pixels can hold, in rad per unit: pi a pixel."""
        return float(np.pi) * max(self.size) / 2

    def resized(self, longer_side: int) -> "Picture":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges.

        Raises:
            SceneError: where ``longer_side`` is below 1.
        """
        if longer_side < 1:
            raise SceneError(f"the size must be 1 pixel or more; got {longer_side}")
        width, height = self.size
        scale = longer_side / max(width, height)
        if scale >= 1:
            return self
        shape = max(1, round(height * scale)), max(1, round(width * scale))
        colours = torch.nn.functional.interpolate(
            self.colours.permute(2, 0, 1)[None], size=shape, mode="area"
        )
        return Picture(self.name, colours[0].permute(1, 2, 0).contiguous(), self.source)


def open_picture(name_or_path: str) -> Picture:
    """Open a picture file, or a bundled sample by its name.

    A file that exists is always preferred. Where there is none, a name such as ``cat`` or
    ``cat.png`` stands for the sample.

    Raises:
        SceneError: where there is no such file or sample, or the file is no readable picture.
    """
    path = Path(name_or_path)
    if path.is_dir():
        raise SceneError(f"{path} is a folder; give the path of a picture in it")
    if path.exists():
        return Picture(path.stem, _colours_from_file(path), str(path))
    if path.parent == Path() and path.stem in SAMPLES and path.suffix in ("", ".png", ".jpg"):
        file, origin = SAMPLES[path.stem]
        import skimage

        sample = Path(skimage.__file__).parent / "data" / file
        source = f"bundled sample {path.stem} (scikit-image: {file}; {origin})"
        return Picture(path.stem, _colours_from_file(sample), source)
    raise SceneError(
        f"no picture at {path}; give a picture file or a sample: {', '.join(sorted(SAMPLES))}"
    )


def rgba_from_file(path: Path) -> Float[Tensor, "height width 4"]:
    """Colours and opacity of a picture file, values in [0, 1], not multiplied.

    Raises:
        SceneError: where the file is no readable picture.
    """
    values = _channels_from_file(path)
    grey = values.shape[2] < 3
    colours = np.repeat(values[..., :1], 3, axis=-1) if grey else values[..., :3]
    opacity = values[..., -1:] if values.shape[2] in (2, 4) else np.ones_like(values[..., :1])
    rgba = np.concatenate([colours, opacity], axis=-1)
    return torch.from_numpy(np.array(rgba, dtype=np.float32, order="C"))


def _colours_from_file(path: Path) -> Tensor:
    """RGB over white."""
    values = _channels_from_file(path)
    colours = values
    if values.shape[2] in (2, 4):
        alpha = values[..., -1:]
        colours = values[..., :-1] * alpha + (1 - alpha)
    colours = np.broadcast_to(colours, (*colours.shape[:2], 3))
    return torch.from_numpy(np.array(colours, dtype=np.float32, order="C"))


def _channels_from_file(path: Path) -> npt.NDArray[Any]:
    """Values in [0, 1], ``(height, width, 1...4)``: grey or RGB, each with alpha or without."""
    try:
        pixels = _pixels_from_file(path)
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SceneError(
            f"cannot read {path} as a picture: it is damaged or of an unknown format ({reason})"
        ) from error
    values = _unit_range(pixels, path)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or not 1 <= values.shape[2] <= 4 or 0 in values.shape:
        raise SceneError(
            f"{path} holds an array of shape {pixels.shape}, not a picture of 1 to 4 channels"
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
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image)
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
    from PIL import Image

    with Image.open(path) as image:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))


def _read_tiff(path: Path) -> npt.NDArray[Any]:
    """First page of a TIFF, with every bit of its depth."""
    import tifffile
    from PIL import Image

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
        eight_bit = Image.fromarray(np.round(inks * 255).astype(np.uint8), mode="CMYK")
        pixels = np.asarray(eight_bit.convert("RGB"))
    elif photometric not in (kinds.MINISBLACK, kinds.RGB, kinds.PALETTE, kinds.YCBCR):
        raise ValueError(f"TIFF colour space {photometric.name} is not supported; save it as RGB")
    return _upright(pixels, orientation)


def _upright(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Undo an EXIF orientation (EXIF 2.3, tag 274): 1...8, other values mean 1."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    flip_rows = orientation in (3, 4, 7, 8)
    flip_columns = orientation in (2, 3, 6, 7)
    return pixels[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]


def _unit_range(pixels: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    """Values in [0, 1] from whole numbers, truth values or reals that are there already."""
    if pixels.dtype == bool:
        return pixels.astype(np.float32)
    if np.issubdtype(pixels.dtype, np.unsignedinteger):
        return pixels.astype(np.float64) / np.iinfo(pixels.dtype).max
    if np.issubdtype(pixels.dtype, np.floating):
        if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
            raise SceneError(
                f"{path} holds floating-point values outside [0, 1]; scale them into it first"
            )
        return pixels
    raise SceneError(f"{path} holds {pixels.dtype} pixels; save it with 8 or 16 bits a channel")
