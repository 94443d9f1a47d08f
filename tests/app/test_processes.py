"""Runs by several processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.training.distributed import World
from nerf_posenc_app.cli import parse
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs import signals
from nerf_posenc_app.runs.processes import (
    command_words,
    report_error,
    require_distributable,
    require_own_gpu,
    require_rows,
    require_same_data,
)
from nerf_posenc_app.runs.stop import Stop, Stopped
from tests.ranks import run_ranks
from tests.small import SMALL_RUN, SMALL_SCENE, write_noise

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull")

ROOT = Path(__file__).parents[2]
# In bfloat16 the sum of two halves of a gradient is not the whole to 1e-5.
EXACT = ["--device", "cpu", "--precision", "float32", "--quiet"]
IMAGE = [*("--image", "cat", "--encodings", "none", "fourier", "hash"), *SMALL_RUN, *EXACT]
SCENE = [*SMALL_SCENE, "--encodings", "fourier", "--background", "random", *EXACT]
PROPOSAL = [*SMALL_SCENE, "--field", "proposal", "--encodings", "hash", *EXACT]


class Others(World):
    """A world whose other ranks answer as they are told."""

    def __new__(cls, *answers: Any) -> "Others":
        return super().__new__(cls)

    def __init__(self, *answers: Any) -> None:
        super().__init__(size=1 + len(answers))
        object.__setattr__(self, "answers", answers)

    def gather(self, value: Any) -> list[Any]:
        """This rank's value and those of the others."""
        return [value, *self.answers]  # type: ignore[attr-defined]

    def maximum(self, value: float) -> float:
        """Largest value, theirs included."""
        return float(max(value, *self.answers))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sequence", "topics"], "--sequence"),
        (["--compile"], "--compile"),
        (["--device", "cuda:1"], "--device cuda:1"),
        (["--device", "mps"], "--device mps"),
    ],
)
def test_what_one_process_does_alone_is_refused_for_several(
    arguments: list[str], named: str
) -> None:
    kind, options = parse(arguments)
    with pytest.raises(UsageError, match=f"{named} is for one process"):
        require_distributable(kind, options)


def test_a_batch_with_fewer_rows_than_processes_is_refused() -> None:
    require_rows(5, World(size=5))
    with pytest.raises(UsageError, match="a batch of 4 cannot be shared by 5 processes"):
        require_rows(4, World(size=5))


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    require_own_gpu(torch.device("cuda"), World(1, 3, local_rank=1))
    require_own_gpu(torch.device("cpu"), World(2, 3, local_rank=2))
    with pytest.raises(UsageError, match="this machine has 2; start as many processes"):
        require_own_gpu(torch.device("cuda"), World(2, 3, local_rank=2))


def test_a_rank_with_another_file_is_named() -> None:
    same = ("far", "a.png", "1", None)
    require_same_data(Others(same, same), "a.png", lambda: "1")
    with pytest.raises(UsageError, match=r"^rank 2 on far sees another a.png than rank 0 on "):
        require_same_data(Others(same, ("far", "a.png", "2", None)), "a.png", lambda: "1")
    failed = ("far", "", "", "no image at a.png")
    with pytest.raises(UsageError, match=r"^rank 1 on far: no image at a.png$"):
        require_same_data(Others(failed, same), "a.png", lambda: "1")
    with pytest.raises(UsageError, match=rf"^rank 0 on {socket.gethostname()}: no GPU$"):
        report_error(Others(same), "no GPU")


def test_all_processes_stop_if_one_of_them_was_asked_to() -> None:
    stop = Stop()
    assert not stop.is_agreed(Others(0.0))
    assert stop.is_agreed(Others(1.0))
    assert not stop.ends_run
    stop = Stop()
    assert stop.is_agreed(Others(0.0, 2.0))
    assert stop.ends_run


def test_torchrun_may_repeat_a_signal_that_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    as_from_torchrun(monkeypatch)
    stop = Stop()
    with signals.handled_signals(stop) as received:
        with pytest.raises(Stopped), stop.training():
            interrupt(3)
        assert stop.ends_run
        # After a fit one of them ends the program, and the second does not interrupt that.
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGINT, signal.SIGTERM]


def interrupt(times: int) -> None:
    """Press Ctrl-C so many times."""
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)


