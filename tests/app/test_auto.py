"""What is left to the program as auto is chosen by short fits, which a run tells."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc_app.kinds.image import auto
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.image.samples import sampled
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.values.names import FitName
from tests.fits import resolved
from tests.small import quick_report


def stripes(cycles: int, side: int = 48) -> Image:
    """Waves along x: a number of cycles across the image."""
    x = (torch.arange(side) + 0.5) / side
    wave = 0.5 + 0.4 * (2 * torch.pi * cycles * x).sin()
    return Image.from_rgb(wave[None, :, None].expand(side, side, 3).contiguous())


SHORT: dict[str, Any] = {"steps": 120, "batch_size": 512, "width": 32, "depth": 2}


def bands_of(image: Image, **options: Any) -> int:
    """Number of bands that is chosen."""
    kind = ImageKind(ImageOptions(), image)
    config = resolved(kind, encodings=("fourier",), num_bands="auto", **SHORT, **options)
    assert isinstance(config, ImageOptions)
    assert isinstance(config.num_bands, int)
    return config.num_bands


def errors_of(monkeypatch: pytest.MonkeyPatch, errors: Any) -> list[str]:
    """Let short fits have these errors; give the list of those that are made."""
    made: list[str] = []

    def score(kind: ImageKind, name: FitName, config: ImageOptions) -> float:
        made.append(f"{name} {config.num_bands} of {kind.resolution}")
        return psnr_from_mse(float(errors(name.encoding, config.num_bands)))

    monkeypatch.setattr(auto, "_psnr", score)
    return made


def test_the_encoding_of_the_least_error_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = errors_of(monkeypatch, lambda name, bands: {"hash": 0.2, "gaussian": 0.1}.get(name, 1))
    kind = ImageKind(ImageOptions(), stripes(3))
    assert resolved(kind, encodings=("auto",), **SHORT).encodings == ("none", "gaussian")
    assert len(made) == 3
    assert str(kind.facts["auto"]).startswith("gaussian 10.00 dB, hash 6.99 dB, fourier 0.00 dB")
    assert str(kind.facts["auto"]).endswith("after 20 steps each")


def test_bands_are_searched_from_the_default_to_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    made = errors_of(monkeypatch, lambda name, bands: 1 + (bands - 3) ** 2)
    assert bands_of(stripes(3)) == 3
    assert len(made) == len(set(made)) < 6


def test_pixels_that_are_scored_do_not_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    made = errors_of(monkeypatch, lambda name, bands: 1 + (bands - 2) ** 2)
    found = bands_of(stripes(3).split_held_out(), held_out=True)
    # Of 24 fitted pixels along a side every second one is fitted, an octave less.
    assert all(each.endswith("of 12") for each in made)
    assert found == 3


def test_most_pixels_stay_to_be_fitted_where_some_judge() -> None:
    image = stripes(3)
    split = auto.split_at_random(image, 0)
    assert split.held_out is not None
    assert split.num_fitted + split.held_out.num_fitted == image.num_pixels
    assert split.num_fitted > 2 * split.held_out.num_fitted > 0


@pytest.mark.parametrize("options", [{"held_out": True}, {"observed": "0.5"}])
def test_pixels_too_few_to_choose_by_are_one_clear_error(options: dict[str, Any]) -> None:
    few = Image.from_rgb(torch.rand(2, 2, 3))
    asked = ImageOptions(num_bands="auto", **options)
    kind = ImageKind(asked, sampled(asked, few, few.size))
    with pytest.raises(UsageError, match="auto holds out some of the fitted pixels"):
        resolved(kind, num_bands="auto", **SHORT, **options)


def test_short_fits_tell_fine_stripes_from_coarse_ones() -> None:
    few, many = (bands_of(stripes(cycles)) for cycles in (1, 12))
    # 12 cycles over two units are 2^3.6 pi: four bands are too few for them.
    assert few < many
    assert many >= 4


@pytest.mark.usefixtures("own_folder")
def test_a_run_says_what_was_tried_and_is_resumed_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["--encodings", "auto", "--bands", "auto", "--size", "12", "--steps", "6"]
    run += ["--video", "0", "--width", "8", "--depth", "1", "--out", "run"]
    with quick_report():
        assert train_fit.main(run) == 0
    printed = capsys.readouterr().out
    assert "dB after 6 steps each" in printed
    made = errors_of(monkeypatch, lambda name, bands: 0.0)
    # As if it had ended before its report was written.
    before = json.loads(Path("run/metrics.json").read_text())
    Path("run/metrics.json").unlink()
    with quick_report():
        assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    assert made == []
    metrics = json.loads(Path("run/metrics.json").read_text())
    # What the search found stays on record.
    assert metrics["data"] == before["data"]
    assert [fit["encoding"] for fit in metrics["fits"]] == metrics["config"]["encodings"]
    assert metrics["config"]["encodings"][0] == "none"
