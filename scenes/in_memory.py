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

from nerf_posenc.radiance.views import Views
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
        The file, a TIFF.

    Raises:
        SceneError: If it is of another shape, or the file cannot be written.
    """
    array = _numbers(pixels, "an image")
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
    return _write_once("image.tif", [array], lambda folder: _write_tiff(folder, "image", array))


def sound_file(data: Any) -> Path:
    """Write a sound.

    Args:
        data: samples ``(n,)`` or ``(n, channels)`` and their rate per second.

    Returns:
        The file, a WAV.

    Raises:
        SceneError: If the samples are of another shape, or the file cannot be written.
    """
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], int)):
        raise SceneError("a sound must be a path, or (samples, samples per second)")
    samples, rate = _numbers(data[0], "a sound"), data[1]
    if samples.ndim not in (1, 2):
        raise SceneError(f"a sound must be (n,) or (n, channels) samples; got {samples.shape}")

    def write(folder: Path) -> None:
        import soundfile

        subtype = "FLOAT" if samples.dtype.kind == "f" else None
        soundfile.write(folder / "sound.wav", samples, rate, subtype=subtype)

    return _write_once("sound.wav", [samples, np.array(rate)], write)


def array_file(values: Any) -> Path:
    """Write a slice ``(height, width)`` or a volume ``(depth, height, width)`` as ``.npy``.

    Values of 8 or 16 bits without a sign count as shares of the largest that these hold, unless all
    are 0 or 1.
    """
    array = _numbers(values, "an array")
    if array.dtype in (np.uint8, np.uint16) and int(array.max()) > 1:
        array = array / np.float32(np.iinfo(array.dtype).max)
    return _write_once("volume.npy", [array], lambda folder: np.save(folder / "volume.npy", array))


def scene_folder(views: Any) -> Path:
    """Write posed images.

    Args:
        views: the images, in coordinates in which the scene lies in [-1, 1]^3.

    Returns:
        The folder, with a ``transforms.json``.

    Raises:
        SceneError: If it is something else, or the folder cannot be written.
    """
    if not isinstance(views, Views):
        raise SceneError(
            "a scene must be a path, a name or nerf_posenc.radiance.Views; got "
            f"{type(views).__name__}"
        )
    images = [_numbers(image, "a view") for image in views.pixels]
    frames = [
        {
            "file_path": f"{i:04}.tif",
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
            _write_tiff(folder, f"{i:04}", image, is_premultiplied=image.dtype.kind == "f")
        (folder / "transforms.json").write_text(text, encoding="utf-8")

    return _write_once("", [*images, np.frombuffer(text.encode(), np.uint8)], write)


def _numbers(data: Any, name: str) -> npt.NDArray[Any]:
    """Values of an array or a tensor; those of 64 bits in 32."""
    array = data.detach().cpu().numpy() if isinstance(data, torch.Tensor) else np.asarray(data)
    array = array.astype(np.uint8) if array.dtype == bool else array
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise SceneError(f"{name} must be a path or numbers; got {array.dtype} {array.shape}")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _write_tiff(
    folder: Path, stem: str, pixels: npt.NDArray[Any], *, is_premultiplied: bool = False
) -> None:
    import tifffile

    alpha = "assocalpha" if is_premultiplied else "unassalpha"
    tifffile.imwrite(
        folder / f"{stem}.tif",
        pixels,
        photometric="rgb" if pixels.ndim == 3 else "minisblack",
        extrasamples=[alpha] if pixels.ndim == 3 and pixels.shape[2] == 4 else None,
    )


def _write_once(
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
