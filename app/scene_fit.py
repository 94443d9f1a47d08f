"""Fits of a scene: the field, its training, and its evaluation on test views."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from app.features import band_list, similarity_kernel
from app.fit_settings import FitSettings
from app.preview import preview_view
from app.progress import fit_with_progress, progress_bar, sum_up
from app.task import Viewer
from nerf_posenc.fits import describe_scene_fit
from nerf_posenc.networks import num_parameters
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import ViewScore, evaluate_views, render_camera
from nerf_posenc.radiance.field_training import (
    forward_for,
    make_batches,
    make_field_optimizer,
    make_loss,
    update_renderer,
)
from nerf_posenc.radiance.poses import orbit_poses
from nerf_posenc.radiance.recipes import FieldOptions, fields_of, make_renderer
from nerf_posenc.radiance.views import Background, Scene, Views, background_gray
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.results import FieldResult, Snapshot


@dataclass(frozen=True, kw_only=True)
class SceneResult(FieldResult):
    """Fit of a radiance field; PSNR and SSIM are means over the test views.

    Attributes:
        views: test views as the field renders them.
        turntable: frames of an orbit around the scene, values in [0, 1]; None for none.
    """

    views: Sequence[ViewScore]
    turntable: Float[Tensor, "frames height width 3"] | None = None


class FieldTraining:
    """A radiance field, its renderer, and the training views."""

    def __init__(
        self,
        views: Views,
        options: FieldOptions,
        settings: FitSettings,
        background: Background,
        hull: Tensor | None,
    ) -> None:
        self.views = views
        self.options = options
        self.settings = settings
        self.gray = background_gray(background)
        self.renderer = make_renderer(options, views, hull=hull).to(settings.device)
        self.batches = make_batches(
            self.renderer,
            views,
            settings.batch_size,
            seed=settings.seed,
            background=background,
            device=settings.device,
        )
        optimizer = make_field_optimizer(self.renderer, settings.optimizer, settings.lr)
        self.state = FitState(
            self.renderer, optimizer, settings.steps, limit_seconds=settings.seconds
        )

    def render_preview(self, camera: Camera, pose: Tensor) -> Tensor:
        """Render a camera in the type of training."""
        with autocast(self.settings.device, self.settings.autocast_dtype):
            return render_camera(self.renderer, camera, pose, background=self.gray).rgb

    def evaluate(self, test: Views) -> tuple[list[ViewScore], float]:
        """Render and score the test views; return the scores and the seconds it took."""
        started = time.perf_counter()
        label, quiet = f"{self.options.encoding} test views", self.settings.quiet
        with progress_bar(label, len(test), "view", quiet=quiet) as bar:
            scores = evaluate_views(
                self.renderer, test, background=self.gray, on_view=partial(bar.update, 1)
            )
            sum_up(bar)
        return scores, time.perf_counter() - started

    def turntable(self, num_frames: int) -> Tensor:
        """Render an orbit around the scene."""
        poses = orbit_poses(self.views.world_from_camera, num_frames)
        label, quiet = f"{self.options.encoding} turntable", self.settings.quiet
        camera, frames = self.views.cameras[0], []
        with progress_bar(label, num_frames, "frame", quiet=quiet) as bar:
            for pose in poses:
                frame = render_camera(self.renderer, camera, pose, background=self.gray)
                frames.append(frame.rgb)
                bar.update()
            sum_up(bar)
        return torch.stack(frames)


def fit_scene(
    scene: Scene,
    options: FieldOptions,
    settings: FitSettings,
    *,
    background: Background = "white",
    hull: Bool[Tensor, " cells"] | None = None,
    num_frames: int = 0,
    viewer: Viewer | None = None,
) -> SceneResult:
    """Fit a radiance field with one encoding, and evaluate it on the test views.

    Args:
        scene: training and test views.
        options: which field.
        settings: how to fit.
        background: of the scene; test views are evaluated over black or else white.
        hull: visual hull of the training views, if it is known already.
        num_frames: of the turntable video; 0 for none.
        viewer: shows the fit in progress.

    Raises:
        FloatingPointError: If the loss is not finite.
        ValueError: If the field does not take the encoding, or all pixels are transparent.
    """
    field_fit, snapshots = train_scene(
        scene, options, settings, background=background, hull=hull, viewer=viewer
    )
    scores, render_seconds = field_fit.evaluate(scene.test)
    encoder = fields_of(field_fit.renderer)[0].position_encoder
    return SceneResult(
        encoding=options.encoding,
        parameters=num_parameters(field_fit.renderer),
        psnr=sum(score.psnr for score in scores) / len(scores),
        ssim=sum(score.ssim for score in scores) / len(scores),
        seconds=field_fit.state.seconds,
        steps=field_fit.state.step,
        history=field_fit.state.history,
        views=scores,
        details={
            "views": [{"name": s.name, "psnr_db": s.psnr, "ssim": s.ssim} for s in scores],
            "render_seconds": render_seconds,
        },
        turntable=field_fit.turntable(num_frames) if num_frames else None,
        bands=band_list(encoder),
        kernel=similarity_kernel(encoder),
        snapshots=snapshots,
    )


def train_scene(
    scene: Scene,
    options: FieldOptions,
    settings: FitSettings,
    *,
    background: Background = "white",
    hull: Bool[Tensor, " cells"] | None = None,
    viewer: Viewer | None = None,
) -> tuple[FieldTraining, list[Snapshot]]:
    """Fit a radiance field with one encoding, without an evaluation; see `fit_scene`."""
    field_fit = FieldTraining(scene.train, options, settings, background, hull)
    preview = preview_view(scene.test)

    def on_record(state: FitState) -> None:
        if viewer is not None:
            viewer.show_field(options.encoding, state, field_fit.render_preview)

    snapshots = fit_with_progress(
        field_fit.state,
        field_fit.batches,
        settings,
        forward=forward_for(field_fit.renderer),
        loss_fn=make_loss(options),
        after_step=update_renderer(field_fit.renderer, autocast_dtype=settings.autocast_dtype),
        render_preview=lambda: [
            field_fit.render_preview(preview.cameras[0], preview.world_from_camera[0])
        ],
        on_record=on_record,
        model=describe_scene_fit(options, scene, field_fit.gray),
    )
    return field_fit, snapshots
