"""Fits of an image: the model, its training and its evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from app.features import band_list, similarity_kernel
from app.fit_settings import FitSettings
from app.preview import preview_windows
from app.progress import fit_with_progress
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr, psnr_from_mse, ssim
from nerf_posenc.networks import MLP, NETWORKS, num_parameters
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.ensemble import BatchedEnsemble, EnsembleLoss, stacked_batches
from nerf_posenc.training.loop import FitState, predict
from nerf_posenc.training.results import FitResult, Record, Snapshot

# Above this many pixels an image is evaluated in the type that it was trained in: in float32 two
# cores take 7 s per megapixel.
_MOST_FLOAT32_PIXELS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class ImageResult(FitResult):
    """Fit of an image; PSNR and SSIM are over all its pixels, or over the held-out ones.

    Attributes:
        reconstruction: those pixels, values in [0, 1].
    """

    reconstruction: Float[Tensor, "height width 3"]


@dataclass(frozen=True)
class ImageModel:
    """Which model fits an image.

    Attributes:
        encoding: of the coordinates.
        network: after the encoding.
        width: units per hidden layer.
        depth: hidden layers.
        num_bands: frequency bands of ``"fourier"``.
        sigma: of ``"gaussian"``; None for its default.
    """

    encoding: str
    network: recipes.NetworkName = "relu"
    width: int = 256
    depth: int = 4
    num_bands: int = 10
    sigma: float | None = None


class _ImageFit:
    """An image, the model that fits it, and its batches."""

    def __init__(self, image: Image, options: ImageModel, settings: FitSettings) -> None:
        generator = torch.Generator().manual_seed(settings.seed)
        self.encoder = recipes.make_encoder(
            options.encoding,
            2,
            resolution=image.resolution,
            num_bands=options.num_bands,
            sigma=options.sigma,
            generator=generator,
        )
        self.network = NETWORKS[options.network](
            self.encoder.out_dim,
            3,
            width=options.width,
            depth=options.depth,
            generator=generator,
        )
        if isinstance(self.network, MLP):
            self.network.start_at(image.rgb.mean((0, 1)))
        self.model = nn.Sequential(self.encoder, self.network).to(settings.device)
        self.options = options
        self.settings = settings
        self.evaluated = image.evaluated
        self.batches = ShuffledBatches(
            image.coordinates.reshape(-1, 2).to(settings.device),
            image.rgb.reshape(-1, 3).to(settings.device),
            settings.batch_size,
            seed=settings.seed,
        )
        windows = preview_windows(self.evaluated.rgb)
        self._previews = [self.evaluated.coordinates[window] for window in windows]

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

    def _render(self, grid: Tensor, *, exact: bool) -> Tensor:
        """Values at coordinates, in float32 if ``exact``, else in the type of training."""
        device = self.settings.device
        # Chunks that stay in a CPU's cache, at the number of rows that its matrix library likes.
        chunk_size = 2048 if device.type == "cpu" else 1 << 18
        with autocast(device, None if exact else self.settings.autocast_dtype):
            values = predict(self.model, grid.reshape(-1, 2).to(device), chunk_size=chunk_size)
        return values.cpu().reshape(*grid.shape[:2], 3)

    def result(
        self, state: FitState, history: Sequence[Record], snapshots: Sequence[Snapshot]
    ) -> ImageResult:
        """Evaluate the fit."""
        truth = self.evaluated
        exact = truth.rgb[..., 0].numel() <= _MOST_FLOAT32_PIXELS
        reconstruction = self._render(truth.coordinates, exact=exact)
        return ImageResult(
            encoding=self.options.encoding,
            parameters=num_parameters(self.model),
            psnr=psnr(reconstruction, truth.rgb),
            ssim=ssim(reconstruction, truth.rgb),
            seconds=state.seconds,
            steps=state.step,
            history=history,
            reconstruction=reconstruction,
            bands=band_list(self.encoder),
            kernel=similarity_kernel(self.encoder),
            snapshots=snapshots,
        )


def fit_image(
    image: Image,
    options: ImageModel,
    settings: FitSettings,
    *,
    on_record: Callable[[FitState, Callable[[], Tensor]], None] = lambda state, render: None,
) -> ImageResult:
    """Fit an image with one encoding and evaluate the reconstruction.

    Args:
        image: its fitted pixels, and those held out.
        options: which model.
        settings: how to fit.
        on_record: callback with the state and a function that renders the image as it is now.

    Raises:
        FloatingPointError: If the loss is not finite.
    """
    image_fit = _ImageFit(image, options, settings)
    optimizer = recipes.make_optimizer(
        image_fit.model,
        settings.optimizer,
        settings.lr,
        encoding=options.encoding,
        adam_lr=settings.adam_lr,
    )
    state = FitState(image_fit.model, optimizer, settings.steps)
    draw_batch, forward = cache_corners(image_fit.encoder, image_fit.network, image_fit.batches)
    snapshots = fit_with_progress(
        state,
        draw_batch,
        settings,
        forward=forward,
        render_preview=image_fit.render_previews,
        on_record=lambda now: on_record(now, image_fit.render_whole),
    )
    return image_fit.result(state, state.history, snapshots)


def fit_images(
    images: Sequence[Image], options: Sequence[ImageModel], settings: FitSettings
) -> list[ImageResult]:
    """Fit several images as one batched ensemble, each by a model of its own.

    Each model gets the batches and, up to rounding, the weights that it would get alone.

    Args:
        images: each with at least ``settings.batch_size`` fitted pixels, or all with the same
            number.
        options: one model per image; they may differ in ``sigma`` alone.
        settings: how to fit.

    Returns:
        One result per image; their seconds are those of the whole ensemble.

    Raises:
        FloatingPointError: If the loss is not finite.
        ValueError: If batches differ in size, or weights in shape.
    """
    fits = [_ImageFit(image, each, settings) for image, each in zip(images, options, strict=True)]
    sizes = {each.batches.batch_size for each in fits}
    if len(sizes) > 1:
        raise ValueError(
            f"images of an ensemble need batches of one size; got {sorted(sizes)} pixels, so fit "
            "the small ones apart or use a smaller batch_size"
        )
    ensemble = BatchedEnsemble([f.encoder for f in fits], [f.network for f in fits])
    optimizer = recipes.make_optimizer(
        ensemble,
        settings.optimizer,
        settings.lr,
        encoding=options[0].encoding,
        adam_lr=settings.adam_lr,
        matrices=ensemble.hidden_matrices(),
    )
    state = FitState(ensemble, optimizer, settings.steps)
    loss = EnsembleLoss()
    losses: list[list[float]] = []
    snapshots = fit_with_progress(
        state,
        stacked_batches([each.batches for each in fits]),
        settings,
        loss_fn=loss,
        render_preview=lambda: [image for each in fits for image in each.render_previews()],
        on_record=lambda now: losses.append(loss.take()),
    )
    return [_member_result(i, each, state, losses, snapshots) for i, each in enumerate(fits)]


def _member_result(
    i: int,
    image_fit: _ImageFit,
    state: FitState,
    losses: Sequence[Sequence[float]],
    snapshots: Sequence[Snapshot],
) -> ImageResult:
    """Result of one member of an ensemble, with its own history and previews."""
    history = [
        replace(record, loss=each[i]) for record, each in zip(state.history, losses, strict=True)
    ]
    psnr_at = {record.step: psnr_from_mse(record.loss) for record in history}
    own = slice(i * image_fit.num_previews, (i + 1) * image_fit.num_previews)
    own_snapshots = [Snapshot(s.step, psnr_at[s.step], s.images[own]) for s in snapshots]
    return image_fit.result(state, history, own_snapshots)
