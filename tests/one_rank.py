"""The program with a fault on one of several processes.

    torchrun --nproc-per-node 2 -m tests.one_rank FAULT RANK RECORD arguments of train_fit.py

At that record of its fits the rank is killed, asked to end, or out of memory; or from the beginning
it sees another image. Any other word is no fault.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

import train_fit
from nerf_posenc.images import Image
from nerf_posenc_app.runs.train import _Session
from scenes import open_image


def die() -> None:
    """End at once, as by the system when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def ask() -> None:
    """Ask this rank alone to end."""
    os.kill(os.getpid(), signal.SIGTERM)


def run_out() -> None:
    """Have no memory left."""
    raise torch.OutOfMemoryError


FAULTS: dict[str, Callable[[], None]] = {"die": die, "ask": ask, "memory": run_out}


def main(fault: str, rank: str, record: str, *arguments: str) -> int:
    """Run the program; return its exit status."""
    count = 0
    is_faulty = os.environ.get("RANK", "0") == rank
    opened: Callable[..., Image] = open_image
    if is_faulty and fault == "other":

        def opened_star(name: str, **kwargs: Any) -> Image:
            return open_image("star")

        opened = opened_star

    original = _Session.save_if_due

    def save_and_fail(session: Any) -> None:
        nonlocal count
        count += 1
        original(session)
        if is_faulty and count == int(record) and fault in FAULTS:
            FAULTS[fault]()

    with (
        mock.patch.object(_Session, "save_if_due", save_and_fail),
        mock.patch("nerf_posenc_app.kinds.image.image.open_image", opened),
    ):
        return train_fit.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
