"""Runs that get a signal at a chosen record of a fit."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import train_fit
from nerf_posenc.training.checkpoints import load_checkpoint
from nerf_posenc_app.runs.train import Session


def run_with_signal(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    *records: int,
    number: int = signal.SIGTERM,
) -> int:
    """Run the program, which gets a signal at these records of its fits; return its status."""
    count = 0

    def save_and_signal(session: Session) -> None:
        nonlocal count
        count += 1
        original(session)
        if count in records:
            os.kill(os.getpid(), number)

    original = Session.save_if_due
    with monkeypatch.context() as patch:
        patch.setattr(Session, "save_if_due", save_and_signal)
        return train_fit.main(arguments)


def content(run: Path) -> dict[str, Any]:
    """What must be equal to the bit: scores, losses, pixels, samples and weights, by file."""
    found: dict[str, Any] = {}
    for file in sorted(run.rglob("*")):
        name = str(file.relative_to(run))
        if any(part.startswith(".") for part in file.relative_to(run).parts):
            continue
        if file.name == "metrics.json":
            metrics = json.loads(file.read_text())
            scores = [measure["name"] for measure in metrics["measures"]]
            found[name] = [
                (
                    fit["encoding"],
                    [fit.get(score) for score in scores],
                    [record[metrics["training"]["name"]] for record in fit["history"]],
                )
                for fit in metrics["fits"]
            ]
        elif file.suffix in (".png", ".wav") and file.stem not in ("curves", "comparison"):
            found[name] = file.read_bytes()
        elif file.suffix == ".safetensors":
            found[name] = load_checkpoint(file)["fit"]["model"]
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, tensors to the bit."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


def require_same_bits(part: str, whole: str) -> None:
    """Fail if a score, a loss, an image, a sound or a weight of two runs differs."""
    one, two = content(Path(part)), content(Path(whole))
    assert one.keys() == two.keys()
    assert [name for name in two if not same(one[name], two[name])] == []


def resumed_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], record: int
) -> dict[str, Any]:
    """Run ``whole`` and, interrupted at a record, ``part``, and compare them in ``both.html``.

    Returns:
        The metrics of the whole run.
    """
    assert train_fit.main([*arguments, "--quiet", "--out", "whole"]) == 0
    assert run_with_signal(monkeypatch, [*arguments, "--quiet", "--out", "part"], record) == 143
    assert not Path("part/metrics.json").exists()
    assert train_fit.main(["--resume", "part", "--quiet"]) == 0
    require_same_bits("part", "whole")
    assert train_fit.main(["compare", "part", "whole", "--out", "both.html"]) == 0
    metrics: dict[str, Any] = json.loads(Path("whole/metrics.json").read_text())
    return metrics
