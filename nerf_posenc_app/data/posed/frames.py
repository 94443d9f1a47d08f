"""Posed image files, and the views loaded from them."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nerf_posenc.images import resize_area
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.views import Scene, SurfacePoints, Views, premultiplied
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import stored_pixels
from nerf_posenc_app.data.posed.boxes import Box, coarse, fitted_box, pose_notes
from nerf_posenc_app.data.posed.folders import listed
from nerf_posenc_app.data.posed.masks import Mask, MaskFinder, read_masks
from nerf_posenc_app.data.reading.pixel_stacks import PixelStack, memory
from nerf_posenc_app.data.reading.record import Decoded
from nerf_posenc_app.data.reading.worker import Allowance

HOLD_OUT = 8
# A matrix that is off by more stretches or mirrors.
_RIGID_TOLERANCE = 1e-3
# Tolerance between the aspect ratios of image and camera.
_SHAPE_TOLERANCE = 0.02
# A pinhole camera of a wider view than this is a mistake of units.
_WIDEST_DEGREES = 170
# Files beside those of a format that may say which views are tested.
_LISTS = (".txt", ".json", ".csv", ".npy")
_OF_SPLIT = re.compile(r"^(?!transforms).*(?<![a-z])(train|test|val|split)(?![a-z])", re.IGNORECASE)
# Deviation from square pixels above which a note is printed.
_SQUARE_TOLERANCE = 0.1
# Offset of the principal point, as a share of a side, above which a note is printed.
_FAR_FROM_CENTER = 0.25
# Farther away, float32 cannot tell a scene's points apart.
_FARTHEST = 1e5
MAX_VIEWS = 10_000
"""Most views of a scene."""

# What all views may take, whatever their files: those of a rendered object are 10 to 100 times as
# small as their pixels.
_MOST_BYTES = 2 << 30
_MOST_BYTES_PER_BYTE = 100


@dataclass(frozen=True)
class Frame:
    """An existing image file with its camera.

    Attributes:
        path: path of the file.
        camera: function from the file's width and height to its camera, for example
            ``Camera.resized``.
        world_from_camera: pose, ``(4, 4)``.
        points: points of surfaces that the image shows, ``(n, 5)``: column and row as shares of
            its width and height, and the position in units of the file.
        camera_size: width and height in pixels that the camera was stated for; None if that is not
            known.
        where: file and entry that the camera is from, for messages.
        mask: the pixels that are fitted and scored; None for all, or a mask beside the image.
    """

    path: Path
    camera: Callable[[int, int], Camera]
    world_from_camera: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 5)))
    camera_size: tuple[int, int] | None = None
    where: str = ""
    mask: Mask | None = None


@dataclass(frozen=True)
class PosedImages:
    """Description of a folder's images by its format, before any of them is opened.

    Attributes:
        train: frames to fit.
        test: frames to evaluate on.
        box: cube that contains the scene.
        notes: remarks for the report.
    """

    train: Sequence[Frame]
    test: Sequence[Frame]
    box: Box
    notes: Sequence[str]


@dataclass
class Seen:
    """Records of the files of views beyond their pixels.

    Attributes:
        orientations: EXIF orientations other than 1, by the name of the file.
        sizes: sizes of the images, if they differ.
        phrases: what is not used of a file, or used in another way, with the first such file.
        cameras: notes on unusual cameras, one for each kind of oddity.
    """

    orientations: dict[str, int] = field(default_factory=dict)
    sizes: set[tuple[int, int]] = field(default_factory=set)
    phrases: dict[str, str] = field(default_factory=dict)
    cameras: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, record: Decoded) -> None:
        """Note what the file of a view says."""
        if record.orientation != 1:
            self.orientations[name] = record.orientation
        if record.is_light:
            self.phrases.setdefault("linear light is converted to sRGB", name)
        for each in record.dropped:
            self.phrases.setdefault(f"not read: {each}", name)

    def add_camera(self, camera: Camera, where: str) -> None:
        """Note what is unusual about the camera of an image."""
        column, row = camera.cx / camera.width, camera.cy / camera.height
        if not (0 <= column <= 1 and 0 <= row <= 1):
            text = f"{where} has its principal point outside of the image"
            self.cameras.setdefault("center", text)
        elif max(abs(column - 0.5), abs(row - 0.5)) > _FAR_FROM_CENTER:
            text = (
                f"{where} has its principal point at {column:.0%} of the width and {row:.0%} of "
                "the height; are cx and cy for another size?"
            )
            self.cameras.setdefault("center", text)
        if abs(camera.fx / camera.fy - 1) > _SQUARE_TOLERANCE:
            focals = f"fx {camera.fx:.6g}, fy {camera.fy:.6g}"
            text = f"{where} has pixels that are not square: {focals}"
            self.cameras.setdefault("shape", text)


def load_scene(folder: Path, found: PosedImages, *, max_pixels: int, size: int | None) -> Scene:
    """Load the images of a folder's frames, one at a time, averaged down to ``size`` at once.

    Raises:
        SceneError: If there is no view to fit or to test, or an image or camera cannot be used.
    """
    finder = MaskFinder(folder)
    train, test = (_with_masks(frames, finder) for frames in (found.train, found.test))
    notes = found.notes
    if masked := sum(frame.mask is not None for frame in (*train, *test)):
        left_out = "masked pixels are neither fitted nor scored"
        total = len(train) + len(test)
        some = f"{masked} of {total}" if masked < total else f"{masked}"
        notes = [*notes, f"{some} views have masks: {left_out}"]
    elif finder.folders:
        notes = [
            *notes,
            f"not read: {finder.folders[0].name}/, whose files are not named as the images",
        ]
    if unread := [path.name for path in sorted(folder.iterdir()) if _is_unread(path, finder)]:
        how = "masks are read from masks/, and splits from lists in transforms.json"
        notes = [*notes, f"not read: {listed(unread)}; {how}"]
    if not train or not test:
        raise SceneError(
            f"{folder} has {len(train)} views to fit and {len(test)} to test; it needs 1 of each, "
            "and some 30 for a good fit: add images with their poses"
        )
    seen = Seen()
    train_views, train = _load_views(train, found.box, max_pixels, size, seen)
    pose_remarks = list(pose_notes(train_views, str(folder)))
    box, box_notes = fitted_box(train_views, found.box, str(folder))
    train_views = _placed(train_views, train, box)
    test_views, test = _load_views(test, box, max_pixels, size, seen)
    notes = [*notes, *_remarks(seen), *pose_remarks, *box_notes]
    paths = {frame.path for frame in train}
    if shared := sum(frame.path in paths for frame in test):
        notes = [*notes, f"{shared} of the {len(test)} test views are fitted as well"]
    if repeated := len(train) - len(paths):
        notes = [*notes, f"{repeated} of the {len(train)} views to fit share an image with another"]
    return Scene(
        folder.resolve().name,
        train_views,
        test_views,
        str(folder),
        box.half_size,
        tuple(notes),
        (float(box.center[0]), float(box.center[1]), float(box.center[2])),
    )


def _is_unread(path: Path, finder: MaskFinder) -> bool:
    """Whether the name of a file or folder says that it holds masks or a split."""
    if path.is_dir():
        return "mask" in path.name.lower() and path.absolute() not in finder.folders
    return path.suffix in _LISTS and bool(_OF_SPLIT.search(path.stem))


def _with_masks(frames: Sequence[Frame], finder: MaskFinder) -> list[Frame]:
    """Frames with the masks that lie beside their images, where no file names one."""
    return [
        frame if frame.mask else replace(frame, mask=finder.beside(frame.path)) for frame in frames
    ]


def _load_views(
    frames: Sequence[Frame], box: Box, max_pixels: int, size: int | None, seen: Seen
) -> tuple[Views, list[Frame]]:
    """Views of frames, and the frames; what is odd about their files is added to ``seen``.

    Each image is reduced to ``size``. Those of several sizes are padded on the right and below to a
    common one, and the padding is masked: pixels stay where the cameras say.
    """
    allowance = Allowance(frame.path for frame in frames)
    stack = PixelStack(len(frames), partial(_require_room, frames=frames, allowance=allowance))
    sizes, reduced, is_seen = [], [], False
    for frame in frames:
        image, record = stored_pixels(frame.path, max_pixels=max_pixels, allowance=allowance)
        seen.add(frame.path.name, record)
        is_seen |= image.shape[2] == 3 or bool(image[..., 3].numpy().any())
        sizes.append((image.shape[1], image.shape[0]))
        image = _reduced(image, size)
        reduced.append((image.shape[1], image.shape[0]))
        stack.add(image)
    if not is_seen:
        where = f"the images beside {frames[0].path}"
        raise SceneError(f"{where} are fully transparent: their alpha is 0 everywhere")
    common = stack.pixels.shape[2], stack.pixels.shape[1]
    cameras = _cameras(frames, sizes, reduced, common, seen)
    masks = read_masks([(f.path, f.mask) for f in frames], sizes, reduced, common)
    if len(several := sorted(set(reduced))) > 1:
        seen.sizes.update(several)
        # Places are shares of the sides, which padding makes longer.
        shares = [[*(np.array(own) / common), 1, 1, 1] for own in reduced]
        frames = [replace(f, points=f.points * s) for f, s in zip(frames, shares, strict=True)]
    poses = torch.eye(4).expand(len(frames), 4, 4)
    names = [frame.path.name for frame in frames]
    views = Views(stack.pixels, cameras, poses, names, masks=masks)
    return _placed(views, frames, box), list(frames)


def _require_room(num_bytes: int, *, frames: Sequence[Frame], allowance: Allowance) -> None:
    """Refuse views that take more memory than their files explain, or a third of the machine's."""
    from_files = _MOST_BYTES + _MOST_BYTES_PER_BYTE * allowance.size
    if num_bytes > min(from_files, memory() / 3):
        raise SceneError(
            f"the {len(frames)} views beside {frames[0].path} take {num_bytes / 1e9:.1f} GB of "
            f"memory, from {allowance.size / 1e6:.2g} MB of files; reduce them by --size"
        )


