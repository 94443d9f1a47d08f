#!/usr/bin/env python3
"""Fit an image, a radiance field or a sequence without and with an encoding, and compare.

From a terminal ``python train_fit.py`` in a clone, or ``nerf-posenc`` where it is installed; from
Python ``from train_fit import fit``.
"""

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

_OURS = ("app", "scenes", "sequences", "nerf_posenc")


def command() -> int:
    """Run the program as a process of its own."""
    from app.openmp import choose_waiting

    # Before torch is imported.
    choose_waiting(Path(sys.argv[0]).name)
    # Until the program handles it: Ctrl-C during the imports ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from app.cli import main

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
    if name == "main":
        from app.cli import main

        return main
    if name in ("fit", "FittedRun"):
        import app.fit

        return getattr(app.fit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    sys.exit(command())
