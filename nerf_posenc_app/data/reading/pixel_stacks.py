"""The images of many views in one tensor: in memory, or in a memory-mapped file."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nerf_posenc.radiance.views import premultiplied
from nerf_posenc_app.data.errors import SceneError

if TYPE_CHECKING:
    from jaxtyping import Shaped

# Share of the machine's memory for the training images, and the same for the test images.
_LARGEST_SHARE = 0.25
# From narrow to wide, with the value of an opaque pixel; each holds those before it exactly.
_TYPES = {torch.uint8: 255, torch.uint16: 65535, torch.float32: 1}
_NUMPY = {torch.uint8: np.uint8, torch.uint16: np.uint16, torch.float32: np.float32}


class _WiderError(Exception):
    """An image does not fit the type of those before it."""


def stack_images(
    read: Callable[[int], Shaped[Tensor, "height width channels"]], count: int, path: Path
) -> tuple[Shaped[Tensor, "views height width channels"], bool]:
    """Stack images of one size in the narrowest type that holds all of them exactly.

    What takes more than a quarter of the machine's memory is written to a file without a name in
    the system's temporary folder, one image at a time, and mapped into memory. The system removes
    the file when the program ends, however it ends.

    Args:
        read: function from an index to an image: RGB or RGBA, of 8 or 16 bits without a sign, or
            float32 multiplied by the opacity.
        count: images, 1 or more.
        path: path of the first one, for messages.

    Returns:
        The images, and whether they are mapped.

    Raises:
        SceneError: If the file does not fit on its disk.
    """
    first = read(0)
    height, width, channels = first.shape
    dtype = first.dtype
    widest = first

    def images() -> Iterator[Tensor]:
        nonlocal widest
        for i in range(count):
            widest = read(i) if i else first
            yield _converted(widest, dtype, channels)

    while True:
        shape = count, height, width, channels
        is_mapped = math.prod(shape) * dtype.itemsize > _LARGEST_SHARE * _memory()
        try:
            if is_mapped:
                return _mapped(images(), shape, dtype, path), True
            pixels = torch.empty(shape, dtype=dtype)
            for i, image in enumerate(images()):
                pixels[i] = image
            return pixels, False
        except _WiderError:  # Rare, so that reading the first ones again costs less than a scan.
            channels = max(channels, widest.shape[2])
            dtype = max(dtype, widest.dtype, key=list(_TYPES).index)


def mapped_note(num_bytes: int) -> str:
    """Remark that images are read from a memory-mapped file."""
    return (
        f"the images take {num_bytes / 1e9:.1f} GB, more than a quarter of this machine's memory: "
        f"they are read from a temporary file in {tempfile.gettempdir()} as they are needed; "
        "--size reduces them"
    )


def _memory() -> float:
    """Bytes of the machine's memory, or of the container's if it has less."""
    if not hasattr(os, "sysconf"):  # As on Windows, where everything is kept in memory.
        return math.inf
    memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # Version 2 of control groups, and version 1. A group without a limit has the word max, or a
    # number above every memory.
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            memory = min(memory, float(Path(file).read_text()))
        except (OSError, ValueError):
            continue
    return memory


def _mapped(
    images: Iterator[Tensor], shape: tuple[int, int, int, int], dtype: torch.dtype, path: Path
) -> Tensor:
    """Write images to a temporary file and map it.

    Raises:
        SceneError: If the file does not fit on its disk.
    """
    needed = math.prod(shape) * dtype.itemsize
    problem = (
        f"{shape[0]} views of {shape[2]} x {shape[1]} beside {path} take {needed / 1e9:.1f} GB, "
        "more than a quarter of this machine's memory, and do not fit on the disk of temporary "
        "files either ({}); reduce them by --size, or set TMPDIR to a folder with more room"
    )
    try:
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise SceneError(problem.format(f"{folder} has {free / 1e9:.1f} GB left"))
        with tempfile.TemporaryFile() as file:
            for image in images:
                # Written, not assigned to mapped pages, where a full disk would end the program.
                file.write(image.contiguous().numpy().data)
            file.flush()
            # Mapped as shared: a private mapping could fail for lack of memory.
            pixels = np.memmap(file, _NUMPY[dtype], "r+", shape=shape)
    except OSError as error:
        raise SceneError(problem.format(error.strerror or error)) from None
    return torch.from_numpy(pixels)


def _converted(image: Tensor, dtype: torch.dtype, channels: int) -> Tensor:
    """The same values in a type that is as wide or wider.

    Raises:
        _WiderError: If it is not.
    """
    types = list(_TYPES)
    if types.index(image.dtype) > types.index(dtype) or image.shape[2] > channels:
        raise _WiderError
    if dtype == torch.uint16 and image.dtype == torch.uint8:
        image = (image.int() * 257).to(torch.uint16)
    elif dtype == torch.float32:
        image = premultiplied(image)
    if image.shape[2] == channels:
        return image
    opaque = torch.full((*image.shape[:2], 1), _TYPES[dtype], dtype=dtype)
    return torch.cat([image, opaque], dim=-1)