def _placed(views: Views, frames: Sequence[Frame], box: Box) -> Views:
    """Views of frames, in the coordinates of a box."""
    poses = np.stack([box.to_box(frame.world_from_camera) for frame in frames])
    if not np.abs(poses).max() < _FARTHEST:
        raise SceneError(
            f"a camera of {frames[0].path.parent} is more than {_FARTHEST:g} times the size of the "
            "scene away from it"
        )
    return replace(
        views,
        world_from_camera=torch.from_numpy(poses).float(),
        near=None if box.near is None else box.near / box.half_size,
        points=_surface_points(frames, box, views.masks),
    )


def _cameras(
    frames: Sequence[Frame],
    sizes: Sequence[tuple[int, int]],
    reduced: Sequence[tuple[int, int]],
    common: tuple[int, int],
    seen: Seen,
) -> list[Camera]:
    """Cameras of frames whose images are reduced, and then padded to a common size."""
    try:
        own = [_camera_of(frame, *size, seen) for frame, size in zip(frames, sizes, strict=True)]
        small = [camera.resized(*size) for camera, size in zip(own, reduced, strict=True)]
        cameras = [replace(camera, width=common[0], height=common[1]) for camera in small]
        # Checked here, so that a lens that cannot be inverted is found before any fit.
        for camera in dict.fromkeys(map(coarse, cameras)):
            camera.lens_steps()
    except SceneError:
        raise
    except ValueError as error:
        raise SceneError(f"the cameras of {frames[0].path.parent}: {error}") from None
    return cameras


