"""What one encoding's fit takes from the run configuration."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from app.config import FieldRunConfig
from app.fit_file import FitFile
from app.stop import Stop
from app.task import FitControl
from nerf_posenc.radiance.field_training import field_lr
from nerf_posenc.radiance.recipes import FieldOptions
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import computes_bfloat16
from nerf_posenc.training.distributed import ALONE, World
from nerf_posenc.training.patch_network import PatchNetwork
from nerf_posenc.training.schedules import constant, cosine_decay


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How one encoding is fitted.

    Attributes:
        name: of the encoding.
        steps: length of the fit.
        batch_size: pixels, rays or examples per step.
        lr: peak learning rate, of Muon if the optimizer is ``"muon"``.
        device: where to compute.
        optimizer: of an image or a scene: ``"muon"``, with Adam on the rest, or ``"adam"``.
        seed: of the initial weights and the batches.
        autocast_dtype: type that the network trains in; None for float32.
        adam_lr: peak learning rate of Adam beside Muon; None for the encoding's own.
        schedule: from progress in [0, 1) to the factor of the learning rates.
        ema_decay: replace the weights in the end by their exponential moving average with this
            decay per step; None for the last weights.
        compiled: run the model through ``torch.compile``.
        num_snapshots: snapshots to take during the fit; 0 for none, else 2 or more.
        quiet: whether to hide the progress bar.
        stop: ends the fit early when asked to.
        file: where the fit is saved and resumed from; None for nowhere.
        prior: what predicts values between pixels, learned from other images; None to learn it from
            the image itself.
        halved_batch_size: the batch size, if that of the run was too large for the memory.
        seconds: length of the fit in seconds of training, instead of steps; None for steps.
        world: the processes that fit together.
    """

    name: str
    steps: int
    batch_size: int
    lr: float
    device: torch.device
    optimizer: recipes.Optimizer = "muon"
    seed: int = 0
    autocast_dtype: torch.dtype | None = None
    adam_lr: float | None = None
    schedule: Callable[[float], float] = cosine_decay
    ema_decay: float | None = None
    compiled: bool = False
    num_snapshots: int = 0
    quiet: bool = True
    stop: Stop = field(default_factory=Stop)
    file: FitFile | None = None
    prior: PatchNetwork | None = None
    halved_batch_size: int | None = None
    seconds: float | None = None
    world: World = ALONE


def fit_settings(encoding: str, config: FieldRunConfig, control: FitControl) -> FitSettings:
    """Settings of one encoding's fit in a run."""
    precision = precision_for(encoding, config)
    held_out = held_out_recipe(encoding, config)
    return FitSettings(
        name=encoding,
        steps=config.training.steps,
        batch_size=control.batch_size or config.training.batch_size,
        optimizer=config.training.optimizer,
        lr=lr_for(encoding, config),
        device=config.runtime.device,
        seed=config.training.seed,
        autocast_dtype=None if precision == torch.float32 else precision,
        adam_lr=None if held_out is None else held_out.adam_lr,
        schedule=cosine_decay if held_out is None else constant,
        ema_decay=None if held_out is None else held_out.ema_decay,
        compiled=config.runtime.compile,
        num_snapshots=config.output.snapshots,
        quiet=config.runtime.quiet,
        stop=control.stop,
        file=control.file,
        halved_batch_size=control.batch_size,
        seconds=config.training.seconds,
        world=control.world,
    )


def held_out_recipe(encoding: str, config: FieldRunConfig) -> recipes.HeldOutRecipe | None:
    """Learning rates for evaluation between the fitted pixels; None for the usual ones.

    Sinusoids that are fitted fast fill the gaps with noise; raw coordinates cannot, and a hash
    grid does at any learning rate.
    """
    training = config.training
    uses_them = training.held_out and training.optimizer == "muon"
    return recipes.ENCODINGS[encoding].held_out if uses_them else None


def lr_for(encoding: str, config: FieldRunConfig) -> float:
    """Peak learning rate of a fit."""
    training = config.training
    if training.lr is not None:
        return training.lr
    if config.is_scene:
        return field_lr(config.model.field, training.optimizer)
    held_out = held_out_recipe(encoding, config)
    if held_out is not None:
        return held_out.lr
    return recipes.default_lr(config.model.network, training.optimizer, encoding)


def precision_for(encoding: str, config: FieldRunConfig) -> torch.dtype:
    """Type that a fit's network trains in."""
    runtime = config.runtime
    if config.model.network == "wire":
        # Complex numbers have no half precision.
        return torch.float32
    if runtime.precision != "auto":
        return torch.float32 if runtime.precision == "float32" else torch.bfloat16
    # A small network is no faster in bfloat16 on a CPU, and less exact.
    is_small = recipes.ENCODINGS[encoding].is_small and not config.is_scene
    if is_small and runtime.device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if computes_bfloat16(runtime.device) else torch.float32


def layers_for(encoding: str, config: FieldRunConfig) -> tuple[int, int]:
    """Width and number of the hidden layers of an image's network."""
    width, depth = recipes.ENCODINGS[encoding].layers
    model = config.model
    return (
        width if model.width is None else model.width,
        depth if model.depth is None else model.depth,
    )


def field_options(encoding: str, config: FieldRunConfig) -> FieldOptions:
    """Field of a scene."""
    model = config.model
    return FieldOptions(
        model.field,
        encoding,
        num_bands=model.bands,
        sigma=model.sigma,
        width=model.width,
        depth=model.depth,
        seed=config.training.seed,
        space=model.space,
        num_exposures=model.exposures,
    )
