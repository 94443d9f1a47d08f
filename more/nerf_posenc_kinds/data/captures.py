"""Photographs without poses: COLMAP finds the camera of each one (structure from motion).

```text
CAPTURE/photos.json    how many photographs there were, and why some were left out; written last
CAPTURE/images/        the photographs, upright as most of them are held, all of one size
CAPTURE/masks/         their masks, of FOLDER/masks, as COLMAP takes them
CAPTURE/database.db    features and matches: what an interrupted reconstruction goes on with
CAPTURE/sparse/0       the largest model, in COLMAP's format
```
"""

import dataclasses
import hashlib
import importlib
import json
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import numpy.typing as npt

from nerf_posenc.images import to_eight_bits
from nerf_posenc.radiance.views import reduced_masks
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import MAX_PIXELS, open_image, read_mask
from nerf_posenc_app.data.inside import files_in
from nerf_posenc_app.data.posed.masks import Mask, MaskFinder
from nerf_posenc_app.data.reading.worker import read_file
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_app.terminal import first_line

_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".heic", ".heif", ".avif")
_RECORD = "photos.json"
_PARTIAL = "sparse.partial"
# Frames of a video in total, for its first 90 s, and their longer side in pixels.
_MOST_FRAMES = 180
_FRAMES_PER_SECOND = 2.0
_FRAME_SIZE = 1600
# Up to this number, each photograph is compared with all others; above it, with its neighbors.
_MOST_EXHAUSTIVE = 200
# Focal length without EXIF, as a share of the longer side; about that of a phone.
_FOCAL_SHARE = 0.8
# Diagonal of the 24 x 36 mm frame that equivalent focal lengths are given for.
_FULL_FRAME_DIAGONAL = math.hypot(24, 36)
# Fewer photographs than this rarely make a scene.
_FEW = 15
# A photograph darker than this on average shows nothing.
_BLACK = 0.02
# With fewer features than this share of the others' a photograph is blurred or empty.
_FEW_FEATURES = 0.2
# With fewer points than this share of the others' a photograph is left out: with a finger over all
# but a twentieth, 53 points instead of 1,100, a pose was 1.3 degrees off (benchmarks.photographs).
_FEW_POINTS = 0.1
# Minimum matches of two photographs that overlap.
_MATCHES = 15
# A model of this share of the photographs is good enough not to try others.
_ENOUGH = 0.9
# Bytes of features and matches in COLMAP's database.
_BYTES_PER_PHOTO = 4_000_000
# Maximum number of reasons in a message.
_REASONS = 3
# Options of COLMAP's incremental mapper, from the safest to the most tolerant; None for the global
# mapper, which places all photographs at once.
_LADDER: tuple[dict[str, Any] | None, ...] = (
    {},
    {"init_min_tri_angle": 4.0, "init_min_num_inliers": 50, "abs_pose_min_num_inliers": 15},
    None,
)


@dataclass(frozen=True)
class Capture:
    """A folder that COLMAP has made of photographs.

    Attributes:
        folder: the folder, which `scenes.open_scene` reads.
        num_photos: number of photographs that were given.
        left_out: reasons why photographs have no camera, by their names.
        brightness_spread: standard deviation, from photograph to photograph, of the logarithm of
            how bright they show the same points: 0.05 is about 5%.
    """

    folder: Path
    num_photos: int
    left_out: dict[str, str]
    brightness_spread: float = 0.0

    @property
    def notes(self) -> list[str]:
        """Notes on the reconstruction of the photographs, one line each."""
        num_placed = self.num_photos - len(self.left_out)
        lines = [f"COLMAP found the cameras of {num_placed} of {self.num_photos} photographs"]
        return lines + [f"left out {name}: {reason}" for name, reason in self.left_out.items()]


@dataclass(frozen=True)
class _Photo:
    """A photograph as it was copied."""

    name: str
    focal: float | None
    shape: tuple[int, int]
    brightness: float


def photo_files(folder: Path) -> list[Path]:
    """Photographs of a folder by name, without what lies in folders within it.

    Raises:
        SceneError: If there is no such folder, or fewer than 3 photographs in it.
    """
    if not folder.is_dir():
        raise SceneError(
            f"{folder} is not a folder; --photos takes a folder of photographs, or a video"
        )
    photos = files_in(folder, _SUFFIXES)
    if len(photos) < 3:
        raise SceneError(
            f"{folder} has {len(photos) or 'no'} photograph{'s' * (len(photos) != 1)} "
            f"({', '.join(_SUFFIXES)}); a scene needs 3, and 30 to 100 for a good fit"
        )
    return photos


