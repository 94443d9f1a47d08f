"""Data that Python holds, as files that the readers read back without loss.

A resumed run reads them again. They lie in ``runs/data/``, in folders that are named by a checksum
of the values: what is fitted twice is written once.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scenes.errors import SceneError

_FOLDER = Path("runs", "data")
# Parameters of a lens by OpenCV's names.
_LENS = ("k1", "k2", "p1", "p2")


def image_file(pixels: Any) -> Path:
    """Write an image.

    Args:
        pixels: array or tensor ``(height, width)`` or ``(height, width, 3 or 4)``, of 8 or 16 bits
            or in [0, 1]; colors are not multiplied by the opacity.

    Returns:
        The file, an array of NumPy.

    Raises:
        SceneError: If it is of another shape, or the file cannot be written.
    """
    array = numbers(pixels, "an image")
    if array.dtype.kind == "i" or array.dtype.itemsize > 4:
        raise SceneError(
            f"an image must be of uint8, uint16 or floating-point numbers; got {array.dtype}"
        )
    if array.dtype.kind == "f" and not (array.min() >= 0 and array.max() < np.inf):
        raise SceneError("an image must hold finite numbers, 0 or more")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise SceneError(
            f"an image must be (height, width) or (height, width, 3 or 4); got {array.shape}"
        )
    return write_once("image.npy", [array], lambda folder: np.save(folder / "image.npy", array))


def weights_file(values: Any) -> Path:
    """Write a mask or weights ``(height, width)`` in [0, 1]; 8 or 16 bits count as shares of 1.

    Raises:
        SceneError: If they are no numbers, or the file cannot be written.
    """
    array = numbers(values, "a mask")
    # Integers of a mask may also be 0 and 1.
    if array.dtype in (np.uint8, np.uint16) and int(array.max()) > 1:
        array = array / np.float32(np.iinfo(array.dtype).max)
    return write_once("weights.npy", [array], lambda folder: np.save(folder / "weights.npy", array))


def scene_folder(views: Any) -> Path:
    """Write posed images.

    Args:
        views: the images, in coordinates in which the scene lies in [-1, 1]^3.

    Returns:
        The folder, with a ``transforms.json``.

    Raises:
        SceneError: If it is something else, or the folder cannot be written.
    """
    # Imported here: an image needs no views.
    from nerf_posenc.radiance.views import Views

    if not isinstance(views, Views):
        raise SceneError(
            "a scene must be a path, a name or nerf_posenc.radiance.Views; got "
            f"{type(views).__name__}"
        )
    images = [numbers(image, "a view") for image in views.pixels]
    frames = [
        {
            "file_path": f"{i:04}.npy",
            "transform_matrix": pose,
            **{"w": camera.width, "h": camera.height, "fl_x": camera.fx, "fl_y": camera.fy},
            **{"cx": camera.cx, "cy": camera.cy},
            **dict(zip(_LENS, camera.distortion, strict=True)),
        }
        for i, (pose, camera) in enumerate(
            zip(views.world_from_camera.tolist(), views.cameras, strict=True)
        )
    ]
    # By instant-ngp's convention this is the box [-1, 1]^3.
    text = json.dumps({"scale": 0.5, "offset": 0.5, "aabb_scale": 1, "frames": frames})

    def write(folder: Path) -> None:
        for i, image in enumerate(images):
            np.save(folder / f"{i:04}.npy", _straight(image))
        (folder / "transforms.json").write_text(text, encoding="utf-8")

    return write_once("", [*images, np.frombuffer(text.encode(), np.uint8)], write)


def _straight(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Colors that are not multiplied by their opacity, as those of files are not.

    Floating-point views are premultiplied (`nerf_posenc.radiance.Views`), and 8 bits are not.
    """
    if image.dtype.kind != "f" or image.shape[-1] != 4:
        return image
    colors, alpha = np.split(image, [3], axis=-1)
    straight = np.divide(colors, alpha, out=np.zeros_like(colors), where=alpha > 0)
    return np.concatenate([straight.clip(max=1), alpha], axis=-1)


def numbers(data: Any, name: str) -> npt.NDArray[Any]:
    """Values of an array or a tensor; those of 64 bits in 32.

    Raises:
        SceneError: If they are no numbers, naming what they are for.
    """
    array = data.detach().cpu().numpy() if isinstance(data, torch.Tensor) else np.asarray(data)
    array = array.astype(np.uint8) if array.dtype == bool else array
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise SceneError(f"{name} must be a path or numbers; got {array.dtype} {array.shape}")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def write_once(
    name: str, arrays: Sequence[npt.NDArray[Any]], write: Callable[[Path], None]
) -> Path:
    """Path of a file, or of a folder of files without a name, written if it is not there."""
    checksum = hashlib.blake2b(digest_size=8)
    for array in arrays:
        checksum.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    folder = _FOLDER / checksum.hexdigest()
    partial = folder.with_suffix(".partial")
    if not folder.exists():
        try:
            partial.mkdir(parents=True, exist_ok=True)
            write(partial)
            # Complete or not there: a process that was killed leaves no half of a file.
            partial.rename(folder)
        except OSError as error:
            raise SceneError(f"cannot write to {folder}: {error.strerror or error}") from None
    return folder / name
