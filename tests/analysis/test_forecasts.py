"""Forecasts and recommendations: their arithmetic, and what they refuse."""

import math
from dataclasses import replace

import pytest
import torch

from nerf_posenc import HashGridEncoder
from nerf_posenc.analysis import Detail, detail, forecast, recommend
from nerf_posenc.analysis.calibration import LAWS
from nerf_posenc.analysis.forecasts import ImageTraits
from nerf_posenc.analysis.law import TransferLaw, traits
from nerf_posenc.analysis.recommendation import default_model
from nerf_posenc.images import Image, pixel_centers
from nerf_posenc.training.coordinate_model import make_coordinate_model

AVERAGE = Detail(0.6, 0.4)


def photograph(width: int = 96, height: int = 64) -> Image:
    """Waves of several octaves, weaker towards the fine ones."""
    x, y = pixel_centers(width, height).unbind(-1)
    waves = [torch.cos(2.0**k * math.pi * (x + 0.3 * k * y)) / 2**k for k in range(6)]
    gray = 0.5 + 0.2 * torch.stack(waves).sum(0)
    return Image.from_rgb(gray[..., None].repeat(1, 1, 3))


def law(**changes: object) -> TransferLaw:
    values = {
        "resolution": 64,
        "follows_nyquist": False,
        "steps": (100, 400),
        "recovery": ((20.0, 10.0, 0.0), (40.0, 20.0, 4.0)),
        "weights": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        "errors": (1.0, 2.0),
        **changes,
    }
    return TransferLaw(**values)  # type: ignore[arg-type]


def test_the_law_is_a_line_in_the_logarithm_of_the_steps() -> None:
    energy = [1e-3] * 3
    for steps, expected in ((100, 20), (200, 30), (400, 40), (800, 50)):
        found = law().recovered(energy, AVERAGE, resolution=64, steps=steps)
        assert found[0] == pytest.approx(expected)
    assert law().recovered(energy, AVERAGE, resolution=64, steps=25)[2] == 0.0
    assert law().error(200, 64) == pytest.approx(1.5)
    assert law().error(800, 64) == pytest.approx(8.0)
    assert law().error(100, 32) == pytest.approx(5.0)


def test_octaves_of_a_grid_count_from_nyquist() -> None:
    # Half the resolution: octave 0 is what octave 1 was.
    grid = law(follows_nyquist=True)
    found = grid.recovered([1e-3] * 2, AVERAGE, resolution=32, steps=100)
    assert found == pytest.approx([10.0, 0.0])


def test_smaller_images_are_recovered_further() -> None:
    found = law(size_gain=6.0).recovered([1e-3], AVERAGE, resolution=16, steps=100)
    assert found == pytest.approx([20.0 + 12.0])


