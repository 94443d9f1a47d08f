"""The automatic choice of an encoding, and forecasts in what a run leaves behind."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from app.kinds.image.forecasts import forecast_blocks
from app.kinds.image.image import ImageKind
from app.kinds.image.options import ImageOptions
from nerf_posenc.analysis import forecast
from nerf_posenc.images import Image
from tests.fits import resolved
from tests.small import quick_report


def noise(side: int = 32) -> Image:
    generator = torch.Generator().manual_seed(0)
    return Image.from_rgb(torch.rand(side, side, 3, generator=generator))


def config(image: Image, **options: Any) -> ImageOptions:
    found = resolved(ImageKind(ImageOptions(), image), **options)
    assert isinstance(found, ImageOptions)
    return found


def test_auto_fits_none_and_what_is_forecast_best() -> None:
    kind = ImageKind(ImageOptions(), noise())
    assert resolved(kind, encodings=("auto",), steps=600).chosen == ("none", "hash")
    assert "hash is forecast best" in kind.facts["auto"]
    # Of so small an image no number is told.
    assert "±" not in kind.facts["auto"]
    assert "so far from the calibration" in kind.facts["auto"]


def test_auto_tells_the_forecasts_within_the_calibration() -> None:
    kind = ImageKind(ImageOptions(), noise(512))
    resolved(kind, encodings=("auto",), steps=600)
    assert "forecast best: " in kind.facts["auto"]
    assert "±" in kind.facts["auto"]


def test_auto_takes_the_held_out_encoding_without_a_forecast() -> None:
    kind = ImageKind(ImageOptions(), noise().split_held_out())
    chosen = resolved(kind, encodings=("auto",), held_out=True, references=()).chosen
    assert chosen == ("none", "gaussian")
    assert "cannot be forecast" in kind.facts["auto"]


def test_only_fits_within_the_calibration_are_forecast() -> None:
    image = noise(512)
    usual = config(image, encodings=("fourier",), num_bands=6, steps=300)
    found = forecast_blocks(image, "fourier", usual, image.rgb, steps=300).details["forecast"]
    assert found == forecast(image, usual.model("fourier"), steps=300).as_json()
    assert forecast_blocks(image, "none", usual, image.rgb, steps=300).details == {}
    split, small = image.split_held_out(), noise(64)
    cases = [
        (split, usual, "not of those between"),
        (small, usual, "this one has 64 pixels"),
        *(
            (image, replace(usual, **changed), "calibrated for 4 ReLU layers of 256")
            for changed in ({"width": 64}, {"lr": 0.1}, {"batch_size": 100}, {"optimizer": "adam"})
        ),
    ]
    for data, changed_config, words in cases:
        blocks = forecast_blocks(data, "fourier", changed_config, data.evaluated.rgb, steps=300)
        assert words in blocks.details["no_forecast"]
        assert blocks.remarks == [f"No forecast: {blocks.details['no_forecast']}."]


def test_the_forecast_stands_beside_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kinds.image.forecasts.MAX_ERROR", math.inf)
    image = noise()
    usual = config(image, encodings=("hash",), steps=300)
    measured, dashed = forecast_blocks(image, "hash", usual, image.rgb * 0.9, steps=300).blocks
    assert measured.title == dashed.title
    assert not measured.is_dashed
    assert dashed.is_dashed
    expected = forecast(image, usual.model("hash"), steps=300)
    assert dashed.name == f"forecast {expected.psnr:.1f} ± {expected.error:.1f} dB"
    assert list(dashed.ys) == [octave.psnr for octave in expected.octaves]


@pytest.mark.usefixtures("own_folder")
def test_a_run_says_why_and_keeps_the_forecast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run that takes a second is far from the calibration.
    monkeypatch.setattr("app.kinds.image.forecasts.MAX_ERROR", math.inf)
    monkeypatch.setattr("nerf_posenc.analysis.recommendation.MAX_ERROR", math.inf)
    arguments = ["--encodings", "auto", "--size", "8", "--steps", "2", "--video", "0"]
    with quick_report():
        assert train_fit.main([*arguments, "--out", "run"]) == 0
    line = next(s for s in capsys.readouterr().out.splitlines() if s.startswith("auto  "))
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["fits"][0]["encoding"] == "none"
    none, kept = (fit.get("forecast") for fit in metrics["fits"])
    assert none is None
    assert f"{kept['psnr']:.1f} ± {kept['error']:.1f} dB" in line
    total = sum(10 ** (-octave["psnr"] / 10) for octave in kept["octaves"])
    assert kept["psnr"] == pytest.approx(-10 * math.log10(total))
