"""NIfTI files, DICOM folders and arrays: read in the same axes and units, or refused by name."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian

from nerf_posenc_app.data import SceneError
from nerf_posenc_app.data.reading.worker import read_file

MOST = 1 << 20


def _read_volume(path: Path, most: int) -> tuple[torch.Tensor, dict[str, Any]]:
    values, facts = read_file("nerf_posenc_kinds.data.volume_reader:read_volume", path, most)
    return torch.from_numpy(values), facts


def made() -> np.ndarray:
    """Integers (depth, height, width) whose least is -1024 and largest 2000."""
    values = np.random.default_rng(0).integers(-1000, 1900, (5, 8, 9)).astype(np.int16)
    values[0, 0, 0], values[4, 7, 8] = -1024, 2000
    return values


def write_series(
    folder: Path,
    values: np.ndarray,
    heights: list[float] | None = None,
    *,
    series: str = "1.2.3",
    directions: tuple[float, ...] = (1, 0, 0, 0, 1, 0),
    meaning: str = "MONOCHROME2",
) -> None:
    """Write a DICOM series whose files are not in the order of their slices."""
    folder.mkdir(exist_ok=True)
    heights = heights or [2.5 * i for i in range(len(values))]
    for i, (pixels, height) in enumerate(zip(values, heights, strict=True)):
        data = Dataset()
        data.file_meta = FileMetaDataset()
        data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = CTImageStorage
        data.file_meta.MediaStorageSOPInstanceUID = UID(f"{series}.{i + 1}")
        data.SOPInstanceUID = f"{series}.{i + 1}"
        data.SeriesInstanceUID = series
        data.Rows, data.Columns = pixels.shape
        data.PixelSpacing, data.ImageOrientationPatient = [0.7, 0.6], list(directions)
        data.ImagePositionPatient = [3, 4, height]
        data.RescaleSlope, data.RescaleIntercept = 2, -1024
        data.BitsAllocated, data.BitsStored, data.HighBit = 16, 16, 15
        data.PixelRepresentation, data.SamplesPerPixel = 0, 1
        data.PhotometricInterpretation = meaning
        # Stored values, from which the units come back.
        data.PixelData = ((pixels + 1024) // 2).astype("<u2").tobytes()
        data.save_as(
            folder / f"{series}-{directions[4]}-{(7 * i + 3) % 10}.dcm", enforce_file_format=True
        )


def write_nifti(
    path: Path, values: np.ndarray, spacing: tuple[float, ...] = (0.6, 0.7, 2.5)
) -> None:
    """Write a volume (depth, height, width), whose rows go down from the anterior side."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1])
    nibabel.save(nibabel.Nifti1Image(values.transpose(2, 1, 0), affine), path)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "series"])
def test_values_axes_and_millimeters_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    even = made() // 2 * 2
    if name == "series":
        write_series(tmp_path / name, even)
    else:
        write_nifti(tmp_path / name, even)
    values, facts = _read_volume(tmp_path / name, MOST)
    assert facts["range"] == [-1024, 2000]
    assert facts["spacing"] == pytest.approx([0.6, 0.7, 2.5])
    expected = (torch.from_numpy(even).float() + 1024) / 3024
    torch.testing.assert_close(values, expected)


def test_rows_of_nifti_that_go_up_are_turned(tmp_path: Path) -> None:
    affine = np.diag([1.0, 1, 1, 1])
    nibabel.save(nibabel.Nifti1Image(made().transpose(2, 1, 0), affine), tmp_path / "up.nii")
    write_nifti(tmp_path / "down.nii", made())
    up, _ = _read_volume(tmp_path / "up.nii", MOST)
    down, facts = _read_volume(tmp_path / "down.nii", MOST)
    torch.testing.assert_close(up.flip(1), down)
    # From the head to the feet, and a header that knows other distances than its affine map.
    image = nibabel.Nifti1Image(made().transpose(2, 1, 0), np.diag([-0.6, -0.7, -2.5, 1]))
    image.header["pixdim"][1:4] = 1
    nibabel.save(image, tmp_path / "feet.nii")
    turned, of_map = _read_volume(tmp_path / "feet.nii", MOST)
    torch.testing.assert_close(turned.flip(0), down)
    assert of_map["spacing"] == pytest.approx(facts["spacing"])


def test_other_files_of_a_folder_are_counted(tmp_path: Path) -> None:
    write_series(tmp_path / "series", made())
    (tmp_path / "series/readme.txt").write_text("a scan")
    (tmp_path / "series/DICOMDIR").write_text("an index")
    assert _read_volume(tmp_path / "series", MOST)[1]["left_out"] == 1
    with pytest.raises(SceneError, match="DICOM, not an image"):
        _read_volume(next((tmp_path / "series").glob("*.dcm")), MOST)


def test_what_is_no_volume_is_refused_by_name(tmp_path: Path) -> None:
    values = made()
    write_nifti(tmp_path / "nan.nii", np.full((4, 8, 8), np.nan, np.float32))
    write_nifti(tmp_path / "flat.nii", np.zeros((4, 8, 8), np.float32))
    series = np.stack([values.transpose(2, 1, 0)] * 3, -1)
    nibabel.save(nibabel.Nifti1Image(series, np.eye(4)), tmp_path / "several.nii")
    (tmp_path / "cut.nii.gz").write_bytes((tmp_path / "several.nii").read_bytes()[:300])
    np.save(tmp_path / "slice.npy", np.zeros((8, 8)))
    write_series(tmp_path / "gap", values, [0, 1, 2, 4, 5])
    write_series(tmp_path / "two", values)
    write_series(tmp_path / "two", values, series="1.2.4")
    write_series(tmp_path / "one", values[:1])
    write_series(tmp_path / "cut", values)
    damaged = tmp_path / "cut" / "1.2.3-1-0.dcm"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    (tmp_path / "empty").mkdir()
    write_series(tmp_path / "inverted", values, meaning="MONOCHROME1")
    write_series(tmp_path / "turned", values[:3])
    write_series(tmp_path / "turned", values[3:], [10, 12], directions=(1, 0, 0, 0, 0, 1))
    for name, words in {
        "nan.nii": "must hold finite numbers",
        "flat.nii": "0 everywhere",
        "several.nii": "volumes of (9, 8, 5); save one",
        "cut.nii.gz": "cut.nii.gz is damaged, or is not a NIfTI file",
        "slice.npy": "a volume has three axes",
        "gap": "slices 1 to 2 mm apart; they must be evenly spaced",
        "two": "has 2 series",
        "turned": "or slices of several sizes or directions",
        "one": "has 1 DICOM slices; a volume needs 2",
        "cut": "1.2.3-1-0.dcm cannot be read as a slice",
        "inverted": "holds values of MONOCHROME1; save it as MONOCHROME2",
        "empty": "there is no file",
        "absent.nii": "there is no file",
    }.items():
        with pytest.raises(SceneError) as refused:
            _read_volume(tmp_path / name, MOST)
        assert words in str(refused.value), name
    write_nifti(tmp_path / "a.nii", values)
    with pytest.raises(SceneError, match="360 pixels; see --max-pixels"):
        _read_volume(tmp_path / "a.nii", 100)
