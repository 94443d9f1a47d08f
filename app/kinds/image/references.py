"""What the fits of an image are compared with: baselines that are evaluated alike."""

import math
import time

import torch
from torch import nn

from app.kinds.coordinates import PSNR, SSIM
from app.kinds.image.options import ImageOptions
from app.kinds.image.reconstruction import evaluated_pixels, reconstruct
from app.kinds.kind import Evaluation, Result, View
from app.terminal import printable
from baselines import LocalCosineSeries, interpolate_held_out, predict_held_out, round_series
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.networks import num_parameters
from nerf_posenc.training.grid_sizes import default_features

# With fewer, a series has hardly more than the mean color.
_MIN_PARAMETERS = 100


@torch.no_grad()
def reference_result(image: Image, name: str, config: ImageOptions) -> Result:
    """Compute a reference and evaluate it.

    Args:
        image: the image that the fits are made of.
        name: one of ``REFERENCES``.
        config: configuration of the run.
    """
    started = time.perf_counter()
    if name == "local-cosine":
        return _series_result(image, config)
    if name == "patch-network":
        with torch.enable_grad():
            values = predict_held_out(image, seed=config.seed)
    else:
        values = interpolate_held_out(image, name)
    seconds = time.perf_counter() - started
    truth = image.evaluated.pixels
    if image.evaluated.is_large:
        values = to_eight_bits(values)
    scores = {PSNR.name: psnr(values, truth), SSIM.name: ssim(values, truth)}
    return Result(
        encoding=name,
        seconds=seconds,
        evaluation=Evaluation(
            scores, [View(printable(image.name), evaluated_pixels(image), values)]
        ),
        is_reference=True,
    )


def _series_result(image: Image, config: ImageOptions) -> Result:
    """The largest coefficients of windowed cosines: what as many parameters can store."""
    most = config.num_parameters
    if most is None:
        # As many parameters as the default hash grid, and at most a quarter of the values.
        quarter = max(3 * image.num_pixels // 4, _MIN_PARAMETERS)
        most = min(default_features(2, image.resolution), quarter)
    started = time.perf_counter()
    series = LocalCosineSeries()
    series.fit(image, most)
    seconds = time.perf_counter() - started
    device = torch.device("cpu")
    values, decibels = reconstruct(image, nn.Sequential(series), device)
    scores = {PSNR.name: decibels, SSIM.name: ssim(values, evaluated_pixels(image))}
    if config.num_parameters is not None:
        for bits, label in ((16, "float16"), (8, "8bit")):
            rounded, num_bits = round_series(series, bits)
            scores[f"bpp_{label}"] = num_bits / math.prod(image.whole_size)
            scores[f"psnr_{label}_db"] = reconstruct(image, nn.Sequential(rounded), device)[1]
    return Result(
        encoding="local-cosine",
        parameters=num_parameters(series) + series.num_index_parameters,
        seconds=seconds,
        evaluation=Evaluation(
            scores, [View(printable(image.name), evaluated_pixels(image), values)]
        ),
        is_reference=True,
    )
