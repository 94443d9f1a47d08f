"""When threads wait without spinning."""

import os
from pathlib import Path

import pytest

from app import openmp


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An idle machine on which nothing else runs."""
    monkeypatch.delenv(openmp.POLICY, raising=False)
    monkeypatch.setattr(openmp, "_PROC", tmp_path)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    (tmp_path / "stat").write_text("cpu  100 0 50 1000 10 0 0 0 0 0\ncpu0 1 2 3\n")
    return tmp_path


def chosen() -> str | None:
    openmp.choose_waiting("train_fit.py")
    return os.environ.get(openmp.POLICY)


def started(proc: Path, number: int, *words: str) -> None:
    (proc / str(number)).mkdir()
    (proc / str(number) / "cmdline").write_text("".join(f"{word}\0" for word in words))


@pytest.mark.parametrize(("busy", "expected"), [(0, None), (20, None), (30, "passive")])
def test_others_that_use_the_processor_are_given_way(
    proc: Path, monkeypatch: pytest.MonkeyPatch, busy: int, expected: str | None
) -> None:
    def pass_time(seconds: float) -> None:
        (proc / "stat").write_text(f"cpu  {100 + busy} 0 50 {1100 - busy} 10 0 0 0 0 0\n")

    monkeypatch.setattr("time.sleep", pass_time)
    assert chosen() == expected


def test_another_run_is_given_way(proc: Path) -> None:
    started(proc, 900_001, "/usr/bin/bash", "-c", "python train_fit.py")
    started(proc, 900_002, "/usr/bin/python3", "other.py", "train_fit")
    started(proc, os.getpid(), "/usr/bin/python3", "train_fit.py")
    assert chosen() is None
    started(proc, 900_003, "/usr/bin/python3.11", "/home/me/train_fit.py", "--image", "cat")
    assert chosen() == "passive"


def test_the_users_own_choice_stays(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(proc, 900_003, "/usr/bin/python3.11", "train_fit.py")
    monkeypatch.setenv(openmp.POLICY, "active")
    assert chosen() == "active"


def test_a_machine_without_proc_is_left_alone(proc: Path) -> None:
    (proc / "stat").unlink()
    assert chosen() is None
