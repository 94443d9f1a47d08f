"""Volumes of ``.npy`` and NIfTI files and DICOM folders; run within the worker's limits.

A volume is ``(depth, height, width)``; its values are mapped to [0, 1].
"""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.inside import files_in
from nerf_posenc_app.data.reading.decoding import other_format
from nerf_posenc_app.plugins import how_to_install
from nerf_posenc_kinds.data.arrays import range_of, read_array, require_size

_NIFTI = (".nii", ".nii.gz")
# Tolerance of the distances of slices, relative to their mean.
_UNEVEN = 0.02
# Cosine between two axes of a volume that are perpendicular up to rounding.
_SHEAR = 1e-3
# Pixels that the last slice may be shifted by against the first.
_DRIFT = 0.5
# pydicom logs oddities of a file; problems that matter raise an error.
logging.getLogger("pydicom").addHandler(logging.NullHandler())


def read_volume(path: Path, most: int) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Read a volume and the distances of its samples.

    Slices of NIfTI lie along the file's third axis, and are ordered so that it points to the right,
    anterior or superior. Rows go down from what is anterior or superior, as in DICOM.

    Args:
        path: ``.npy``, ``.nii`` or ``.nii.gz`` file, or folder of one DICOM series.
        most: most values.

    Returns:
        ``(depth, height, width)`` in [0, 1], and a dictionary: ``spacing``, the distances along
        (x, y, z), 1 for ``.npy``; ``range``, the values that 0 and 1 stand for; and ``left_out``,
        the number of files of a folder that are no DICOM.

    Raises:
        SceneError: If it cannot be read, or is something else.
    """
    left_out = 0
    if path.is_dir():
        values, spacing, left_out = _read_dicom(path, most)
    elif path.name.lower().endswith(_NIFTI):
        values, spacing = _read_nifti(path, most)
    else:
        if (name := other_format(path)) is not None:
            raise SceneError(f"cannot read {path} as a volume: it is {name}")
        values, spacing = read_array(path, most), [1.0, 1.0, 1.0]
        if values.ndim == 2:
            raise SceneError(f"{path} is one slice, {values.shape}; a volume has three axes")
        return values, {"spacing": spacing, "range": [0.0, 1.0]}
    low, high = range_of(path, values)
    if low == high:
        raise SceneError(f"{path} has the value {low:.9g} everywhere; there is nothing to fit")
    values -= np.float32(low)
    values /= np.float32(high - low)
    return values, {"spacing": spacing, "range": [low, high], "left_out": left_out}


def _read_nifti(path: Path, most: int) -> tuple[npt.NDArray[np.float32], list[float]]:
    try:
        import nibabel
        from nibabel.affines import voxel_sizes
    except ImportError:
        raise SceneError(_missing(path, "NIfTI")) from None
    try:
        image: Any = nibabel.load(path)
        # A single volume of a series has a fourth axis of length 1.
        shape = tuple(image.shape) + (1,) * (3 - len(image.shape))
        if len(shape) > 3 and max(shape[3:]) > 1:
            raise SceneError(f"{path} has {shape[3:]} volumes of {shape[:3]}; save one of them")
        require_size(path, shape, most)
        if image.get_data_dtype().kind not in "fiu":
            raise SceneError(f"{path} must hold numbers; it holds {image.get_data_dtype()}")
        values = np.asarray(image.dataobj, np.float32).reshape(shape[:3]).transpose(2, 1, 0)
        # Taken from the affine map, by which programs place a volume, not from the header.
        spacing = [float(distance) for distance in voxel_sizes(image.affine)]
        axes = image.affine[:3, :3] / spacing
        if np.abs(axes.T @ axes - np.eye(3)).max() > _SHEAR:
            raise SceneError(
                f"{path} is sheared: its axes are not perpendicular; resample it (mri_convert, "
                "flirt -applyisoxfm)"
            )
        rows, slices = (_direction(image.affine[:3, axis]) for axis in (1, 2))
    except (SceneError, MemoryError):
        raise
    except Exception as error:  # Of a damaged header or stream, from any of its libraries.
        raise SceneError(f"{path} is damaged, or is not a NIfTI file: {error}") from None
    return np.array(values[::slices, ::-rows]), spacing


def _direction(step: npt.NDArray[np.float64]) -> int:
    """1 if a step goes to the right, anterior or superior rather than the other way, else -1."""
    return 1 if step[np.abs(step).argmax()] > 0 else -1


def _read_dicom(folder: Path, most: int) -> tuple[npt.NDArray[np.float32], list[float], int]:
    """Values, distances, and the number of files that are no DICOM."""
    try:
        import pydicom
    except ImportError:
        raise SceneError(_missing(folder, "DICOM")) from None
    slices: list[_Slice] = []
    left_out = 0
    for file in files_in(folder):
        if file.name == "DICOMDIR":
            continue
        try:
            with file.open("rb") as opened:
                head = opened.read(132)
            # Old files begin without a preamble, with an element of the group 2 or 8.
            if head[128:] != b"DICM" and head[:2] not in (b"\x02\0", b"\x08\0"):
                left_out += 1
                continue
            data = pydicom.dcmread(file, force=True)
            if "ModalityLUTSequence" in data:
                raise SceneError(
                    f"{file} maps its values by a table (ModalityLUTSequence), which is not read; "
                    "convert it to NIfTI (dcm2niix)"
                )
            # MONOCHROME1 is white where it is least, a palette holds indices of colors.
            if (meaning := data.PhotometricInterpretation) != "MONOCHROME2":
                raise SceneError(f"{file} holds values of {meaning}; save it as MONOCHROME2")
            slices.append(_slice_of(data))
        except (SceneError, MemoryError):
            raise
        except Exception as error:
            raise SceneError(
                f"{file} cannot be read as a slice: {error}; remove it if it does not belong to "
                "the series, decompress it (gdcmconv --raw), or convert it to NIfTI (dcm2niix)"
            ) from None
        require_size(folder, (len(slices), *slices[0][2].shape), most)
    if len(slices) < 2:
        raise SceneError(f"{folder} has {len(slices)} DICOM slices; a volume needs 2 or more")
    spacing = _ordered(folder, slices)
    return np.stack([values for *_, values in slices]), spacing, left_out


def _ordered(folder: Path, slices: "list[_Slice]") -> list[float]:
    """Sort the slices of one series along their normal; return the distances of the samples.

    Raises:
        SceneError: If they are of several series, unevenly spaced, or shifted against each other.
    """
    kinds = {(about, values.shape) for about, _, values in slices}
    if len(kinds) > 1:
        raise SceneError(
            f"{folder} has {len(kinds)} series, or slices of several sizes or directions; give "
            "a folder of one"
        )
    normal = np.cross(slices[0][0].directions[:3], slices[0][0].directions[3:])
    slices.sort(key=lambda each: float(normal @ each[1]))
    positions = np.array([position for _, position, _ in slices])
    heights = positions @ normal
    steps = np.diff(heights)
    # Between the first and the last slice, relative to a pixel.
    drift = positions[-1] - positions[0] - (heights[-1] - heights[0]) * normal
    if np.abs(drift).max() > _DRIFT * min(slices[0][0].spacing):
        raise SceneError(
            f"{folder} has slices that are shifted against each other by up to "
            f"{np.abs(drift).max():.3g} mm, for example by a tilted gantry; resample them "
            "(dcm2niix does)"
        )
    if steps.min() <= 0 or np.ptp(steps) > _UNEVEN * steps.mean():
        raise SceneError(
            f"{folder} has slices {steps.min():.4g} to {steps.max():.4g} mm apart; they must be "
            "evenly spaced, and none missing or twice there"
        )
    return [*slices[0][0].spacing, float(steps.mean())]


class _Series(NamedTuple):
    """Values that all slices of a series share: ``spacing`` is along x and y."""

    name: str
    directions: tuple[float, ...]
    spacing: tuple[float, float]


_Slice = tuple[_Series, npt.NDArray[np.float64], npt.NDArray[np.float32]]


def _slice_of(data: Any) -> _Slice:
    """Series, position and values of a DICOM slice."""
    directions = [float(value) for value in data.ImageOrientationPatient]
    position = np.array(data.ImagePositionPatient, float)
    pixels = data.pixel_array
    if pixels.ndim != 2:
        raise ValueError(f"it has {pixels.shape} values, not (height, width)")
    # Convert to Hounsfield units if the file says how.
    scale, offset = float(data.get("RescaleSlope") or 1), float(data.get("RescaleIntercept") or 0)
    values = pixels.astype(np.float32) * np.float32(scale) + np.float32(offset)
    between_rows, between_columns = map(float, data.PixelSpacing)
    name, rounded = str(data.SeriesInstanceUID), tuple(round(value, 3) for value in directions)
    return _Series(name, rounded, (between_columns, between_rows)), position, values


def _missing(path: Path, what: str) -> str:
    install = how_to_install("medical", companion=True)
    return f"{path} is {what}, which needs its own package: {install}"
