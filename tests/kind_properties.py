"""What holds for every kind of data, as functions of a small run of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest

import train_fit
from nerf_posenc_app.kinds import KINDS
from tests.signals import resumed_to_the_bit

QUICK = ["--steps", "12", "--batch-size", "256", "--width", "16", "--video", "0", "--quiet"]


def nothing() -> None:
    """For data that need no file."""


@dataclass(frozen=True)
class Small:
    """A small run of a kind.

    Attributes:
        arguments: its options, without --out.
        fits: fits and references of its table.
        size: size of the data, if it has one.
        write: writes its file.
        change: writes other data to its file; None where the data are no file.
        is_slow: whether it takes more than a few seconds.
    """

    arguments: list[str]
    fits: list[str]
    size: list[int] | None = None
    write: Callable[[], object] = nothing
    change: Callable[[], object] | None = None
    is_slow: bool = False


def kinds(table: Mapping[str, Small], *left_out: str) -> list[Any]:
    """Parameters of a test of every kind of a table but some."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if small.is_slow else [])
        for name, small in table.items()
        if name not in left_out
    ]


def require_resumed_to_the_bit(kind: str, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is reported, compared with another, and resumed to the bit."""
    small.write()
    whole = resumed_to_the_bit(monkeypatch, small.arguments, 2)
    assert [fit["name"] for fit in whole["fits"]] == small.fits
    assert whole["data"].get("size") == small.size
    assert whole["data"]["kind"] == kind
    page, compared = (Path(name).read_text() for name in ("whole/report.html", "both.html"))
    for measure in whole["measures"]:
        assert f">{measure['quantity']}" in page
        assert f">{measure['quantity']}" in compared
    for fit in whole["fits"]:
        assert fit["name"] in page
        assert f"part: {fit['name']}" in compared


def require_flat_fit_named(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fit begins at the mean of the data, and one that stays there is named."""
    # Faint noise far from the middle of the range. A slice of it is empty outside of its disk.
    noise = np.random.default_rng(0).normal(0.12, 0.02, (5, 24, 24)).clip(0, 1)
    stored = np.round(255 * noise).astype(np.uint8)
    np.save("a.npy", noise)
    iio.imwrite("a.png", stored[0])
    iio.imwrite("a.gif", stored.repeat(4, 1).repeat(4, 2), loop=0)
    file = {"image": "a.png", "clip": "a.gif"}.get(kind, "a.npy")
    arguments = [f"--{kind}", file, "--encodings", "none", *QUICK[:-1], "--lr", "1e-9"]
    assert train_fit.main([*arguments, "--out", "run"]) == 0
    printed = capsys.readouterr().out
    metrics = json.loads(Path("run/metrics.json").read_text())
    finding, (fit, *_) = metrics["finding"], metrics["fits"]
    assert finding["verdict"] == "doubtful"
    assert finding["sentence"] in printed
    flat = float(printed.partition("; a constant scores ")[2].split()[0])
    assert flat - 1.5 < fit["psnr_db"] < flat + 0.5


def require_changed_data_refused(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """Data that have changed since a run began are not resumed."""
    assert small.change is not None
    small.write()
    assert train_fit.main([*small.arguments, "--out", "run"]) == 0
    small.change()
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run"]) == 2
    assert "has changed since the run started" in capsys.readouterr().err


def require_rendered(kind: str, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved fit is rendered where there is something to render."""
    small.write()
    assert train_fit.main([*small.arguments, "--out", "run"]) == 0
    status = train_fit.main(["render", "run", "--encoding", small.fits[1], "--quiet"])
    if KINDS[kind].rendered_by:
        assert status == 0
        assert len(list(Path("run/renders").iterdir())) == 1
    else:
        assert status == 2
        assert "which has nothing to render" in capsys.readouterr().err


def require_refused(kind: str, name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no data of a kind is refused in one line."""
    assert train_fit.main([f"--{kind}", name, *QUICK]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def written(data: bytes) -> Callable[[str], object]:
    """Write a file of these bytes."""
    return lambda name: Path(name).write_bytes(data)


def saved(values: Any) -> Callable[[str], object]:
    """Write an array."""
    return lambda name: np.save(name, values, allow_pickle=True)