def video_photos(video: Path, runs: Path, *, log: Callable[[str], None] = print) -> Path:
    """Take the sharpest frames of a video as photographs, 2 of each second.

    Args:
        video: file that ffmpeg reads.
        runs: folder in which a folder of them is made, or was made before.
        log: function that takes a line about what is read.

    Returns:
        The folder, named by what the video contains.

    Raises:
        SceneError: If it cannot be read, or imageio-ffmpeg is missing.
    """
    with video.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:8]
    folder = runs / f"frames-{_plain(video.stem)}-{digest}"
    if not folder.exists():
        try:
            frames, _ = read_file(
                "nerf_posenc_kinds.data.clip_reader:read_frames",
                video,
                *(_MOST_FRAMES, _FRAME_SIZE, _FRAMES_PER_SECOND),
            )
        except SceneError as error:
            raise SceneError(
                f"--photos takes a folder of photographs, or a video: {error}"
            ) from None
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for i, frame in enumerate(frames):
            _write(partial / f"{i:04d}.jpg", frame)
        partial.rename(folder)
    count = len(photo_files(folder))
    first = f", all of its first {count / _FRAMES_PER_SECOND:.0f} s" * (count == _MOST_FRAMES)
    log(f"frames   {count} of {video}{first}, in {folder}")
    return folder


def capture_folder(photos: Path, runs: Path) -> Path:
    """Folder of the reconstruction: another one as soon as a photograph is added or changed.

    It is named by what the photographs contain, so that a copy of them finds it as well.
    """
    digest_of_all, masks = hashlib.sha256(), MaskFinder(photos)
    for file in photo_files(photos):
        mask = masks.beside(file)
        for each in (file,) if mask is None else (file, mask.path):
            digest_of_all.update(each.name.encode(errors="replace"))
            with each.open("rb") as stream:
                digest_of_all.update(hashlib.file_digest(stream, "sha256").digest())
    digest = digest_of_all.hexdigest()[:8]
    return runs / f"capture-{_plain(photos.resolve().name)}-{digest}"


def import_pycolmap() -> Any:
    """COLMAP's module, of which no types are known.

    Raises:
        SceneError: If it is missing.
    """
    try:
        return importlib.import_module("pycolmap")
    except ImportError:
        raise SceneError(
            f"--photos needs pycolmap: {how_to_install('photos', companion=True)}"
        ) from None


def reconstruct(
    photos: Path,
    capture: Path,
    *,
    size: int = 1600,
    max_pixels: int = MAX_PIXELS,
    log: Callable[[str], None] = print,
) -> Capture:
    """Find the cameras of photographs, or open what was found before.

    Nothing is written into the folder of the photographs. After an interruption the same call goes
    on where it was.

    Args:
        photos: folder of photographs of something that does not move.
        capture: folder of the reconstruction; created, or one that this function has made.
        size: longer side of the copies in pixels; larger photographs are reduced.
        max_pixels: a larger photograph is left out before it is decoded.
        log: function that takes a line about the progress.

    Raises:
        SceneError: If pycolmap is missing, or no model comes out; the message says why.
    """
    record = capture / _RECORD
    if record.is_file():
        return _recorded(record)
    files = photo_files(photos)
    pycolmap = import_pycolmap()
    pycolmap.logging.minloglevel = int(pycolmap.logging.FATAL.value)
    pycolmap.logging.set_log_destination(pycolmap.logging.FATAL, os.devnull)
    pycolmap.set_random_seed(0)
    images = capture / "images"
    images.mkdir(parents=True, exist_ok=True)
    few = "" if len(files) >= _FEW else "; few: 30 to 100 make a good fit"
    log(f"photos   {len(files)} in {photos}, {_forecast(len(files))}{few}")
    copies, left_out = _copy(files, images, size, max_pixels)
    count = len(files)
    names = {copy.name: name for name, copy in copies.items()}
    if len(copies) < 3:
        raise SceneError(_failure(photos, count, left_out))
    model, reasons = _solved(pycolmap, capture, copies, names, log)
    left_out |= reasons
    if model is None:
        raise SceneError(_failure(photos, count, left_out))
    target = capture / "sparse" / "0"
    target.mkdir(parents=True, exist_ok=True)
    model.write(target)
    for name, copy in copies.items():
        if name in left_out:
            (images / copy.name).unlink()
    found_capture = Capture(capture, count, left_out, _brightness_spread(model, images))
    values = dataclasses.asdict(found_capture)
    del values["folder"]
    partial = capture / f".{_RECORD}.partial"
    partial.write_text(json.dumps(values, indent=1))
    partial.replace(record)
    return found_capture


