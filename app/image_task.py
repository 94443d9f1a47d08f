"""An image as the program's task: fit it with one encoding, and show it in the report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxtyping import Shaped
from torch import Tensor

from app.auto import forecast_fit
from app.config import FieldRunConfig
from app.digest import digest_of_image
from app.field_task import FieldTask
from app.fit_settings import fit_settings, layers_for
from app.image_fit import ImageResult, fit_image, interpolation_result, train_image
from app.preview import preview_windows
from app.report.outputs import write_image_run
from app.report.tiles import TilePyramid, write_tiles
from app.report.viewer import LivePage
from app.series_fit import solve_series
from app.task import FitControl, Panel
from nerf_posenc.images import Image, unit_range
from nerf_posenc.interpolation import INTERPOLATIONS
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import return_freed_memory
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import FIELD_MEASURES, STORAGE_MEASURES, Measure


class ImageTask(FieldTask):
    """An image to be fitted.

    Args:
        image: its fitted pixels, and those held out.
        size: of the whole image.
        config: of the run.
        reason: why ``--encodings auto`` chose what it did; None if it did not.
    """

    kind = "image"

    def __init__(
        self,
        image: Image,
        size: tuple[int, int],
        config: FieldRunConfig,
        reason: str | None = None,
    ) -> None:
        super().__init__(image.name, image.source, size, config)
        self.image, self.reason = image, reason

    def facts(self) -> dict[str, Any]:
        """Size in pixels, and why the encoding was chosen, if it was."""
        chosen = {} if self.reason is None else {"auto": self.reason}
        return {**super().facts(), **chosen}

    def model(self, encoding: str) -> ImageModel:
        """Model for an encoding."""
        model = self.config.model
        width, depth = layers_for(encoding, self.config)
        return ImageModel(
            encoding,
            model.network,
            width,
            depth,
            model.bands,
            model.sigma,
            model.parameters,
            finest=model.finest,
        )

    @property
    def measures(self) -> Sequence[Measure]:
        """Columns of the table: PSNR and SSIM, and what is stored within ``--parameters``."""
        return (*FIELD_MEASURES, *(STORAGE_MEASURES if self.config.model.parameters else ()))

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        width, height = self.size
        lines = [f"image    {self.source}, {width} x {height}"]
        if self.image.held_out is not None:
            fitted, between = (e.num_pixels for e in (self.image, self.image.held_out))
            lines.append(f"pixels   {fitted:,} to fit, {between:,} between them to evaluate on")
        return lines

    def digest(self) -> str:
        """Checksum of all pixels."""
        return digest_of_image(self.image)

    def fit(self, encoding: str, control: FitControl) -> ImageResult:
        """Fit with one encoding and evaluate."""

        def show(state: FitState, render: Callable[[], Tensor]) -> None:
            if control.viewer is not None:
                control.viewer.show_image(encoding, state, render)

        settings = fit_settings(encoding, self.config, control)
        model = self.model(encoding)
        fit = solve_series if recipes.get_recipe(encoding).is_series else fit_image
        result = fit(self.image, model, settings, on_record=show)
        if self.image.is_large:
            return_freed_memory()
        forecast = forecast_fit(self.image, model, self.config)
        if forecast is None:
            return result
        known = (
            {"no_forecast": forecast}
            if isinstance(forecast, str)
            else {"forecast": forecast.as_json()}
        )
        return replace(result, details={**result.details, **known})

    def train(self, encoding: str, control: FitControl) -> None:
        """Train with one encoding; a series is solved by rank 0 alone."""
        if not recipes.get_recipe(encoding).is_series:
            settings = fit_settings(encoding, self.config, control)
            train_image(self.image, self.model(encoding), settings)

    def references(self) -> Sequence[ImageResult]:
        """Interpolations of the held-out pixels."""
        if self.image.held_out is None:
            return ()
        return [interpolation_result(self.image, method) for method in INTERPOLATIONS]

    def truth(self) -> Shaped[Tensor, "height width 3"]:
        """All pixels that fits are evaluated on; as stored if they are many."""
        evaluated = self.image.evaluated
        return evaluated.pixels if evaluated.is_large else evaluated.rgb

    def truths(self) -> list[Tensor]:
        """The one image."""
        return [self.truth()]

    def preview_truth(self) -> list[Tensor]:
        """The true images of a snapshot."""
        truth = self.truth()
        return [unit_range(truth[window]) for window in preview_windows(truth)]

    def panels(self, results: Sequence[ImageResult]) -> list[Panel]:
        """The image beside its reconstructions."""
        return [Panel(self.name, self.truth(), {r.encoding: r.reconstruction for r in results}, {})]

    def open_viewer(self) -> LivePage:
        """Serve a page that shows the fits in progress."""
        return LivePage(self.name, original=self.preview_truth()[0])

    def tiles(self, folder: Path, results: Sequence[ImageResult]) -> TilePyramid | None:
        """Write the tiles of a large image to the run folder; None if it is not large."""
        if not self.image.evaluated.is_large:
            return None
        fits = {result.encoding: result.reconstruction for result in results}
        return write_tiles(folder, {"original": self.truth(), **fits})

    def write(self, folder: Path, results: Sequence[ImageResult]) -> dict[str, Path]:
        """Write images and figures to the run folder."""
        reconstructions = {result.encoding: result.reconstruction for result in results}
        figures = self.config.output.figures
        write_image_run(folder, self.truth(), reconstructions, results, figures=figures)
        return {}
