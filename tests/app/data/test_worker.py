"""The process that decodes: what a file may take, and what happens when it takes more."""

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch

from nerf_posenc.radiance.cameras import Camera
from nerf_posenc_app.data import SceneError, open_cameras, open_image, open_scene
from nerf_posenc_app.data.reading import worker
from tests.corpora import image_corpus, png_of, rows, scene_corpus
from tests.optional import needs

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such limits")


@pytest.mark.slow
def test_a_file_that_inflates_is_refused_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_BYTES", 1 << 28)
    (tmp_path / "bomb.png").write_bytes(png_of(5000, 5000, 16, 2, rows(5000, 5000, 16, 3, 0)))
    with pytest.raises(SceneError, match=r"bomb.png: it takes more than 0.3 GB of memory for 0.1"):
        open_image(str(tmp_path / "bomb.png"))
    (tmp_path / "a.png").write_bytes(image_corpus()["a.png"])
    assert open_image(str(tmp_path / "a.png")).size == (12, 17)


@pytest.mark.slow
def test_a_file_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_SECONDS", 0.2)
    (tmp_path / "slow.png").write_bytes(png_of(7000, 7000, 16, 6, rows(7000, 7000, 16, 4, 4)))
    with pytest.raises(SceneError, match=r"slow.png: it takes more than 1 s of the processor"):
        open_image(str(tmp_path / "slow.png"))


def test_a_decoder_that_crashes_is_one_line_and_is_started_anew(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(image_corpus()["a.png"])
    first = open_image(str(tmp_path / "a.png"))
    (tmp_path / "slow.png").write_bytes(png_of(5000, 5000, 16, 6, rows(5000, 5000, 16, 4, 4)))
    process = worker._WORKER._process
    assert process is not None
    timer = threading.Timer(0.3, process.send_signal, [signal.SIGSEGV])
    timer.start()
    with pytest.raises(SceneError, match=r"slow.png: its decoder crashed"):
        open_image(str(tmp_path / "slow.png"))
    timer.join()
    assert torch.equal(open_image(str(tmp_path / "a.png")).pixels, first.pixels)


def test_a_sparse_file_counts_as_what_it_occupies_and_a_file_once(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "full").write_bytes(bytes(10_000))
    os.link(tmp_path / "full", tmp_path / "again")
    assert worker.Allowance([tmp_path / "sparse"]).size == 0
    assert worker.Allowance([tmp_path / "full", tmp_path / "again"]).size == 10_000


def test_a_scene_of_too_many_or_too_large_views_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, folder in scene_corpus().items():
        if kind == "colmap":
            needs("pycolmap")
        with monkeypatch.context() as patch:
            patch.setattr("nerf_posenc_app.data.posed.frames.MAX_VIEWS", 3)
            with pytest.raises(SceneError, match="views, more than 3; leave some of them out"):
                open_scene(str(folder))
            patch.undo()
            patch.setattr("nerf_posenc_app.data.posed.frames._MOST_BYTES", -(10**6))
            with pytest.raises(SceneError, match=r"views beside .* reduce them by --size"):
                open_scene(str(folder))
    folder = shutil.copytree(scene_corpus()["transforms"], tmp_path / "scene")
    monkeypatch.setattr("nerf_posenc_app.data.posed.transforms._MOST_BYTES", 1000)
    with pytest.raises(SceneError, match="it has more than 1,000 bytes"):
        open_scene(str(folder))


@pytest.mark.parametrize(
    ("kind", "link"),
    [("transforms", "images"), ("llff", "images"), ("colmap", "images"), ("colmap", "sparse/0")],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_links_of_a_scene_are_followed(tmp_path: Path, kind: str, link: str, is_file: bool) -> None:
    if kind == "colmap":
        needs("pycolmap")
    folder = shutil.copytree(scene_corpus()[kind], tmp_path / "scene")
    expected = open_scene(str(folder)).train
    # A folder on another disk, or each file behind a link as in the cache of a model hub.
    linked = sorted((folder / link).iterdir()) if is_file else [folder / link]
    (tmp_path / "elsewhere").mkdir()
    for i, path in enumerate(linked):
        path.symlink_to(path.rename(tmp_path / "elsewhere" / f"blob{i}"))
    found = open_scene(str(folder)).train
    assert found.names == expected.names
    assert torch.equal(found.pixels, expected.pixels)


def test_no_pipe_of_a_model_is_waited_for(tmp_path: Path) -> None:
    folder = shutil.copytree(scene_corpus()["colmap"], tmp_path / "scene")
    os.mkfifo(folder / "sparse/0/points3D.txt")
    with pytest.raises(SceneError, match=r"points3D\.txt is not a regular file"):
        open_scene(str(folder))


def test_no_name_in_a_file_leads_out_of_a_scene(tmp_path: Path) -> None:
    folder = shutil.copytree(scene_corpus()["transforms"], tmp_path / "scene")
    (folder / "images").rename(tmp_path / "images")
    file = folder / "transforms.json"
    file.write_text(file.read_text().replace("images/", "../images/"))
    with pytest.raises(SceneError, match="names a file outside itself, which is not read"):
        open_scene(str(folder))


def test_a_camera_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cameras.json"
    pose = torch.eye(4).tolist()
    frames = [{"transform_matrix": pose, "fl_x": 9000, "w": 8000, "h": 8000}]
    file.write_text(json.dumps({"frames": frames}))
    with pytest.raises(SceneError, match="frame 0: 8000 x 8000 pixels, more than 33,554,432"):
        open_cameras(file, Camera.from_angle(8, 8, 0.8))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(SceneError, match="it is not a regular file"):
        open_cameras(file, Camera.from_angle(8, 8, 0.8))


@pytest.mark.parametrize("executable", ["", "/usr/sbin/uwsgi", sys.executable])
def test_a_program_that_embeds_python_reads_images(
    executable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(image_corpus()["a.png"])
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    monkeypatch.setattr(worker, "_WORKER", worker._Worker())
    assert open_image(str(tmp_path / "a.png")).size == (12, 17)
    worker._WORKER._stop()
