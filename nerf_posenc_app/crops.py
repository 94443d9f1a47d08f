"""Windows of an image: the most detailed one, and the reduced ones that previews show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.images import LARGE_PIXELS, unit_range

if TYPE_CHECKING:
    from jaxtyping import Shaped

PREVIEW_SIDE = 256
"""Longer side of a preview in pixels."""
# Windows of a large image begin at multiples of so many pixels.
_BLOCK = 8

Window = tuple[slice, slice]
"""Rows and columns of an image."""


def most_detailed_window(
    image: Shaped[Tensor, "height width 3"], window_height: int, window_width: int
) -> Window:
    """Window with the most fine detail: the energy of differences between neighboring pixels.

    In an image of more than 2 megapixels it begins at multiples of 8 pixels, if any such window of
    that size lies within the image.

    Args:
        image: values in [0, 1], or 8 or 16 bits without a sign.
        window_height: rows of the window, at most the image's.
        window_width: columns of the window, at most the image's.
    """
    height, width, _ = image.shape
    block = _BLOCK if height * width > LARGE_PIXELS else 1
    energy = _block_energies(image, block) if block > 1 else _detail_energy(unit_range(image))
    # Sums over windows are differences of an integral image, whatever the size of the window.
    integral = F.pad(energy.cumsum(0).cumsum(1), (1, 0, 1, 0))
    rows, columns = (max(1, -(-side // block)) for side in (window_height, window_width))
    rows, columns = min(rows, len(energy)), min(columns, energy.shape[1])
    bands = integral[rows:] - integral[:-rows]
    sums = bands[:, columns:] - bands[:, :-columns]
    top, left = (block * i for i in divmod(int(sums.argmax()), sums.shape[1]))
    top, left = min(top, height - window_height), min(left, width - window_width)
    return slice(top, top + window_height), slice(left, left + window_width)


def _detail_energy(rgb: Tensor, *, above: Tensor | None = None) -> Tensor:
    """Energy of the differences to the left and to the upper neighbor, in float64.

    Args:
        rgb: rows of an image, values in [0, 1].
        above: the row before the first, if there is one.
    """
    gray = rgb.mean(-1).double()
    energy = gray.new_zeros(gray.shape)
    energy[:, 1:] += gray.diff(dim=1).square()
    energy[1:, :] += gray.diff(dim=0).square()
    if above is not None:
        energy[0] += (gray[0] - above.mean(-1).double()).square()
    return energy


def _block_energies(image: Tensor, block: int) -> Tensor:
    """Sums of the detail's energy over square blocks, those at the edges smaller."""
    height, width, _ = image.shape
    sums = []
    for top in range(0, height, block):
        above = unit_range(image[top - 1]) if top > 0 else None
        rows = _detail_energy(unit_range(image[top : top + block]), above=above).sum(0)
        sums.append(F.pad(rows, (0, -width % block)).reshape(-1, block).sum(1))
    return torch.stack(sums)


def detail_crop(image: Shaped[Tensor, "height width 3"], *, side: int | None = None) -> Window:
    """Most detailed window of a quarter of each side, or of ``side`` pixels at most."""
    height, width, _ = image.shape
    if side is None:
        return most_detailed_window(image, max(1, height // 4), max(1, width // 4))
    return most_detailed_window(image, min(height, side), min(width, side))


def preview_windows(image: Shaped[Tensor, "height width 3"]) -> list[Window]:
    """Windows of a snapshot: the whole image and its detail crop, with strides to reduce them."""
    rows, columns = detail_crop(image)
    windows = []
    for window in ((slice(0, image.shape[0]), slice(0, image.shape[1])), (rows, columns)):
        longer_side = max(part.stop - part.start for part in window)
        stride = -(-longer_side // PREVIEW_SIDE)
        windows.append(
            (
                slice(window[0].start, window[0].stop, stride),
                slice(window[1].start, window[1].stop, stride),
            )
        )
    return windows
