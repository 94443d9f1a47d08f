"""Posed pictures as a folder lists them, and the views that they become."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from nerf_posenc.radiance.rays import Camera, Distortion
from nerf_posenc.radiance.views import Views
from scenes.image_files import rgba_from_file
from scenes.scene import Scene, SceneError

_HOLD_OUT = 8
# Off by more, a matrix does not rotate, but stretches or mirrors.
_RIGID_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Frame:
    """A picture that is there, with its camera."""

    path: Path
    camera: Callable[[int, int], Camera]
    world_from_camera: npt.NDArray[np.float64]


def scaled_camera(
    full_width: int | float,
    full_height: int | float,
    fx: int | float,
    fy: int | float,
    cx: int | float,
    cy: int | float,
    distortion: Distortion,
) -> Callable[[int, int], Camera]:
    """Camera given for one size of picture, for that of the file."""

    def make(width: int, height: int) -> Camera:
        x, y = width / full_width, height / full_height
        return Camera(width, height, fx * x, fy * y, cx * x, cy * y, distortion)

    return make


def scene_of(
    folder: Path,
    train: Sequence[Frame],
    test: Sequence[Frame],
    to_box: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    scale: float,
    notes: list[str],
) -> Scene:
    """Load the pictures of a folder's frames.

    Raises:
        SceneError: where there is nothing to fit or to test, or a picture or camera is unusable.
    """
    if not train or not test:
        raise SceneError(
            f"{folder} has {len(train)} views to fit and {len(test)} to test; it needs 1 of each"
        )
    return Scene(
        folder.resolve().name,
        _views_of(train, to_box),
        _views_of(test, to_box),
        str(folder),
        scale,
        tuple(notes),
    )


def _views_of(
    frames: Sequence[Frame], to_box: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
) -> Views:
    pictures = [rgba_from_file(frame.path) for frame in frames]
    shapes = {tuple(picture.shape[:2]) for picture in pictures}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width} x {height}" for height, width in sorted(shapes))
        raise SceneError(
            f"the pictures beside {frames[0].path} have several sizes ({sizes}); bring them to one"
        )
    height, width = shapes.pop()
    try:
        cameras = [frame.camera(width, height) for frame in frames]
        # Asked once here, a lens that cannot be undone is found before anything is fitted.
        for camera in dict.fromkeys(cameras):
            camera.directions()
    except ValueError as error:
        raise SceneError(f"the cameras of {frames[0].path.parent}: {error}") from None
    rgba = torch.stack(pictures)
    poses = np.stack([to_box(frame.world_from_camera) for frame in frames])
    return Views(
        rgba[..., :3] * rgba[..., 3:],
        rgba[..., 3].contiguous(),
        cameras,
        torch.from_numpy(poses).float(),
        [frame.path.name for frame in frames],
    )


def to_box_of(
    centre: npt.NDArray[np.float64], half_size: float
) -> Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """Move poses so that the cube of this centre and half size becomes [-1, 1]^3."""

    def move(pose: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        moved = pose.copy()
        moved[:3, 3] = (pose[:3, 3] - centre) / half_size
        return moved

    return move


def parted(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Frames to fit and frames to test by, every eighth."""
    train = [frame for i, frame in enumerate(frames) if i % _HOLD_OUT]
    return train, [frame for i, frame in enumerate(frames) if i % _HOLD_OUT == 0]


def held_out_note(count: int) -> str:
    """Say how the views were parted."""
    return f"every {_HOLD_OUT}th view is held out for testing, {count} in all"


def require_rigid(pose: npt.NDArray[np.float64], where: str) -> None:
    """Refuse a pose that does more than rotate and move.

    Raises:
        SceneError: naming where it is.
    """
    rotation = pose[:3, :3]
    off = np.abs(rotation @ rotation.T - np.eye(3)).max()
    if off > _RIGID_TOLERANCE or np.linalg.det(rotation) < 0:
        raise SceneError(
            f"{where}: the camera's matrix is not rigid: its axes must be perpendicular, of length "
            f"1 and right-handed; they are off by {off:.2g}, determinant "
            f"{np.linalg.det(rotation):.3g}"
        )


def path_inside(folder: Path, name: str) -> Path:
    """Path of a file that must lie in the folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise SceneError(f"{folder} names a picture outside itself, which is refused: {name}")
    return path
