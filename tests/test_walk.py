"""The way of a run's options from the command line to the training loop, which must stay short."""

import itertools
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import train_fit
from app.options import CommonOptions
from tests.test_house import imports, sources

ARGUMENTS = {
    "image": ["--image", "cat", "--size", "16"],
    "scene": ["--scene", "spheres", "--size", "8", "--turntable", "0", "--test-views", "1"],
    "audio": ["--audio", "phrase", "--duration", "0.1"],
}
# Calls that say what a fit or its model is.
DESCRIPTIONS = ("model", "_field", "fit_names", "default_encodings", "field_name")


def calls_with_options(run: Callable[[], object]) -> list[str]:
    """Module and function of each call within the program that is given options, in order.

    It ends where the training loop begins.
    """
    found: list[str] = []
    has_begun = False

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal has_begun
        name = str(frame.f_globals.get("__name__", ""))
        if event != "call" or has_begun:
            return
        has_begun = name == "nerf_posenc.training.loop" and frame.f_code.co_name == "fit"
        if name.startswith("app.") and not frame.f_code.co_name.startswith(("__", "<")):
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            given = [frame.f_locals.get(each) for each in names]
            held = [getattr(each, "config", None) for each in given]
            if any(isinstance(each, CommonOptions) for each in (*given, *held)):
                found.append(f"{name}:{frame.f_code.co_name}")

    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def below(module: str) -> set[str]:
    """Modules that a module imports, and those that these import."""
    met: set[str] = set()
    waiting = [module]
    while waiting:
        new = {m for m in imports(waiting.pop()) if m in sources() and m.startswith("app")} - met
        met |= new
        waiting += new
    return met


@pytest.mark.usefixtures("own_folder", "no_report", "no_hull")
@pytest.mark.parametrize("kind", list(ARGUMENTS))
def test_options_come_to_the_loop_by_few_stations(kind: str) -> None:
    small = ["--steps", "1", "--batch-size", "16", "--video", "0", "--quiet", "--out", "run"]
    arguments = [*ARGUMENTS[kind], "--encodings", "none", *small]
    calls = calls_with_options(lambda: train_fit.main(arguments))
    stations = list(dict.fromkeys(calls))
    modules = [station.split(":")[0] for station in stations]
    climbs = [f"{a} -> {b}" for a, b in itertools.pairwise(modules) if a != b and a in below(b)]
    print(f"{kind}: {len(calls)} calls, {len(stations)} stations, {len(climbs)} climbs", *climbs)
    print(*(f"{count} {name}" for name, count in Counter(calls).items()), sep="\n")
    assert len(stations) <= 20
    assert len(climbs) <= 3
    described = Counter(c for c in calls if c.split(":")[1] in DESCRIPTIONS)
    assert max(described.values(), default=0) <= 1, described
