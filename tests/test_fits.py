"""Saved fits given back as models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit, SceneFit, load_fit
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.poses import exp_se3, look_at
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from nerf_posenc.training.devices import fastest_dtype
from nerf_posenc_app.data import open_image, open_scene
from tests.small import SMALL_RUN, SMALL_SCENE, quick_report, without_hull

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folders ``image``, ``held-out`` and ``scene``, each made once."""
    home = tmp_path_factory.mktemp("runs")
    image = ["--image", "cat", *SMALL_RUN, "--video", "0", "--quiet"]
    held_out = ["--held-out", "--encodings", "fourier"]
    scene = [*SMALL_SCENE, "--encodings", "fourier", "--quiet"]
    with without_hull(), quick_report():
        assert train_fit.main([*image, "--out", str(home / "image")]) == 0
        assert train_fit.main([*image, *held_out, "--out", str(home / "held-out")]) == 0
        for field in ("mlp", "mip"):
            assert train_fit.main([*scene, "--field", field, "--out", str(home / field)]) == 0
    return home


def image_fit(path: Path) -> ImageFit:
    fit = load_fit(path)
    assert isinstance(fit, ImageFit)
    return fit


@pytest.mark.parametrize("encoding", ["none", "fourier", "hash"])
def test_an_image_is_the_one_that_was_written(runs: Path, encoding: str) -> None:
    fit = image_fit(runs / f"image/fits/{encoding}.safetensors")
    assert fit.step == fit.num_steps == 30
    assert fit.size == (24, 16)
    written = open_image(str(runs / f"image/{encoding}.png")).rgb
    rendered = fit.render()
    assert rendered.shape == written.shape
    assert float((rendered - written).abs().max()) <= 0.5 / 255 + 1e-6
    whole = open_image("cat").resized(24)
    torch.testing.assert_close(fit(whole.coordinates).clamp(0, 1), rendered, atol=1e-5, rtol=0)


def test_a_held_out_fit_knows_the_whole_image(runs: Path) -> None:
    fit = image_fit(runs / "held-out/fits/fourier.safetensors")
    assert fit.size == (24, 16)
    between = open_image(str(runs / "held-out/fourier.png")).rgb
    rendered = fit.render()[1::2, 1::2]
    assert float((rendered - between).abs().max()) <= 0.5 / 255 + 1e-5


def test_a_larger_rendering_samples_the_same_function(runs: Path) -> None:
    fit = image_fit(runs / "image/fits/fourier.safetensors")
    # Three times the pixels: the middle one of each block has the center of the original pixel.
    large = fit.render(72)
    assert large.shape == (48, 72, 3)
    torch.testing.assert_close(large[1::3, 1::3], fit.render(), atol=2e-5, rtol=0)
    window = fit.render(12, window=(6, 4, 12, 8))
    torch.testing.assert_close(window, fit.render()[4:12, 6:18], atol=2e-5, rtol=0)
    strips = torch.cat(list(fit.strips(72, num_pixels=100)))
    torch.testing.assert_close(strips, large, atol=2e-5, rtol=0)


def test_a_smaller_rendering_is_the_mean_over_its_pixels(runs: Path) -> None:
    fit = image_fit(runs / "image/fits/fourier.safetensors")
    means = fit.render().unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).mean((1, 3))
    torch.testing.assert_close(fit.render(12), means, atol=2e-5, rtol=0)
    strips = torch.cat(list(fit.strips(12, num_pixels=24)))
    torch.testing.assert_close(strips, means, atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("size", "window"), [(0, None), (None, (0, 0, 0, 1)), (None, (-1, 0, 2, 2)), (8, (20, 0, 9, 9))]
)
def test_a_window_outside_or_no_pixels_are_refused(runs: Path, size: Any, window: Any) -> None:
    fit = image_fit(runs / "image/fits/none.safetensors")
    with pytest.raises(ValueError, match=r"size must be|must lie in the image of 24 x 16"):
        fit.render(size, window=window)


