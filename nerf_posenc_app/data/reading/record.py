"""Decoded contents of a file of pixels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PixelArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Decoded:
    """Pixels of a file, as its format means them; the same for every format.

    Images, views and masks are made of it, and each uses all of its fields or says which it does
    not use.

    Attributes:
        values: colors ``(height, width, 1 or 3)``, not multiplied by the opacity: booleans,
            unsigned integers, or floating-point numbers in [0, 1], or of linear light.
        opacity: share of each pixel that is covered, ``(height, width)``, of the type of the values
            or floating-point; None if the file has none.
        has_value: pixels that are numbers, ``(height, width)``; None for all.
        is_light: whether the values are linear light, not encoded as sRGB.
        orientation: EXIF orientation, 1 for none. It is not applied.
        dropped: what the file has and this record does not, one phrase each.
    """

    values: PixelArray
    opacity: PixelArray | None = None
    has_value: npt.NDArray[np.bool_] | None = None
    is_light: bool = False
    orientation: int = 1
    dropped: tuple[str, ...] = ()

    @property
    def is_transparent(self) -> bool:
        """Whether a pixel is less than opaque."""
        if self.opacity is None:
            return False
        return bool((unit_values(self.opacity) < 1).any())


def unit_values(pixels: PixelArray) -> PixelArray:
    """Scale unsigned integers and booleans to [0, 1], in float64; floats stay what they are."""
    if np.issubdtype(pixels.dtype, np.unsignedinteger):
        return pixels.astype(np.float64) / np.iinfo(pixels.dtype).max
    return pixels.astype(np.float64)


def turned(pixels: PixelArray, orientation: int) -> PixelArray:
    """Undo an EXIF orientation (EXIF 2.3, tag 274): 1...8, other values mean 1."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    flip_rows = orientation in (3, 4, 7, 8)
    flip_columns = orientation in (2, 3, 6, 7)
    return pixels[:: -1 if flip_rows else 1, :: -1 if flip_columns else 1]