def _camera_of(frame: Frame, width: int, height: int, seen: Seen) -> Camera:
    """Camera of a frame whose image has this size.

    Raises:
        SceneError: If it is for pixels of another shape, or its values are not in pixels.
    """
    if frame.camera_size is not None:
        full_width, full_height = frame.camera_size
        # A reduced image deviates by the rounding of its sides.
        is_reduced = width != full_width and height != full_height
        most = max(_SHAPE_TOLERANCE, (1 / width + 1 / height) * is_reduced)
        if not abs(width * full_height / (height * full_width) - 1) <= most:
            exif = seen.orientations.get(frame.path.name)
            more = (
                f" as it is stored, before its EXIF orientation {exif} is applied" if exif else ""
            )
            raise SceneError(
                f"{frame.where} is for {full_width} x {full_height} pixels, and {frame.path.name} "
                f"has {width} x {height}{more}: correct the size of the camera or of the image"
            )
    camera = frame.camera(width, height)
    degrees = math.degrees(2 * math.atan(width / 2 / camera.fx))
    if degrees > _WIDEST_DEGREES:
        raise SceneError(
            f"{frame.where} has a field of view of {degrees:.0f} degrees, which no pinhole camera "
            "has; focal lengths are in pixels"
        )
    full = camera if frame.camera_size is None else frame.camera(*frame.camera_size)
    if max(abs(full.cx), abs(full.cy)) <= 1 < min(full.width, full.height) / 4:
        raise SceneError(
            f"{frame.where} has its principal point at ({full.cx:g}, {full.cy:g}), in the corner "
            "of the image; cx and cy are in pixels, and without them it is in the middle"
        )
    seen.add_camera(camera, frame.where)
    return camera


