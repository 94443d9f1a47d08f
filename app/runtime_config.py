"""Where a run computes, and what it writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from app.options import Options
from app.parsing import UsageError
from nerf_posenc.training.devices import pick_device


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """Device and precision.

    Attributes:
        device: where to compute.
        precision: type that the network trains in; ``"auto"`` chooses by encoding and device.
        compile: whether to compile the model.
        live: whether to serve a page with the fits in progress.
        quiet: whether to print errors only.
    """

    device: torch.device
    precision: Literal["auto", "float32", "bfloat16"]
    compile: bool
    live: bool
    quiet: bool


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """What the run folder contains.

    Attributes:
        out: the folder; None for a new one under ``runs/``.
        overwrite: whether the folder may already contain files.
        figures: whether to write every figure for print.
        snapshots: frames of the training video; 0 for none.
        turntable: frames of the turntable video; 0 for none.
    """

    out: Path | None
    overwrite: bool
    figures: bool
    snapshots: int
    turntable: int


def resolve_device(options: Options) -> torch.device:
    """Choose the device.

    Raises:
        UsageError: If it is not available.
    """
    try:
        return pick_device(options.device)
    except ValueError as error:
        raise UsageError(f"--device {error}") from None


def runtime_config(options: Options, device: torch.device) -> RuntimeConfig:
    """Device and precision as asked for."""
    return RuntimeConfig(
        device=device,
        precision=options.precision,
        compile=options.compile,
        live=options.live,
        quiet=options.quiet,
    )


def output_config(options: Options) -> OutputConfig:
    """Output as asked for."""
    return OutputConfig(
        out=options.out,
        overwrite=options.overwrite,
        figures=options.figures,
        snapshots=options.video,
        turntable=options.turntable,
    )
