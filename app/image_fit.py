"""Fit of an image: the model, its training and its evaluation."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from tqdm import tqdm

from app.features import band_list, similarity_kernel
from app.fit_settings import FitSettings
from app.preview import preview_windows
from app.progress import fit_with_progress
from nerf_posenc.fits import describe_image_fit
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.interpolation import interpolate_held_out
from nerf_posenc.metrics.image import psnr, psnr_from_mse, squared_error, ssim
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.networks.quantization import quantize
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches, ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.image_model import ImageModel, make_image_model
from nerf_posenc.training.loop import FitState, predict
from nerf_posenc.training.patch_network import (
    default_steps,
    double_resolution,
    doubled_coordinates,
    fit_patch_network,
)
from nerf_posenc.training.results import FieldResult, Snapshot, Storage

# A large image is rendered so many pixels at a time.
_STRIP_PIXELS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class ImageResult(FieldResult):
    """Fit of an image; PSNR and SSIM are over all its pixels, or over the held-out ones.

    Attributes:
        reconstruction: those pixels, values in [0, 1]; 8 bits if they are many.
    """

    reconstruction: Shaped[Tensor, "height width 3"]


class ImageTraining:
    """An image, the model that is fitted to it, and its batches."""

    def __init__(self, image: Image, options: ImageModel, settings: FitSettings) -> None:
        self.image, self.evaluated, self.whole_size = image, image.evaluated, image.whole_size
        self._is_doubled = recipes.get_recipe(options.encoding).is_doubled
        points = doubled_coordinates(image) if self._is_doubled else None
        self.resolution = image.resolution if points is None else max(points.shape[:2])
        self.encoder, self.network = make_image_model(
            options, self.resolution, generator=torch.Generator().manual_seed(settings.seed)
        )
        if isinstance(self.network, MLP):
            self.network.start_at(image.mean_color())
        self.model = nn.Sequential(self.encoder, self.network).to(settings.device)
        self.options = options
        self.settings = settings
        self.batches: ShuffledBatches | PixelBatches
        if points is None:
            self.batches = PixelBatches(
                image, settings.batch_size, seed=settings.seed, device=settings.device
            )
        else:
            flat = points.reshape(-1, 2).to(settings.device)
            targets = flat.new_zeros(len(flat), 3)
            self.batches = ShuffledBatches(flat, targets, settings.batch_size, seed=settings.seed)
        windows = preview_windows(self.evaluated.pixels)
        self._previews = [self.evaluated.coordinates_at(*window) for window in windows]

    @property
    def description(self) -> dict[str, Any]:
        """What rebuilds the model; see `nerf_posenc.fits`."""
        return describe_image_fit(self.options, self.resolution, self.whole_size)

    def fill_targets(self) -> None:
        """Find the targets between the pixels, if they are fitted and not yet known.

        The time is that of the first step, so that it counts, and a complete fit takes none.
        """
        if not self._is_doubled or isinstance(self.batches, PixelBatches):
            return
        self._is_doubled = False
        targets = self.settings.world.from_first(lambda: self._doubled_targets().cpu())
        self.batches.targets.copy_(targets)

    def _doubled_targets(self) -> Tensor:
        """Learn what lies between the pixels, and predict it."""
        if not self.settings.quiet:
            learns = default_steps(self.image.num_pixels) > 0
            if learns:
                what = "learning what lies between the pixels"
            else:
                what = "too few pixels to learn from; bicubic values between them"
            tqdm.write(f"{self.settings.name}: {what}")
        rgb = self.image.rgb.to(self.settings.device)
        stop = self.settings.stop
        network = self.settings.prior
        if network is None:
            network = fit_patch_network(
                rgb, seed=self.settings.seed, should_stop=lambda: stop.is_requested
            )
        return double_resolution(rgb, network).reshape(-1, 3)

    @property
    def num_previews(self) -> int:
        """Images per snapshot."""
        return len(self._previews)

    def render_previews(self) -> list[Tensor]:
        """Render the images of a snapshot."""
        return [self._render(grid, exact=False) for grid in self._previews]

    def render_whole(self) -> Tensor:
        """Render the whole image, reduced."""
        return self._render(self._previews[0], exact=False)

    def _render(
        self, grid: Tensor, *, exact: bool, model: nn.Module | None = None
    ) -> Float[Tensor, "_height _width 3"]:
        """Values at coordinates, in float32 if ``exact``, else in the type of training."""
        device = self.settings.device
        # Chunks that stay in a CPU's cache, at the number of rows that its matrix library likes.
        chunk_size = 2048 if device.type == "cpu" else 1 << 18
        with autocast(device, None if exact else self.settings.autocast_dtype):
            values = predict(
                model or self.model, grid.reshape(-1, 2).to(device), chunk_size=chunk_size
            )
        return values.cpu().reshape(*grid.shape[:2], 3)

    def _evaluate(self, model: nn.Module | None = None) -> tuple[Tensor, Tensor, float]:
        """Values of all evaluated pixels, the true ones, and their PSNR."""
        image = self.evaluated
        if not image.is_large:
            values = self._render(image.coordinates, exact=True, model=model)
            return values, image.rgb, psnr(values, image.rgb)
        # 8 bits are kept; the PSNR is that of the values before they are rounded.
        rounded, error = torch.empty(image.pixels.shape, dtype=torch.uint8), 0.0
        height = max(1, _STRIP_PIXELS // len(image.x))
        for rows in (slice(top, top + height) for top in range(0, len(image.y), height)):
            values = self._render(image.coordinates_at(rows, slice(None)), exact=False, model=model)
            error += squared_error(values, image.pixels[rows])
            rounded[rows] = to_eight_bits(values)
        return rounded, image.pixels, psnr_from_mse(error / rounded.numel())

    def result(self, state: FitState, snapshots: Sequence[Snapshot]) -> ImageResult:
        """Evaluate the fit."""
        reconstruction, truth, decibels = self._evaluate()
        return ImageResult(
            encoding=self.options.encoding,
            parameters=num_parameters(self.model),
            psnr=decibels,
            ssim=ssim(reconstruction, truth),
            seconds=state.seconds,
            steps=state.step,
            history=state.history,
            reconstruction=reconstruction,
            bands=band_list(self.encoder),
            kernel=similarity_kernel(self.encoder),
            snapshots=snapshots,
            storage=None if self.options.num_parameters is None else self._storage(),
        )

    def _storage(self) -> Storage:
        """Bits per pixel, and PSNR, of the model with its parameters rounded."""
        bpp, scores = {}, {}
        for bits in (16, 8):
            rounded = quantize(self.model, bits)
            bpp[bits] = rounded.num_bits / math.prod(self.whole_size)
            scores[bits] = self._evaluate(rounded.module)[2]
        return Storage(
            bpp_float16=bpp[16], psnr_float16=scores[16], bpp_8bit=bpp[8], psnr_8bit=scores[8]
        )


OnRecord = Callable[[FitState, Callable[[], Tensor]], None]
"""Callback with the state of a fit and a function that renders the image as it is now."""


def fit_image(
    image: Image,
    options: ImageModel,
    settings: FitSettings,
    *,
    on_record: OnRecord = lambda state, render: None,
) -> ImageResult:
    """Fit an image with one encoding and evaluate the reconstruction.

    Args:
        image: its fitted pixels, and those held out.
        options: which model.
        settings: how to fit.
        on_record: called after each record.

    Raises:
        FloatingPointError: If the loss is not finite.
    """
    training, state, snapshots = train_image(image, options, settings, on_record=on_record)
    return training.result(state, snapshots)


def train_image(
    image: Image,
    options: ImageModel,
    settings: FitSettings,
    *,
    on_record: OnRecord = lambda state, render: None,
) -> tuple[ImageTraining, FitState, list[Snapshot]]:
    """Fit an image with one encoding, without an evaluation; see `fit_image`."""
    image_fit = ImageTraining(image, options, settings)
    optimizer = recipes.make_optimizer(
        image_fit.model,
        settings.optimizer,
        settings.lr,
        encoding=options.encoding,
        adam_lr=settings.adam_lr,
    )
    state = FitState(image_fit.model, optimizer, settings.steps, limit_seconds=settings.seconds)
    draw, forward = cache_corners(image_fit.encoder, image_fit.network, image_fit.batches)

    def draw_batch(step: int) -> tuple[Any, Tensor]:
        image_fit.fill_targets()
        return draw(step)

    snapshots = fit_with_progress(
        state,
        draw_batch,
        settings,
        forward=forward,
        render_preview=image_fit.render_previews,
        on_record=lambda now: on_record(now, image_fit.render_whole),
        model=image_fit.description,
    )
    return image_fit, state, snapshots


def interpolation_result(image: Image, method: str) -> ImageResult:
    """Interpolate the held-out pixels and evaluate.

    Args:
        image: with pixels held out.
        method: one of `nerf_posenc.interpolation.INTERPOLATIONS`.
    """
    begin = time.perf_counter()
    reconstruction = interpolate_held_out(image, method)
    seconds = time.perf_counter() - begin
    truth = image.evaluated.pixels
    if image.evaluated.is_large:
        reconstruction = to_eight_bits(reconstruction)
    return ImageResult(
        encoding=method,
        parameters=0,
        psnr=psnr(reconstruction, truth),
        ssim=ssim(reconstruction, truth),
        seconds=seconds,
        steps=0,
        history=(),
        reconstruction=reconstruction,
    )
