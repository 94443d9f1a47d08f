"""The program: fits of images, scenes and other kinds of data, and what is made of them.

`fit` runs it from Python. `cli` reads a command line, `runs` makes a run of it, `kinds` has what is
particular to the data, `data` reads files, and `report` writes the page.
"""

import importlib.util
import os
import sys
from pathlib import Path

from nerf_posenc.lazy import lazy_exports
from nerf_posenc_app.plugins import how_to_install

_IS_PROGRAM = Path(sys.argv[0]).stem in ("nerf-posenc", "train_fit")

for _package in ("imageio", "jinja2", "safetensors", "tqdm"):
    if importlib.util.find_spec(_package) is None:
        _message = f"train_fit.py needs {_package}: {how_to_install('app')}"
        # The command of a bare installation ends with one line, not with a traceback.
        if _IS_PROGRAM:
            sys.exit(_message)
        raise ImportError(_message)

if _IS_PROGRAM and not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"} & {*os.environ}:
    # Read as torch is imported. Threads of GNU's OpenMP spin for milliseconds while they wait for
    # the slowest one: beside other programs, which hold it up, a fit takes several times as long.
    os.environ["GOMP_SPINCOUNT"] = "1000"

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
