"""An image as the program's task: fit it with one encoding, and show it in the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from app.config import FieldRunConfig
from app.digest import digest_of
from app.field_report import field_notes, write_field_report
from app.fit_settings import fit_settings, layers_for, lr_for, precision_for
from app.image_fit import ImageResult, fit_image
from app.preview import preview_windows
from app.report.outputs import write_image_run
from app.report.viewer import LivePage
from app.task import FitControl, Panel
from nerf_posenc.images import Image
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import FIELD_MEASURES


class ImageTask:
    """An image to be fitted.

    Args:
        image: its fitted pixels, and those held out.
        size: of the whole image.
        config: of the run.
    """

    kind = "image"
    measures = FIELD_MEASURES

    def __init__(self, image: Image, size: tuple[int, int], config: FieldRunConfig) -> None:
        self.image = image
        self.name = image.name
        self.source = image.source
        self.size = size
        self.config = config

    def model(self, encoding: str) -> ImageModel:
        """Model for an encoding."""
        model = self.config.model
        width, depth = layers_for(encoding, self.config)
        return ImageModel(encoding, model.network, width, depth, model.bands, model.sigma)

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        width, height = self.size
        lines = [f"image    {self.source}, {width} x {height}"]
        if self.image.held_out is not None:
            fitted, between = (e.rgb[..., 0].numel() for e in (self.image, self.image.held_out))
            lines.append(f"pixels   {fitted:,} to fit, {between:,} between them to evaluate on")
        return lines

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
        self, folder: Path, results: Sequence[ImageResult], details: Mapping[str, Any]
    ) -> None:
        """Write the page, images, figures and videos of a run."""
        write_field_report(self, folder, results, details)

    def notes(self, results: Sequence[ImageResult]) -> Iterator[str]:
        """Remarks that a reader of the table should know."""
        return field_notes(self, results)

    def digest(self) -> str:
        """Checksum of all pixels."""
        evaluated = self.image.evaluated
        return digest_of([self.image.rgb, evaluated.rgb, evaluated.coordinates[:1, :1]])

    def fit(self, encoding: str, control: FitControl) -> ImageResult:
        """Fit with one encoding and evaluate."""

        def show(state: FitState, render: Callable[[], Tensor]) -> None:
            if control.viewer is not None:
                control.viewer.show_image(encoding, state, render)

        settings = fit_settings(encoding, self.config, control)
        return fit_image(self.image, self.model(encoding), settings, on_record=show)

    def truth(self) -> Float[Tensor, "height width 3"]:
        """All pixels that fits are evaluated on."""
        return self.image.evaluated.rgb

    def preview_truth(self) -> list[Tensor]:
        """The true images of a snapshot."""
        return [self.truth()[window] for window in preview_windows(self.truth())]

    def panels(self, results: Sequence[ImageResult]) -> list[Panel]:
        """The image beside its reconstructions."""
        return [Panel(self.name, self.truth(), {r.encoding: r.reconstruction for r in results}, {})]

    def open_viewer(self) -> LivePage:
        """Serve a page that shows the fits in progress."""
        return LivePage(self.name, original=self.preview_truth()[0])

    def write(self, folder: Path, results: Sequence[ImageResult]) -> dict[str, Path]:
        """Write images and figures to the run folder."""
        reconstructions = {result.encoding: result.reconstruction for result in results}
        figures = self.config.output.figures
        write_image_run(folder, self.truth(), reconstructions, results, figures=figures)
        return {}
