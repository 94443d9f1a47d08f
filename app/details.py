"""What a run was made with, so that it can be made again."""

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nerf_posenc
from app.config import RunConfig
from app.options import Options
from app.processes import command_words
from app.task import Task
from app.terminal import printable


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {
        "nerf_posenc": nerf_posenc.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def run_details(
    task: Task[Any],
    options: Options,
    config: RunConfig,
    arguments: Sequence[str],
    batch_sizes: Mapping[str, int],
) -> dict[str, Any]:
    """Everything that reproduces a run: command, options, configuration, data and versions.

    Args:
        task: what was fitted.
        options: as parsed, with the run folder.
        config: of the run.
        arguments: of the command line.
        batch_sizes: by encoding, where they differ from the run's.
    """
    return {
        "command": printable(shlex.join([*command_words(), *arguments])),
        "options": _as_text(asdict(options)),
        "config": _as_text(config.as_json()),
        "fits_with": {
            encoding: {
                **task.fits_with(encoding),
                "batch_size": batch_sizes.get(encoding, config.training.batch_size),
            }
            for encoding in config.encodings
        },
        task.kind: {"name": task.name, "source": task.source, **task.facts()},
        "versions": versions(),
    }


def _as_text(value: Any) -> Any:
    """Plain values with all text printable."""
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(item) for item in value]
    return printable(str(value)) if isinstance(value, str | Path) else value
