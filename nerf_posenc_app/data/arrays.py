"""Images and masks of values that Python holds, as the readers of files make them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.record import Decoded

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


# Most values of an array: 4 GB in float32, as of an image of 333 megapixels.
_MOST_VALUES = 1_000_000_000


def record_in_memory(pixels: Any, *, is_light: bool = False) -> Decoded:
    """Take an array or a tensor for what a file of an image holds.

    Args:
        pixels: ``(height, width)`` or ``(height, width, 1, 3 or 4)``. Booleans count as 0 and 1;
            unsigned integers of 8 or 16 bits as shares of the largest; floating-point values are in
            [0, 1], or linear light of any value. Colors are not multiplied by the opacity.
        is_light: whether floating-point values are linear light.

    Raises:
        SceneError: If they are of another shape or type, negative, not finite, or above 1 without
            being light.
    """
    # A file that NumPy maps has a mode too.
    mode = None if isinstance(pixels, np.ndarray) else getattr(pixels, "mode", None)
    if isinstance(mode, str) and mode not in ("1", "L", "I;16", "F", "RGB", "RGBA"):
        raise SceneError(f"an image of Pillow must be converted to RGB first; its mode is {mode}")
    array = numbers(pixels, "an image")
    if array.dtype.kind != "f" and array.dtype not in (np.uint8, np.uint16):
        cure = "; give them as uint8 if they are 0 to 255" if array.dtype.kind in "iu" else ""
        raise SceneError(
            f"an image must be of uint8, uint16 or floating-point numbers; got {array.dtype}{cure}"
        )
    if array.dtype.kind == "f":
        known = array[~np.isnan(array)]
        if not (known.size and known.min() >= 0 and known.max() < np.inf):
            raise SceneError("an image must hold finite numbers, 0 or more; NaN where it has none")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise SceneError(
            f"an image must be (height, width) or (height, width, 1, 3 or 4); got {array.shape}"
            f"{_cure_of_shape(array.shape)}"
        )
    array = array[..., None] if array.ndim == 2 else array
    has_alpha = array.shape[2] == 4
    colors = array[..., :3] if has_alpha else array
    is_missing = np.isnan(array).any(-1) if array.dtype.kind == "f" else None
    if is_light and array.dtype.kind != "f":
        raise SceneError(f"light is of floating-point numbers; got {array.dtype}")
    if not is_light and array.dtype.kind == "f" and (colors > 1).any():
        raise SceneError(
            "an image of floating-point numbers must be in [0, 1]; got values up to "
            f"{np.nanmax(colors):g}. Divide by 255, or give uint8; for linear light give light=True"
        )
    return Decoded(
        colors if is_missing is None else np.where(is_missing[..., None], 0, colors),
        np.nan_to_num(array[..., 3]) if has_alpha else None,
        ~is_missing if is_missing is not None and is_missing.any() else None,
        is_light,
    )


def _count(data: Any) -> int:
    """Values of an array, also of one that repeats the same memory."""
    return math.prod(getattr(data, "shape", ()))


def _cure_of_shape(shape: Sequence[int]) -> str:
    """Expression that makes an image of an array of a model's shape; empty if unknown."""
    if len(shape) == 3 and shape[0] in (3, 4):
        return "; give image.permute(1, 2, 0), or np.moveaxis(image, 0, -1)"
    if len(shape) == 4 and shape[0] == 1 and shape[1] in (3, 4):
        return "; give image[0].permute(1, 2, 0)"
    return ""


def mask_in_memory(values: Any) -> Float[Tensor, "height width"]:
    """Make a mask of an array: shares in [0, 1], in 8 or 16 bits shares of the largest.

    Args:
        values: array or tensor ``(height, width)`` or ``(height, width, 1)``.

    Raises:
        SceneError: If it is of another shape, or out of range.
    """
    array = shares(values, "a mask")
    array = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if array.ndim != 2:
        raise SceneError(f"a mask must be (height, width); got {array.shape}")
    return torch.from_numpy(array)


def shares(values: Any, name: str) -> npt.NDArray[np.float32]:
    """Values in [0, 1] of an array: integers of 8 or 16 bits count as shares of the largest.

    Integers that are all 0 or 1 stay what they are.

    Raises:
        SceneError: If they are no numbers in that range, naming what they are for.
    """
    array = numbers(values, name)
    if array.dtype in (np.uint8, np.uint16) and int(array.max()) > 1:
        array = array / np.float32(np.iinfo(array.dtype).max)
    array = array.astype(np.float32)
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= 1):
        raise SceneError(
            f"{name} must hold values in [0, 1]; got {low:.9g} to {high:.9g}: map the smallest "
            "to 0 "
            "and the largest to 1"
        )
    return array


def numbers(data: Any, name: str) -> npt.NDArray[Any]:
    """Values of an array or a tensor: booleans as 0.0 and 1.0, floating-point numbers in float32.

    Raises:
        SceneError: If they are no numbers, naming what they are for.
    """
    try:
        if isinstance(data, np.ma.MaskedArray):
            raise TypeError("a masked array is given as its data, and a mask of what is kept")
        if data is not None and (count := _count(data)) > _MOST_VALUES:
            raise ValueError(f"it has {count:,} values, more than {_MOST_VALUES:,}")
        if isinstance(data, torch.Tensor):
            # NumPy has no bfloat16.
            data = data.detach().float() if data.dtype == torch.bfloat16 else data.detach()
            data = data.cpu().resolve_neg().resolve_conj().numpy()
        array = np.asarray(data)
    except (TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise SceneError(f"{name} must be a path or numbers; {error}") from None
    if array.dtype.kind not in "fiub" or array.size == 0:
        empty = "an empty array, " if array.size == 0 else ""
        raise SceneError(
            f"{name} must be a path or numbers; got {empty}{array.dtype} {array.shape}"
        )
    # torch has no numbers of another byte order than the machine's.
    wanted = np.dtype(np.float32) if array.dtype.kind in "fb" else array.dtype.newbyteorder("=")
    return array.astype(wanted, copy=False)
