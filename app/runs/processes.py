"""Runs by several processes that ``torchrun`` started: what they refuse, and how they agree."""

import os
import socket
from collections.abc import Callable

import torch

from app.config import RunConfig
from app.options import Options
from app.parsing import PROGRAM, UsageError
from nerf_posenc.training.distributed import World, find_world


def command_words() -> list[str]:
    """First words of a command line that starts the program as it was started."""
    if find_world().size == 1:
        return ["python", PROGRAM]
    per_machine = os.environ.get("LOCAL_WORLD_SIZE", "1")
    num_machines = os.environ.get("GROUP_WORLD_SIZE", "1")
    machines = [] if num_machines == "1" else ["--nnodes", num_machines]
    return ["torchrun", *machines, "--nproc-per-node", per_machine, PROGRAM]


def require_distributable(options: Options, world: World) -> None:
    """Refuse what one process does alone.

    Raises:
        UsageError: Naming it.
    """
    refusals = {
        "a --sequence is fitted by one process": options.is_sequence,
        "--compile is for one process": options.compile,
        f"--device {options.device} is for one process; torchrun gives each process a GPU of its "
        "own by --device cuda": options.device not in ("auto", "cpu", "cuda"),
    }
    for message, is_refused in refusals.items():
        if is_refused and world.size > 1:
            raise UsageError(f"{message}; start it without torchrun, or leave that out")


def require_own_gpu(device: torch.device, world: World) -> None:
    """Refuse more processes than the machine has GPUs.

    Raises:
        UsageError: If this process has none of its own.
    """
    if device.type == "cuda" and world.local_rank >= (count := torch.cuda.device_count()):
        raise UsageError(
            f"a process has no GPU of its own: this machine has {count}; start as many processes "
            f"(--nproc-per-node {count}), or use --device cpu"
        )


def require_rows(config: RunConfig, num_rows: int, world: World) -> None:
    """Refuse a batch with fewer rows than there are processes.

    Args:
        config: of the run.
        num_rows: that a batch can have.
        world: the processes.

    Raises:
        UsageError: If there are fewer.
    """
    rows = min(config.training.batch_size, num_rows)
    if rows < world.size:
        raise UsageError(
            f"a batch of {rows} cannot be shared by {world.size} processes; use fewer processes or "
            "a larger --batch-size"
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
    found = world.gather((socket.gethostname(), source, digest, error))
    for rank, (host, own_source, own_digest, own_error) in enumerate(found):
        if own_error is not None:
            raise UsageError(f"rank {rank} on {host}: {own_error}")
        if own_digest != found[0][2]:
            raise UsageError(
                f"rank {rank} on {host} sees another {own_source} than rank 0 on {found[0][0]}; "
                "all machines need the same"
            )
