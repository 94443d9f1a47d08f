"""One trial: a picture or a scene fitted with one encoding, shown in progress, and measured."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from nerf_posenc import radiance, recipes
from nerf_posenc.fields import RadianceField
from nerf_posenc.filming import filmed_view, sampled_windows
from nerf_posenc.fitting import FitState, Record, ShuffledBatches, autocast, predict
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
from nerf_posenc.stacks import LossOfEach, Stack, stacked
from nerf_posenc.training import Training, fit_with_progress
from nerf_posenc.views import Background, Views, camera_rays


class _Canvas:
    """A picture and the model that is to hold it."""

    def __init__(
        self,
        coordinates: Float[Tensor, "pixels 2"],
        colours: Float[Tensor, "height width 3"],
        encoding: recipes.Encoding,
        training: Training,
        *,
        network: recipes.NetworkName,
        width: int,
        depth: int,
        num_bands: int,
        sigma: float | None,
    ) -> None:
        torch.manual_seed(training.seed)
        self.encoder = recipes.make_encoder(
            encoding,
            2,
            resolution=max(colours.shape[:2]),
            num_bands=num_bands,
            sigma=sigma,
            seed=training.seed,
        )
        in_dim = getattr(self.encoder, "out_dim", 2)
        self.network = NETWORKS[network](in_dim, 3, width=width, depth=depth)
        self.model = nn.Sequential(self.encoder, self.network).to(training.device)
        self.encoding = encoding
        self.training = training
        self.colours = colours
        self.places = coordinates.to(training.device)
        targets = colours.reshape(-1, 3).to(training.device)
        self.batches = ShuffledBatches(
            self.places, targets, training.batch_size, seed=training.seed
        )
        self._grids = sampled_windows(colours, coordinates.reshape(*colours.shape[:2], 2))
        self._rows = 8192 if training.device.type == "cpu" else 1 << 18

    @property
    def num_shots(self) -> int:
        """Pictures in a snapshot."""
        return len(self._grids)

    def shots(self) -> list[Tensor]:
        """What the film shows."""
        return [self._shown(grid) for grid in self._grids]

    def whole(self) -> Tensor:
        """All of the picture as it is now, in few pixels."""
        return self._shown(self._grids[0])

    def _shown(self, grid: Tensor) -> Tensor:
        places = grid.reshape(-1, 2).to(self.training.device)
        with autocast(self.training.device, self.training.autocast_dtype):
            values = predict(self.model, places, rows=self._rows)
        return values.cpu().reshape(*grid.shape[:2], 3)

    def result(
        self, state: FitState, history: Sequence[Record], snapshots: Sequence[Snapshot]
    ) -> PictureResult:
        """Measure what was recovered."""
        reconstruction = predict(self.model, self.places, rows=self._rows).cpu()
        reconstruction = reconstruction.reshape(self.colours.shape)
        return PictureResult(
            encoding=self.encoding,
            parameters=num_parameters(self.model),
            psnr=psnr(reconstruction, self.colours),
            ssim=ssim(reconstruction, self.colours),
            seconds=state.seconds,
            steps=state.step,
            history=history,
            reconstruction=reconstruction,
            bands=bands_of(self.encoder),
            kernel=kernel_of(self.encoder, 2),
            snapshots=snapshots,
        )


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
    canvas = _Canvas(
        coordinates,
        colours,
        encoding,
        training,
        network=network,
        width=width,
        depth=depth,
        num_bands=num_bands,
        sigma=sigma,
    )
    optimizer = recipes.make_optimizer(canvas.model, training.optimizer, training.rate)
    state = FitState(canvas.model, optimizer, training.num_steps)
    snapshots = fit_with_progress(
        state,
        canvas.batches,
        encoding,
        training,
        shoot=canvas.shots,
        watch=lambda now: training.audience.watch_picture(encoding, now, canvas.whole),
    )
    return canvas.result(state, state.history, snapshots)


def try_pictures(
    pictures: Sequence[tuple[Float[Tensor, "_pixels 2"], Float[Tensor, "_height _width 3"]]],
    encoding: recipes.Encoding,
    training: Training,
    *,
    network: recipes.NetworkName = "relu",
    width: int = 256,
    depth: int = 4,
    num_bands: int = 10,
    sigmas: Sequence[float | None] | None = None,
) -> list[PictureResult]:
    """Fit several pictures in the same steps, each by a model of its own.

    Each model sees the batches and comes to the weights that it would alone, but for rounding;
    the steps are fewer and larger, as a GPU likes them. The audience is not told.

    Args:
        pictures: coordinates and colours of each, as of a single picture; each has at least
            ``training.batch_size`` pixels or all have the same number.
        encoding: of the coordinates.
        training: how to fit.
        network: behind the encoding.
        width: units in each hidden layer.
        depth: hidden layers.
        num_bands: octaves of ``"fourier"``.
        sigmas: of ``"gaussian"``, one a picture.

    Returns:
        One a picture; their seconds are those of all together.

    Raises:
        FloatingPointError: where the loss of one is no longer finite.
        ValueError: where batches differ in size.
    """
    canvases = [
        _Canvas(
            coordinates,
            colours,
            encoding,
            training,
            network=network,
            width=width,
            depth=depth,
            num_bands=num_bands,
            sigma=sigma,
        )
        for (coordinates, colours), sigma in zip(
            pictures, sigmas or [None] * len(pictures), strict=True
        )
    ]
    sizes = {canvas.batches.batch_size for canvas in canvases}
    if len(sizes) > 1:
        raise ValueError(
            f"pictures can share steps where their batches are of one size; got {sorted(sizes)} "
            "pixels, so fit the small ones apart or use a smaller batch_size"
        )
    stack = Stack([c.encoder for c in canvases], [c.network for c in canvases])
    optimizer = recipes.make_optimizer(
        stack, training.optimizer, training.rate, matrices=stack.hidden_matrices()
    )
    state = FitState(stack, optimizer, training.num_steps)
    loss_of_each = LossOfEach()
    losses: list[list[float]] = []
    snapshots = fit_with_progress(
        state,
        stacked([canvas.batches for canvas in canvases]),
        encoding,
        training,
        loss_fn=loss_of_each,
        shoot=lambda: [shot for canvas in canvases for shot in canvas.shots()],
        watch=lambda now: losses.append(loss_of_each.take()),
    )
    results = []
    for i, canvas in enumerate(canvases):
        history = [
            replace(record, loss=each[i])
            for record, each in zip(state.history, losses, strict=True)
        ]
        count = canvas.num_shots
        psnr_at = {record.step: psnr_from_mse(record.loss) for record in history}
        mine = [
            Snapshot(s.step, psnr_at[s.step], s.pictures[i * count : (i + 1) * count])
            for s in snapshots
        ]
        results.append(canvas.result(state, history, mine))
    return results


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
