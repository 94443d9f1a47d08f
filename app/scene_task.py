"""A trial of a scene: fitted with one encoding, shown in progress, and measured."""

import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from app.preview import filmed_view
from app.progress import Training, fit_with_progress
from app.report import SceneResult, bands_of, kernel_of, write_video
from nerf_posenc.networks.mlp import num_parameters
from nerf_posenc.radiance import recipes as radiance
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.poses import orbit_poses
from nerf_posenc.radiance.rays import Camera
from nerf_posenc.radiance.renderers import render, rows_at_once, score_views
from nerf_posenc.radiance.views import Background, Views, camera_rays
from nerf_posenc.training.loop import FitState, autocast


def try_scene(
    train: Views,
    test: Views,
    options: radiance.FieldOptions,
    training: Training,
    *,
    background: Background = "white",
    film: Path | None = None,
    num_frames: int = 20,
) -> SceneResult:
    """Fit a radiance field with one encoding, and measure it on views that it has not seen.

    Args:
        train: the views to fit.
        test: the views to measure by.
        options: which field.
        training: how to fit.
        background: behind the scene; the views are measured over black or else white.
        film: file, without suffix, for a camera's way round the scene; None for none.
        num_frames: of the film.

    Raises:
        FloatingPointError: where the loss is no longer finite.
        ValueError: where the field does not go with the encoding, or no pixel shows anything.
    """
    renderer = radiance.make_renderer(options, train).to(training.device)
    batches = radiance.make_batches(
        renderer,
        train,
        training.batch_size,
        seed=training.seed,
        background=background,
        device=training.device,
    )
    optimizer = radiance.make_optimizer(renderer, training.optimizer, training.rate)
    state = FitState(renderer, optimizer, training.num_steps)
    grey = 0.0 if background == "black" else 1.0

    def look(camera: Camera, pose: Tensor) -> Tensor:
        with autocast(training.device, training.autocast_dtype):
            return _look(renderer, camera, pose, grey)

    filmed = filmed_view(test)
    snapshots = fit_with_progress(
        state,
        batches,
        options.encoding,
        training,
        loss_fn=radiance.loss_of(options),
        after_step=radiance.grid_upkeep(renderer, autocast_dtype=training.autocast_dtype),
        shoot=lambda: [look(filmed.cameras[0], filmed.world_from_camera[0])],
        watch=lambda now: training.audience.watch_field(options.encoding, now, look),
    )
    started = time.perf_counter()
    label = f"{options.encoding:8} test views"
    with tqdm(total=len(test), desc=label, unit="view", disable=training.quiet) as bar:
        views = score_views(renderer, test, background=grey, on_view=partial(bar.update, 1))
    render_seconds = time.perf_counter() - started
    if film is not None:
        frames = _frames(renderer, train, num_frames, grey, options.encoding, training.quiet)
        film = write_video(film, frames, rate=max(5, num_frames // 3))
    fitted = next(module for module in renderer.modules() if isinstance(module, RadianceField))
    encoder = fitted.position_encoder or nn.Identity()
    return SceneResult(
        encoding=options.encoding,
        parameters=num_parameters(renderer),
        psnr=sum(view.psnr for view in views) / len(views),
        ssim=sum(view.ssim for view in views) / len(views),
        seconds=state.seconds,
        steps=state.step,
        history=state.history,
        views=views,
        render_seconds=render_seconds,
        film=film,
        bands=bands_of(encoder),
        kernel=kernel_of(encoder, 3),
        snapshots=snapshots,
    )


def _frames(
    renderer: nn.Module, views: Views, count: int, grey: float, name: str, quiet: bool
) -> Tensor:
    """What a camera sees that goes round."""
    poses = orbit_poses(views.world_from_camera, count)
    shown = tqdm(poses, f"{name:8} turntable", unit="frame", disable=quiet)
    return torch.stack([_look(renderer, views.cameras[0], pose, grey) for pose in shown])


def _look(renderer: nn.Module, camera: Camera, pose: Tensor, grey: float) -> Tensor:
    """What a camera sees of a fitted field."""
    rays = camera_rays(camera, pose, background=grey).to(next(renderer.parameters()).device)
    colour = render(renderer, rays, rows=rows_at_once(renderer)).colour
    return colour.float().cpu().view(camera.height, camera.width, 3)
