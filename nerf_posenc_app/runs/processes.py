"""Runs by several processes that ``torchrun`` started: what they refuse, and how they agree."""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nerf_posenc.training.distributed import World, find_world
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import PROGRAM, SCRIPT, CommonOptions, UsageError


def command_words(python: str = "python") -> list[str]:
    """First words of a command line that starts the program as it was started."""
    if PROGRAM != SCRIPT:
        return [PROGRAM]
    program = sys.argv[0] if Path(sys.argv[0]).name == SCRIPT else SCRIPT
    if find_world().size == 1:
        return [python, program]
    per_machine = os.environ.get("LOCAL_WORLD_SIZE", "1")
    num_machines = os.environ.get("GROUP_WORLD_SIZE", "1")
    machines = [] if num_machines == "1" else ["--nnodes", num_machines]
    return ["torchrun", *machines, "--nproc-per-node", per_machine, program]


def require_distributable(kind_class: type[Kind[Any]], options: CommonOptions) -> None:
    """Raise if several processes shall do what one process does alone.

    Raises:
        UsageError: Naming the option.
    """
    for option, is_alone in {
        "--compile": getattr(options, "compile", False),
        "--refine-poses": getattr(options, "refine_poses", False),
        f"--{kind_class.name}": not kind_class.is_distributable,
        f"--device {options.device}": options.device not in ("auto", "cpu", "cuda"),
    }.items():
        if is_alone:
            raise UsageError(f"{option} is for one process; start it without torchrun")


def require_own_gpu(device: torch.device, world: World) -> None:
    """Raise if there are more processes than GPUs.

    Raises:
        UsageError: If this process has none of its own.
    """
    if device.type == "cuda" and world.local_rank >= (count := torch.cuda.device_count()):
        raise UsageError(
            f"a process has no GPU of its own: this machine has {count}; start as many processes "
            f"(--nproc-per-node {count}), or use --device cpu"
        )


def require_rows(num_rows: int, world: World) -> None:
    """Raise if a batch has fewer rows than there are processes.

    Args:
        num_rows: rows of a batch.
        world: the processes.

    Raises:
        UsageError: If it has fewer.
    """
    if num_rows < world.size:
        raise UsageError(
            f"a batch of {num_rows} cannot be shared by {world.size} processes; use fewer "
            "processes or a larger --batch-size"
        )


def require_same_data(world: World, source: str, digest: Callable[[], str]) -> None:
    """Compare the data of all ranks; each calls this or `report_error` once.

    Args:
        world: the processes.
        source: file of the data.
        digest: computes its checksum.

    Raises:
        UsageError: If a rank could not open it, or sees another file than rank 0.
    """
    if world.size > 1:
        _compare(world, source, digest(), None)


def report_error(world: World, error: str) -> None:
    """Tell all ranks, instead of the checksum of the data, why this one cannot take part.

    Raises:
        UsageError: On all ranks, naming this one.
    """
    _compare(world, "", "", error)


def _compare(world: World, source: str, digest: str, error: str | None) -> None:
    reports = world.gather((socket.gethostname(), source, digest, error))
    for rank, (host, own_source, own_digest, own_error) in enumerate(reports):
        if own_error is not None:
            raise UsageError(f"rank {rank} on {host}: {own_error}")
        if own_digest != reports[0][2]:
            raise UsageError(
                f"rank {rank} on {host} sees another {own_source} than rank 0 on {reports[0][0]}; "
                "all machines need the same"
            )
