"""The program: fits of images, scenes and other kinds of data, and what is made of them.

`cli` reads a command line, `runs` makes a run of it, `kinds` has what is particular to the data,
`report` writes the page.
"""

import importlib.util
from pathlib import Path

import scenes
from nerf_posenc.plugins import how_to_install

for _package in ("imageio", "jinja2", "safetensors", "tqdm"):
    if importlib.util.find_spec(_package) is None:
        raise ImportError(f"train_fit.py needs {_package}: {how_to_install('app')}")

# If the user's project has a package `scenes` that was imported first, our modules are
# found beside its own.
_own = str(Path(__file__).parent.parent / "scenes")
if _own not in scenes.__path__:
    scenes.__path__ = [*scenes.__path__, _own]
