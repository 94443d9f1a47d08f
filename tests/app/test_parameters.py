"""Runs within a number of parameters."""

import json
from collections.abc import Sequence
from pathlib import Path

import PIL.Image
import pytest

import train_fit
from app.options import parse
from baselines.local_cosine import LocalCosineSeries
from nerf_posenc import HashGridEncoder
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from tests.small import quick_report

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL = ["--size", "32", "--steps", "10", "--batch-size", "200", "--video", "0"]


SERIES = ["--size", "32", "--video", "0"]


def run(
    folder: str, *arguments: str, small: Sequence[str] = tuple(SMALL)
) -> list[dict[str, object]]:
    assert train_fit.main([*small, "--quiet", "--out", folder, *arguments]) == 0
    fits: list[dict[str, object]] = json.loads(Path(folder, "metrics.json").read_text())["fits"]
    return fits


def test_every_model_keeps_within_the_number_and_says_what_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        assert train_fit.main([*SMALL, "--parameters", "2000", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert "bits/pixel (8 bits)" in printed
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["encoding"] for fit in fits] == ["none", "fourier", "hash", "local-cosine"]
    for fit in fits:
        assert 0 < fit["parameters"] <= 2000
        num_pixels = 32 * 21
        assert fit["bpp_float16"] == pytest.approx(16 * fit["parameters"] / num_pixels, rel=0.01)
        assert fit["bpp_8bit"] < fit["bpp_float16"]
        assert fit["psnr_8bit_db"] == pytest.approx(fit["psnr_db"], abs=4)
        loaded = load_fit(f"run/fits/{fit['encoding']}.safetensors")
        assert isinstance(loaded, ImageFit)
        assert num_parameters(loaded.model) == fit["parameters"]


@pytest.mark.usefixtures("no_report")
def test_a_series_is_rendered_exported_and_resumed_like_a_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--parameters", "1500", "--encodings", "local-cosine"]
    first = run("run", *arguments, small=SERIES)
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run"]) == 0
    again = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert again == first, [(k, first[0][k], v) for k, v in again[0].items() if v != first[0][k]]
    fit = load_fit("run/fits/local-cosine.safetensors")
    assert isinstance(fit, ImageFit)
    assert isinstance(fit.network, LocalCosineSeries)
    assert fit.render().shape == (21, 32, 3)
    assert train_fit.main(["render", "run", "--size", "64", "--out", "large.png"]) == 0
    assert train_fit.main(["export", "run", "--page"]) == 2
    assert "a series, which has no network" in capsys.readouterr().err


def test_a_page_of_a_series_is_refused_and_says_what_it_can_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        run("run", "--parameters", "1500", "--encodings", "none", "local-cosine")
    capsys.readouterr()
    assert train_fit.main(["export", "run", "--page", "--encoding", "local-cosine"]) == 2
    message = "cannot run local-cosine (a series, which has no network); of this run it can hold"
    assert f"{message} none" in capsys.readouterr().err
    assert not Path("run/page.html").exists()
    assert train_fit.main(["export", "run", "--page"]) == 0
    assert "note: left out local-cosine" in capsys.readouterr().out


def test_the_finest_level_of_a_grid_is_that_of_the_saved_fit() -> None:
    with quick_report():
        run("run", "--finest", "50", "--encodings", "hash", "fourier")
    fit = load_fit("run/fits/hash.safetensors")
    assert isinstance(fit, ImageFit)
    assert isinstance(fit.encoder, HashGridEncoder)
    assert fit.encoder.resolutions[-1] == 50
    assert fit.render().shape[1] == 32


def test_a_series_is_ahead_of_what_is_trained_for_a_moment() -> None:
    with quick_report():
        fits = run("run", "--parameters", "1500", "--encodings", "fourier", "local-cosine")
    assert float(str(fits[1]["psnr_db"])) > float(str(fits[0]["psnr_db"]))
    assert fits[1]["steps"] == 0


def test_a_series_fits_every_second_pixel_too() -> None:
    with quick_report():
        arguments = ["--held-out", "--parameters", "1500", "--encodings", "local-cosine"]
        fits = run("run", *arguments, small=SERIES)
    assert "local-cosine" in parse(["--held-out", "--parameters", "1500"]).fitted
    assert float(str(fits[0]["psnr_db"])) > 10


def test_compare_shows_bits_of_those_fits_that_have_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        run("sized", "--parameters", "1500", "--encodings", "local-cosine", small=SERIES)
        run("usual", "--encodings", "none")
    for folders in (["usual", "sized"], ["sized", "usual"], ["usual"]):
        capsys.readouterr()
        with quick_report():
            assert train_fit.main(["compare", *folders, "--out", "-".join(folders)]) == 0
        printed = capsys.readouterr().out
        assert ("bits/pixel (8 bits)" in printed) == ("sized" in folders)
        assert Path("-".join(folders) + ".html").is_file()


@pytest.mark.slow
def test_pages_show_bits_and_draw_the_psnr_of_every_size() -> None:
    for number in ("1500", "3000"):
        run(f"run{number}", "--parameters", number, "--encodings", "fourier", "local-cosine")
    page = Path("run1500/report.html").read_text()
    assert "bits/pixel (float16)" in page
    assert "PSNR against parameters" not in page
    compared = ["compare", "run1500", "run3000", "--out", "both.html"]
    assert train_fit.main(compared) == 0
    both = Path("both.html").read_text()
    assert "bits/pixel (float16)" in both
    assert "PSNR against parameters" in both
    assert "parameters 1500" in both


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parameters", "20"], "--parameters must be 1000 or more; got 20"),
        (["--parameters", "5000", "--width", "8"], "--parameters chooses the width"),
        (["--parameters", "5000", "--scene", "spheres"], "--parameters is for images"),
        (["--parameters", "5000", "--finest", "32"], "give it or --finest"),
        (["--finest", "8"], "--finest must be 16 to 131,072 nodes; got 8"),
        (["--finest", "64", "--encodings", "fourier"], "--finest is for the hash grid"),
        (["--finest", "64", "--scene", "spheres"], "--finest is for the hash grid"),
        (["--finest", "64", "--sequence", "docstrings"], "--finest is for images"),
        (["--encodings", "local-cosine", "--steps", "5"], "--steps is for networks, and local-cos"),
        (["--encodings", "local-cosine", "--lr", "0.1"], "--lr is for networks, and local-cosine"),
        (["--parameters", "1000", "--depth", "200"], "parameters or more; got 1,000"),
        (["--parameters", "5000", "--sequence", "docstrings"], "--parameters is for images"),
    ],
)
def test_numbers_that_make_no_model_are_refused_before_anything_is_fitted(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_fit.main([*arguments, "--out", "run"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("run").exists()


def test_a_file_that_asks_for_a_huge_model_is_refused(tmp_path: Path) -> None:
    with quick_report():
        run("run", "--parameters", "1500", "--encodings", "fourier")
    saved = load_checkpoint(Path("run/fits/fourier.safetensors"))
    saved["model"]["options"]["num_parameters"] = 10**12
    save_checkpoint(tmp_path / "huge.safetensors", saved)
    with pytest.raises(CheckpointError, match="num_parameters is 1000000000000"):
        load_fit(tmp_path / "huge.safetensors")


@pytest.mark.parametrize("size", [(1, 1), (7, 9)])
@pytest.mark.usefixtures("no_report")
def test_a_tiny_image_has_a_series(size: tuple[int, int]) -> None:
    PIL.Image.new("RGB", size, (90, 120, 30)).save("tiny.png")
    command = ["--image", "tiny.png", "--encodings", "local-cosine", "--quiet", "--video", "0"]
    assert train_fit.main([*command, "--out", "run"]) == 0
    (fit,) = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert fit["parameters"] <= 100
    assert float(fit["psnr_db"]) > 40
