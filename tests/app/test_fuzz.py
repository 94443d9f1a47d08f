"""A small part of the fuzzing that ``python -m tools.fuzz`` does, and its own canaries."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.report.metrics import METRICS, read_metrics
from tools import cases, fuzz

COUNTS = {
    "images": 50,
    "transforms": 20,
    "synthetic": 20,
    "llff": 20,
    "colmap": 1,
    "slices": 10,
    "sounds": 10,
    "clips": 10,
    "meshes": 10,
    "compare": 2,
    "checkpoints": 6,
    "commands": 2,
}


@pytest.mark.parametrize("loader", sorted(cases.LOADERS))
def test_hostile_input_is_read_or_refused(loader: str) -> None:
    outcomes = [fuzz.run_case(loader, number, seed=1) for number in range(COUNTS[loader])]
    assert [outcome for outcome in outcomes if "FAILED" in outcome] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
NAMES = st.sampled_from(["fits", "image", "scene", "config", "command", "versions", "definitions"])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=st.dictionaries(NAMES, JSON) | JSON)
def test_any_json_is_read_as_metrics_or_refused(tmp_path: Path, run: Any) -> None:
    (tmp_path / METRICS).write_text(json.dumps(run))
    with pytest.raises(ValueError, match=r".+"):
        read_metrics(tmp_path)


def hangs(folder: Path, case: Any) -> str:
    while True:
        pass


def grows(folder: Path, case: Any) -> str:
    held = b"x" * (fuzz.MOST_BYTES + (1 << 29))
    time.sleep(0.5)
    return str(len(held))


def raises(folder: Path, case: Any) -> str:
    raise KeyError("unexpected")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "message"),
    [(hangs, "more than 0 s"), (grows, "more than 2 GB"), (raises, "KeyError: 'unexpected'")],
)
def test_the_harness_finds_what_it_looks_for(
    run: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = cases.Loader(1, lambda folder, rng: None, run, (ValueError,))
    monkeypatch.setattr(cases, "LOADERS", {"canary": loader})
    monkeypatch.setattr(fuzz, "LOADERS", {"canary": loader})
    if run is hangs:
        monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.2)
    _, failures = fuzz.fuzz("canary", 1)
    assert len(failures) == 1
    assert message in failures[0]


def test_the_harness_sees_what_is_opened_outside() -> None:
    assert fuzz.opened_outside("/etc/passwd", "/tmp/case")
    assert fuzz.opened_outside("/tmp/other/file", "/tmp/case")
    assert fuzz.opened_outside("/tmp/case/../other", "/tmp/case")
    assert not fuzz.opened_outside("/tmp/case/file", "/tmp/case")
    assert not fuzz.opened_outside(3, "/tmp/case")
