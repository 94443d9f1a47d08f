"""Fits from Python, and the data in memory that they take."""

import contextlib
import dataclasses
import gc
import html
import inspect
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

import train_fit
from nerf_posenc.fits import ImageFit
from nerf_posenc.radiance import Camera, Views
from nerf_posenc.radiance.views import SurfacePoints
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc_app import FittedRun, fit
from nerf_posenc_app.data import SceneError, open_image, open_scene
from nerf_posenc_app.data.arrays import mask_in_memory
from nerf_posenc_app.data.formulas.quadrature import hemisphere_poses
from nerf_posenc_app.data.image_files import image_in_memory
from nerf_posenc_app.data.scene_files import scene_in_memory
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.options import CommonOptions
from tests.own_packages import require_both_importable

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
    np.save("pixels.npy", pixels)
    given = ["--image", "pixels.npy", *words.split(), "--video", "0", "--quiet", "--out", "there"]
    assert train_fit.main(given) == 0
    other = FittedRun("there")
    assert run.scores == other.scores
    assert set(run.scores) >= {"none", "fourier"}
    assert run.scores["fourier"]["psnr_db"] > 0
    np.testing.assert_array_equal(run.original(), pixels)
    np.testing.assert_array_equal(run.reconstruction("fourier"), other.reconstruction("fourier"))
    assert "fourier" in repr(run)
    # Both spellings of an option, and values of NumPy and of torch.
    for bands in ({"num_bands": 3}, {"bands": np.int64(3)}, {"bands": torch.tensor(3)}):
        again = fit(image=pixels, encodings=("none", "fourier"), **bands, **FEW)
        assert again.scores == run.scores


def test_the_typed_arguments_of_fit_have_the_defaults_of_the_options() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(CommonOptions)}
    for name, argument in inspect.signature(fit).parameters.items():
        if name != "options":
            assert argument.default == defaults.pop(name), name
    assert set(defaults) == {"open"}


def test_a_run_of_python_is_resumed_in_a_process_of_its_own(pixels: np.ndarray[Any, Any]) -> None:
    mask = np.ones((20, 24), bool)
    mask[:5] = False
    run = fit(image=pixels, mask=mask, encodings=["none", "fourier"], bands=2, out="run", **FEW)
    scores = run.scores
    Path("run/metrics.json").unlink()
    Path("run/fits/fourier.safetensors").unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert FittedRun("run").scores == scores
    state = json.loads(Path("run/run.json").read_text())
    assert state["command"].startswith("fit(image=ndarray, mask=ndarray, bands=2, ")
    assert not Path("runs").exists()
    # Names in run.json lead to no other file.
    Path("run/metrics.json").unlink()
    Path("run/run.json").write_text(json.dumps({**state, "in_memory": ["../../secret"]}))
    assert train_fit.main(["--resume", "run", "--quiet"]) == 2


def test_fits_run_in_threads_and_leave_the_streams_alone(pixels: np.ndarray[Any, Any]) -> None:
    streams = sys.stdout, sys.stderr
    found: list[Any] = []

    def one() -> None:
        found.append(fit(image=pixels, encodings=["fourier"], bands=3, **FEW))

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(run.folder) for run in found}) == 3
    assert len({run.scores["fourier"]["psnr_db"] for run in found}) == 1
    assert (sys.stdout, sys.stderr) == streams


def test_a_run_without_a_folder_leaves_none(
    pixels: np.ndarray[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    run = fit(image=pixels, encodings=["fourier"], **FEW)
    model = run.model("fourier")
    assert (run.folder / "report.html").is_file()
    del run
    gc.collect()
    with pytest.raises(ValueError, match="leaves no pixel"):
        fit(image=pixels, mask=np.zeros(pixels.shape[:2]), **FEW)
    assert [path.name for path in tmp_path.rglob("*")] == ["here", "temporary"]
    assert model.step == FEW["steps"]


def test_a_run_gives_its_models_and_its_page(pixels: np.ndarray[Any, Any]) -> None:
    run = fit(image=pixels, encodings=["fourier"], out="run", **FEW)
    model = run.model("fourier")
    assert isinstance(model, ImageFit)
    values = model.render()
    shown = torch.from_numpy(run.reconstruction("fourier")) / 255
    assert float((values.clamp(0, 1) - shown).abs().max()) <= 0.5 / 255 + 1e-6
    shown_page = html.unescape(run._repr_html_())
    # A link in a stranger's run would put a file of this machine into a saved notebook.
    (run.folder / "secret").write_text("secret")
    page = (run.folder / "report.html").rename(run.folder / "page")
    (run.folder / "report.html").symlink_to(run.folder / "secret")
    with pytest.raises(ValueError, match="must be a regular file"):
        run._repr_html_()
    (run.folder / "report.html").unlink()
    page.rename(run.folder / "report.html")
    assert Path("run", "report.html").read_text() in shown_page
    with pytest.raises(ValueError, match="no fit 'gaussian'; it has fourier"):
        run.model("gaussian")
    with pytest.raises(ValueError, match="1 views; got 1"):
        run.reconstruction("fourier", view=1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 3)])
