"""The pixels that a model gives, and those that they are compared with."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.fits import ImageFit
from nerf_posenc.images import Image, to_eight_bits, unit_range
from nerf_posenc.metrics.image import Scored, psnr_from_mse, squared_error
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import predict
from nerf_posenc_app.values.blocks import Network, View

# A large image is rendered this many pixels at a time.
_STRIP_PIXELS = 1 << 18
# Pixels that scores of fewer bands are of.
_MOST_POINTS = 1 << 15
# Gray value of masked pixels.
_MASKED = 0.5


class Reconstruction(NamedTuple):
    """What a fit or a reference makes of the evaluated pixels.

    Attributes:
        values: ``(height, width, 3)``; of a large image in 8 bits.
        psnr: PSNR in dB.
        psnr_fitted: PSNR of the fitted pixels in dB; NaN for a reference.
    """

    values: Tensor
    psnr: float
    psnr_fitted: float = math.nan


def scored_pixels(image: Image) -> Scored:
    """The pixels that fits are evaluated on, as stored if they are many, and their weights."""
    image = image.evaluated
    return Scored(image.pixels if image.is_large else image.rgb, image.weights)


def view_of(image: Image, values: Tensor, title: str, bands: Sequence[float] = ()) -> View:
    """Pixels that are evaluated beside their reconstruction; gray where a mask leaves them out."""
    truth, weights = scored_pixels(image)
    if (valid := image.valid) is not None:
        truth, values = (
            torch.where(valid[..., None], unit_range(each), _MASKED) for each in (truth, values)
        )
    return View(
        title,
        truth,
        values,
        bands=bands,
        scored=weights,
        mu=None if image.tone is None else image.tone.mu,
    )


def render(
    model: nn.Module, points: Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Values at coordinates ``(height, width, 2)``, computed in this type or in float32."""
    # Chunks that stay in a CPU's cache, at the number of rows that its matrix library likes.
    chunk_size = 2048 if device.type == "cpu" else 1 << 18
    with autocast(device, dtype):
        values = predict(model, points.reshape(-1, 2).to(device), chunk_size=chunk_size)
    return values.cpu().reshape(*points.shape[:2], 3)


@torch.no_grad()
def network_of(image: Image, model: nn.Module, description: CoordinateModel, title: str) -> Network:
    """Copy a fitted model for the page, with its PSNR for every smaller number of bands.

    Args:
        image: the image; scores are of at most `_MOST_POINTS` of its evaluated pixels.
        model: the encoder and the network.
        description: description of the model.
        title: heading of the view that shows its pixels.
    """
    encoder, network = copy.deepcopy(model).cpu().children()
    assert isinstance(encoder, Encoder)
    fit = ImageFit(encoder, network, description, image.whole_size, 0, 0)
    if not isinstance(encoder, FourierEncoder):
        return Network(title, fit)
    image = image.evaluated
    step = max(1, math.ceil(math.sqrt(image.num_pixels / _MOST_POINTS)))
    some = slice(None, None, step)
    points = image.coordinates_at(some, some)
    scored = scored_pixels(image).at(some, some)
    band = torch.arange(encoder.num_bands)
    scores = []
    for count in range(encoder.num_bands):
        # Features of a band that is off are 0, which the network has not met in training.
        features = encoder(points.reshape(-1, 2), weight=(band < count).float())
        values = predict(network, features, chunk_size=2048).reshape(scored.pixels.shape)
        scores.append(scored.psnr(values))
    return Network(title, fit, scores)


def reconstruct(
    image: Image, model: nn.Module, device: torch.device, dtype: torch.dtype | None = None
) -> Reconstruction:
    """Evaluate a model at all evaluated pixels, and score the fitted ones if they are others."""
    values, decibels = _values(image.evaluated, model, device, dtype)
    if image.held_out is None:
        return Reconstruction(values, decibels)
    # On one grid, the held-out image has the clean values of all pixels.
    fitted = replace(image.held_out, weights=image.weights) if image.is_one_grid else image
    return Reconstruction(values, decibels, _values(fitted, model, device, dtype)[1])


def _values(
    image: Image, model: nn.Module, device: torch.device, dtype: torch.dtype | None
) -> tuple[Tensor, float]:
    """Values of all pixels, of a large image in 8 bits, and their PSNR in dB."""
    if not image.is_large:
        values = render(model, image.coordinates, device)
        return values, Scored(image.pixels, image.weights).psnr(values)
    # 8 bits are kept; the PSNR is that of the values before they are rounded.
    rounded, error = torch.empty(image.pixels.shape, dtype=torch.uint8), 0.0
    height = max(1, _STRIP_PIXELS // len(image.x))
    for rows in (slice(top, top + height) for top in range(0, len(image.y), height)):
        values = render(model, image.coordinates_at(rows, slice(None)), device, dtype)
        weights = None if image.weights is None else image.weights[rows]
        error += squared_error(values, image.pixels[rows], weights)
        rounded[rows] = to_eight_bits(values)
    total = image.num_pixels if image.weights is None else float(image.weights.sum())
    return rounded, psnr_from_mse(error / (3 * total))
