"""The automatic choice of an encoding, and forecasts in what a run leaves behind."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from app.auto import choose_encodings, forecast_fit
from app.config import resolve
from app.report.page_charts import forecast_notes, page_charts
from app.task import Panel

import train_fit
from app.options import parse
from nerf_posenc.analysis import forecast
from nerf_posenc.images import Image
from nerf_posenc.metrics.spectra import spectra
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.results import FieldResult
from tests.small import quick_report

CPU = torch.device("cpu")


def noise(side: int = 32) -> Image:
    generator = torch.Generator().manual_seed(0)
    return Image.from_rgb(torch.rand(side, side, 3, generator=generator))


def test_auto_fits_none_and_what_is_forecast_best() -> None:
    options, reason = choose_encodings(noise(), parse(["--encodings", "auto"]), 600)
    assert options.fitted == ("none", "hash")
    assert "hash forecast best" in reason
    assert not options.is_auto


def test_auto_takes_the_held_out_encoding_without_a_forecast() -> None:
    asked = parse(["--encodings", "auto", "--held-out"])
    options, reason = choose_encodings(noise().split_held_out(), asked, 600)
    assert options.fitted == ("none", "hash-internal")
    assert "cannot be forecast" in reason


def test_only_fits_within_the_calibration_are_forecast() -> None:
    image, model = noise(512), ImageModel("fourier", num_bands=6)
    config = resolve(parse(["--steps", "300"]), image.resolution, CPU)
    assert forecast_fit(image, model, config) == forecast(image, model, steps=300)
    assert forecast_fit(image, replace(model, encoding="none"), config) is None
    reasons = [
        forecast_fit(image.split_held_out(), model, config),
        forecast_fit(image, replace(model, width=64), config),
        forecast_fit(noise(64), model, config),
    ]
    for changed in (["--lr", "0.1"], ["--batch-size", "100"], ["--optimizer", "adam"]):
        other = resolve(parse(changed), image.resolution, CPU)
        reasons.append(forecast_fit(image, model, other))
    words = ["not of those between", "4 ReLU layers of 256", "this one has 64 pixels"]
    for reason, word in zip(reasons, words + ["calibrated for 4 ReLU"] * 3, strict=True):
        assert isinstance(reason, str)
        assert word in reason


def test_fits_without_a_forecast_say_why_once_per_reason() -> None:
    def result(encoding: str, **details: str) -> FieldResult:
        return FieldResult(
            encoding=encoding,
            parameters=1,
            seconds=1.0,
            steps=3,
            history=(),
            details=details,
            psnr=20.0,
            ssim=0.5,
        )

    one, other = {"no_forecast": "too small"}, {"no_forecast": "too short"}
    results = [result("none"), result("a", **one), result("b", **other), result("c", **one)]
    expected = ["No forecast for a and c: too small.", "No forecast for b: too short."]
    assert forecast_notes(results) == expected


def test_the_chart_has_the_forecast_beside_what_was_measured() -> None:
    image = noise()
    forecast_of_fit = forecast(image, ImageModel("hash", width=64, depth=2), steps=300)
    results = [
        FieldResult(
            encoding=name,
            parameters=1,
            seconds=1.0,
            steps=300,
            history=(),
            details=details,
            psnr=20.0,
            ssim=0.5,
        )
        for name, details in (("none", {}), ("hash", {"forecast": forecast_of_fit.as_json()}))
    ]
    fits = {"none": image.rgb * 0.5, "hash": image.rgb * 0.9}
    charts = page_charts(Panel("noise", image.rgb, fits, {}), spectra(image.rgb, fits), results)
    chart = next(chart for chart in charts if chart["section"] == "forecast")
    assert chart["svg"].count("<polyline") == 2
    assert chart["svg"].count("dashed") == 1
    assert f"hash, forecast {forecast_of_fit.psnr:.1f}" in chart["svg"]
    alone = {"none": fits["none"]}
    without = page_charts(
        Panel("noise", image.rgb, alone, {}), spectra(image.rgb, alone), results[:1]
    )
    assert all(chart["section"] != "forecast" for chart in without)


@pytest.mark.usefixtures("own_folder")
def test_a_run_says_why_and_keeps_the_forecast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run that takes a second is far from the calibration.
    monkeypatch.setattr("app.auto._MOST_ERROR", math.inf)
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