def as_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be rank 3, on the second of two machines with two processes each."""
    variables = {"RANK": 3, "LOCAL_RANK": 1, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2}
    variables |= {"GROUP_WORLD_SIZE": 2, "MASTER_PORT": 1}
    for name, value in {**variables, "MASTER_ADDR": "a"}.items():
        monkeypatch.setenv(name, str(value))


def test_the_command_to_resume_starts_as_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command_words() == ["python", "train_fit.py"]
    as_from_torchrun(monkeypatch)
    assert command_words() == [
        *("torchrun", "--nnodes", "2", "--nproc-per-node", "2", "train_fit.py")
    ]


def torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script or a module by two processes, in this folder."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    return subprocess.run(
        [*launcher, "2", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def losses(folder: str) -> dict[str, list[float]]:
    """Recorded losses of a run, by encoding."""
    metrics = json.loads(Path(folder, "metrics.json").read_text())
    score = metrics["training"]["name"]
    return {
        fit["encoding"]: [record[score] for record in fit["history"]] for fit in metrics["fits"]
    }


def errors(finished: subprocess.CompletedProcess[str]) -> list[str]:
    """Lines of the program, without those of torchrun."""
    return [line for line in finished.stderr.splitlines() if line.startswith("train_fit.py: ")]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [IMAGE, SCENE, PROPOSAL], ids=["image", "scene", "proposal"])
def test_two_processes_have_the_losses_of_one_with_the_same_global_batch(
    arguments: list[str],
) -> None:
    require_losses_of_one(arguments)


def require_losses_of_one(arguments: list[str]) -> None:
    """Two processes have the losses of one with the same global batch."""
    # 201 pixels and 33 rays are no even number.
    size = str(int(arguments[arguments.index("--batch-size") + 1]) + 1)
    arguments = [*arguments, "--batch-size", size]
    finished = run_ranks(2, *arguments, "--out", "two")
    assert finished.returncode == 0, finished.stderr
    assert errors(finished) == []
    assert finished.stdout == ""
    assert train_fit.main([*arguments, "--out", "one"]) == 0
    assert {p.name for p in Path("one").iterdir()} == {p.name for p in Path("two").iterdir()}
    one, two = losses("one"), losses("two")
    for encoding, expected in one.items():
        assert two[encoding] == pytest.approx(expected, abs=1e-5, rel=0)


@pytest.mark.slow
def test_a_run_whose_rank_dies_is_resumed_by_any_number_of_processes() -> None:
    arguments = [*IMAGE, "--save-every", "1e-9"]
    assert train_fit.main([*arguments, "--out", "whole"]) == 0
    whole = losses("whole")

    def resume_by(num_processes: int, folder: str) -> None:
        if num_processes == 1:
            assert train_fit.main(["--resume", folder, "--quiet"]) == 0
        else:
            finished = run_ranks(num_processes, "--resume", folder, "--quiet")
            assert finished.returncode == 0, finished.stderr
        resumed = losses(folder)
        for encoding, expected in whole.items():
            assert resumed[encoding] == pytest.approx(expected, abs=1e-5, rel=0)

    for rank, num_processes in ((0, 3), (1, 1)):
        folder = f"without{rank}"
        # In the second fit.
        fault = ["-m", "tests.one_rank", "die", str(rank), "4"]
        finished = torchrun(*fault, *arguments, "--out", folder)
        assert finished.returncode == 1
        # torchrun ends the other rank, unless that sees first that one has died.
        resume = f"resume with: torchrun --nproc-per-node 2 train_fit.py --resume {folder}"
        (line,) = errors(finished)
        assert line in (
            f"train_fit.py: error: another process of this run has ended; {resume}",
            f"train_fit.py: stopped; {resume}",
        )
        assert not Path(folder, "metrics.json").exists()
        assert Path(folder, "fits/fourier.safetensors").exists()
        resume_by(num_processes, folder)


@pytest.mark.slow
def test_a_request_to_one_rank_ends_all_at_the_same_step_and_is_resumed() -> None:
    arguments = [*IMAGE, "--encodings", "hash"]
    fault = ["-m", "tests.one_rank", "ask", "1", "1"]
    finished = torchrun(*fault, *arguments, "--out", "part")
    assert finished.returncode == 1
    assert errors(finished) == [
        "train_fit.py: stopped; resume with: torchrun --nproc-per-node 2 train_fit.py --resume part"
    ]
    assert run_ranks(2, "--resume", "part", "--quiet").returncode == 0
    assert run_ranks(2, *arguments, "--out", "whole").returncode == 0
    assert losses("part") == losses("whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (("memory", "1", "1"), lambda _: "rank 1: out of memory; use a smaller --batch-size, "),
        (("memory", "0", "1"), lambda _: "out of memory; use a smaller --batch-size, "),
        (("other", "1", "0"), lambda host: f"rank 1 on {host} sees another "),
    ],
    ids=["memory of rank 1", "memory of rank 0", "another file"],
)
def test_a_rank_that_fails_ends_all_with_one_line(
    fault: tuple[str, ...], line: Callable[[str], str]
) -> None:
    finished = run_ranks(2, *IMAGE, "--out", "run", fault=fault)
    assert finished.returncode == 1
    (error,) = errors(finished)
    assert error.startswith(f"train_fit.py: error: {line(socket.gethostname())}")
    if fault[0] == "other":
        assert not Path("run").exists()


@pytest.mark.slow
def test_images_are_dealt_to_the_ranks_and_each_is_fitted_as_by_one_process() -> None:
    for i in range(2):
        write_noise(f"noise{i}.png", seed=i)
    names = ["cat", "noise0.png", "noise1.png"]
    arguments = ["--images", *names, *IMAGE[2:], "--encodings", "fourier"]
    arguments.remove("--quiet")
    finished = run_ranks(2, *arguments, "--out", "two")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("encoding  parameters") == 2
    assert "[1 of 3] cat" in finished.stdout
    assert "[2 of 3]" not in finished.stdout
    assert "mean of 3" in finished.stdout
    assert train_fit.main([*arguments, "--quiet", "--out", "one"]) == 0
    for folder in ("000-cat", "001-noise0", "002-noise1"):
        one, two = losses(f"one/{folder}"), losses(f"two/{folder}")
        assert two["fourier"] == pytest.approx(one["fourier"], abs=1e-5, rel=0)
    assert Path("one/table.txt").read_text() == Path("two/table.txt").read_text()
    assert run_ranks(2, "--resume", "two", "--quiet").returncode == 0


@pytest.mark.slow
def test_a_mistake_and_the_version_are_printed_once() -> None:
    for arguments in (["--bandz", "3"], ["--image", "no.png"]):
        finished = run_ranks(2, *arguments)
        assert finished.returncode == 1
        assert len(errors(finished)) == 1
    assert run_ranks(2, "--version").stdout.count("train_fit.py of nerf_posenc") == 1
