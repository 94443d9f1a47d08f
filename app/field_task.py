"""What the tasks of an image and a scene have in common."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app import field_report
from app.config import FieldRunConfig
from app.fit_settings import lr_for, precision_for
from nerf_posenc.training.results import FIELD_MEASURES, FieldResult


class FieldTask(field_report.FieldTask):
    """An image or a scene to be fitted; see [Task][app.task.Task].

    Args:
        name: of the image or the scene.
        source: file, or what it was made by.
        size: width and height in pixels.
        config: of the run.
    """

    measures = FIELD_MEASURES

    def __init__(
        self, name: str, source: str, size: tuple[int, int], config: FieldRunConfig
    ) -> None:
        self.name, self.source, self.size, self.config = name, source, size, config

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
        field_report.write_field_report(self, folder, results, details)

    def notes(self, results: Sequence[FieldResult]) -> Iterator[str]:
        """Remarks that a reader of the table should know."""
        return field_report.field_notes(self, results)
