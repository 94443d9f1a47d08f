"""``--photos``: cameras that COLMAP finds, what it says of photographs without one, and a fit."""

import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import torch
from PIL import Image

from nerf_posenc_app.data import SceneError, open_scene
from nerf_posenc_kinds import photos
from nerf_posenc_kinds.data.captures import _LADDER, _copied, _copy, capture_folder, reconstruct
from nerf_posenc_kinds.data.room import room_camera, room_poses, take_photographs
from tests.optional import needs
from train_fit import main

needs("pycolmap")
pytestmark = pytest.mark.slow


def quiet(_: str) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, torch.Tensor]:
    """Photographs of the room, the folder of what was found, and their true poses."""
    folder = tmp_path_factory.mktemp("photos")
    poses = room_poses(10)
    take_photographs(folder / "room", poses, width=400, height=300)
    reconstruct(folder / "room", folder / "capture", log=quiet)
    return folder / "room", folder / "capture", poses


@pytest.mark.parametrize("rung", range(3))
def test_all_cameras_are_found_where_they_are(
    rung: int,
    captured: tuple[Path, Path, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, capture, truth = captured
    if rung:
        capture = tmp_path / "capture"
        monkeypatch.setattr("nerf_posenc_kinds.data.captures._LADDER", _LADDER[rung : rung + 1])
    again = reconstruct(taken, capture, log=quiet)
    assert (again.num_photos, again.left_out) == (10, {})
    scene = open_scene(str(capture))
    camera = scene.train.cameras[0]
    assert camera.fx == pytest.approx(room_camera(400, 300).fx, rel=0.01)
    names = [*scene.train.names, *scene.test.names]
    order = [int(name[:4]) for name in names]
    found = torch.cat([scene.train.world_from_camera, scene.test.world_from_camera])
    # A reconstruction is known up to a similarity: angles between views are not changed by one.
    for a in range(10):
        between_found = found[0, :3, :3].T @ found[a, :3, :3]
        between_truth = truth[order[0], :3, :3].T @ truth[order[a], :3, :3]
        trace = (between_found.T @ between_truth).diagonal().sum()
        degrees = torch.rad2deg(torch.arccos(((trace - 1) / 2).clamp(-1, 1)))
        assert float(degrees) < 0.5
    # Nor are ratios of distances.
    lengths = [
        torch.cdist(poses[:, :3, 3], poses[:, :3, 3])
        for poses in (found, truth[torch.tensor(order)])
    ]
    torch.testing.assert_close(
        lengths[0] / lengths[0].max(), lengths[1] / lengths[1].max(), atol=0.01, rtol=0
    )


def test_photographs_without_a_camera_are_named_with_the_reason(
    captured: tuple[Path, Path, torch.Tensor], tmp_path: Path
) -> None:
    mixed = tmp_path / "room"
    shutil.copytree(captured[0], mixed)
    noise = np.random.default_rng(0)
    first = iio.imread(mixed / "IMG_0000.jpg")
    iio.imwrite(mixed / "black.jpg", np.zeros_like(first))
    blurred = Image.fromarray(first).resize((8, 6)).resize((400, 300))
    blurred.save(mixed / "blurred.jpg")
    iio.imwrite(mixed / "another.jpg", noise.integers(0, 256, first.shape, dtype=np.uint8))
    iio.imwrite(mixed / "small.jpg", first[:200])
    Image.fromarray(np.rot90(first).copy()).save(mixed / "portrait.jpg")
    (mixed / "damaged.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    (mixed / "clip.mp4").write_bytes(b"no photograph")
    (mixed / "phone.HEIC").write_bytes(b"not read")
    before = sorted(path.name for path in mixed.iterdir())
    capture = reconstruct(mixed, tmp_path / "capture", log=quiet)
    assert sorted(path.name for path in mixed.iterdir()) == before
    assert capture.num_photos == 17
    for name, reason in {
        "black.jpg": "it is black",
        "blurred.jpg": "it is blurred or shows little texture",
        "another.jpg": "too little in common",
        "small.jpg": "it is 400 x 200, the others are 400 x 300",
        "damaged.jpg": "damaged.jpg",
        "phone.HEIC": "damaged or of an unknown format",
    }.items():
        assert reason in capture.left_out.pop(name)
    assert not capture.left_out


@pytest.mark.parametrize("upright", [1, 3])
def test_the_fewer_of_portraits_and_landscapes_are_rotated_once(
    upright: int, tmp_path: Path
) -> None:
    taken, images = tmp_path / "taken", tmp_path / "images"
    taken.mkdir()
    images.mkdir()
    for i in range(4):
        shape = (60, 40, 3) if i < upright else (40, 60, 3)
        iio.imwrite(taken / f"{i}.png", np.full(shape, 50 * i, dtype=np.uint8))
    for _ in range(2):  # As after an interruption.
        copies, left_out = _copy(sorted(taken.iterdir()), images, 60, 10_000)
        expected = (60, 40) if upright == 3 else (40, 60)
        assert left_out == {}
        assert {copy.shape for copy in copies.values()} == {expected}
        assert {iio.imread(path).shape[:2] for path in images.iterdir()} == {expected}


def test_masks_are_copied_where_colmap_looks_and_rotated_with_their_photographs(
    tmp_path: Path,
) -> None:
    taken, images = tmp_path / "taken", tmp_path / "capture" / "images"
    (taken / "masks").mkdir(parents=True)
    images.mkdir(parents=True)
    for i in range(3):
        shape = (60, 40) if i == 0 else (40, 60)
        photo = np.full((*shape, 3), 60 + 50 * i, dtype=np.uint8)
        # Black in the photograph is what the mask leaves out.
        photo[:10] = 0
        iio.imwrite(taken / f"{i}.png", photo)
        iio.imwrite(taken / "masks" / f"{i}.png", 255 * (photo[..., 0] > 0).astype(np.uint8))
    without = capture_folder(taken, Path())
    files = sorted(file for file in taken.iterdir() if file.is_file())
    for _ in range(2):  # As after an interruption.
        copies, _ = _copy(files, images, 60, 10_000)
    for copy in copies.values():
        image = iio.imread(images / copy.name)
        mask = iio.imread(tmp_path / "capture" / "masks" / f"{copy.name}.png")
        assert mask.shape == image.shape[:2] == (40, 60)
        np.testing.assert_array_equal(mask > 0, image[..., 0] > 30)
    iio.imwrite(taken / "masks" / "1.png", np.full((40, 60), 255, dtype=np.uint8))
    assert capture_folder(taken, Path()) != without
    iio.imwrite(taken / "masks" / "1.png", np.full((9, 9), 255, dtype=np.uint8))
    (tmp_path / "other" / "images").mkdir(parents=True)
    with pytest.raises(SceneError, match=r"1.png does not have the size of its upright photograph"):
        _copy(files, tmp_path / "other" / "images", 60, 10_000)


@pytest.mark.usefixtures("no_report", "no_hull")
def test_photographs_are_fitted_in_one_command_and_resumed(
    captured: tuple[Path, Path, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = captured[0]
    folder = capture_folder(given, Path())
    shutil.copytree(captured[1], folder)
    arguments = ["--photos", str(given), "--size", "40", "--steps", "20", "--out", "run"]
    arguments += ["--width", "16", "--depth", "1", "--batch-size", "64"]
    assert main([*arguments, "--field", "mlp", "--turntable", "0", "--video", "0"]) == 0
    printed = capsys.readouterr().out
    assert "COLMAP found the cameras of 10 of 10 photographs" in printed
    assert str(folder) in printed
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert {fit["encoding"] for fit in metrics["fits"]} == {"none", "fourier"}
    # The cameras are beside the run, and are found from any folder.
    (tmp_path / "run/metrics.json").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["--resume", "../run"]) == 0
    assert "features of" not in capsys.readouterr().out


@pytest.mark.usefixtures("no_report", "no_hull")
def test_exposures_are_learned_where_the_photographs_vary(
    captured: tuple[Path, Path, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    darkened = tmp_path / "darkened"
    shutil.copytree(captured[0], darkened)
    for path in sorted(darkened.iterdir())[::2]:
        iio.imwrite(path, iio.imread(path) // 2, quality=95)
    arguments = ["--photos", str(darkened), "--size", "32", "--steps", "5", "--out", "run"]
    arguments += ["--width", "16", "--depth", "1", "--batch-size", "64", "--video", "0"]
    assert main([*arguments, "--turntable", "0"]) == 0
    # Half of them by a factor of two: a standard deviation of half its logarithm, 0.35.
    found = re.search(r"the same points differ by (\d+)% in brightness", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) == pytest.approx(35, abs=7)
    assert json.loads((tmp_path / "run/metrics.json").read_text())["config"]["exposure"] is True
    assert main([*arguments[:-2], "--field", "mlp", "--out", "other", "--steps", "2"]) == 0
    assert json.loads((tmp_path / "other/metrics.json").read_text())["config"]["exposure"] is False


@pytest.mark.usefixtures("no_report", "no_hull")
def test_a_room_is_photographed_where_no_folder_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(photos, "_NUM_PHOTOGRAPHS", 8)
    few = partial(take_photographs, width=320, height=240)
    monkeypatch.setattr(photos, "take_photographs", few)
    arguments = ["--photos", "room", "--size", "24", "--steps", "5", "--encodings", "none"]
    arguments += ["--field", "mlp", "--width", "16", "--depth", "1", "--batch-size", "64"]
    assert main([*arguments, "--turntable", "0", "--video", "0"]) == 0
    assert "COLMAP found the cameras of 8 of 8 photographs" in capsys.readouterr().out
    (tmp_path / "room").mkdir()
    assert main(arguments) == 2
    assert "room has no photographs" in capsys.readouterr().err


def test_folders_without_a_scene_get_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    empty, same = tmp_path / "empty", tmp_path / "same"
    for folder in (empty, same):
        folder.mkdir()
    (empty / "a.heic").write_bytes(b"x")
    pixels = (torch.rand(60, 80, 3) * 255).byte().numpy()
    for i in range(3):
        iio.imwrite(same / f"{i}.png", pixels)
    for given, message in (
        ("nowhere", "nowhere is not a folder"),
        (str(empty), "has 1 photograph "),
        (str(same), "COLMAP found no cameras for the 3 photographs"),
    ):
        assert main(["--photos", given]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") <= 1
    assert not list(tmp_path.glob("runs/*/run.json"))


def test_an_interrupted_reconstruction_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pycolmap

    take_photographs(tmp_path / "room", room_poses(6), width=240, height=180)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pycolmap, "incremental_mapping", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reconstruct(tmp_path / "room", tmp_path / "capture", log=quiet)
    with pytest.raises(SceneError):
        open_scene(str(tmp_path / "capture"))
    assert reconstruct(tmp_path / "room", tmp_path / "capture", log=quiet).left_out == {}


def test_the_room_is_not_rendered_without_colmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    assert main(["--photos", "room"]) == 2
    assert "pip install './more[photos]'" in capsys.readouterr().err
    assert not list(tmp_path.glob("runs/photos-room*"))


def test_copies_that_were_altered_since_are_named(tmp_path: Path) -> None:
    copy = tmp_path / "capture/images/a.png"
    copy.parent.mkdir(parents=True)
    Image.new("RGB", (12, 8)).save(copy)
    assert _copied(copy, (8, 12)).shape == (8, 12, 3)
    with pytest.raises(SceneError, match=r"a\.png is not the copy .*12 x 8.*start again"):
        _copied(copy, (8, 11))
    copy.write_bytes(b"")
    with pytest.raises(SceneError, match=r"a\.png is not the copy"):
        _copied(copy)
