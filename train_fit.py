#!/usr/bin/env python3
"""Fit an image, a radiance field or a sequence without and with an encoding, and compare."""

import importlib.util
import signal
import sys
from pathlib import Path

from app.openmp import choose_waiting

if __name__ == "__main__":
    # Before torch is imported.
    choose_waiting(Path(__file__).name)
    # Until the program handles it: Ctrl-C during the imports ends it without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from app.cli import main as main

    # It is imported for the first figure, after the fits: what is missing is said before.
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(name="matplotlib")
except ModuleNotFoundError as error:
    ours = ("app", "scenes", "sequences", "nerf_posenc")
    if __name__ != "__main__" or error.name in ours:
        raise
    sys.exit(f"train_fit.py: error: {error.name} is missing: pip install 'nerf_posenc[app]'")

if __name__ == "__main__":
    sys.exit(main())
