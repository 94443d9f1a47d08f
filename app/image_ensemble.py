"""Fits of several images as one batched ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from app.fit_file import FitFile
from app.fit_settings import FitSettings
from app.image_fit import ImageResult, ImageTraining
from app.progress import checkpoint_values, fit_with_progress
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training import recipes
from nerf_posenc.training.ensemble import BatchedEnsemble, EnsembleLoss, stacked_batches
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import Record, Snapshot


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
    fits = [
        ImageTraining(image, each, settings) for image, each in zip(images, options, strict=True)
    ]
    sizes = {each.batches.rows.batch_size for each in fits}
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
    state = FitState(ensemble, optimizer, settings.steps, limit_seconds=settings.seconds)
    histories = EnsembleHistories()
    draw = stacked_batches([each.batches for each in fits])

    def draw_batch(step: int) -> tuple[Tensor, Tensor]:
        for each in fits:
            each.fill_targets()
        return draw(step)

    snapshots = fit_with_progress(
        state,
        draw_batch,
        settings,
        loss_fn=histories.loss,
        render_preview=lambda: [image for each in fits for image in each.render_previews()],
        on_record=lambda now: histories.record(),
        members=histories,
    )
    results = []
    for i, each in enumerate(fits):
        history, own = _member(i, each, state, histories.losses, snapshots)
        own_state = replace(state, model=each.model, history=history, losses=[])
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
    image_fit: ImageTraining,
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
