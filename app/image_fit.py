"""Fits of an image: the model, its training and its evaluation."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from app.features import band_list, similarity_kernel
from app.fit_file import FitFile
from app.fit_settings import FitSettings
from app.preview import preview_windows
from app.progress import checkpoint_values, fit_with_progress
from nerf_posenc.fits import describe_image_fit
from nerf_posenc.images import Image
from nerf_posenc.interpolation import interpolate_held_out
from nerf_posenc.metrics.image import psnr, psnr_from_mse, ssim
from nerf_posenc.networks import MLP, num_parameters
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.ensemble import BatchedEnsemble, EnsembleLoss, stacked_batches
from nerf_posenc.training.image_model import ImageModel, make_image_model
from nerf_posenc.training.loop import FitState, predict
from nerf_posenc.training.results import FieldResult, Record, Snapshot

# Above this many pixels an image is evaluated in the type that it was trained in: in float32 two
# cores take 7 s per megapixel.
_MOST_FLOAT32_PIXELS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class ImageResult(FieldResult):
    """Fit of an image; PSNR and SSIM are over all its pixels, or over the held-out ones.

    Attributes:
        reconstruction: those pixels, values in [0, 1].
    """

    reconstruction: Float[Tensor, "height width 3"]


class _ImageFit:
    """An image, the model that fits it, and its batches."""

    def __init__(self, image: Image, options: ImageModel, settings: FitSettings) -> None:
        self.encoder, self.network = make_image_model(
            options, image.resolution, generator=torch.Generator().manual_seed(settings.seed)
        )
        if isinstance(self.network, MLP):
            self.network.start_at(image.rgb.mean((0, 1)))
        self.model = nn.Sequential(self.encoder, self.network).to(settings.device)
        self.options = options
        self.settings = settings
        self.evaluated = image.evaluated
        self.resolution, self.whole_size = image.resolution, image.whole_size
        self.batches = ShuffledBatches(
            image.coordinates.reshape(-1, 2).to(settings.device),
            image.rgb.reshape(-1, 3).to(settings.device),
            settings.batch_size,
            seed=settings.seed,
        )
        windows = preview_windows(self.evaluated.rgb)
        self._previews = [self.evaluated.coordinates[window] for window in windows]

    @property
    def description(self) -> dict[str, Any]:
        """What rebuilds the model; see `nerf_posenc.fits`."""
        return describe_image_fit(self.options, self.resolution, self.whole_size)

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

    def result(self, state: FitState, snapshots: Sequence[Snapshot]) -> ImageResult:
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
            history=state.history,
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
        model=image_fit.description,
    )
    return image_fit.result(state, snapshots)


def interpolation_result(image: Image, method: str) -> ImageResult:
    """Interpolate the held-out pixels and evaluate.

    Args:
        image: with pixels held out.
        method: one of `nerf_posenc.interpolation.INTERPOLATIONS`.
    """
    begin = time.perf_counter()
    reconstruction = interpolate_held_out(image, method)
    seconds = time.perf_counter() - begin
    truth = image.evaluated.rgb
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


def fit_images(
    images: Sequence[Image],
    options: Sequence[ImageModel],
    settings: FitSettings,
    *,
    files: Sequence[FitFile] = (),
) -> list[ImageResult]:
    """Fit several images as one batched ensemble, each by a model of its own.

    Each model gets the batches and, up to rounding, the weights that it would get alone.

    Args:
        images: each with at least ``settings.batch_size`` fitted pixels, or all with the same
            number.
        options: one model per image; they may differ in ``sigma`` alone.
        settings: how to fit; its file holds the whole ensemble while it is fitted.
        files: where the complete fit of each image is saved; empty for nowhere.

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
    histories = EnsembleHistories()
    snapshots = fit_with_progress(
        state,
        stacked_batches([each.batches for each in fits]),
        settings,
        loss_fn=histories.loss,
        render_preview=lambda: [image for each in fits for image in each.render_previews()],
        on_record=lambda now: histories.record(),
        members=histories,
    )
    results = []
    for i, each in enumerate(fits):
        history, own = _member(i, each, state, histories.losses, snapshots)
        own_state = FitState(each.model, optimizer, settings.steps, state.step, state.seconds)
        own_state.history = history
        if files and state.is_complete:
            files[i].write(checkpoint_values(own_state, own, each.description))
        results.append(each.result(own_state, own))
    if settings.file is not None and state.is_complete:
        settings.file.path.unlink(missing_ok=True)
    return results


class EnsembleHistories:
    """The loss of each member of an ensemble at every record, saved with the fit.

    Attributes:
        loss: of the ensemble.
        losses: of the members, for each record.
    """

    def __init__(self) -> None:
        self.loss = EnsembleLoss()
        self.losses: list[list[float]] = []

    def record(self) -> None:
        """Note the members' losses since the previous record."""
        self.losses.append(self.loss.take())

    def state_dict(self) -> dict[str, Any]:
        """Return plain containers and tensors."""
        return {"losses": self.losses, "recent": self.loss.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what was saved."""
        self.losses = [list(map(float, each)) for each in state["losses"]]
        self.loss.load_state_dict(state["recent"])


def _member(
    i: int,
    image_fit: _ImageFit,
    state: FitState,
    losses: Sequence[Sequence[float]],
    snapshots: Sequence[Snapshot],
) -> tuple[list[Record], list[Snapshot]]:
    """History and previews of one member of an ensemble."""
    history = [
        replace(record, loss=each[i]) for record, each in zip(state.history, losses, strict=True)
    ]
    psnr_at = {record.step: psnr_from_mse(record.loss) for record in history}
    own = slice(i * image_fit.num_previews, (i + 1) * image_fit.num_previews)
    return history, [
        Snapshot(s.step, psnr_at.get(s.step, s.psnr), s.images[own]) for s in snapshots
    ]
