"""COLMAP models read by pycolmap; called in the process of `data.reading.worker` alone.

pycolmap trusts the counts in a file: on a damaged one it may hang, grow without bound or crash.
"""

import codecs
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.plugins import how_to_install

# The middle 98% of points span so many times what the middle 80% do: some lie nowhere.
_FAR_OUTLIERS = 10
# Tolerance of the length of a quaternion, for the rounding of a text file.
_UNIT = 0.1


def read_model(model: Path) -> tuple[dict[str, Any], npt.NDArray[np.float64]]:
    """Cameras, images and the middle 98% of the points along each axis; and what images show.

    Returns:
        The values; and a row for each point that an image shows: the index of the image, column
        and row as shares of its width and height, and the position of the point, ``(n, 6)``.

    Raises:
        SceneError: If pycolmap is not installed or refuses the files.
    """
    try:
        import pycolmap
    except ImportError:
        raise SceneError(
            f"{model} is a COLMAP model, which needs pycolmap: {how_to_install('colmap')}"
        ) from None
    if (model / "rigs.bin").exists() > (model / "frames.bin").exists():
        raise SceneError(f"{model} has rigs.bin without the frames.bin that belongs to it")
    try:
        with _plain_text(model) as (folder, names):
            reconstruction = pycolmap.Reconstruction(str(folder))
    except MemoryError:
        raise
    except Exception as error:  # pycolmap raises several types of its own.
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        reason = "it is damaged" if "bad_alloc" in reason else reason
        raise SceneError(f"cannot read {model} as a COLMAP model: {reason}") from None
    positions = {number: point.xyz for number, point in reconstruction.points3D.items()}
    points = np.array(list(positions.values())).reshape(-1, 3)
    finite = points[np.isfinite(points).all(axis=1)]
    box, is_trimmed = _box(finite) if len(finite) else (None, False)
    images = list(reconstruction.images.values())
    observed = [
        (i, *(seen.xy / (lens.width, lens.height)), *positions[seen.point3D_id])
        for i, image in enumerate(images)
        for lens in [reconstruction.camera(image.camera_id)]
        for seen in image.get_observation_points2D()
        if seen.point3D_id in positions
    ]
    values = {
        "cameras": {str(n): _camera(lens) for n, lens in reconstruction.cameras.items()},
        "images": [
            {
                "name": names.get(image.name, str(image.name)),
                "camera": str(image.camera_id),
                "camera_from_world": _matrix(model, names.get(image.name, str(image.name)), image),
            }
            for image in images
        ],
        "num_points": len(finite),
        "num_broken_points": len(points) - len(finite),
        "box": box,
        "is_trimmed": is_trimmed,
    }
    return values, np.array(observed, dtype=np.float64).reshape(-1, 6)


def _matrix(folder: Path, name: str, image: Any) -> list[list[float]]:
    """Pose of an image; a quaternion of length 0, which pycolmap takes for no rotation, is none."""
    pose = image.cam_from_world()
    length = float(np.linalg.norm(pose.rotation.quat))
    # A quaternion that is not finite is reported with the rest of the pose.
    if abs(length - 1) >= _UNIT:
        raise SceneError(
            f"{folder}: the quaternion of {name} has length {length:.3g}, not 1: its pose is "
            "not known; remove the image"
        )
    matrix: list[list[float]] = np.asarray(pose.matrix()).tolist()
    return matrix


def _camera(lens: Any) -> dict[str, Any]:
    return {
        "model": lens.model.name,
        "width": lens.width,
        "height": lens.height,
        "names": [name.strip() for name in lens.params_info.split(",")],
        "values": [float(value) for value in lens.params],
    }


def _box(points: npt.NDArray[np.float64]) -> tuple[list[list[float]], bool]:
    """Corners of the middle 98% of points, or of the middle 80% of points with far outliers."""
    low, inner_low, inner_high, high = np.quantile(points, [0.01, 0.1, 0.9, 0.99], axis=0)
    # 1.2 for uniform points, 1.8 for normally distributed ones.
    if (high - low).max() <= _FAR_OUTLIERS * (inner_high - inner_low).max():
        return [low.tolist(), high.tolist()], False
    return [inner_low.tolist(), inner_high.tolist()], True


@contextlib.contextmanager
def _plain_text(model: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The model in a form that pycolmap reads whole, and its images' names by those there.

    pycolmap cuts names at spaces in text, and takes every second image for the points of the one
    before where those who wrote ``images.txt`` by hand left out the empty lines.
    """
    text = model / "images.txt"
    if (model / "images.bin").exists() or not text.exists():
        yield model, {}
        return
    names: dict[str, str] = {}
    written, is_open = [], False
    for line in text.read_text(encoding="utf-8-sig").splitlines():
        tokens = line.split(maxsplit=9)
        # A line of points has triples of numbers: an image's tenth value is its name.
        every = line.split()
        is_image = len(tokens) == 10 and (len(every) % 3 != 0 or not _is_number(every[-1]))
        if line.startswith("#") or not (is_image or is_open):
            continue
        if is_image:
            names[str(len(names))] = tokens[9].strip()
            written.append("\n" * is_open + " ".join([*tokens[:9], str(len(names) - 1)]) + "\n")
        else:
            written.append(line + "\n")
        is_open = is_image
    with tempfile.TemporaryDirectory() as folder:
        for file in model.glob("*.txt"):
            Path(folder, file.name).write_bytes(file.read_bytes().removeprefix(codecs.BOM_UTF8))
        Path(folder, "images.txt").write_text("".join(written) + "\n", encoding="utf-8")
        yield Path(folder), names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
