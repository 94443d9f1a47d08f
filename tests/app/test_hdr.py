"""Images of linear light: read, fitted by the mu-law, scored, and written back."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit
from nerf_posenc.images import Image, MuLaw
from nerf_posenc.metrics.image import psnr
from nerf_posenc_app import FittedRun
from nerf_posenc_app.data import SceneError, open_image
from nerf_posenc_app.data.image_files import stored_pixels
from nerf_posenc_app.data.reading.hdr import read_hdr, write_hdr
from nerf_posenc_app.kinds.image.reconstruction import Reconstruction
from nerf_posenc_app.kinds.image.scores import scores_of
from tests.corpora import tiff_of
from tests.optional import needs

FEW = ["--steps", "30", "--width", "32", "--depth", "2", "--video", "0", "--quiet"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def linear() -> np.ndarray[Any, Any]:
    x, y = np.meshgrid(np.linspace(-1, 1, 24), np.linspace(-1, 1, 16))
    # From a thousandth to forty: a lamp in a dark room.
    bump = 40 * np.exp(-12 * (x**2 + y**2)) + 1e-3
    return np.stack([bump, 0.5 * bump, 0.2 * bump], -1).astype(np.float32)


def written(suffix: str, linear: np.ndarray[Any, Any]) -> Path:
    path = Path(f"lamp{suffix}")
    if suffix == ".npy":
        np.save(path, linear)
    elif suffix == ".tif":
        needs("tifffile")
        path.write_bytes(tiff_of(linear))
    else:
        needs("OpenEXR" if suffix == ".exr" else "imagecodecs")
        write_hdr(path, suffix, linear)
    return path


def test_the_mu_law_is_its_formula_and_inverse() -> None:
    x = torch.tensor([0.0, 1e-4, 0.3, 7.0, 40.0], dtype=torch.float64)
    expected = [math.log(1 + 5000 * v / 40) / math.log(5001) for v in x.tolist()]
    curve = MuLaw(40.0)
    torch.testing.assert_close(curve.values(x), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(curve.light(curve.values(x)), x)


def test_a_sun_leaves_the_mean_ten_times_above_the_knee() -> None:
    light = torch.ones(64, 64, 3)
    assert MuLaw.of_light(light).mu == 5000
    light[0, 0] = 3e5
    curve = MuLaw.of_light(light)
    assert curve.peak / curve.mu == pytest.approx(float(light.mean()) / 10)
    # Missing and masked pixels, which are black, do not count.
    assert MuLaw.of_light(torch.cat([light, torch.zeros(500, 64, 3)])) == curve


def rmse_in_stops(light: torch.Tensor, other: torch.Tensor) -> float:
    image = Image.from_rgb(light).tone_mapped()
    assert image.tone is not None
    values = image.tone.values(other)
    found = Reconstruction(values, psnr(values, image.pixels))
    return scores_of(image, found)["rmse_stops"]


def test_twice_the_light_is_one_stop_but_for_the_darkest_hundredth() -> None:
    light = torch.full((20, 50, 3), 4.0)
    light[0, 0] = 4000.0
    brighter = (2 * light).clamp(max=4000)
    assert rmse_in_stops(light, brighter) == pytest.approx(math.sqrt(0.999), abs=1e-3)
    for count, expected in ((8, 0.0), (30, math.sqrt(0.03))):
        light[10, :count] = 0.01
        other = torch.where(light < 1, 2 * light, light)
        assert rmse_in_stops(light, other) == pytest.approx(expected, abs=1e-3)


def test_what_a_sharp_filter_leaves_below_0_counts_as_0(linear: np.ndarray[Any, Any]) -> None:
    linear[2, 3] = -0.04 * linear.mean()
    image = open_image(str(written(".npy", linear)))
    assert float(image.pixels.min()) == 0


@pytest.mark.parametrize(
    ("suffix", "rtol"), [(".npy", 1e-6), (".exr", 1e-6), (".tif", 1e-6), (".hdr", 1 / 100)]
)
def test_values_beyond_1_are_read_as_linear_light(
    suffix: str, rtol: float, linear: np.ndarray[Any, Any]
) -> None:
    image = open_image(str(written(suffix, linear)))
    assert image.tone is not None
    assert image.tone.peak == pytest.approx(float(linear.max()), rel=rtol)
    back = image.tone.light(image.pixels)
    # A Radiance has one exponent for three colors.
    largest = linear.max(-1, keepdims=True)
    assert float(np.abs(back.numpy() - linear).max()) <= 2 * rtol * float(largest.max())
    assert float(image.pixels.max()) == pytest.approx(1)


def test_an_image_in_range_stays_as_it_is(linear: np.ndarray[Any, Any]) -> None:
    np.save("a.npy", linear / 40)
    image = open_image("a.npy")
    assert image.tone is None
    np.testing.assert_array_equal(image.pixels, linear / 40)


def test_a_reduced_image_averages_light(linear: np.ndarray[Any, Any]) -> None:
    image = Image.from_rgb(torch.from_numpy(linear)).tone_mapped()
    small = image.resized(12)
    assert small.tone == image.tone
    assert image.tone is not None
    expected = torch.from_numpy(linear).reshape(8, 2, 12, 2, 3).mean((1, 3))
    back = image.tone.light(small.pixels)
    torch.testing.assert_close(back, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("out", [".exr", ".hdr"])
def test_a_run_scores_and_renders_linear_light(
    out: str, linear: np.ndarray[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    needs("OpenEXR" if out == ".exr" else "imagecodecs")
    path = written(".npy", linear)
    arguments = ["--image", str(path), "--encodings", "fourier", "--bands", "3", *FEW]
    assert train_fit.main([*arguments, "--out", "run"]) == 0
    run = FittedRun("run")
    assert set(run.scores["fourier"]) == {"mu_psnr_db", "rmse_stops", "ssim"}
    fit = run.model("fourier")
    assert isinstance(fit, ImageFit)
    values = fit.render().double()
    truth = MuLaw(float(linear.max())).values(torch.from_numpy(linear).double())
    decibels = -10 * math.log10(float((values - truth).square().mean()))
    assert run.scores["fourier"]["mu_psnr_db"] == pytest.approx(decibels, abs=0.01)
    assert train_fit.main(["render", "run", "--out", f"made{out}"]) == 0
    made = Path(f"made{out}")
    back = read_hdr(made, made.read_bytes()[:100]).values
    expected = MuLaw(float(linear.max())).light(values).numpy()
    tolerance = 1e-5 if out == ".exr" else 0.01
    assert np.abs(back - expected).max() <= tolerance * expected.max()
    assert train_fit.main(["--image", "cat", "--size", "16", *FEW, "--out", "plain"]) == 0
    assert train_fit.main(["render", "plain", "--out", f"no{out}"]) == 2
    assert "not linear light" in capsys.readouterr().err


def test_runs_with_different_measures_are_not_compared(
    linear: np.ndarray[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("light.npy", linear)
    for name in ("light.npy", "cat"):
        options = ["--size", "16", "--encodings", "none", *FEW, "--out", f"run/{name}"]
        assert train_fit.main(["--image", name, *options]) == 0
    assert train_fit.main(["compare", "run/light.npy", "run/cat"]) == 2
    assert "measure different things (mu-law PSNR (dB) and PSNR (dB))" in capsys.readouterr().err


def test_what_is_no_light_is_refused(linear: np.ndarray[Any, Any]) -> None:
    for value in (-1.0, float("inf")):
        spoilt = linear.copy()
        spoilt[3, 4] = value
        np.save("bad.npy", spoilt)
        with pytest.raises(SceneError, match=r"bad.npy .*negative or not finite"):
            open_image("bad.npy")
    with pytest.raises(SceneError, match=r"values above 1; views are in \[0, 1\]"):
        stored_pixels(written(".npy", linear))


def test_what_is_no_file_of_light_is_refused(linear: np.ndarray[Any, Any]) -> None:
    needs("imagecodecs", "OpenEXR")
    import imagecodecs

    Path("cut.hdr").write_bytes(imagecodecs.rgbe_encode(linear, header=True)[:200])
    with pytest.raises(SceneError, match=r"cut.hdr"):
        open_image("cut.hdr")
    Path("large.hdr").write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 90000 +X 90000\n")
    with pytest.raises(SceneError, match="90000 x 90000 pixels, more than the limit"):
        open_image("large.hdr")
    Path("turned.hdr").write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n+X 9 -Y 9\n")
    with pytest.raises(SceneError, match="rows do not begin at the top left"):
        open_image("turned.hdr")
    Path("bad.exr").write_bytes(b"v/1\x01" + bytes(60))
    with pytest.raises(SceneError, match=r"bad.exr"):
        open_image("bad.exr")
