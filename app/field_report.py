"""The report of an image or a scene, and what is remarked on its results."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from app import report
from app.config import FieldRunConfig
from app.report.outputs import REPORT
from app.task import Panel
from nerf_posenc.metrics.image import psnr
from nerf_posenc.training.results import FieldResult, FitResult

# A fit this little above one constant color has not learned the image.
COLLAPSED_DB = 0.5
# An image this near to its mean color is one constant color: 8 bits store no difference.
CONSTANT_DB = 60.0


@runtime_checkable
class FieldTask(Protocol):
    """What the report needs of an image or a scene."""

    name: str
    config: FieldRunConfig

    def truth(self) -> Float[Tensor, "*shape 3"]:
        """All pixels that fits are evaluated on."""
        ...

    def preview_truth(self) -> list[Tensor]:
        """The true images of a snapshot."""
        ...

    def panels(self, results: Sequence[Any]) -> list[Panel]:
        """The images that the page shows."""
        ...

    def write(self, folder: Path, results: Sequence[Any]) -> dict[str, Path]:
        """Write images and figures to the run folder.

        Returns:
            Turntable videos by the name of the fit.
        """
        ...


def write_field_report(
    task: FieldTask, folder: Path, results: Sequence[FieldResult], details: Mapping[str, Any]
) -> None:
    """Write images, figures, videos and the page."""
    turntables = task.write(folder, results)
    training_video = report.write_training_video(folder / "learning", task.preview_truth(), results)
    report.write_page(
        folder / REPORT,
        task.name,
        task.panels(results),
        results,
        details,
        turntables=turntables,
        training_videos={} if training_video is None else {"": training_video},
    )


def early_end(result: FitResult, num_steps: int) -> str | None:
    """Remark on a fit that did not take all its steps."""
    if result.steps == num_steps:
        return None
    return f"{result.encoding} was ended early, after {result.steps} of {num_steps} steps"


def field_notes(task: FieldTask, results: Sequence[FieldResult]) -> Iterator[str]:
    """Remarks that a reader of the table should know."""
    truth = task.truth()
    flat_db = psnr(truth.flatten(0, -2).mean(0).expand_as(truth), truth)
    yield from _interpolation_notes(results)
    for result in results:
        if not result.is_fit:
            continue
        ended = early_end(result, task.config.training.steps)
        if ended is not None:
            yield ended
        elif result.psnr < flat_db + COLLAPSED_DB and flat_db < CONSTANT_DB:
            yield (
                f"{result.encoding} stayed at one constant color ({flat_db:.1f} dB); try more "
                "--steps, another --seed or a smaller --lr"
            )


def _interpolation_notes(results: Sequence[FieldResult]) -> Iterator[str]:
    """Say so if interpolation is ahead of all fits."""
    references = [result for result in results if not result.is_fit]
    fits = [result for result in results if result.is_fit]
    if not references or not fits:
        return
    ahead = max(references, key=lambda result: result.psnr)
    best = max(fits, key=lambda result: result.psnr)
    if ahead.psnr > best.psnr:
        yield (
            f"{ahead.encoding} interpolation is ahead of every fit: {ahead.psnr:.2f} dB between "
            f"the pixels against {best.psnr:.2f} dB of {best.encoding}"
        )
