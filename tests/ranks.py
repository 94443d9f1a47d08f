"""Several processes of a run as ``torchrun`` starts them, without its seconds of imports.

They are forked from a process that has imported the program and computed nothing.
"""

import multiprocessing
import os
import sys
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import torch
import torch._dynamo  # Every optimizer imports it, which takes more than a second.
import torch.distributed as dist

from tests import one_rank, small

_ROOT = Path(__file__).parents[1]
_SECONDS = 200
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def run_ranks(
    num_processes: int, *arguments: str, fault: tuple[str, ...] = ("none", "0", "0")
) -> CompletedProcess[str]:
    """Run the program by several processes in this folder.

    Args:
        num_processes: number of processes.
        arguments: command line of ``train_fit.py``.
        fault: kind, rank and record of a fault; see `tests.one_rank`.

    Returns:
        What all have printed, and 1 if one has failed.
    """
    with mock.patch.dict(os.environ, PYTHONPATH=str(_ROOT)):
        ensure_running()
    # The store outlives the processes, as that of torchrun's agent.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port, "GROUP_WORLD_SIZE": 1}
    shared |= {"WORLD_SIZE": num_processes, "LOCAL_WORLD_SIZE": num_processes}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": True}
    ranks = []
    for rank in range(num_processes):
        own = {**shared, "RANK": rank, "LOCAL_RANK": rank}
        environment = {name: str(value) for name, value in own.items()}
        ranks.append(
            _processes.Process(target=_rank, args=(environment, os.getcwd(), fault, arguments))
        )
        ranks[-1].start()
    for process in ranks:
        process.join(_SECONDS)
        process.kill()
        process.join()
    printed = [Path(name) for name in ("stdout", "stderr")]
    out, err = (file.read_text() for file in printed)
    for file in printed:
        file.unlink()
    failed = any(process.exitcode for process in ranks)
    return CompletedProcess(arguments, int(failed), out, err)


def _rank(
    environment: dict[str, str], folder: str, fault: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    os.environ.update(environment)
    os.chdir(folder)
    torch.set_num_threads(1)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
    with small.without_hull(), small.without_figures():
        sys.exit(one_rank.main(*fault, *arguments))