@pytest.mark.parametrize("field", ["mlp", "mip"])
def test_a_scene_renders_its_test_views_again(runs: Path, field: str) -> None:
    fit = load_fit(runs / f"{field}/fits/fourier.safetensors")
    assert isinstance(fit, SceneFit)
    scene = open_scene("spheres", size=8)
    scene_test = scene.test.subset(2)
    for i in range(2):
        pose = scene_test.world_from_camera[i]
        dtype = fastest_dtype(pose.device, is_small=False)
        rendering = fit.render(scene_test.cameras[i], pose, autocast_dtype=dtype)
        written = open_image(str(runs / f"{field}/fourier/view_{i:03}.png")).rgb
        assert float((rendering.rgb.clamp(0, 1) - written).abs().max()) <= 0.5 / 255 + 1e-5
    density, rgb = fit.field(torch.zeros(2, 3), torch.eye(3)[:2])
    assert density.shape == (2,)
    assert rgb.shape == (2, 3)


def test_poses_in_the_units_of_the_file_are_brought_to_the_box(runs: Path) -> None:
    values = load_checkpoint(runs / "mlp/fits/fourier.safetensors")
    values["model"]["center"], values["model"]["scale"] = [1.0, 2.0, 3.0], 10.0
    path = Path("moved.safetensors")
    save_checkpoint(path, values)
    fit = load_fit(path)
    assert isinstance(fit, SceneFit)
    camera = Camera.from_angle(8, 8, 0.7)
    up, center = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 2.0, 3.0])
    inside = look_at(torch.tensor([3.0, 0.0, 0.5]), torch.zeros(3), up)
    outside = look_at(10 * torch.tensor([3.0, 0.0, 0.5]) + center, center, up)
    expected = fit.render(camera, inside, in_file_units=False).rgb
    torch.testing.assert_close(fit.render(camera, outside).rgb, expected)
    # Where the poses that were found lie by a motion beside those that the file gives.
    given = fit.world_from_camera
    motion = exp_se3(torch.tensor([0.3, -0.2, 0.5, 0.4, 0.1, 0.0]))
    fit = replace(fit, given_poses=given, world_from_camera=motion @ given)
    expected = fit.render(camera, motion @ inside, in_file_units=False).rgb
    torch.testing.assert_close(fit.render(camera, outside).rgb, expected, atol=1e-4, rtol=0)
    assert float((expected - expected.mean((0, 1))).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model",), {}),
        (("model", "kind"), 3),
        (("model", "size"), [0, 0]),
        (("model", "options", "resolution"), -1),
        (("model", "options"), {"encoding": "fourier", "surprise": 1}),
        (("model", "options", "width"), 1_000_000),
        (("model", "options", "num_bands"), 1 << 40),
        (("model", "options", "depth"), 0),
        (("model", "options"), {"encoding": "none", "width": 1, "depth": 1_000_000}),
        (("model", "size"), [1_000_000, 1_000_000]),
        (("model", "size"), [1, 40_000_000]),
        (("model", "size"), [24]),
        (("model", "facts"), {"peak": "bright", "mu": 5000.0}),
        (("fit", "step"), None),
        (("fit", "model"), {}),
        (("ema",), 3),
    ],
)
def test_what_is_no_fit_is_refused_at_once(runs: Path, keys: tuple[str, ...], value: Any) -> None:
    values = load_checkpoint(runs / "image/fits/fourier.safetensors")
    part = values
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path = Path("changed.safetensors")
    save_checkpoint(path, values)
    with pytest.raises(CheckpointError, match=r"changed\.safetensors contains no fit"):
        load_fit(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("background",), 1e308),
        (("options", "num_samples"), 10**9),
        (("camera", "fx"), 1e-300),
        (("camera", "cx"), 1e308),
        (("camera", "distortion"), [1e300] * 4),
        (("camera", "distortion"), [-3.0, 0.0, 0.0, 0.0]),
        (("world_from_camera",), None),
        (("world_from_camera",), torch.ones(2, 2)),
        (("world_from_camera",), torch.full((1, 4, 4), torch.nan)),
        (("scale",), 0.0),
        (("center",), [0.0, 0.0, 1e308]),
    ],
)
def test_a_scene_with_impossible_numbers_is_refused(
    runs: Path, keys: tuple[str, ...], value: Any
) -> None:
    values = load_checkpoint(runs / "mlp/fits/fourier.safetensors")
    part = values["model"]
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path = Path("changed.safetensors")
    save_checkpoint(path, values)
    with pytest.raises(CheckpointError, match=r"changed\.safetensors contains no fit"):
        load_fit(path)
