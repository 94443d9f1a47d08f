"""The scripts of benchmarks/ run, and the page of results holds what the record says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import arena
from nerf_posenc_app.kinds.image.floors import lowest_cosines

pytestmark = pytest.mark.usefixtures("own_folder")

OWN = """
from torch import nn


class Plain(nn.Sequential):
    def __init__(self, in_dim, out_dim, *, width, depth=2, bandwidth=1.0):
        super().__init__(nn.Linear(in_dim, width), nn.ReLU(), nn.Linear(width, out_dim))
"""


def test_the_page_of_results_is_written_from_the_record() -> None:
    text = arena.PAGE.read_text(encoding="utf-8")
    assert arena.page_with(text, arena.read(arena.RESULTS)) == text
    record = arena.read(arena.RESULTS)
    record[0]["psnr_db"] = str(float(record[0]["psnr_db"]) + 0.1)
    assert arena.page_with(text, record) != text


def test_methods_are_of_equal_size_and_signals_end_at_nyquist() -> None:
    signal = arena.signal_of("band-limited", arena.SIGNALS["band-limited"]())
    for name, method in arena.METHODS.items():
        model = method.build(signal, arena.widest(method, signal, 1.0), 1.0)
        assert 0.95 < arena.count(model) / signal.num_numbers <= 1, name
    # Waves up to half of Nyquist's frequency: a quarter of all numbers has nearly all of them.
    rows, columns = (torch.arange(n) + 0.5 for n in signal.size)
    between = lowest_cosines(signal.fitted, signal.fitted.numel() // 3, rows, columns)
    assert signal.scores(signal.fitted, between.float())[1] > 45


def test_a_method_is_entered_by_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.py").write_text(OWN)
    monkeypatch.setattr(arena, "RESULTS", Path("arena.csv"))
    monkeypatch.setattr(arena, "TUNED", Path("tuned.csv"))
    monkeypatch.setattr(arena, "TRIALS", 3)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    methods = ["--methods", "own.py:Plain", "positional encoding"]
    for command in (["tune", "cat"], ["fit", "--signals", "text", "star", "--seeds", "2"]):
        for _ in range(2):
            monkeypatch.setattr(sys, "argv", ["arena", *command, *methods, "--seconds", "0.05"])
            arena.main()
    rows = arena.read(Path("arena.csv"))
    # Two signals, two seeds, two methods once each, and three floors.
    assert len(rows) == 2 * 2 * 2 + 2 * 3
    assert {row["method"] for row in rows} >= {"own.py:Plain", "cosine transform"}
    tables = arena.tables(rows)
    assert "| Plain | " in tables
    assert "*interpolation*" in tables


def test_ranks_and_ties_follow_the_signals() -> None:
    scores = {
        "best": {str(i): [30.0 + i, 30.2 + i] for i in range(8)},
        "as good": {str(i): [30.1 + i + (-1) ** i] * 2 for i in range(8)},
        "behind": {str(i): [20.0 + i] * 2 for i in range(8)},
    }
    ranked = arena.ranks(scores)
    assert {name: tied for name, (*_, tied) in ranked.items()} == {
        "best": True,
        "as good": True,
        "behind": False,
    }
    assert ranked["behind"][:3] == (3, 3, 3)
    assert ranked["best"][0] == 1.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["encoders", "--rounds", "1"],
        ["gpu", "--tiny", "--rounds", "1"],
        ["radiance", "spheres", "--size", "24", "--seconds", "1", "--test-views", "1"],
    ],
)
def test_a_script_runs_small(command: list[str]) -> None:
    path = str(Path(__file__).parents[1])
    script = [sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:]]
    subprocess.run(script, env={**os.environ, "PYTHONPATH": path}, check=True)