def test_an_array_is_the_image_that_its_file_is(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).uniform(0, 1, shape)
    largest = {"uint8": 255, "uint16": 65535}.get(dtype, 1)
    array = (values * largest).round(0 if dtype == "bool" else 9).astype(dtype)
    expected = np.broadcast_to((array / largest).reshape(9, 7, -1), (9, 7, 3))
    for given in (array, torch.from_numpy(array), array[::-1][::-1]):
        np.testing.assert_allclose(image_in_memory(given).rgb, expected, atol=1e-7)
    if dtype not in ("bool", "float64"):
        np.save("file.npy", array)
        torch.testing.assert_close(image_in_memory(array).pixels, open_image("file.npy").pixels)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_posed_views_keep_every_field(channels: int, dtype: torch.dtype) -> None:
    pixels = torch.rand(10, 8, 12, channels)
    if channels == 4:
        pixels[..., :3] *= pixels[..., 3:]
    pixels = pixels if dtype == torch.float32 else (255 * pixels).to(dtype)
    cameras = [Camera(12, 8, 15.5, 16 + i, 5.5, 4, (0.01, 0, 0, 0)) for i in range(10)]
    view = torch.tensor([0, 3, 3, 8, 9])
    points = SurfacePoints(view, torch.rand(5, 2), torch.rand(5, 3) - 0.5)
    masks = torch.rand(10, 8, 12) > 0.3
    views = Views(
        pixels, cameras, hemisphere_poses(10), list("abcdefghij"), 0.3, points=points, masks=masks
    )
    held = InMemory(views)
    held.save(Path(), "scene")
    for values in (views, InMemory.load(Path(), "scene", "views").values):
        scene = scene_in_memory(values)
        for part, numbers in ((scene.test, [0, 8]), (scene.train, [1, 2, 3, 4, 5, 6, 7, 9])):
            for field in dataclasses.fields(Views):
                found, whole = getattr(part, field.name), getattr(views, field.name)
                if field.name in ("pixels", "world_from_camera", "masks"):
                    assert bool((found == whole[numbers]).all())
                elif field.name in ("cameras", "names"):
                    assert list(found) == [whole[i] for i in numbers]
                elif field.name == "points":
                    kept = [i for i, v in enumerate(view.tolist()) if v in numbers]
                    assert [numbers[i] for i in found.view.tolist()] == view[kept].tolist()
                    assert bool((found.position == whole.position[kept]).all())
                else:
                    assert found == whole


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(masks=torch.ones(3, 4, 6)), "masks must be booleans"),
        (dict(names=[1, 2, 3]), "names must be texts"),
        (dict(near=float("nan")), "near must be a number above 0"),
        (dict(cameras=[Camera(8, 4, 5, 5, 4, 2)] * 3), "Camera objects for 6 x 4 pixels"),
        (dict(world_from_camera=torch.full((3, 4, 4), torch.nan)), "poses must be finite"),
        (dict(pixels=torch.full((3, 4, 6, 3), torch.nan)), "pixels must be finite"),
    ],
)
def test_views_that_cannot_be_fitted_are_refused(change: dict[str, Any], said: str) -> None:
    cameras = [Camera(6, 4, 5, 5, 3, 2)] * 3
    views = Views(torch.rand(3, 4, 6, 3), cameras, hemisphere_poses(3), list("abc"))
    with pytest.raises(ValueError, match=said):
        fit(scene=replace(views, **change), **FEW)


def test_types_of_pixels_are_taken_as_their_values(pixels: np.ndarray[Any, Any]) -> None:
    floats = (pixels / 255).astype(np.float32)
    scores = fit(image=floats, encodings=["none"], **FEW).scores
    for data in (
        torch.from_numpy(floats).requires_grad_(),
        Pillow.fromarray(pixels),
        np.asfortranarray(floats),
        floats.astype(">f4"),
        floats.astype(np.longdouble),
    ):
        found = fit(image=data, encodings=["none"], **FEW).scores
        assert found["none"]["psnr_db"] == pytest.approx(scores["none"]["psnr_db"], abs=1e-3)
    low = torch.from_numpy(floats).bfloat16()
    assert fit(image=low, encodings=["none"], observed=np.float32(0.5), **FEW).scores


