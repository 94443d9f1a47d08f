"""Choose the encoding of an image by forecasts, and forecast fits beside those that are made."""

from dataclasses import replace

from app.config import FieldRunConfig
from app.options import Options
from nerf_posenc.analysis.calibration import LAWS
from nerf_posenc.analysis.forecasts import BATCH_SIZE, Forecast, forecast, why_not
from nerf_posenc.analysis.recommendation import recommend
from nerf_posenc.images import Image
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.recipes import get_recipe

# A forecast with a larger error in dB, of a size or a length far from the calibrated ones, would
# tell nothing.
_MOST_ERROR = 6.0
# Above this many pixels the spectrum alone would take seconds.
_MOST_PIXELS = 1 << 23


def choose_encodings(image: Image, options: Options, steps: int) -> tuple[Options, str]:
    """Replace ``--encodings auto`` by none and the encoding that is recommended for an image.

    Args:
        image: its fitted pixels, and those held out.
        options: with ``auto``.
        steps: of each fit.

    Returns:
        Options that name encodings, bands, sigma and finest level; and why, in one line.
    """
    found = recommend(image, steps=steps)
    name = found.model.encoding
    chosen = replace(options, encodings=("none", name))
    if name == "fourier":
        chosen = replace(chosen, bands=found.model.num_bands)
    if name == "gaussian" and found.forecasts:
        chosen = replace(chosen, sigma=found.model.sigma)
    if name == "hash":
        chosen = replace(chosen, finest=found.model.finest)
    return chosen, found.reason


def forecast_fit(image: Image, model: ImageModel, config: FieldRunConfig) -> Forecast | str | None:
    """Forecast one fit of a run.

    Args:
        image: its fitted pixels, and those held out.
        model: that is fitted.
        config: of the run.

    Returns:
        The forecast, or why there is none; None for an encoding that has no forecasts at all.
    """
    if model.encoding not in LAWS:
        return None
    training = config.training
    optimizer, batch_size = training.optimizer, training.batch_size
    if image.held_out is not None:
        return "forecasts are of fitted pixels, not of those between them"
    if image.num_pixels > _MOST_PIXELS:
        return f"the image has more than {_MOST_PIXELS >> 20} megapixels"
    suits = why_not(model, optimizer=optimizer, batch_size=batch_size) is None
    if training.lr is not None or not suits:
        width, depth = get_recipe(model.encoding).layers
        return (
            f"calibrated for {depth} ReLU layers of {width}, Muon at its default rate and "
            f"{BATCH_SIZE:,} pixels per step alone"
        )
    found = forecast(image, model, steps=training.steps)
    if found.error <= _MOST_ERROR:
        return found
    law = LAWS[model.encoding]
    return (
        f"it might be {found.error:.0f} dB off: calibrated on images of {law.resolution} pixels "
        f"after {law.steps[0]:,} to {law.steps[-1]:,} steps, and this one has "
        f"{image.resolution:,} pixels after {training.steps:,}"
    )
