"""Choose the encoding of an image by forecasts, and forecast fits beside those that are made."""

from dataclasses import replace

from app.config import FieldRunConfig
from app.options import Options
from nerf_posenc.analysis.forecasts import Forecast, forecast, why_not
from nerf_posenc.analysis.recommendation import recommend
from nerf_posenc.images import Image
from nerf_posenc.training.image_model import ImageModel

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
        Options that name encodings, bands and sigma; and why, in one line.
    """
    found = recommend(image, steps=steps)
    name = found.model.encoding
    chosen = replace(options, encodings=("none", name))
    if name == "fourier":
        chosen = replace(chosen, bands=found.model.num_bands)
    if name == "gaussian" and found.forecasts:
        chosen = replace(chosen, sigma=found.model.sigma)
    return chosen, found.reason


def forecast_fit(image: Image, model: ImageModel, config: FieldRunConfig) -> Forecast | None:
    """Forecast one fit of a run; None if it is beyond what forecasts are calibrated for.

    Args:
        image: its fitted pixels, and those held out.
        model: that is fitted.
        config: of the run.
    """
    training = config.training
    if image.held_out is not None or training.lr is not None:
        return None
    if image.num_pixels > _MOST_PIXELS:
        return None
    optimizer, batch_size = training.optimizer, training.batch_size
    if why_not(model, optimizer=optimizer, batch_size=batch_size) is not None:
        return None
    found = forecast(image, model, steps=training.steps)
    return found if found.error <= _MOST_ERROR else None
