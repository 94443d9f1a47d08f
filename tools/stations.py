"""The way of the options of a run from the command line to the training loop.

``python -m tools.stations`` fits an image for one step and prints each call within the program that
is given the options or the configuration, until the loop begins. A station is such a call; a climb
goes from a module to one that imports it, other than by returning.
"""

import ast
import contextlib
import io
import itertools
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import train_fit
from app.options import CommonOptions

ROOT = Path(__file__).parent.parent
ARGUMENTS = ["--image", "cat", "--size", "16", "--steps", "1", "--video", "0", "--quiet"]


def options_stations() -> list[str]:
    """Module and function of each call that is given options, in order."""
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

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(trace)
        try:
            train_fit.main([*ARGUMENTS, "--out", f"{folder}/run"])
        finally:
            sys.setprofile(None)
    return list(dict.fromkeys(found))


def modules_below(module: str) -> set[str]:
    """Modules that a module imports, and those that these import."""
    below: set[str] = set()
    waiting = [module]
    while waiting:
        file = ROOT / (waiting.pop().replace(".", "/") + ".py")
        if not file.exists():
            file = file.with_suffix("") / "__init__.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("app"):
                new = {str(node.module)} - below
                below |= new
                waiting += new
    return below


def main() -> None:
    """Print the stations, and how many there are."""
    stations = options_stations()
    modules = [station.split(":")[0] for station in stations]
    print(*stations, sep="\n")
    climbs = sum(
        before in modules_below(after)
        for before, after in itertools.pairwise(modules)
        if before != after
    )
    print(f"{len(stations)} stations in {len(set(modules))} modules, {climbs} climbs")


if __name__ == "__main__":
    main()
