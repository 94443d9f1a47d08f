"""PNG files of any size, written while they are rendered."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.parsing import UsageError
from nerf_posenc.training.checkpoints import partial_path

# Of zlib: higher ones gain little on photographs and take several times as long.
_COMPRESSION = 4


def write_png(path: Path, strips: Iterable[npt.NDArray[np.uint8]], width: int, height: int) -> None:
    """Write an RGB image from top to bottom; the file has its name once it is whole.

    Args:
        path: of the file; its folder is created.
        strips: of rows, ``(rows, width, 3)``.
        width: of the image in pixels.
        height: of the image in pixels.

    Raises:
        OSError: If it cannot be written.
        UsageError: If pypng is not installed.
    """
    try:
        import png
    except ImportError:
        raise UsageError(
            "a large PNG is written by pypng: pip install 'nerf_posenc[app]'"
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    writer = png.Writer(width, height, greyscale=False, bitdepth=8, compression=_COMPRESSION)
    try:
        with partial.open("wb") as file:
            rows = (row for strip in strips for row in strip.reshape(len(strip), -1))
            writer.write_packed(file, (row.tobytes() for row in rows))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
