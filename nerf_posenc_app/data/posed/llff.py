"""LLFF folders: ``poses_bounds.npy`` and ``images/``.

The box contains everything between the near and far bounds of all views.
"""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import images_in
from nerf_posenc_app.data.posed.boxes import Box
from nerf_posenc_app.data.posed.folders import image_folder, listed
from nerf_posenc_app.data.posed.frames import (
    Frame,
    PosedImages,
    held_out_note,
    require_rigid,
    require_views,
    split_frames,
)

_LARGEST = 1e12
# Multiple of the median far bound above which a bound is cut.
_FAR_OUT = 3.0


def read_llff(folder: Path) -> PosedImages:
    """Read ``poses_bounds.npy`` and ``images/`` (Mildenhall et al. 2019).

    Raises:
        SceneError: If the table is damaged or does not match the images.
    """
    file = folder / "poses_bounds.npy"
    rows = _read_table(file)
    home = image_folder(folder)
    images = images_in(home)
    if len(images) != len(rows):
        raise SceneError(
            f"{file} has poses for {len(rows)} images and {home} contains {len(images)}, "
            f"{listed([image.name for image in images])}; they must be the same, in the order of "
            "their names"
        )
    if not (np.abs(rows) < _LARGEST).all() or not (rows[:, 15] > 0).all():
        raise SceneError(
            f"{file} contains numbers that are not finite or above {_LARGEST:g}, or bounds that "
            "are not above 0"
        )
    farthest = _FAR_OUT * np.median(rows[:, 16])
    frames, corners = [], []
    for path, row in zip(images, rows, strict=True):
        table = row[:15].reshape(3, 5)
        height, width, focal = table[:, 4]
        # LLFF's axes are down, right, back.
        pose = np.eye(4)
        pose[:3, 0], pose[:3, 1], pose[:3, 2] = table[:, 1], -table[:, 0], table[:, 2]
        pose[:3, 3] = table[:, 3]
        require_rigid(pose, f"{file}: image {path.name}")
        try:
            camera = Camera(round(width), round(height), focal, focal, width / 2, height / 2)
        except ValueError as error:
            raise SceneError(f"{file}: image {path.name}: {error}") from None
        where = f"the camera of {file.name}"
        stated = round(width), round(height)
        frames.append(Frame(path, camera.resized, pose, camera_size=stated, where=where))
        # One damaged bound would set the scale of the whole scene.
        for depth in np.minimum(row[15:], farthest):
            for x in (-0.5, 0.5):
                for y in (-0.5, 0.5):
                    corner = np.array([x * width / focal, y * height / focal, -1.0]) * depth
                    corners.append(pose[:3, :3] @ corner + pose[:3, 3])
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    half = float((high - low).max() / 2)
    train, test = split_frames(frames)
    box = Box((low + high) / 2, half, float(rows[:, 15].min()), "the far bounds")
    return PosedImages(train, test, box, [held_out_note(len(test))])


def _read_table(file: Path) -> npt.NDArray[np.float64]:
    """Read 17 numbers per image, after a look at the header: it may claim any size."""
    try:
        if not file.is_file():
            raise ValueError("it is not a regular file")
        with file.open("rb") as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, _, kind = read_header(stream)
            if math.prod(shape) * kind.itemsize > file.stat().st_size or kind.kind not in "fiu":
                raise ValueError(f"its header claims {shape} values of type {kind}")
            require_views(math.prod(shape) // 17, file)
        rows = np.load(file, allow_pickle=False)
        return np.asarray(rows, dtype=np.float64).reshape(-1, 17)
    except OSError as error:
        raise SceneError(f"cannot read {file}: {error.strerror or error}") from None
    except SceneError:
        raise
    except Exception as error:  # A damaged header raises nearly every type.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SceneError(f"{file} is not a table of 17 numbers per image: {reason}") from None