def test_weights_and_settings_add_to_the_recovery() -> None:
    weighted = law(weights=((1.0, 2.0, 3.0),) * 2)
    image = Detail(0.7, 0.55)
    energy = 10 ** (-33 / 10)
    assert traits(energy, image) == pytest.approx((1.0, 1.0, 1.0))
    found = weighted.recovered([energy], image, resolution=64, steps=100)
    assert found[0] == pytest.approx(20 + 6)
    swept = law(settings=(4.0, 8.0), offsets=((-6.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    for setting, expected in ((2.0, 14.0), (4.0, 14.0), (6.0, 17.0), (9.0, 20.0)):
        found = swept.recovered([1e-3], AVERAGE, resolution=64, steps=100, setting=setting)
        assert found[0] == pytest.approx(expected)


@pytest.mark.parametrize("encoding", sorted(LAWS))
def test_the_errors_of_all_octaves_add_up_to_the_total(encoding: str) -> None:
    found = forecast(photograph(), default_model(encoding), steps=600)
    total = sum(10 ** (-octave.psnr / 10) for octave in found.octaves)
    assert found.psnr == pytest.approx(-10 * math.log10(total))
    assert f"{found.psnr:.1f} ±" in repr(found)
    assert [octave.octave for octave in found.octaves] == list(range(len(found.octaves)))


@pytest.mark.parametrize("encoding", sorted(LAWS))
def test_more_steps_and_less_contrast_are_forecast_better(encoding: str) -> None:
    image = photograph()
    faint = Image.from_rgb(0.5 + 0.5 * (image.rgb - 0.5))
    model = default_model(encoding)
    short, long = (forecast(image, model, steps=steps).psnr for steps in (300, 1200))
    assert long > short
    assert forecast(faint, model, steps=300).psnr > short


def test_an_image_measured_once_is_forecast_alike() -> None:
    image, model = photograph(), default_model("hash")
    assert forecast(ImageTraits.from_image(image), model, steps=600) == forecast(
        image, model, steps=600
    )


def test_what_the_law_is_not_calibrated_for_is_refused() -> None:
    image, model = photograph(), default_model("fourier")
    with pytest.raises(ValueError, match="steps must be 1"):
        forecast(image, model, steps=0)
    with pytest.raises(ValueError, match="no forecast for 'none'"):
        forecast(image, default_model("none"), steps=600)
    with pytest.raises(ValueError, match="calibrated for 4 ReLU layers of 256"):
        forecast(image, model, steps=600, optimizer="adam")
    with pytest.raises(ValueError, match="batches of 8,192"):
        forecast(image, model, steps=600, batch_size=100)


def test_straight_stripes_are_coherent_and_lie_along_an_axis() -> None:
    x, y = pixel_centers(128, 128).unbind(-1)
    upright = torch.cos(12 * math.pi * x)
    slanted = torch.cos(12 * math.pi * (x + y) / math.sqrt(2))
    for gray, alignment in ((upright, 1.0), (slanted, 0.0)):
        found = detail(Image.from_rgb((0.5 + 0.3 * gray)[..., None].repeat(1, 1, 3)))
        assert found.coherence > 0.95
        assert found.alignment == pytest.approx(alignment, abs=0.05)


def test_noise_is_neither_coherent_nor_aligned() -> None:
    generator = torch.Generator().manual_seed(0)
    found = detail(Image.from_rgb(torch.rand(256, 256, 3, generator=generator)))
    # Seven degrees on both sides of four half axes.
    assert found.alignment == pytest.approx(8 * 7 / 360, abs=0.06)
    # Differences that share a pixel are coherent by chance.
    assert found.coherence < 0.6


@pytest.mark.parametrize("shape", [(1, 1), (1, 20), (3, 5), (40, 40)])
def test_images_without_detail_have_none(shape: tuple[int, int]) -> None:
    assert detail(Image.from_rgb(torch.full((*shape, 3), 0.5))) == Detail(0.0, 0.0)


def test_the_recommendation_is_the_best_of_its_forecasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerf_posenc.analysis.recommendation.MAX_ERROR", math.inf)
    found = recommend(photograph(), steps=600)
    best = max(found.forecasts, key=lambda name: found.forecasts[name].psnr)
    assert found.model == found.models[best]
    assert f"{found.forecasts[best].psnr:.1f}" in found.reason
    assert found.models["fourier"].num_bands <= 8


def test_the_recommended_levels_are_those_of_the_grid_that_is_built() -> None:
    image = photograph()
    found = recommend(image, steps=600)
    encoder, _ = make_coordinate_model(found.models["hash"], image.resolution)
    assert isinstance(encoder, HashGridEncoder)
    assert list(found.levels) == encoder.resolutions
    assert f"{len(found.levels)} levels and max resolution {found.levels[-1]:,}" in found.reason


def test_no_grid_of_other_levels_is_forecast_to_be_better_by_more_than_is_given_up() -> None:
    image = photograph()
    found = recommend(image, steps=600)
    for finest in (image.resolution // 2, None, *(n * image.resolution for n in (2, 3, 4, 8))):
        other = replace(default_model("hash"), max_resolution=finest)
        assert forecast(image, other, steps=600).psnr <= found.forecasts["hash"].psnr + 0.05


def test_a_table_with_fewer_rows_than_pixels_gets_no_level_finer_than_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = photograph()
    monkeypatch.setattr("nerf_posenc.analysis.recommendation.TABLE_ROWS", image.num_pixels - 1)
    assert recommend(image, steps=600).models["hash"].max_resolution is None


def test_held_out_pixels_are_not_forecast() -> None:
    found = recommend(photograph().split_held_out(), steps=600)
    assert (found.model.encoding, dict(found.forecasts)) == ("gaussian", {})
    assert "cannot be forecast" in repr(found)
