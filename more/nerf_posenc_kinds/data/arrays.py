"""Arrays of ``.npy`` files; read within the limits of the worker."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError


def read_array(path: Path, most: int) -> npt.NDArray[np.float32]:
    """Read the values of a slice or a volume.

    Args:
        path: file written by ``numpy.save``.
        most: most values.

    Returns:
        ``(height, width)`` or ``(depth, height, width)``, in [0, 1].

    Raises:
        SceneError: If the file cannot be read, or holds something else.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # A header is Python source, whose parser may raise anything.
        array = None
    if not isinstance(array, np.ndarray):
        raise SceneError(f"{path} is not an array of numbers written by np.save")
    if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
        raise SceneError(
            f"{path} must be (height, width) or (depth, height, width) numbers; it is "
            f"{array.dtype} {array.shape}"
        )
    require_size(path, array.shape, most)
    with np.errstate(all="ignore"):  # What does not fit into float32 is refused below.
        values = np.array(array, dtype=np.float32)
    low, high = range_of(path, values)
    if low < 0 or high > 1:
        raise SceneError(
            f"{path} must hold values in [0, 1]; got {low:.9g} to {high:.9g}: map the smallest "
            "to 0 "
            "and the largest to 1"
        )
    return values


def require_size(path: Path, shape: tuple[int, ...], most: int) -> None:
    """Raise a `SceneError` if an array of this shape has more values than are allowed."""
    count = int(np.prod(shape, dtype=object))
    if count > most:
        raise SceneError(f"{path} has {count:,} pixels; see --max-pixels")


def range_of(path: Path, values: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Least and largest value; raises a `SceneError` unless they are finite."""
    low, high = (float(f(values)) if values.size else 0.0 for f in (np.min, np.max))
    if not np.isfinite(np.float32(high - low)):
        raise SceneError(f"{path} must hold finite numbers")
    return low, high
