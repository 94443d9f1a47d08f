"""Forecasts of an image's fits, shown beside what was measured."""

from torch import Tensor

from app.kinds.image.options import ImageOptions
from app.kinds.kind import Curve, Evaluation
from nerf_posenc.analysis.calibration import LAWS
from nerf_posenc.analysis.forecasts import BATCH_SIZE, Forecast, forecast, why_not
from nerf_posenc.analysis.recommendation import MAX_ERROR
from nerf_posenc.images import Image
from nerf_posenc.metrics.spectrum import spectra
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.recipes import get_recipe

# Above this many pixels the spectrum alone would take seconds.
_MAX_PIXELS = 1 << 23
_ABOUT = (
    "The forecast was made from the image alone: its energy in each octave, and how much of an "
    "octave a fit of as many steps recovers of photographs. The error is that of the PSNR of all "
    "pixels on photographs; text and drawings may be further off."
)


def forecast_blocks(
    image: Image, encoding: str, config: ImageOptions, reconstruction: Tensor, *, steps: int
) -> Evaluation:
    """Forecast a fit from the image and the configuration alone, and compare it with the fit.

    The evaluation has curves and details, and no scores; without a forecast, its remarks say why.

    Args:
        image: its fitted pixels, and those held out.
        encoding: name of the encoding.
        config: configuration of the run.
        reconstruction: values of all evaluated pixels.
        steps: steps of the fit.
    """
    model = config.model(encoding)
    if model.encoding not in LAWS:
        return Evaluation({})
    found = _forecast(image, model, config, steps)
    if isinstance(found, str):
        return Evaluation({}, remarks=[f"No forecast: {found}."], details={"no_forecast": found})
    scores = spectra(image.evaluated.pixels, {encoding: reconstruction}).bands[encoding]
    measured = [(score.octave, score.psnr) for score in scores if score.octave is not None]
    octaves = [(octave.octave, octave.psnr) for octave in found.octaves]
    label = f"forecast {found.psnr:.1f} ± {found.error:.1f} dB"
    curves = [
        Curve(
            "Forecast (dashed) and measured PSNR by octave",
            "octave",
            "PSNR (dB)",
            [octave for octave, _ in points],
            [psnr for _, psnr in points],
            name=name,
            is_dashed=bool(name),
            section="Forecast and measured by octave",
            about=_ABOUT,
        )
        for name, points in (("", measured), (label, octaves))
    ]
    return Evaluation({}, curves, details={"forecast": found.as_json()})


def _forecast(
    image: Image, model: CoordinateModel, config: ImageOptions, steps: int
) -> Forecast | str:
    """Forecast of a fit, or why there is none."""
    assert config.batch_size
    assert config.optimizer != "auto"
    if image.held_out is not None:
        return "forecasts are of fitted pixels, not of those between them"
    if image.num_pixels > _MAX_PIXELS:
        return f"the image has more than {_MAX_PIXELS >> 20} megapixels"
    suits = why_not(model, optimizer=config.optimizer, batch_size=config.batch_size) is None
    if config.lr is not None or not suits:
        width, depth = get_recipe(model.encoding).layers
        return (
            f"calibrated for {depth} ReLU layers of {width}, Muon at its default rate and "
            f"{BATCH_SIZE:,} pixels per step alone"
        )
    found = forecast(image, model, steps=max(1, steps))
    if found.error <= MAX_ERROR:
        return found
    law = LAWS[model.encoding]
    return (
        f"it might be {found.error:.0f} dB off: calibrated on images of {law.resolution} pixels "
        f"after {law.steps[0]:,} to {law.steps[-1]:,} steps, and this one has "
        f"{image.resolution:,} pixels after {steps:,}"
    )
