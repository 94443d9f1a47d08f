#!/usr/bin/env python3
"""Fit an image, a radiance field or a sequence without and with an encoding, and compare.

From a terminal ``python train_fit.py`` in a clone, or ``nerf-posenc`` where it is installed; from
Python ``from train_fit import fit``.
"""

import gc
import importlib
import importlib.util
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.cli import main as main
    from app.fit import FittedRun as FittedRun
    from app.fit import fit as fit

# An installed package has the program here: no folder "app" lies beside those of other packages.
_PROGRAM = Path(__file__).parent / "nerf_posenc" / "_program"
if _PROGRAM.is_dir():
    sys.path.insert(0, str(_PROGRAM))

# What is imported from here, and where it is.
_OFFERED = {"main": "app.cli", "fit": "app.fit", "FittedRun": "app.fit"}
_OURS = ("app", "scenes", "sequences", "nerf_posenc")


def command() -> int:
    """Run the program as a process of its own."""
    from app.openmp import choose_waiting

    # Before torch is imported.
    choose_waiting(Path(sys.argv[0]).name)
    # Until the program handles it: Ctrl-C during the imports ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What modules are made of stays: to look for garbage among it takes a quarter of a second.
    gc.disable()
    try:
        from app.cli import main

        gc.freeze()
        gc.enable()
        # It is imported for the first figure, after the fits: what is missing is said before.
        if importlib.util.find_spec("matplotlib") is None:
            raise ModuleNotFoundError(name="matplotlib")
    except ModuleNotFoundError as error:
        if error.name in _OURS:
            raise
        program = Path(sys.argv[0]).name
        sys.exit(f"{program}: error: {error.name} is missing: pip install 'nerf_posenc[app]'")
    return main()


def __getattr__(name: str) -> Any:
    # On demand: the program takes seconds to import, and `command` has to come before it.
    if name in _OFFERED:
        try:
            return getattr(importlib.import_module(_OFFERED[name]), name)
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in _OURS:
                why = f"needs {error.name}: pip install 'nerf_posenc[app]'"
            elif package in sys.modules:
                file = getattr(sys.modules[package], "__file__", None)
                why = (
                    f"has a package {package}, and another one of this name is loaded already "
                    f"({file}); rename that, or run nerf-posenc as a command"
                )
            else:
                raise
            raise ImportError(f"train_fit {why}") from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    sys.exit(command())
