"""Runs within a number of parameters."""

import json
from pathlib import Path

import PIL.Image
import pytest

import train_fit
from nerf_posenc import HashGridEncoder
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint
from tests.small import quick_report

pytestmark = pytest.mark.usefixtures("own_folder")

SMALL = ["--size", "32", "--steps", "10", "--batch-size", "200", "--video", "0"]


def run(folder: str, *arguments: str) -> list[dict[str, object]]:
    assert train_fit.main([*SMALL, "--quiet", "--out", folder, *arguments]) == 0
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
        if fit["is_reference"]:
            continue
        loaded = load_fit(f"run/fits/{fit['encoding']}.safetensors")
        assert isinstance(loaded, ImageFit)
        assert num_parameters(loaded.model) == fit["parameters"]


def test_the_finest_level_of_a_grid_is_that_of_the_saved_fit() -> None:
    with quick_report():
        run("run", "--finest", "50", "--encodings", "hash", "fourier")
    fit = load_fit("run/fits/hash.safetensors")
    assert isinstance(fit, ImageFit)
    assert isinstance(fit.encoder, HashGridEncoder)
    assert fit.encoder.resolutions[-1] == 50
    assert fit.render().shape[1] == 32


def test_a_reference_is_evaluated_like_a_fit() -> None:
    with quick_report():
        fits = run("run", "--parameters", "1500", "--encodings", "fourier")
    assert [fit["encoding"] for fit in fits] == ["fourier", "local-cosine"]
    assert float(str(fits[1]["psnr_db"])) > float(str(fits[0]["psnr_db"]))
    assert fits[1]["steps"] == 0
    assert not list(Path("run/fits").glob("local-cosine*"))
    with quick_report():
        between = run("held-out", "--held-out", "--parameters", "1500", "--encodings", "none")
    names = ["none", "bilinear", "bicubic", "lanczos", "patch-network", "local-cosine"]
    assert [fit["encoding"] for fit in between] == names
    assert min(float(str(fit["psnr_db"])) for fit in between) > 10


def test_compare_shows_bits_of_those_fits_that_have_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with quick_report():
        run("sized", "--parameters", "1500", "--encodings", "none")
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
        run(f"run{number}", "--parameters", number, "--encodings", "fourier")
    page = Path("run1500/report.html").read_text()
    assert "bits/pixel (float16)" in page
    assert "PSNR against parameters" not in page
    compared = ["compare", "run1500", "run3000", "--out", "both.html"]
    assert train_fit.main(compared) == 0
    both = Path("both.html").read_text()
    assert "bits/pixel (float16)" in both
    assert "PSNR against parameters" in both
    assert "<td>num parameters</td><td>1500</td><td>3000</td>" in both


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
    command = ["--image", "tiny.png", "--encodings", "none", "--references", "local-cosine"]
    assert (
        train_fit.main([*command, "--steps", "1", "--quiet", "--video", "0", "--out", "run"]) == 0
    )
    _, series = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert series["parameters"] <= 100
    assert float(series["psnr_db"]) > 40
