"""Runs that get a signal at a chosen record of a fit."""

import os
import signal

import pytest

import train_fit
from app.runs.train import _Session


def run_with_signal(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    *records: int,
    number: int = signal.SIGTERM,
) -> int:
    """Run the program, which gets a signal at these records of its fits; return its status."""
    count = 0

    def save_and_signal(session: _Session) -> None:
        nonlocal count
        count += 1
        original(session)
        if count in records:
            os.kill(os.getpid(), number)

    original = _Session.save_if_due
    with monkeypatch.context() as patch:
        patch.setattr(_Session, "save_if_due", save_and_signal)
        return train_fit.main(arguments)
