"""What the tasks of an image and a scene have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from app import report
from app.config import FieldRunConfig
from app.fit_settings import lr_for, precision_for
from app.report.outputs import REPORT
from app.report.tiles import TilePyramid
from app.task import FitControl, Panel, early_end
from nerf_posenc.images import unit_range
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.results import FIELD_MEASURES, FieldResult, Measure

# A fit this little above one constant color has not learned the image.
_COLLAPSED_DB = 0.5
# An image this near to its mean color is one constant color: 8 bits store no difference.
_CONSTANT_DB = 60.0
_CHUNK_PIXELS = 1 << 18


class FieldTask(ABC):
    """An image or a scene to be fitted; see [Task][app.task.Task].

    Args:
        name: of the image or the scene.
        source: file, or what it was made by.
        size: width and height in pixels.
        config: of the run.
    """

    def __init__(
        self, name: str, source: str, size: tuple[int, int], config: FieldRunConfig
    ) -> None:
        self.name, self.source, self.size, self.config = name, source, size, config

    @property
    def measures(self) -> Sequence[Measure]:
        """Columns of the table."""
        return FIELD_MEASURES

    @abstractmethod
    def train(self, encoding: str, control: FitControl) -> None:
        """Train with one encoding together with rank 0, and leave the evaluation to it."""

    @abstractmethod
    def truths(self) -> Iterable[Shaped[Tensor, "height width 3"]]:
        """The images that fits are evaluated on, one at a time."""

    @abstractmethod
    def preview_truth(self) -> list[Tensor]:
        """The true images of a snapshot."""

    @abstractmethod
    def panels(self, results: Sequence[Any]) -> list[Panel]:
        """The images that the page shows."""

    @abstractmethod
    def write(self, folder: Path, results: Sequence[Any]) -> dict[str, Path]:
        """Write images and figures to the run folder.

        Returns:
            Turntable videos by the name of the fit.
        """

    def tiles(self, folder: Path, results: Sequence[Any]) -> TilePyramid | None:
        """Write the tiles of a large image to the run folder; None if it is not large."""
        return None

    def facts(self) -> dict[str, Any]:
        """Size in pixels."""
        return {"size": self.size}

    def fits_with(self, encoding: str) -> dict[str, Any]:
        """Learning rate and precision of one encoding's fit."""
        precision = precision_for(encoding, self.config)
        return {
            "lr": lr_for(encoding, self.config),
            "precision": str(precision).removeprefix("torch."),
        }

    def write_report(
        self, folder: Path, results: Sequence[FieldResult], details: Mapping[str, Any]
    ) -> None:
        """Write the page, images, figures and videos of a run."""
        turntables = self.write(folder, results)
        video = report.write_training_video(folder / "learning", self.preview_truth(), results)
        report.write_page(
            folder / REPORT,
            self.name,
            self.panels(results),
            results,
            details,
            turntables=turntables,
            training_videos={} if video is None else {"": video},
            tiles=self.tiles(folder, results),
        )

    def notes(self, results: Sequence[FieldResult]) -> Iterator[str]:
        """Remarks that a reader of the table should know."""
        flat_db = _constant_psnr(self.truths())
        yield from _interpolation_notes(results)
        length = "--steps" if self.config.training.seconds is None else "--seconds"
        for result in results:
            if not result.is_fit:
                continue
            training = self.config.training
            ended = early_end(result, training.steps, training.seconds)
            if ended is not None:
                yield ended
            elif result.psnr < flat_db + _COLLAPSED_DB and flat_db < _CONSTANT_DB:
                yield (
                    f"{result.encoding} is hardly better than one constant color, which has "
                    f"{flat_db:.1f} dB; try more "
                    f"{length}, another --seed or a smaller --lr"
                )


def _constant_psnr(images: Iterable[Tensor]) -> float:
    """PSNR of the mean color."""
    count, total, squares = 0, torch.zeros(3, dtype=torch.float64), 0.0
    for image in images:
        for part in image.reshape(-1, 3).split(_CHUNK_PIXELS):
            values = unit_range(part).double()
            count += len(values)
            total += values.sum(0)
            squares += float(values.square().sum())
    # Rounding may leave less than nothing.
    error = max(0.0, squares / count - float((total / count).square().sum()))
    return psnr_from_mse(error / 3)


def _interpolation_notes(results: Sequence[FieldResult]) -> Iterator[str]:
    """Say so if interpolation is ahead of all fits."""
    references = [result for result in results if not result.is_fit]
    fits = [result for result in results if result.is_fit]
    if not references or not fits:
        return
    names = ", ".join(result.encoding for result in references)
    yield f"{names}: interpolation of the fitted pixels; nothing is trained"
    ahead = max(references, key=lambda result: result.psnr)
    best = max(fits, key=lambda result: result.psnr)
    if ahead.psnr > best.psnr:
        yield (
            f"{ahead.encoding} interpolation is ahead of every fit: {ahead.psnr:.2f} dB between "
            f"the pixels against {best.psnr:.2f} dB of {best.encoding}"
        )
