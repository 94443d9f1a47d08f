"""A sparse series of an image: solved, saved and evaluated like a fit, in no steps."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from app.fit_settings import FitSettings
from app.image_fit import ImageResult, ImageTraining
from app.progress import checkpoint_values, progress_bar, sum_up
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.networks.local_cosine import LocalCosineSeries
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.grid_sizes import default_features
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState, mse, predict
from nerf_posenc.training.results import Record

# Number of pixels that the loss is measured on.
_LOSS_PIXELS = 1 << 18
# With fewer, hardly more than the mean color fits.
_LEAST_PARAMETERS = 100


@torch.no_grad()
def solve_series(
    image: Image,
    options: ImageModel,
    settings: FitSettings,
    *,
    on_record: Callable[[FitState, Callable[[], Tensor]], None] = lambda state, render: None,
) -> ImageResult:
    """Find the series of an image that has at most so many parameters, and evaluate it.

    Without a number it has as many as the default hash grid, and at most a quarter of the numbers
    of the fitted pixels, but not below 100.

    Args:
        image: its fitted pixels, and those held out.
        options: the encoding and the number of parameters.
        settings: the device and the file.
        on_record: callback with the state and a function that renders the image.

    Raises:
        CheckpointError: If the file is damaged, of another version or of another fit.
        SaveError: If the fit cannot be saved.
        ValueError: If there are too few parameters for a series.
    """
    training = ImageTraining(image, options, settings)
    series, most = training.network, options.num_parameters
    assert isinstance(series, LocalCosineSeries)
    if most is None:
        quarter = max(3 * image.num_pixels // 4, _LEAST_PARAMETERS)
        most = min(default_features(2, image.resolution), quarter)
    optimizer = recipes.make_optimizer(training.model, "adam", 1.0)
    state = FitState(training.model, optimizer, num_steps=0)
    if _restore(state, settings):
        return training.result(state, ())
    begin = time.perf_counter()
    with progress_bar(settings.name, 1, "solution", quiet=settings.quiet) as bar:
        series.fit(image, most)
        state.seconds = time.perf_counter() - begin
        points, colors = PixelBatches(
            image, _LOSS_PIXELS, seed=settings.seed, device=settings.device
        )(0)
        loss = float(mse(predict(training.model, points), colors))
        state.history = [Record(0, state.seconds, loss)]
        of = "" if len(points) == image.num_pixels else f" of {len(points):,} pixels"
        decibels = psnr_from_mse(loss)
        sum_up(bar, f"solved in {state.seconds:.1f} s, PSNR{of} {decibels:.2f} dB")
    on_record(state, training.render_whole)
    if settings.file is not None:
        settings.file.write(checkpoint_values(state, (), training.description))
    return training.result(state, ())


def _restore(state: FitState, settings: FitSettings) -> bool:
    """Load what was saved, if anything was."""
    saved = None if settings.file is None else settings.file.read()
    if saved is None or settings.file is None:
        return False
    try:
        state.load_state_dict(saved["fit"])
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{settings.file.path} cannot be resumed: {reason}") from None
    return True
