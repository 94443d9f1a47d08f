"""Resolve command-line options into a complete run configuration."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from app.image_defaults import (
    default_bands,
    default_encodings,
    default_length,
    default_scene_length,
)
from app.options import Options
from app.parsing import UsageError
from app.runtime_config import OutputConfig, RuntimeConfig, output_config, runtime_config
from nerf_posenc.radiance.recipes import FieldName
from nerf_posenc.radiance.scene_spaces import SpaceName
from nerf_posenc.radiance.views import Background
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import describe
from nerf_posenc.training.system import SystemOptions

DEFAULT_BANDS = 10
# Bands this far above the image's Nyquist frequency pass without a warning.
SPARE_BANDS = 2


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Encoding and network.

    Attributes:
        network: after the encoding of an image.
        field: of a scene.
        width: units per hidden layer; None for the encoding's default.
        depth: hidden layers; None for the encoding's default.
        bands: frequency bands of ``"fourier"``.
        sigma: of ``"gaussian"``, in cycles per unit.
        parameters: most parameters of each model of an image; None for the default sizes.
        finest: nodes per axis of the finest level of an image's hash grid; None for one per pixel.
        space: coordinates of a scene's factored field.
        exposures: training views whose exposures it learns.
    """

    network: recipes.NetworkName
    field: FieldName
    width: int | None
    depth: int | None
    bands: int
    sigma: float
    parameters: int | None
    space: SpaceName = "box"
    exposures: int = 0
    finest: int | None


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training.

    Attributes:
        steps: of each fit; an estimate if their length is given in seconds.
        batch_size: pixels, rays or examples per step.
        lr: peak learning rate; None for the encoding's default.
        seed: of the initial weights and the batches.
        seconds: of training of each fit, instead of steps; None for steps.
    """

    steps: int
    batch_size: int
    lr: float | None
    seed: int
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class FieldTraining(TrainingConfig):
    """Training of an image or a scene.

    Attributes:
        optimizer: ``"muon"``, with Adam on the rest, or ``"adam"``.
        held_out: whether the fit is evaluated between the fitted pixels.
        background: of a scene.
    """

    optimizer: recipes.Optimizer
    held_out: bool
    background: Background


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines a run besides its data.

    Attributes:
        encodings: fitted one after the other.
        model: what is fitted.
        training: steps, batches and learning rates.
        runtime: device and precision.
        output: what the run folder contains.
    """

    encodings: tuple[str, ...]
    model: ModelConfig | SystemOptions
    training: TrainingConfig
    runtime: RuntimeConfig
    output: OutputConfig

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = asdict(self)
        if self.training.seconds is not None:
            values["training"]["steps"] = None
        values["runtime"]["device"] = describe(self.runtime.device)
        values["output"]["out"] = None if self.output.out is None else str(self.output.out)
        return values


@dataclass(frozen=True, kw_only=True)
class FieldRunConfig(RunConfig):
    """Configuration of a run that fits an image or a scene.

    Attributes:
        model: encoding and network.
        training: steps, batches and learning rates.
        is_scene: whether a scene is fitted, not an image.
    """

    model: ModelConfig
    training: FieldTraining
    is_scene: bool


def resolve(
    options: Options,
    resolution: int,
    device: torch.device,
    *,
    num_pixels: int = 0,
    sigma: float | None = None,
) -> FieldRunConfig:
    """Resolve the options of an image or a scene into a complete run configuration.

    Args:
        options: as parsed.
        resolution: samples across [-1, 1] of the image, or pixels along a view's longer side.
        device: where to compute.
        num_pixels: of the image that are fitted; 0 for a scene.
        sigma: chosen for ``--sigma auto``.

    Raises:
        UsageError: If the optimizer does not fit the network, or a series not the image.
    """
    on_cpu = device.type == "cpu"
    optimizer = options.optimizer
    if optimizer == "auto":
        optimizer = recipes.default_optimizer(options.network)
    try:
        recipes.default_lr(options.network, optimizer)
    except ValueError as error:
        raise UsageError(f"--network {error}") from None
    if options.is_scene:
        steps, batch_size = default_scene_length(options.scene_field, on_cpu=on_cpu)
    else:
        steps, batch_size = default_length(num_pixels, on_cpu=on_cpu, seconds=options.seconds)
    to_nyquist = bands_to_nyquist(resolution)
    most = DEFAULT_BANDS if options.is_scene else to_nyquist + SPARE_BANDS
    if options.held_out:
        most = most_held_out_bands(resolution)
    bands = default_bands(num_pixels, most=most, to_nyquist=to_nyquist)
    if sigma is None and options.sigma != "auto":
        sigma = options.sigma
    model = ModelConfig(
        network=options.network,
        field=options.scene_field,
        width=options.width,
        depth=options.depth,
        bands=bands if options.bands is None else options.bands,
        sigma=recipes.default_sigma(resolution) if sigma is None else sigma,
        parameters=options.parameters,
        finest=options.finest,
    )
    training = FieldTraining(
        steps=steps if options.steps is None else options.steps,
        seconds=options.seconds,
        batch_size=batch_size if options.batch_size is None else options.batch_size,
        optimizer=optimizer,
        lr=options.lr,
        held_out=options.held_out,
        background="white" if options.background == "auto" else options.background,
        seed=options.seed,
    )
    return FieldRunConfig(
        encodings=default_encodings(options, num_pixels),
        model=model,
        training=training,
        runtime=runtime_config(options, device),
        output=output_config(options),
        is_scene=options.is_scene,
    )


def bands_to_nyquist(resolution: int) -> int:
    """Number of bands up to the Nyquist frequency of so many samples across [-1, 1]."""
    # Half a cycle per sample is pi * resolution / 2 rad per unit.
    return 1 + max(0, math.floor(math.log2(resolution / 2)))


def most_held_out_bands(resolution: int) -> int:
    """Number of bands below the Nyquist frequency by an octave: nearer ones are noise between."""
    return max(1, bands_to_nyquist(resolution) - 1)


def band_warning(config: FieldRunConfig, resolution: int) -> str | None:
    """Warning if bands lie far above the Nyquist frequency of so many fitted pixels."""
    is_held_out = config.training.held_out
    enough = most_held_out_bands(resolution) if is_held_out else bands_to_nyquist(resolution)
    spare = 0 if is_held_out else SPARE_BANDS
    if "fourier" not in config.encodings or config.model.bands <= enough + spare:
        return None
    if is_held_out:
        why = f"between {resolution} pixels more than {enough} bands add noise"
    else:
        why = (
            f"more than {enough} bands go beyond the Nyquist frequency of {resolution} pixels and "
            "only add noise"
        )
    return f"{why}; --bands {enough} suffices"
