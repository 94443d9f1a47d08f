"""Images of one run that are fitted together, as batched ensembles."""

import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from app.failures import failure_reason
from app.fit_file import FitFile
from app.fit_settings import fit_settings
from app.image_ensemble import fit_images
from app.image_fit import ImageResult
from app.image_task import ImageTask
from app.prepare import Run
from app.run import fit_one
from app.run_folder import RunFolder
from app.task import FitControl
from nerf_posenc.training import recipes
from nerf_posenc.training.checkpoints import CheckpointError

# A larger ensemble gains nothing: this many fill any GPU, and the memory grows with each.
MOST_MEMBERS = 16


class WaitingImages:
    """Images that wait to be fitted as ensembles, never more than one ensemble takes.

    Args:
        folder: of the run of all images, where ensembles in progress are saved.
        finish: writes the run of an image that is fitted.

    Attributes:
        had_ensembles: whether a run that is resumed was interrupted within one.
    """

    def __init__(self, folder: RunFolder, finish: Callable[[Run[ImageResult]], None]) -> None:
        self._folder = folder
        self._finish = finish
        self._groups: dict[int, list[Run[ImageResult]]] = {}
        self.had_ensembles = any(folder.fits.glob("ensemble-*"))

    def add(self, prepared: Run[ImageResult]) -> None:
        """Let an image wait; fit the largest group if that makes enough."""
        num_pixels = image_task(prepared).image.num_pixels
        batch_size = min(prepared.config.training.batch_size, num_pixels)
        self._groups.setdefault(batch_size, []).append(prepared)
        if sum(map(len, self._groups.values())) >= MOST_MEMBERS:
            self._fit(max(self._groups, key=lambda size: len(self._groups[size])))

    def fit_all(self) -> None:
        """Fit those that still wait."""
        for batch_size in list(self._groups):
            self._fit(batch_size)

    def _fit(self, batch_size: int) -> None:
        members = self._groups.pop(batch_size)
        for encoding in members[0].config.encodings:
            names = [prepared.folder.path.name for prepared in members]
            number = zlib.crc32("/".join(names).encode())
            fit_ensemble(members, encoding, self._folder.fit_path(f"ensemble-{encoding}-{number}"))
        for prepared in members:
            self._finish(prepared)


def fit_ensemble(runs: Sequence[Run[ImageResult]], encoding: str, path: Path) -> None:
    """Fit images as one batched ensemble; a series, or if that fails, each alone.

    Args:
        runs: of the images.
        encoding: of all of them.
        path: where the ensemble is saved until each member is saved in its own run folder.

    Raises:
        SaveError: If a fit cannot be saved.
        Stopped: If the run was asked to end.
    """
    runs[0].log(f"\n{encoding}: {', '.join(prepared.task.name for prepared in runs)}")
    files = [prepared.fit_file(encoding) for prepared in runs]
    is_begun = path.exists() or not any(file.is_complete() for file in files)
    if len(runs) > 1 and is_begun and not recipes.get_recipe(encoding).is_series:
        tasks = [image_task(prepared) for prepared in runs]
        images, models = [task.image for task in tasks], [task.model(encoding) for task in tasks]
        file = FitFile(path, seconds=runs[0].options.save_every)
        control = FitControl(runs[0].context.stop, file=file)
        try:
            settings = fit_settings(encoding, tasks[0].config, control)
            results = fit_images(images, models, settings, files=files)
        except (FloatingPointError, RuntimeError, MemoryError, CheckpointError) as error:
            reason = failure_reason(error)
            print(f"note: {encoding}: {reason}; now each image alone", file=sys.stderr)
            path.unlink(missing_ok=True)
        else:
            for prepared, result in zip(runs, results, strict=True):
                prepared.results.append(result)
            return
    for prepared in runs:
        fit_one(prepared, encoding)


def image_task(prepared: Run[ImageResult]) -> ImageTask:
    """Return the task of an image's run."""
    assert isinstance(prepared.task, ImageTask)
    return prepared.task
