"""A scene as the program's task: fit it with one encoding, and show it in the report."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from app.config import FieldRunConfig
from app.digest import digest_of_scene
from app.field_task import FieldTask
from app.fit_settings import field_options, fit_settings
from app.parsing import UsageError
from app.preview import preview_view
from app.report.outputs import write_scene_run
from app.report.video import write_video
from app.report.viewer import LivePage
from app.scene_fit import SceneResult, fit_scene, train_scene
from app.task import FitControl, Panel
from nerf_posenc.radiance.occupancy import visual_hull
from nerf_posenc.radiance.views import Scene, background_gray, evenly_spaced
from nerf_posenc.radiance.volume_rendering import visible_depth
from nerf_posenc.training.checkpoints import CheckpointError

# More views only make the page heavy; the folder has them all.
_MOST_VIEWS = 6


class SceneTask(FieldTask):
    """A scene to be fitted.

    Args:
        scene: training and test views.
        config: of the run.
    """

    kind = "scene"

    def __init__(self, scene: Scene, config: FieldRunConfig) -> None:
        super().__init__(scene.name, scene.source, scene.train.size, config)
        self.scene = scene
        self._gray = background_gray(config.training.background)

    @cached_property
    def _initial_hull(self) -> Tensor | None:
        """Visual hull, the same for every encoding; None for a field without occupancy grid."""
        has_grid = self.config.model.field in ("small", "factored")
        return visual_hull(self.scene.train) if has_grid else None

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        train, test = len(self.scene.train), len(self.scene.test)
        width, height = self.size
        return [
            f"scene    {self.source}, {width} x {height}",
            f"views    {train} to fit, {test} to evaluate on",
            *(f"note: {note}" for note in self.scene.notes),
        ]

    def digest(self) -> str:
        """Checksum of all pixels and poses."""
        return digest_of_scene(self.scene)

    def fit(self, encoding: str, control: FitControl) -> SceneResult:
        """Fit with one encoding and evaluate on the test views.

        Raises:
            UsageError: If the scene cannot be fitted, as when all its pixels are transparent.
        """
        with self._usage_errors():
            return fit_scene(
                self.scene,
                field_options(encoding, self.config),
                fit_settings(encoding, self.config, control),
                background=self.config.training.background,
                hull=self._initial_hull,
                num_frames=self.config.output.turntable,
                viewer=control.viewer,
            )

    def train(self, encoding: str, control: FitControl) -> None:
        """Train with one encoding.

        Raises:
            UsageError: If the scene cannot be fitted.
        """
        with self._usage_errors():
            train_scene(
                self.scene,
                field_options(encoding, self.config),
                fit_settings(encoding, self.config, control),
                background=self.config.training.background,
                hull=self._initial_hull,
            )

    @contextlib.contextmanager
    def _usage_errors(self) -> Iterator[None]:
        """Name the scene in what makes it impossible to fit."""
        try:
            yield
        except CheckpointError:
            raise
        except ValueError as error:
            raise UsageError(f"--scene {self.source}: {error}") from None

    def references(self) -> Sequence[SceneResult]:
        """Nothing."""
        return ()

    def truth(self, view: int) -> Float[Tensor, "height width 3"]:
        """A test view."""
        return self.scene.test.over(view, self._gray)

    def truths(self) -> Iterator[Tensor]:
        """All test views."""
        return map(self.truth, range(len(self.scene.test)))

    def preview_truth(self) -> list[Tensor]:
        """The true image of a snapshot."""
        return [preview_view(self.scene.test).over(0, self._gray)]

    def panels(self, results: Sequence[SceneResult]) -> list[Panel]:
        """Some of the test views beside their renderings, evenly spread."""
        panels = []
        for view in evenly_spaced(_MOST_VIEWS, len(self.scene.test)):
            renderings = {r.encoding: r.views[view].rendering for r in results}
            panels.append(
                Panel(
                    results[0].views[view].name,
                    self.truth(view),
                    {name: rendering.rgb for name, rendering in renderings.items()},
                    {name: visible_depth(rendering) for name, rendering in renderings.items()},
                )
            )
        return panels

    def open_viewer(self) -> LivePage:
        """Serve a page that shows the fits in progress."""
        pixels = 96**2 if self.config.runtime.device.type == "cpu" else 512**2
        return LivePage(self.name, poses=self.scene.train.world_from_camera, pixels=pixels)

    def write(self, folder: Path, results: Sequence[SceneResult]) -> dict[str, Path]:
        """Write views, figures and turntable videos to the run folder."""
        views = {result.encoding: result.views for result in results}
        write_scene_run(folder, self.truth, views, results, figures=self.config.output.figures)
        videos = {}
        for result in results:
            if result.turntable is not None:
                path = folder / f"turntable_{result.encoding}"
                rate = max(5, len(result.turntable) // 3)
                videos[result.encoding] = write_video(path, result.turntable, rate=rate)
        return videos
