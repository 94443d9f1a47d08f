"""Slices and volumes of ``.npy`` and NIfTI files and DICOM folders; run within the worker's limits.

A volume is ``(depth, height, width)``; its values are mapped to [0, 1].
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scenes.errors import SceneError

_NIFTI = (".nii", ".nii.gz")
# Of the distance between slices: how much that of two of them may differ.
_UNEVEN = 0.02
# pydicom logs what it finds odd in a file; what matters is raised.
logging.getLogger("pydicom").addHandler(logging.NullHandler())


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
    _require_size(path, array.shape, most)
    with np.errstate(all="ignore"):  # What does not fit into float32 is refused below.
        values = np.array(array, dtype=np.float32)
    low, high = _range_of(path, values)
    if low < 0 or high > 1:
        raise SceneError(
            f"{path} must hold values in [0, 1]; got {low:.9g} to {high:.9g}: map the least to 0 "
            "and the largest to 1"
        )
    return values


def read_volume(path: Path, most: int) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Read a volume and the distances of its samples.

    Slices of NIfTI lie along the file's third axis. Its rows are turned so that what is anterior or
    superior is at the top, as in DICOM.

    Args:
        path: ``.npy``, ``.nii`` or ``.nii.gz`` file, or folder of one DICOM series.
        most: most values.

    Returns:
        ``(depth, height, width)`` in [0, 1], and a dictionary: ``spacing``, the distances along
        (x, y, z) in mm, 1 for ``.npy``; ``range``, the values that 0 and 1 stand for.

    Raises:
        SceneError: If it cannot be read, or is something else.
    """
    if path.is_dir():
        values, spacing = _read_dicom(path, most)
    elif path.name.lower().endswith(_NIFTI):
        values, spacing = _read_nifti(path, most)
    else:
        values, spacing = read_array(path, most), [1.0, 1.0, 1.0]
        if values.ndim == 2:
            raise SceneError(f"{path} is one slice, {values.shape}; a volume has three axes")
        return values, {"spacing": spacing, "range": [0.0, 1.0]}
    if not all(0 < distance < 1e6 for distance in spacing):
        raise SceneError(f"{path} has samples {spacing} mm apart; set them anew in its header")
    low, high = _range_of(path, values)
    if low == high:
        raise SceneError(f"{path} has the value {low:.9g} everywhere: nothing to find")
    return (values - low) / (high - low), {"spacing": spacing, "range": [low, high]}


def _read_nifti(path: Path, most: int) -> tuple[npt.NDArray[np.float32], list[float]]:
    try:
        import nibabel
    except ImportError:
        raise SceneError(_missing(path, "NIfTI")) from None
    try:
        image: Any = nibabel.load(path)
        # A single volume of a series has a fourth axis of length 1.
        shape = tuple(image.shape) + (1,) * (3 - len(image.shape))
        if len(shape) > 3 and max(shape[3:]) > 1:
            raise SceneError(f"{path} has {shape[3:]} volumes of {shape[:3]}; save one of them")
        _require_size(path, shape, most)
        if image.get_data_dtype().kind not in "fiu":
            raise SceneError(f"{path} must hold numbers; it holds {image.get_data_dtype()}")
        values = np.asarray(image.dataobj, np.float32).reshape(shape[:3]).transpose(2, 1, 0)
        # How far a step along the file's second axis goes to the right, anterior and superior.
        step = image.affine[:3, 1]
        is_upward = step[np.abs(step).argmax()] > 0 and np.abs(step).argmax() > 0
        spacing = [float(distance) for distance in image.header.get_zooms()[:3]]
    except (SceneError, MemoryError):
        raise
    except Exception as error:  # Of a damaged header or stream, from any of its libraries.
        raise SceneError(f"{path} is damaged, or no NIfTI file: {error}") from None
    return (values[:, ::-1] if is_upward else values), spacing


def _read_dicom(folder: Path, most: int) -> tuple[npt.NDArray[np.float32], list[float]]:
    try:
        import pydicom
    except ImportError:
        raise SceneError(_missing(folder, "DICOM")) from None
    slices = []
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        with file.open("rb") as opened:
            is_dicom = opened.read(132)[128:] == b"DICM"
        if is_dicom and file.name != "DICOMDIR":
            try:
                slices.append(_slice_of(pydicom.dcmread(file)))
            except MemoryError:
                raise
            except Exception as error:
                raise SceneError(
                    f"{file} is no slice of a series: {error}; remove it, or decompress it "
                    "(dcmdjpeg or gdcmconv --raw)"
                ) from None
            _require_size(folder, (len(slices), *slices[0][2].shape), most)
    if len(slices) < 2:
        raise SceneError(f"{folder} has {len(slices)} DICOM slices; a volume needs 2 or more")
    kinds = {(series, values.shape, tuple(spacing)) for series, _, values, spacing in slices}
    if len(kinds) > 1:
        raise SceneError(
            f"{folder} has {len(kinds)} series, or slices of several sizes; give a folder of one"
        )
    slices.sort(key=lambda each: each[1])
    heights = np.array([height for _, height, _, _ in slices])
    steps = np.diff(heights)
    if steps.min() <= 0 or np.ptp(steps) > _UNEVEN * steps.mean():
        raise SceneError(
            f"{folder} has slices {steps.min():.4g} to {steps.max():.4g} mm apart; they must be "
            "evenly spaced, and none missing or twice there"
        )
    return np.stack([values for *_, values, _ in slices]), [*slices[0][3], float(steps.mean())]


def _slice_of(data: Any) -> tuple[str, float, npt.NDArray[np.float32], list[float]]:
    """Series, height along its normal, values and distances (x, y) of a DICOM slice."""
    row, column = np.reshape(np.array(data.ImageOrientationPatient, float), (2, 3))
    height = float(np.cross(row, column) @ np.array(data.ImagePositionPatient, float))
    pixels = data.pixel_array
    if pixels.ndim != 2:
        raise ValueError(f"it has {pixels.shape} values, not (height, width)")
    # To Hounsfield units, where the file says how.
    scale, offset = data.get("RescaleSlope", 1), data.get("RescaleIntercept", 0)
    values = pixels.astype(np.float32) * np.float32(scale) + np.float32(offset)
    between_rows, between_columns = map(float, data.PixelSpacing)
    return str(data.SeriesInstanceUID), height, values, [between_columns, between_rows]


def _missing(path: Path, what: str) -> str:
    return f"{path} is {what}, which needs its own package: pip install 'nerf_posenc[medical]'"


def _require_size(path: Path, shape: tuple[int, ...], most: int) -> None:
    count = int(np.prod(shape, dtype=object))
    if count > most:
        raise SceneError(f"{path} has {count:,} pixels; see --max-pixels")


def _range_of(path: Path, values: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Least and largest value."""
    low, high = (float(f(values)) if values.size else 0.0 for f in (np.min, np.max))
    if not np.isfinite(low + high):
        raise SceneError(f"{path} must hold finite numbers")
    return low, high