def test_a_model_is_scored_and_loaded_in_evaluation_mode(pixels: np.ndarray[Any, Any]) -> None:
    class Normalized(torch.nn.Module):
        out_dim = 2

        def __init__(self, in_dim: int) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(in_dim, momentum=0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.norm(x)
            return features

    run = fit(image=pixels, encodings=[Normalized], **dict(FEW, steps=40))
    model = run.model("Normalized")
    assert isinstance(model, ImageFit)
    written = torch.as_tensor(run.reconstruction("Normalized")) / 255
    assert float((model.render() - written).abs().max()) <= 0.5 / 255 + 1e-5
    # A point has the same color in any company.
    x = torch.rand(40, 2) - 0.5
    torch.testing.assert_close(model(x[:7]), model(x)[:7])


@pytest.mark.slow
def test_views_in_memory_are_fitted_under_their_masks() -> None:
    views = open_scene("spheres", size=12).train
    masks = torch.ones(len(views), 12, 12, dtype=torch.bool)
    masks[:, :4] = False
    run = fit(
        scene=replace(views, masks=masks), encodings=["none"], turntable=0, test_views=2, **FEW
    )
    # Gray is what is neither fitted nor scored.
    assert bool((run.original()[:4] == 128).all())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            dict(image="cat", bands="ten"),
            "bands must be an integer or a list or one of auto; it is",
        ),
        (dict(image="cat", bands=4.0), "bands must be an integer or .*; it is 4.0"),
        (dict(image="cat", held_out=1), "held_out must be True or False; it is 1"),
        (dict(image=None), "image is None: was the file not found"),
        (dict(image=np.zeros((9, 9), np.uint32)), "uint8, uint16 or floating-point numbers"),
        (dict(image="cat", lr=10**400), "lr must be a number; it is 1000"),
        (dict(image="cat", bands=["4"]), "^bands must be an integer or one of auto; it is"),
        (dict(image="cat", encodings=3), "encodings must be a list"),
        (dict(image="cat", Bands=3), "there is no option Bands; did you mean bands"),
        (dict(image=[[1.0], [1.0, 2.0]]), "an image must be a path or numbers; setting an array"),
        (dict(image=torch.rand(4, 4).to_sparse()), "an image must be a path or numbers"),
        (dict(image=Pillow.new("CMYK", (4, 4))), "converted to RGB first; its mode is CMYK"),
        (dict(image="cat", bands=3, num_bands=3), "num_bands and bands are the same option"),
        (dict(image="cat", turntable=3), "turntable is for scene, not for image"),
        (dict(image="cat", encodings="none"), "encodings must be a list"),
        (
            dict(image="cat", held_out=True, observed=0.1),
            "observed and held_out exclude each other",
        ),
        (dict(image="cat", scene="cloud"), "fit needs data"),
        (dict(image="cat", mask=np.full((9, 9), 2.0)), r"a mask must hold values in \[0, 1\]"),
        (dict(image="cat", bnads=3), "there is no option bnads; did you mean bands"),
        (dict(image="cat", steps=0), "^steps must be 1 or more; got 0$"),
        (dict(image=np.zeros((3, 40, 40))), r"\(height, width, 1, 3 or 4\); got \(3, 40, 40\)"),
        (dict(image=["cat"]), "must be a path or numbers"),
        (dict(scene=np.zeros((8, 8))), "must be a path, a name or nerf_posenc.radiance.Views"),
        (dict(sequence=np.zeros(8)), "sequence must be a text; it is"),
        (dict(bands=3), "fit needs data"),
        (
            dict(image=np.zeros((9, 9), np.int64)),
            "uint8, uint16 or floating-point numbers; got int64",
        ),
        (dict(image=np.full((9, 9), np.nan)), "finite numbers, 0 or more"),
        (
            dict(image="cat", encodings=[type("Mine", (), {})]),
            "Mine is not derived from torch.nn.Module",
        ),
        (dict(image="no.png"), "no.png"),
    ],
)
def test_a_mistake_is_one_error_of_python(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit(**options, quiet=True)
    assert not Path("runs").exists()


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
    script = "from nerf_posenc_app import fit; from cubes import Cubes\n"
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


@pytest.mark.parametrize(("order", "has_init"), [("ours first", True), ("theirs first", False)])
def test_packages_of_the_users_project_are_left_alone(
    order: str, has_init: bool, tmp_path: Path
) -> None:
    require_both_importable(tmp_path, order, Path(train_fit.__file__).parent, has_init=has_init)


def test_a_sequence_says_that_its_model_is_not_rebuilt() -> None:
    few = dict(FEW, batch_size=4)
    run = fit(sequence="topics", encodings=["none"], **few)
    assert run.scores["none"]
    with pytest.raises((CheckpointError, ValueError), match="rebuilt"):
        run.model("none")


@pytest.mark.usefixtures("own_folder", "no_report")
@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu"),
        lambda: torch.device("meta"),
    ],
)
def test_modes_that_a_notebook_has_set_change_nothing(
    mode: Callable[[], contextlib.AbstractContextManager[Any]],
) -> None:
    arguments: dict[str, Any] = dict(encodings=["fourier"], steps=12, quiet=True, figures=False)
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    expected = fit(image=pixels, out="plain", **arguments).scores
    with mode():
        assert fit(image=pixels, out="mode", **arguments).scores == expected
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ValueError, match=r"needs the default dtype torch\.float32, which is"):
            fit(image=pixels, out="dtype", **arguments)
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_opacity_that_is_no_number_is_a_pixel_without_a_value(tmp_path: Path) -> None:
    values = np.full((4, 5, 4), 0.5, np.float32)
    values[1, 2, 3] = np.nan
    np.save(tmp_path / "a.npy", values)
    for image in (image_in_memory(values), open_image(str(tmp_path / "a.npy"))):
        assert image.weights is not None
        assert np.argwhere(image.weights.numpy() == 0).tolist() == [[1, 2]]
        assert bool(image.pixels.isfinite().all())


