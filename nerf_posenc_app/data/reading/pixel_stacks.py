"""The images of many views in one tensor."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.radiance.views import premultiplied

if TYPE_CHECKING:
    from jaxtyping import Shaped

# From narrow to wide, with the value of an opaque pixel; each holds those before it exactly.
_TYPES = {torch.uint8: 255, torch.uint16: 65535, torch.float32: 1}


class PixelStack:
    """Images in the narrowest type that holds all of them exactly.

    Smaller ones are padded on the right and below, by black and opaque pixels.

    Args:
        count: number of images.
        require_room: called with the bytes that all images take, before they are allocated; it
            raises an error if they are too many.

    Attributes:
        pixels: the images, ``(count, height, width, channels)``.
    """

    def __init__(self, count: int, require_room: Callable[[int], None]) -> None:
        self.pixels = torch.zeros(count, 0, 0, 3, dtype=torch.uint8)
        self._require_room = require_room
        self._num_images = 0

    def add(self, image: Shaped[Tensor, "_height _width _channels"]) -> None:
        """Add the next image.

        Args:
            image: RGB or RGBA, of 8 or 16 bits without a sign, or float32 multiplied by the
                opacity.
        """
        held = self.pixels[: self._num_images]
        dtype = max(held.dtype, image.dtype, key=list(_TYPES).index)
        shape = [len(self.pixels), *map(max, held.shape[1:], image.shape)]
        if (shape, dtype) != (list(self.pixels.shape), held.dtype):
            self._require_room(math.prod(shape) * dtype.itemsize)
            self.pixels = torch.zeros(shape, dtype=dtype)
            # Padding, and images without alpha, are opaque: they must not make views transparent.
            self.pixels[..., 3:] = torch.full((), _TYPES[dtype], dtype=dtype)
            for view, before in zip(self.pixels, held, strict=False):
                _put(view, before)
        _put(self.pixels[self._num_images], image)
        self._num_images += 1


def _put(view: Tensor, image: Tensor) -> None:
    """Copy an image into a larger one, of a type that is as wide or wider."""
    if view.dtype == torch.uint16 and image.dtype == torch.uint8:
        image = (image.int() * 257).to(torch.uint16)
    elif view.dtype == torch.float32:
        image = premultiplied(image)
    view[: image.shape[0], : image.shape[1], : image.shape[2]] = image


def memory() -> float:
    """Bytes of the machine's memory, or of the container's if it has less."""
    if not hasattr(os, "sysconf"):  # As on Windows.
        return math.inf
    found = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # Version 2 of control groups, and version 1. A group without a limit has the word max, or a
    # number above every memory.
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found = min(found, float(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return found
