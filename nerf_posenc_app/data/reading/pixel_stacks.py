"""The images of many views in one tensor."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.radiance.views import premultiplied

if TYPE_CHECKING:
    from jaxtyping import Shaped

# From narrow to wide, with the value of an opaque pixel; each holds those before it exactly.
_TYPES = {torch.uint8: 255, torch.uint16: 65535, torch.float32: 1}


def stacked(
    images: list[Shaped[Tensor, "_height _width _channels"]],
) -> Shaped[Tensor, "views height width channels"]:
    """Stack images in the narrowest type that holds all of them exactly.

    Smaller ones are padded on the right and below, by black and opaque pixels. The list is emptied
    meanwhile, so that no image is held twice.

    Args:
        images: RGB or RGBA, of 8 or 16 bits without a sign, or float32 multiplied by the opacity.
    """
    height, width, channels = (max(image.shape[i] for image in images) for i in range(3))
    dtype = max((image.dtype for image in images), key=list(_TYPES).index)
    stack = torch.zeros(len(images), height, width, channels, dtype=dtype)
    # Alpha of images that have none, and of what is padded: it must not make views transparent.
    stack[..., 3:] = torch.full((), _TYPES[dtype], dtype=dtype)
    for view in stack:
        image = _converted(images.pop(0), dtype)
        view[: image.shape[0], : image.shape[1], : image.shape[2]] = image
    return stack


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


def _converted(image: Tensor, dtype: torch.dtype) -> Tensor:
    """The same values in a type that is as wide or wider."""
    if dtype == torch.uint16 and image.dtype == torch.uint8:
        return (image.int() * 257).to(torch.uint16)
    return premultiplied(image) if dtype == torch.float32 else image