def test_gray_images_of_one_channel_and_of_any_byte_order_are_images(tmp_path: Path) -> None:
    values = np.arange(54, dtype=np.uint16).reshape(6, 9) * 1000
    expected = image_in_memory(values).pixels
    for array in (values[..., None], values.astype(">u2")):
        np.save(tmp_path / "a.npy", array)
        for image in (image_in_memory(array), open_image(str(tmp_path / "a.npy"))):
            assert torch.equal(image.pixels, expected)
    mask = values > 20_000
    assert torch.equal(mask_in_memory(mask[..., None]), mask_in_memory(mask))


def test_mapped_arrays_are_images_and_masked_ones_are_refused(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((6, 9, 3))
    expected = image_in_memory(values.astype(np.float32)).pixels
    for dtype in (np.float64, ">f8", "<f4"):
        np.save(tmp_path / "a.npy", values.astype(dtype))
        mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
        for image in (image_in_memory(mapped), open_image(str(tmp_path / "a.npy"))):
            torch.testing.assert_close(image.pixels, expected)
    np.save(tmp_path / "b.npy", values > 0.5)
    assert torch.equal(
        open_image(str(tmp_path / "b.npy")).pixels, image_in_memory(values > 0.5).pixels
    )
    masked = np.ma.MaskedArray(values, values > 0.5)
    with pytest.raises(SceneError, match="given as its data, and a mask of what is kept"):
        image_in_memory(masked)
    with pytest.raises(SceneError, match="10,800,000,000 values, more than"):
        image_in_memory(np.broadcast_to(np.float32(0), (60000, 60000, 3)))


@pytest.mark.parametrize(
    ("array", "cure"),
    [
        (np.full((8, 12, 3), 255.0), "Divide by 255, or give uint8; .* light=True"),
        (np.zeros((8, 12, 3), np.int64), "give them as uint8"),
        (torch.zeros(3, 8, 12), r"give image\.permute\(1, 2, 0\)"),
        (torch.zeros(1, 3, 8, 12), r"give image\[0\]\.permute\(1, 2, 0\)"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_arrays_in_other_units_or_orders_are_refused_with_the_cure(array: Any, cure: str) -> None:
    with pytest.raises(ValueError, match=cure):
        fit(image=array, steps=1, quiet=True)
    assert not Path("runs").exists()


@pytest.mark.usefixtures("own_folder", "no_report")
def test_light_is_fitted_where_it_is_said_to_be_light() -> None:
    light = np.random.default_rng(0).random((12, 16, 3)) * 300
    run = fit(image=light, light=True, steps=2, encodings=["none"], quiet=True, figures=False)
    assert "mu_psnr_db" in run.scores["none"]
    with pytest.raises(ValueError, match="light is of floating-point numbers; got uint8"):
        fit(image=light.astype(np.uint8), light=True, steps=2, quiet=True)
