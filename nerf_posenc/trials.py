"""One trial: a picture or a scene fitted with one encoding, shown in progress, and measured."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from nerf_posenc import radiance, recipes
from nerf_posenc.fields import RadianceField
from nerf_posenc.filming import filmed_view, sampled_windows
from nerf_posenc.fitting import (
    DrawBatch,
    FitState,
    Loss,
    ShuffledBatches,
    autocast,
    fit,
    mse,
    predict,
)
from nerf_posenc.metrics import psnr, psnr_from_mse, ssim
from nerf_posenc.networks import NETWORKS, num_parameters
from nerf_posenc.orbit import orbit_poses
from nerf_posenc.rays import Camera
from nerf_posenc.rendering import render, rows_at_once, score_views
from nerf_posenc.report import (
    PictureResult,
    SceneResult,
    Snapshot,
    bands_of,
    kernel_of,
    write_video,
)
from nerf_posenc.views import Background, Views, camera_rays


@runtime_checkable
class Audience(Protocol):
    """Who watches fits as they go on, told of each record. Its time is not training time."""

    def watch_picture(self, name: str, state: FitState, show: Callable[[], Tensor]) -> None:
        """See a picture's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            show: gives the picture as it is now, ``(height, width, 3)``, few pixels of a large one.
        """

    def watch_field(
        self, name: str, state: FitState, look: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """See a field's fit.

        Args:
            name: of the encoding.
            state: of the fit.
            look: from a camera and its pose ``(4, 4)`` to what it sees, ``(height, width, 3)``.
        """


class Nobody:
    """An audience that does not look."""

    def watch_picture(self, name: str, state: FitState, show: Callable[[], Tensor]) -> None:
        """Do nothing."""

    def watch_field(
        self, name: str, state: FitState, look: Callable[[Camera, Tensor], Tensor]
    ) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Training:
    """How to fit.

    Attributes:
        num_steps: of the optimizer.
        batch_size: pixels or rays a step.
        optimizer: ``"muon"``, with Adam on the rest, or ``"adam"``.
        rate: peak learning rate.
        device: where to compute.
        autocast_dtype: type the network trains in; None for float32.
        seed: of the weights and the batches.
        quiet: show no progress.
        num_snapshots: to take of each fit on its way; 0 for none, else 2 or more.
        audience: who watches, as a page in a browser.
    """

    num_steps: int
    batch_size: int
    optimizer: recipes.Optimizer
    rate: float
    device: torch.device
    autocast_dtype: torch.dtype | None = None
    seed: int = 0
    quiet: bool = True
    num_snapshots: int = 0
    audience: Audience = field(default_factory=Nobody)


def try_picture(
    coordinates: Float[Tensor, "pixels 2"],
    colours: Float[Tensor, "height width 3"],
    encoding: recipes.Encoding,
    training: Training,
    *,
    network: recipes.NetworkName = "relu",
    width: int = 256,
    depth: int = 4,
    num_bands: int = 10,
    sigma: float | None = None,
) -> PictureResult:
    """Fit a picture with one encoding and measure what it recovered.

    Args:
        coordinates: of all pixels, row by row, the longer side spanning [-1, 1].
        colours: values in [0, 1].
        encoding: of the coordinates.
        training: how to fit.
        network: behind the encoding.
        width: units in each hidden layer.
        depth: hidden layers.
        num_bands: octaves of ``"fourier"``.
        sigma: of ``"gaussian"``.

    Raises:
        FloatingPointError: where the loss is no longer finite.
    """
    torch.manual_seed(training.seed)
    encoder = recipes.make_encoder(
        encoding,
        2,
        resolution=max(colours.shape[:2]),
        num_bands=num_bands,
        sigma=sigma,
        seed=training.seed,
    )
    behind = NETWORKS[network](getattr(encoder, "out_dim", 2), 3, width=width, depth=depth)
    model = nn.Sequential(encoder, behind).to(training.device)
    places, targets = coordinates.to(training.device), colours.reshape(-1, 3).to(training.device)
    batches = ShuffledBatches(places, targets, training.batch_size, seed=training.seed)
    optimizer = recipes.make_optimizer(model, training.optimizer, training.rate)
    state = FitState(model, optimizer, training.num_steps)
    rows = 8192 if training.device.type == "cpu" else 1 << 18
    grids = sampled_windows(colours, coordinates.reshape(*colours.shape[:2], 2))

    def shown(grid: Tensor) -> Tensor:
        with autocast(training.device, training.autocast_dtype):
            values = predict(model, grid.reshape(-1, 2).to(training.device), rows=rows)
        return values.cpu().reshape(*grid.shape[:2], 3)

    snapshots = _fit_with_progress(
        state,
        batches,
        encoding,
        training,
        shoot=lambda: [shown(grid) for grid in grids],
        watch=lambda now: training.audience.watch_picture(encoding, now, lambda: shown(grids[0])),
    )
    reconstruction = predict(model, places, rows=rows).cpu().reshape(colours.shape)
    return PictureResult(
        encoding=encoding,
        parameters=num_parameters(model),
        psnr=psnr(reconstruction, colours),
        ssim=ssim(reconstruction, colours),
        seconds=state.seconds,
        steps=state.step,
        history=state.history,
        reconstruction=reconstruction,
        bands=bands_of(encoder),
        kernel=kernel_of(encoder, 2),
        snapshots=snapshots,
    )


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
    snapshots = _fit_with_progress(
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


def _fit_with_progress(
    state: FitState,
    draw_batch: DrawBatch,
    name: str,
    training: Training,
    *,
    loss_fn: Loss = mse,
    after_step: Callable[[FitState], None] | None = None,
    shoot: Callable[[], Sequence[Tensor]],
    watch: Callable[[FitState], None],
) -> list[Snapshot]:
    """Run a fit with a progress bar and snapshots; a first Ctrl-C ends it early."""
    bar = tqdm(total=state.num_steps, desc=f"{name:8}", unit="step", disable=training.quiet)
    snapshots: list[Snapshot] = []
    count = training.num_snapshots
    # A fit changes most at its beginning.
    due = [state.num_steps * (i / (count - 1)) ** 2 for i in range(count)]

    def take_snapshot(state: FitState) -> None:
        snapshots.append(Snapshot(state.step, psnr_from_mse(state.history[-1].loss), shoot()))

    def show(state: FitState) -> None:
        bar.set_postfix_str(f"PSNR {psnr_from_mse(state.history[-1].loss):.2f} dB", refresh=False)
        bar.update(state.step - bar.n)
        if due and state.step >= due[0]:
            take_snapshot(state)
            while due and state.step >= due[0]:
                del due[0]
        watch(state)

    with bar, _ends_early_on_ctrl_c() as interrupted:
        fit(
            state,
            draw_batch,
            loss_fn,
            autocast_dtype=training.autocast_dtype,
            after_step=after_step,
            on_record=show,
            should_stop=lambda: bool(interrupted),
        )
    if due and state.step:
        take_snapshot(state)
    return snapshots


@contextlib.contextmanager
def _ends_early_on_ctrl_c() -> Iterator[list[bool]]:
    """Let a first Ctrl-C fill the list that is given, and a second one stop the program."""
    interrupted: list[bool] = []

    def note(signum: int, frame: Any) -> None:
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(True)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