def _remarks(seen: Seen) -> Iterator[str]:
    """Notes on unusual cameras and images, which are used unchanged."""
    yield from seen.cameras.values()
    if seen.orientations:
        yield (
            f"EXIF orientations of {len(seen.orientations)} views are not applied, because "
            "cameras describe the stored pixels"
        )
    if seen.sizes:
        sizes = listed([f"{width} x {height}" for width, height in sorted(seen.sizes)])
        yield f"images have several sizes ({sizes}): smaller ones are padded, and that is masked"
    for phrase, file in seen.phrases.items():
        yield f"{phrase}, as of {file}"


def _surface_points(
    frames: Sequence[Frame], box: Box, masks: Tensor | None
) -> SurfacePoints | None:
    """Points that the images show, in the coordinates of the box; None if there are none."""
    points = np.concatenate([frame.points for frame in frames])
    views = np.repeat(np.arange(len(frames)), [len(frame.points) for frame in frames])
    places = torch.from_numpy(points[:, :2]).float()
    positions = torch.from_numpy((points[:, 2:] - box.center) / box.half_size).float()
    # Points at the edge may lie outside by rounding.
    is_inside = ((places >= 0) & (places < 1)).all(dim=1)
    if masks is not None:
        height, width = masks.shape[1:]
        column, row = (places.clamp(0, 1 - 1e-6) * torch.tensor([width, height])).long().unbind(1)
        is_inside &= masks[torch.from_numpy(views), row, column]
    if not is_inside.any():
        return None
    found = SurfacePoints(torch.from_numpy(views), places, positions)
    return SurfacePoints(*(part[is_inside] for part in found))


def _reduced(image: Tensor, size: int | None) -> Tensor:
    """Pixels as `Views` holds them, of pixels as stored; colors are averaged by their opacity."""
    if image.is_floating_point() and image.shape[2] == 4:
        image[..., :3] *= image[..., 3:]
    if size is None or max(image.shape[:2]) <= size:
        return image
    return resize_area(premultiplied(image)[None], size)[0]


def require_views(count: int, where: object) -> None:
    """Refuse more views than a scene may have.

    Raises:
        SceneError: Naming the file that lists them.
    """
    if count > MAX_VIEWS:
        raise SceneError(
            f"{where} has {count:,} views, more than {MAX_VIEWS:,}; leave some of them out"
        )


def split_frames(frames: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Split frames into training frames and test frames, every eighth."""
    train = [frame for i, frame in enumerate(frames) if i % HOLD_OUT]
    return train, [frame for i, frame in enumerate(frames) if i % HOLD_OUT == 0]


def held_out_note(count: int) -> str:
    """Remark on how the views were split."""
    return f"every {HOLD_OUT}th view is held out for testing, {count} in all"


def require_rigid(pose: npt.NDArray[np.float64], where: str) -> None:
    """Refuse a pose that is not a rotation and a translation.

    Raises:
        SceneError: Naming its place in the file.
    """
    rotation = pose[:3, :3]
    off = np.abs(rotation @ rotation.T - np.eye(3)).max()
    if off > _RIGID_TOLERANCE or np.linalg.det(rotation) < 0:
        raise SceneError(
            f"{where}: the camera's matrix is not rigid: its axes must be perpendicular, of length "
            f"1 and right-handed; they are off by {off:.2g}, determinant "
            f"{np.linalg.det(rotation):.3g}"
        )
