"""Tile pyramids: a large image as small files, of which a page loads those that it shows."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from nerf_posenc_app.report.images import eight_bit
from nerf_posenc_app.values.names import file_stem

if TYPE_CHECKING:
    from jaxtyping import Shaped

TILES = "tiles"
"""Folder of a run, beside its page."""

_SIDE = 512
# At a lower quality the files would hide the differences between good fits.
_QUALITY = 92
_STRIP = 512


@dataclass(frozen=True)
class TilePyramid:
    """Tiles of an image and its reconstructions.

    The tile of row r and column c of level z is the file ``tiles/NAME/z-r-c.jpg``. Level 0 has the
    pixels of the image, each further level half as many per side.

    Attributes:
        names: names of the image and its reconstructions.
        width: width of the image in pixels.
        height: height of the image in pixels.
        levels: number of levels.
        side: side length of a tile in pixels, those at the right and the lower edge smaller.
    """

    names: Sequence[str]
    width: int
    height: int
    levels: int
    side: int = _SIDE

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        folders = {name: file_stem(name) for name in self.names}
        return {**asdict(self), "folder": TILES, "folders": folders}


def write_tiles(
    folder: Path, images: Mapping[str, Shaped[Tensor, "height width 3"]]
) -> TilePyramid:
    """Write the pyramids of images of one size.

    Args:
        folder: run folder of the run.
        images: the images, by the names that the page shows.

    Raises:
        OSError: If a tile cannot be written.
    """
    levels = 0
    for name, image in images.items():
        fit_folder = folder / TILES / file_stem(name)
        fit_folder.mkdir(parents=True)
        pixels, levels = eight_bit(image), 0
        while levels == 0 or max(pixels.shape) > _SIDE:
            pixels = pixels if levels == 0 else _halved(pixels)
            _write_level(fit_folder, levels, pixels)
            levels += 1
    height, width, _ = next(iter(images.values())).shape
    return TilePyramid(list(images), width, height, levels)


def _write_level(folder: Path, level: int, pixels: npt.NDArray[np.uint8]) -> None:
    height, width, _ = pixels.shape
    for row, top in enumerate(range(0, height, _SIDE)):
        for column, left in enumerate(range(0, width, _SIDE)):
            tile = Image.fromarray(
                np.ascontiguousarray(pixels[top : top + _SIDE, left : left + _SIDE])
            )
            buffer = io.BytesIO()
            tile.save(buffer, "JPEG", quality=_QUALITY, subsampling=0)
            (folder / f"{level}-{row}-{column}.jpg").write_bytes(buffer.getvalue())


def _halved(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Means of 2 x 2 pixels; a last odd row or column is repeated."""
    height, width, channels = pixels.shape
    halved = np.empty(((height + 1) // 2, (width + 1) // 2, channels), dtype=np.uint8)
    for top in range(0, height, _STRIP):
        strip = pixels[top : top + _STRIP]
        strip = np.pad(strip, ((0, len(strip) % 2), (0, width % 2), (0, 0)), mode="edge")
        sums = strip[::2, ::2].astype(np.uint16) + strip[::2, 1::2]
        sums += strip[1::2, ::2].astype(np.uint16) + strip[1::2, 1::2]
        halved[top // 2 : top // 2 + len(sums)] = (sums + 2) // 4
    return halved