def _solved(
    pycolmap: Any,
    capture: Path,
    copies: dict[str, _Photo],
    names: dict[str, str],
    log: Callable[[str], None],
) -> tuple[Any, dict[str, str]]:
    """The model of COLMAP, None if there is none, and why photographs are not in it.

    Raises:
        SceneError: If there is no room for it, or what an earlier run left is damaged.
    """
    images, database = capture / "images", capture / "database.db"
    needed = _BYTES_PER_PHOTO * len(copies)
    if (free := shutil.disk_usage(capture).free) < needed:  # Which COLMAP would end the program by.
        raise SceneError(
            f"{capture} needs {needed / 1e6:.0f} MB for the features of {len(copies)} photographs, "
            f"and {free / 1e6:.0f} MB are free"
        )
    try:
        log(f"features of {len(copies)} photographs ...")
        _extract(pycolmap, database, images, list(copies.values()))
        log("matches between them ...")
        if len(copies) <= _MOST_EXHAUSTIVE:
            pycolmap.match_exhaustive(database)
        else:
            pycolmap.match_sequential(database)
        log("cameras ...")
        model = _mapped(pycolmap, database, images, capture / _PARTIAL, len(copies))
        placed = set() if model is None else _well_placed(model)
        return model, _diagnosis(pycolmap, database, names, placed, copies)
    except (RuntimeError, IndexError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SceneError(
            f"COLMAP cannot continue {capture}: {reason}; remove it to start again"
        ) from None


def _recorded(record: Path) -> Capture:
    """Load an earlier reconstruction.

    Raises:
        SceneError: If the file says anything else.
    """
    try:
        values = json.loads(record.read_text())
        left_out, count, spread = (
            values[key] for key in ("left_out", "num_photos", "brightness_spread")
        )
        texts = [*left_out, *left_out.values()]
        is_right = all(isinstance(text, str) for text in texts) and type(count) is int
        if not is_right or not 0 <= float(spread) < math.inf or count < len(left_out):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SceneError(f"{record} is damaged; remove {record.parent} to start again") from None
    return Capture(record.parent, count, left_out, float(spread))


def _plain(name: str) -> str:
    """A name that every program takes: letters, digits, points and dashes."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)[:60] or "photo"


def _forecast(count: int) -> str:
    pairs = count * (count - 1) // 2 if count <= _MOST_EXHAUSTIVE else 10 * count
    minutes = (count + 0.1 * pairs) / 60
    return f"up to {max(1, math.ceil(minutes))} min on two cores"


def _copy(
    files: Sequence[Path], images: Path, size: int, max_pixels: int
) -> tuple[dict[str, _Photo], dict[str, str]]:
    """Copy photographs reduced and as most are held; of several sizes the usual one is kept."""
    copies: dict[str, _Photo] = {}
    left_out: dict[str, str] = {}
    masks = MaskFinder(files[0].parent)
    for i, file in enumerate(files):
        try:
            rgb = open_image(str(file), max_pixels=max_pixels).resized(size).rgb
            focal = read_file("nerf_posenc_kinds.data.exif:focal_length", file)
        except SceneError as error:
            left_out[file.name] = str(error)
            continue
        height, width = rgb.shape[:2]
        name = f"{i:04d}-{_plain(file.stem)}.jpg"
        copies[file.name] = _Photo(name, focal, (height, width), float(rgb.mean()))
        path = images / name
        if not path.is_file():
            _write(path, to_eight_bits(rgb).numpy())
        mask = masks.beside(file)
        if mask is not None and not (copied := _mask_of(path)).is_file():
            copied.parent.mkdir(exist_ok=True)
            _write(copied, _read_mask(mask, size, max_pixels, (height, width)))
    if not copies:
        return copies, left_out
    _rotate_the_fewer(copies, images)
    usual, _ = Counter(photo.shape for photo in copies.values()).most_common(1)[0]
    for name, photo in list(copies.items()):
        if photo.shape != usual:
            left_out[name] = (
                f"it is {photo.shape[1]} x {photo.shape[0]}, the others are {usual[1]} x {usual[0]}"
            )
            (images / copies.pop(name).name).unlink()
    return copies, left_out


def _mask_of(image: Path) -> Path:
    """Where COLMAP looks for the mask of a copied photograph."""
    return image.parent.parent / "masks" / f"{image.name}.png"


def _read_mask(mask: Mask, size: int, max_pixels: int, shape: tuple[int, int]) -> Any:
    """Mask of a photograph, white where it is kept, reduced as the photograph is.

    Raises:
        SceneError: If it has another shape.
    """
    white = read_mask(mask.path, f"the mask {mask.path}", max_pixels=max_pixels)
    kept = reduced_masks((~white if mask.leaves_white else white)[None], size)[0]
    if kept.shape != shape:
        raise SceneError(f"the mask {mask.path} does not have the size of its upright photograph")
    return 255 * kept.numpy().astype(np.uint8)


def _write(path: Path, pixels: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    options: dict[str, Any] = {"quality": 95} if path.suffix == ".jpg" else {}
    # Encoded in memory, since the encoder does not notice a full disk.
    partial.write_bytes(iio.imwrite("<bytes>", pixels, extension=path.suffix, **options))
    partial.replace(path)


def _copied(path: Path, shape: tuple[int, int] | None = None) -> npt.NDArray[np.uint8]:
    """Pixels of a copy in a capture.

    Args:
        path: the copy.
        shape: height and width that it had; None if it may have been rotated since.

    Raises:
        SceneError: If it is damaged, or of another size.
    """
    try:
        pixels: npt.NDArray[np.uint8] = iio.imread(path.read_bytes(), plugin="pillow")
        if shape is not None and pixels.shape[:2] != shape:
            raise ValueError(f"it is {pixels.shape[1]} x {pixels.shape[0]}")
    except Exception as error:  # Decoders raise nearly every type on a damaged file.
        raise SceneError(
            f"{path} is not the copy that was made of a photograph ({first_line(error)}); remove "
            f"{path.parent.parent} to start again"
        ) from None
    return pixels


def _rotate_the_fewer(copies: dict[str, _Photo], images: Path) -> None:
    """Give portraits and landscapes the shape of the more frequent ones.

    A portrait is a landscape photograph of a camera that was rotated by 90 degrees.
    """
    portraits = sum(photo.shape[0] > photo.shape[1] for photo in copies.values())
    is_upright = portraits > len(copies) / 2
    for name, photo in copies.items():
        height, width = photo.shape
        if height != width and (height > width) != is_upright:
            path = images / photo.name
            for each in (path, _mask_of(path)):
                pixels = _copied(each) if each.is_file() else None
                # An interrupted run has rotated some photographs already.
                if pixels is not None and pixels.shape[:2] == photo.shape:
                    _write(each, pixels.swapaxes(0, 1)[::-1])
            copies[name] = dataclasses.replace(photo, shape=(width, height))


def _extract(pycolmap: Any, database: Path, images: Path, photos: Sequence[_Photo]) -> None:
    """Find features; photographs of one lens share a camera.

    What was found before it was interrupted is found again: each call makes a camera of its own.
    """
    if database.exists():
        opened = pycolmap.Database.open(database)
        has_all = opened.num_images() == len(photos)
        opened.close()
        if has_all:
            return
        database.unlink()
    for lens in sorted({photo.focal or 0.0 for photo in photos}):
        group = [photo for photo in photos if (photo.focal or 0.0) == lens]
        height, width = group[0].shape
        focal = lens / _FULL_FRAME_DIAGONAL * math.hypot(width, height)
        focal = focal or _FOCAL_SHARE * max(width, height)
        reader = pycolmap.ImageReaderOptions()
        reader.camera_model = "SIMPLE_RADIAL"
        if (masks := images.parent / "masks").is_dir():
            reader.mask_path = str(masks)
        reader.camera_params = f"{focal}, {width / 2}, {height / 2}, 0"
        pycolmap.extract_features(
            database,
            images,
            image_names=[photo.name for photo in group],
            camera_mode=pycolmap.CameraMode.SINGLE,
            reader_options=reader,
        )


def _mapped(pycolmap: Any, database: Path, images: Path, models: Path, count: int) -> Any:
    """The largest model that any rung of the ladder gives; None if none does."""
    best: Any = None
    for options in _LADDER:
        models.mkdir(exist_ok=True)
        mapping: Any
        if options is None:
            mapping, run = pycolmap.GlobalPipelineOptions(), pycolmap.global_mapping
            mapping.mapper.rotation_averaging.random_seed = 0
            mapping.mapper.global_positioning.random_seed = 0
        else:
            mapping, run = pycolmap.IncrementalPipelineOptions(), pycolmap.incremental_mapping
            for name, value in options.items():
                setattr(mapping.mapper, name, value)
        mapping.min_model_size = min(10, max(3, count // 3))
        mapping.random_seed = mapping.mapper.random_seed = 0
        models_found = run(database, images, models, mapping)
        shutil.rmtree(models)
        for model in models_found.values():
            if best is None or model.num_reg_images() > best.num_reg_images():
                best = model
        if best is not None and best.num_reg_images() >= _ENOUGH * count:
            break
    return best


def _well_placed(model: Any) -> set[str]:
    """Names of the images of a model, from which those that few points hold are removed."""
    images = [model.image(number) for number in model.reg_image_ids()]
    usual = float(np.median([image.num_points3D for image in images]))
    for image in images:
        if image.num_points3D < _FEW_POINTS * usual:
            model.deregister_frame(image.frame_id)
    return {model.image(number).name for number in model.reg_image_ids()}


def _brightness_spread(model: Any, images: Path) -> float:
    """How differently bright the photographs show the same points; see `Capture`."""
    points: dict[int, list[tuple[int, float]]] = {}
    for number in model.reg_image_ids():
        image = model.image(number)
        camera = model.camera(image.camera_id)
        gray = _copied(images / image.name, (camera.height, camera.width)).mean(-1)
        for point in image.get_observation_points2D():
            x, y = point.xy.astype(int)
            # Black and white pixels have no brightness to compare.
            if 5 < gray[y, x] < 250:
                points.setdefault(point.point3D_id, []).append((number, np.log(gray[y, x])))
    differences: dict[int, list[float]] = {}
    for seen in points.values():
        mean = sum(value for _, value in seen) / len(seen)
        for number, value in seen:
            differences.setdefault(number, []).append(value - mean)
    return float(np.std([float(np.median(each)) for each in differences.values()] or [0.0]))


def _diagnosis(
    pycolmap: Any, database: Path, names: dict[str, str], found: set[str], copies: dict[str, _Photo]
) -> dict[str, str]:
    """For each photograph without a camera, by its name, why it has none."""
    opened = pycolmap.Database.open(database)
    try:
        numbers = {image.image_id: image.name for image in opened.read_all_images()}
        features = {
            name: opened.num_keypoints_for_image(number) for number, name in numbers.items()
        }
        matches: dict[str, Counter[str]] = {name: Counter() for name in names}
        turned = 0
        pairs, geometries = opened.read_two_view_geometries()
        for pair, geometry in zip(pairs, geometries, strict=True):
            a, b = (numbers[number] for number in pycolmap.pair_id_to_image_pair(pair))
            matches[a][b] = matches[b][a] = len(geometry.inlier_matches)
            turned += geometry.config in (
                pycolmap.TwoViewGeometryConfiguration.PANORAMIC,
                pycolmap.TwoViewGeometryConfiguration.PLANAR_OR_PANORAMIC,
            )
    finally:
        opened.close()
    usual = sorted(features.values())[len(features) // 2]
    no_parallax = turned > len(pairs) / 2
    return {
        name: _reason(photo, features[photo.name], usual, matches[photo.name], names, no_parallax)
        for name, photo in copies.items()
        if photo.name not in found
    }


def _reason(
    photo: _Photo,
    features: int,
    usual: int,
    matches: Counter[str],
    names: dict[str, str],
    no_parallax: bool,
) -> str:
    if photo.brightness < _BLACK:
        return "it is black"
    if features < _FEW_FEATURES * usual or features < _MATCHES:
        return (
            f"it has {features:,} features, others have {usual:,}: it is blurred or shows "
            "little texture"
        )
    best = matches.most_common(2)
    if not best or best[0][1] < _MATCHES:
        return "it has too little in common with any other: another scene, or too far from the rest"
    if no_parallax:
        return "no parallax: the camera turned and did not move; walk around what you photograph"
    near = " and ".join(f"{names[name]} ({count} points)" for name, count in best)
    return f"what it shares with {near} was not enough; take more photographs between them"


def _failure(photos: Path, count: int, left_out: dict[str, str]) -> str:
    """Say that there is no scene, with the most frequent reasons."""
    reasons = []
    for reason, share in Counter(left_out.values()).most_common(_REASONS):
        first = next(name for name, other in left_out.items() if other == reason)
        others = f" and {share - 1} more like it" if share > 1 else ""
        reasons.append(f"{first}{others}: {reason}")
    return (
        f"COLMAP found no cameras for the {count} photographs in {photos}: {'; '.join(reasons)}. "
        "Take 30 to 100 photographs from all sides; neighbors should show mostly the same"
    )
