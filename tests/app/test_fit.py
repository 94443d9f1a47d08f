"""Fits from Python, and the data in memory that they take."""

import html
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit
from nerf_posenc.radiance import Camera, Views
from nerf_posenc.training.checkpoints import CheckpointError
from scenes import open_image, open_scene
from scenes.in_memory import image_file, scene_folder
from scenes.quadrature import hemisphere_poses
from train_fit import FittedRun, fit

FEW: dict[str, Any] = dict(steps=3, width=8, depth=1, batch_size=64, video=0, quiet=True)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def pixels() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)


def test_a_fit_in_python_is_that_of_the_command_line(pixels: np.ndarray[Any, Any]) -> None:
    run = fit(image=pixels, encodings=["none", "fourier"], bands=3, **FEW)
    words = "--encodings none fourier --bands 3 --steps 3 --width 8 --depth 1 --batch-size 64"
    (file,) = Path("runs", "data").glob("*/image.npy")
    given = ["--image", str(file), *words.split(), "--video", "0", "--quiet", "--out", "there"]
    assert train_fit.main(given) == 0
    other = FittedRun("there")
    assert run.scores == other.scores
    assert set(run.scores) >= {"none", "fourier"}
    assert run.scores["fourier"]["psnr_db"] > 0
    np.testing.assert_array_equal(run.original(), pixels)
    np.testing.assert_array_equal(run.reconstruction("fourier"), other.reconstruction("fourier"))
    assert "fourier" in repr(run)


def test_a_run_gives_its_models_and_its_page(pixels: np.ndarray[Any, Any]) -> None:
    run = fit(image=pixels, encodings=["fourier"], out="run", **FEW)
    model = run.model("fourier")
    assert isinstance(model, ImageFit)
    values = model.render()
    shown = torch.from_numpy(run.reconstruction("fourier")) / 255
    assert float((values.clamp(0, 1) - shown).abs().max()) <= 0.5 / 255 + 1e-6
    shown_page = html.unescape(run._repr_html_())
    assert Path("run", "report.html").read_text() in shown_page
    with pytest.raises(ValueError, match="no fit 'gaussian'; it has fourier"):
        run.model("gaussian")
    with pytest.raises(ValueError, match="1 views; got 1"):
        run.reconstruction("fourier", view=1)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 3)])
def test_values_reach_the_program_as_they_are(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).uniform(0, 1, shape)
    largest = {"uint8": 255, "uint16": 65535}.get(dtype, 1)
    array = (values * largest).astype(dtype)
    read = open_image(str(image_file(array))).rgb
    expected = np.broadcast_to((array / largest).reshape(9, 7, -1), (9, 7, 3))
    np.testing.assert_allclose(read, expected, atol=1e-7)
    assert str(image_file(torch.from_numpy(array))) == str(image_file(array))


def test_posed_views_of_memory_are_the_scene_that_a_folder_is() -> None:
    cameras = [Camera(24, 16, 30.5, 31, 11, 8.5, (0.01, 0, 0, 0))] * 3
    poses = hemisphere_poses(3)
    rgba = torch.rand(3, 16, 24, 4)
    # Colors multiplied by their opacity.
    rgba[..., :3] *= rgba[..., 3:]
    for pixels in (rgba, (255 * torch.rand(3, 16, 24, 3)).to(torch.uint8)):
        views = Views(pixels, cameras, poses, ["a", "b", "c"])
        read = open_scene(str(scene_folder(views))).train
        first = [0, 1, 2].index(int((poses - read.world_from_camera[0]).abs().sum((1, 2)).argmin()))
        torch.testing.assert_close(read.over(0, 1.0), views.over(first, 1.0), atol=1e-6, rtol=0)
        torch.testing.assert_close(read.world_from_camera[0], poses[first], atol=1e-6, rtol=0)
        assert read.cameras[0] == cameras[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(image="cat", bands="ten"), "Error parsing --bands"),
        (dict(image="cat", bnads=3), "there is no option --bnads; did you mean --bands"),
        (dict(image="cat", steps=0), "--steps must be 1 or more; got 0"),
        (dict(image=np.zeros((3, 40, 40))), r"\(height, width, 3 or 4\); got \(3, 40, 40\)"),
        (dict(image=["cat"]), "must be a path or numbers"),
        (dict(scene=np.zeros((8, 8))), "must be a path, a name or nerf_posenc.radiance.Views"),
        (dict(sequence=np.zeros(8)), "sequence must be a path or a name; got ndarray"),
        (dict(image="cat", images=["cat"]), "call fit for each"),
        (dict(bands=3), "what shall be fitted"),
        (
            dict(image=np.zeros((9, 9), np.int64)),
            "uint8, uint16 or floating-point numbers; got int64",
        ),
        (dict(image=np.full((9, 9), np.nan)), "finite numbers, 0 or more"),
        (
            dict(image="cat", encodings=[type("Mine", (), {"__module__": "nowhere"})]),
            "Mine is of no file",
        ),
        (dict(image="no.png"), "no.png"),
    ],
)
def test_a_mistake_is_one_error_of_python(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit(**options, quiet=True)
    assert not list(Path("runs").glob("[!d]*"))


@pytest.mark.slow
def test_a_class_of_a_file_is_an_encoding(tmp_path: Path) -> None:
    file = tmp_path / "cubes.py"
    file.write_text(
        "import torch\n"
        "from nerf_posenc.core.encoder import Encoder\n"
        "class Cubes(Encoder):\n"
        "    def __init__(self, in_dim):\n"
        "        super().__init__(in_dim, in_dim)\n"
        "    def forward(self, x):\n"
        "        return x**3\n"
    )
    script = "from train_fit import fit; from cubes import Cubes\n"
    script += f"run = fit(image='cat', size=24, encodings=['none', Cubes], **{FEW})\nprint(run)"
    words = [sys.executable, "-c", script]
    paths = f"{tmp_path}:{Path(train_fit.__file__).parent}"
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PYTHONPATH": paths}
    )
    assert "Cubes" in done.stdout, done.stderr


def test_masks_and_weights_may_be_arrays(pixels: np.ndarray[Any, Any]) -> None:
    mask = np.zeros((20, 24), bool)
    mask[:, :12] = True
    for given in (mask, mask.astype(np.uint8), 255 * mask.astype(np.uint8), mask.astype(float)):
        run = fit(image=pixels, mask=given, encodings=["none"], out="run", overwrite=True, **FEW)
        # Gray is what is neither fitted nor scored.
        assert bool((run.original()[:, 12:] == 128).all())
        np.testing.assert_array_equal(run.original()[:, :12], pixels[:, :12])


@pytest.mark.parametrize("imports", ["import train_fit, app.mine", "import app.mine, train_fit"])
def test_a_package_app_of_the_user_is_left_alone(imports: str, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "mine.py").write_text("value = 3")
    script = f"{imports}; from train_fit import fit; print(app.mine.value)"
    paths = f"{tmp_path}:{Path(train_fit.__file__).parent}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": paths},
    )
    assert done.stdout == "3\n", done.stderr


def test_a_sequence_says_that_its_model_is_not_rebuilt() -> None:
    few = dict(FEW, batch_size=4)
    run = fit(sequence="topics", encodings=["none"], **few)
    assert run.scores["none"]
    with pytest.raises((CheckpointError, ValueError), match="rebuilt"):
        run.model("none")
