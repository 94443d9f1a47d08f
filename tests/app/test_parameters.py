"""Runs within a number of parameters."""

import io
import json
from pathlib import Path

import PIL.Image
import pytest
import torch

import train_fit
from app.kinds.image.references import jpegs
from nerf_posenc import HashGridEncoder
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
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
    assert [fit["encoding"] for fit in fits] == ["none", "fourier", "hash", "jpeg"]
    num_pixels = 32 * 21
    *fits, jpeg = fits
    assert jpeg["is_reference"]
    assert 0 < jpeg["bpp_float16"] <= 16 * 2000 / num_pixels
    for fit in fits:
        assert 0 < fit["parameters"] <= 2000
        assert fit["bpp_float16"] == pytest.approx(16 * fit["parameters"] / num_pixels, rel=0.01)
        assert fit["bpp_8bit"] < fit["bpp_float16"]
        assert fit["psnr_8bit_db"] == pytest.approx(fit["psnr_db"], abs=4)
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


def test_a_jpeg_is_as_good_as_its_bytes_allow(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    image = Image.from_rgb(torch.rand(40, 60, 3, generator=generator))
    best = jpegs(image)
    before = 0.0
    for most in (1500, 3000, 10**6):
        found = best(most)
        assert found is not None
        num_bytes, values = found
        assert num_bytes <= most
        assert psnr(values, image.rgb) > before
        before = psnr(values, image.rgb)
        # Pillow's own file of the next quality is larger.
        stored = PIL.Image.fromarray((image.rgb * 255).round().byte().numpy())
        sizes = []
        for quality in range(1, 101):
            file = io.BytesIO()
            stored.save(file, "JPEG", quality=quality, subsampling=0, optimize=True)
            sizes.append(len(file.getvalue()))
        assert num_bytes == max(size for size in sizes if size <= most)
    assert best(100) is None


def test_a_run_says_what_a_jpeg_of_its_bytes_has(capsys: pytest.CaptureFixture[str]) -> None:
    with quick_report():
        assert train_fit.main([*SMALL, "--encodings", "none", "--out", "run"]) == 0
    assert "the best JPEG that is no larger than a fit in float16" in capsys.readouterr().out


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
