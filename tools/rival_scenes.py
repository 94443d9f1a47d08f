"""The hostile scenes of `tools.fuzz` and `tools.attacks`, opened by nerfstudio's own loader.

    pip install --no-deps --target DIR nerfstudio==1.1.5 opencv-python-headless rich
    PYTHONPATH=DIR python -m tools.rival_scenes [--count 1000]

Its parser of ``transforms.json`` and its dataset read all training images, as its trainer does.
instant-ngp reads scenes in C++ that needs CUDA, so its loader does not run here.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path
from typing import Any

from tools.attacks import ATTACKS, watched
from tools.cases import LOADERS, Loader, make_scene
from tools.fuzz import fuzz
from tools.vectors.harness import Libraries

_ATTACKS = (
    "frames-without-images",
    "frames-without-images-within-the-limit",
    "frames-of-one-image",
    "views-of-200-megapixels",
    "views-of-25-megapixels",
    "transforms-of-60-mb",
)
_OPEN = """
from pathlib import Path
from tools.rival_scenes import open_by_nerfstudio
open_by_nerfstudio(Path(), "scene")
"""


def open_by_nerfstudio(folder: Path, name: str) -> str:
    """Read a scene; raise what nerfstudio raises."""
    parser, dataset = _nerfstudio()
    outputs = parser.NerfstudioDataParserConfig(data=folder / name).setup()
    images = dataset.InputDataset(outputs.get_dataparser_outputs("train"))
    for index in range(len(images)):
        images.get_image_float32(index)
    return "read"


def _nerfstudio() -> tuple[Any, Any]:
    # Its loggers are imported with the loader, and are not needed.
    tensorboard = types.SimpleNamespace(SummaryWriter=object)
    sys.modules.setdefault("torch.utils.tensorboard", tensorboard)  # type: ignore[arg-type]
    unused = ("wandb", "comet_ml", "open3d")
    load = Libraries(None).installed
    parser = load("nerfstudio.data.dataparsers.nerfstudio_dataparser", *unused)
    return parser, load("nerfstudio.data.datasets.base_dataset", *unused)


def main() -> None:
    """Print what came of the cases, and a line for each attack."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--count", type=int, default=1000, help="fuzzed scenes")
    count = options.parse_args().count
    _nerfstudio()
    # Under the same name the cases are the same.
    LOADERS["transforms"] = Loader(count, make_scene("transforms"), open_by_nerfstudio, ())
    kinds = Counter[str]()
    for outcome, number in fuzz("transforms", count)[0].items():
        error = re.search(r"FAILED: (opened outside|\w+)", outcome)
        kinds[error[1] if error else outcome] += number
    print(f"{count} fuzzed scenes: {dict(kinds.most_common())}", flush=True)
    for name in _ATTACKS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            ATTACKS[name][1]()
            said, seconds, megabytes = watched(_OPEN)
        print(f"{name:42} {seconds:5.1f} s {megabytes:6.0f} MB  {said[:110]}", flush=True)


if __name__ == "__main__":
    main()
