"""Resolve the options of a sequence into a complete run configuration."""

from dataclasses import dataclass, replace

import torch

from app.config import RunConfig, TrainingConfig
from app.options import Options
from app.parsing import UsageError
from app.runtime_config import output_config, runtime_config
from nerf_posenc.training.system import System, SystemOptions


@dataclass(frozen=True, kw_only=True)
class SequenceTraining(TrainingConfig):
    """Training of a system on sequences.

    Attributes:
        num_seeds: models that are trained at once, with seeds from ``seed`` on.
    """

    num_seeds: int


@dataclass(frozen=True, kw_only=True)
class SequenceRunConfig(RunConfig):
    """Configuration of a run that fits a system to sequences.

    Attributes:
        model: the system.
        training: steps, batches and learning rates.
    """

    model: SystemOptions
    training: SequenceTraining


def resolve_sequence(options: Options, system: System, device: torch.device) -> SequenceRunConfig:
    """Resolve the options of a sequence into a complete run configuration.

    Raises:
        UsageError: If the system does not take an encoding.
    """
    encodings = options.encodings or system.default_encodings
    unknown = [encoding for encoding in encodings if encoding not in system.encodings]
    if unknown:
        raise UsageError(
            f"--model {system.model} takes the encodings {', '.join(system.encodings)}, not "
            f"{', '.join(unknown)}"
        )
    recipe = system.recipe
    training = SequenceTraining(
        steps=recipe.steps if options.steps is None else options.steps,
        batch_size=recipe.batch_size if options.batch_size is None else options.batch_size,
        lr=recipe.lr if options.lr is None else options.lr,
        seed=options.seed,
        num_seeds=options.sequences.seeds,
    )
    return SequenceRunConfig(
        encodings=encodings,
        model=replace(system_options(options), model=system.model),
        training=training,
        runtime=runtime_config(options, device),
        output=output_config(options),
    )


def system_options(options: Options) -> SystemOptions:
    """What the command line says of a system."""
    asked = options.sequences
    return SystemOptions(
        model=asked.model,
        context=asked.context,
        width=options.width,
        depth=options.depth,
        heads=asked.heads,
        hops=asked.hops,
        tying=asked.tying,
        linear_start=asked.linear_start,
        random_noise=asked.random_noise,
        beam=asked.beam,
        seed=options.seed,
    )
