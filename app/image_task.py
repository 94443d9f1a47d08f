"""A trial of a picture: fitted with one encoding, shown in progress, and measured."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from app.preview import sampled_windows
from app.progress import Training, fit_with_progress
from app.report import PictureResult, Snapshot, bands_of, kernel_of
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.interpolation import Corners
from nerf_posenc.metrics.image import psnr, psnr_from_mse, ssim
from nerf_posenc.networks.mlp import MLP, NETWORKS, num_parameters
from nerf_posenc.training import recipes
from nerf_posenc.training.ensemble import LossOfEach, Stack, stacked
from nerf_posenc.training.loop import (
    DrawBatch,
    FitState,
    Record,
    ShuffledBatches,
    autocast,
    predict,
)

# What is kept of the pixels of a picture, found once for all steps.
_MOST_BYTES = 1 << 29
_BYTES_PER_CORNER = 12

# Pixels above which a picture is evaluated in the type it was trained in: in float32 two cores
# take 7 s a megapixel.
_MOST_FLOAT32_PIXELS = 1 << 21


@dataclass(frozen=True)
class Pixels:
    """Pixels of a picture, those to fit and those to measure by.

    Attributes:
        coordinates: (x, y) of each, the longer side of the picture spanning [-1, 1].
        colours: values in [0, 1].
        held_out: pixels that are not fitted, to measure by; None to measure by all that are.
    """

    coordinates: Float[Tensor, "height width 2"]
    colours: Float[Tensor, "height width 3"]
    held_out: "Pixels | None" = None

    @classmethod
    def from_rows(
        cls, coordinates: Float[Tensor, "num_pixels 2"], colours: Float[Tensor, "height width 3"]
    ) -> "Pixels":
        """All pixels of a picture, their coordinates being given row by row."""
        return cls(coordinates.reshape(*colours.shape[:2], 2), colours)

    @property
    def measured(self) -> "Pixels":
        """Those to measure by."""
        return self.held_out or self

    @property
    def resolution(self) -> int:
        """Samples across [-1, 1]."""
        return max(self.colours.shape[:2])

    def holding_out(self) -> "Pixels":
        """Fit every second pixel of every second row; hold out those diagonally between.

        The split of Tancik et al. 2020, section 6.

        Raises:
            ValueError: where there is nothing between, the picture having one row or column.
        """
        if min(self.colours.shape[:2]) < 2:
            raise ValueError("a picture of one row or column has no pixels to hold out")
        odd = Pixels(self.coordinates[1::2, 1::2], self.colours[1::2, 1::2])
        return Pixels(self.coordinates[::2, ::2], self.colours[::2, ::2], odd)


@dataclass(frozen=True)
class ModelOptions:
    """Which model is to hold a picture.

    Attributes:
        encoding: of the coordinates.
        network: behind the encoding.
        width: units in each hidden layer.
        depth: hidden layers.
        num_bands: octaves of ``"fourier"``.
        sigma: of ``"gaussian"``; None for its default.
    """

    encoding: recipes.Encoding
    network: recipes.NetworkName = "relu"
    width: int = 256
    depth: int = 4
    num_bands: int = 10
    sigma: float | None = None


def with_corners(encoder: nn.Module, batches: ShuffledBatches) -> DrawBatch:
    """The same batches, with what a hash grid needs of the pixels found in the first step.

    Args:
        encoder: that the batches are meant for; what is no hash grid gets them as they are, and
            so does one whose corners would take more than 512 MB.
        batches: of coordinates.
    """
    if not isinstance(encoder, HashGridEncoder):
        return batches
    places = batches.inputs
    corners_per_pixel = encoder.num_levels * 2**encoder.in_dim
    if len(places) * corners_per_pixel * _BYTES_PER_CORNER > _MOST_BYTES:
        return batches
    numbers = torch.arange(len(places), device=places.device)
    draw = ShuffledBatches(numbers, batches.targets, batches.batch_size, seed=batches.seed)

    @functools.cache
    def corners() -> Corners:
        pieces = [encoder.corners(piece) for piece in places.split(8192)]
        rows, weights = (torch.cat(parts) for parts in zip(*pieces, strict=True))
        return Corners(rows, weights)

    def draw_batch(step: int) -> tuple[Corners, Tensor]:
        drawn, targets = draw(step)
        rows, weights = corners()
        return Corners(rows.index_select(0, drawn), weights.index_select(0, drawn)), targets

    return draw_batch


class _Canvas:
    """A picture and the model that is to hold it."""

    def __init__(self, pixels: Pixels, options: ModelOptions, training: Training) -> None:
        torch.manual_seed(training.seed)
        self.encoder = recipes.make_encoder(
            options.encoding,
            2,
            resolution=pixels.resolution,
            num_bands=options.num_bands,
            sigma=options.sigma,
            seed=training.seed,
        )
        in_dim = getattr(self.encoder, "out_dim", 2)
        self.network = NETWORKS[options.network](
            in_dim, 3, width=options.width, depth=options.depth
        )
        if isinstance(self.network, MLP):
            self.network.start_at(pixels.colours.mean((0, 1)))
        self.model = nn.Sequential(self.encoder, self.network).to(training.device)
        self.options = options
        self.training = training
        self.measured = pixels.measured
        self.batches = ShuffledBatches(
            pixels.coordinates.reshape(-1, 2).to(training.device),
            pixels.colours.reshape(-1, 3).to(training.device),
            training.batch_size,
            seed=training.seed,
        )
        self._grids = sampled_windows(self.measured.colours, self.measured.coordinates)

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
        with autocast(self.training.device, self.training.autocast_dtype):
            return self._values(grid)

    def _values(self, grid: Tensor) -> Tensor:
        device = self.training.device
        # What stays in a CPU's cache, which is also what its matrix library likes best.
        rows = 2048 if device.type == "cpu" else 1 << 18
        values = predict(self.model, grid.reshape(-1, 2).to(device), rows=rows)
        return values.cpu().reshape(*grid.shape[:2], 3)

    def result(
        self, state: FitState, history: Sequence[Record], snapshots: Sequence[Snapshot]
    ) -> PictureResult:
        """Measure what was recovered."""
        coordinates = self.measured.coordinates
        is_large = coordinates[..., 0].numel() > _MOST_FLOAT32_PIXELS
        reconstruction = self._shown(coordinates) if is_large else self._values(coordinates)
        return PictureResult(
            encoding=self.options.encoding,
            parameters=num_parameters(self.model),
            psnr=psnr(reconstruction, self.measured.colours),
            ssim=ssim(reconstruction, self.measured.colours),
            seconds=state.seconds,
            steps=state.step,
            history=history,
            reconstruction=reconstruction,
            bands=bands_of(self.encoder),
            kernel=kernel_of(self.encoder, 2),
            snapshots=snapshots,
        )


def try_picture(pixels: Pixels, options: ModelOptions, training: Training) -> PictureResult:
    """Fit a picture with one encoding and measure what it recovered.

    Args:
        pixels: of the picture.
        options: which model.
        training: how to fit.

    Raises:
        FloatingPointError: where the loss is no longer finite.
    """
    canvas = _Canvas(pixels, options, training)
    name = options.encoding
    optimizer = recipes.make_optimizer(
        canvas.model,
        training.optimizer,
        training.rate,
        encoding=name,
        adam_rate=training.adam_rate,
    )
    state = FitState(canvas.model, optimizer, training.num_steps)
    snapshots = fit_with_progress(
        state,
        with_corners(canvas.encoder, canvas.batches),
        name,
        training,
        shoot=canvas.shots,
        watch=lambda now: training.audience.watch_picture(name, now, canvas.whole),
    )
    return canvas.result(state, state.history, snapshots)


def try_pictures(
    pictures: Sequence[Pixels], options: Sequence[ModelOptions], training: Training
) -> list[PictureResult]:
    """Fit several pictures in the same steps, each by a model of its own.

    Each model sees the batches and comes to the weights that it would alone, but for rounding;
    the steps are fewer and larger, as a GPU likes them. The audience is not told.

    Args:
        pictures: each has at least ``training.batch_size`` pixels to fit, or all have the same
            number.
        options: which model for each; they may differ in ``sigma`` alone.
        training: how to fit.

    Returns:
        One a picture; their seconds are those of all together.

    Raises:
        FloatingPointError: where the loss of one is no longer finite.
        ValueError: where batches differ in size, or weights in shape.
    """
    canvases = [
        _Canvas(pixels, each, training) for pixels, each in zip(pictures, options, strict=True)
    ]
    sizes = {canvas.batches.batch_size for canvas in canvases}
    if len(sizes) > 1:
        raise ValueError(
            f"pictures can share steps where their batches are of one size; got {sorted(sizes)} "
            "pixels, so fit the small ones apart or use a smaller batch_size"
        )
    stack = Stack([c.encoder for c in canvases], [c.network for c in canvases])
    optimizer = recipes.make_optimizer(
        stack,
        training.optimizer,
        training.rate,
        encoding=options[0].encoding,
        adam_rate=training.adam_rate,
        matrices=stack.hidden_matrices(),
    )
    state = FitState(stack, optimizer, training.num_steps)
    loss_of_each = LossOfEach()
    losses: list[list[float]] = []
    snapshots = fit_with_progress(
        state,
        stacked([canvas.batches for canvas in canvases]),
        options[0].encoding,
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
