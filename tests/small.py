"""Options of runs that take a second."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image

SMALL_RUN = [
    *("--size", "24", "--steps", "30", "--batch-size", "200"),
    *("--width", "16", "--depth", "2", "--video", "0"),
]
SMALL_SCENE = [
    *("--scene", "spheres", "--size", "8", "--steps", "30", "--batch-size", "32"),
    *("--width", "16", "--depth", "1", "--video", "0", "--turntable", "0", "--test-views", "2"),
]
SMALL_SEQUENCE = [
    *("--sequence", "text.txt", "--steps", "30", "--batch-size", "4", "--context", "16"),
    *("--width", "16", "--depth", "1", "--video", "0"),
]


def write_noise(path: str | Path = "noise.png", seed: int = 0) -> None:
    """Write an image of noise, 24 x 16 pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def code_of_docs(name: str) -> str:
    """The block of code of docs/extend.md that defines a name."""
    text = (Path(__file__).parents[1] / "docs/extend.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(next(code for code in blocks if re.search(rf"^(class|def) {name}\b", code, re.M)))


@contextlib.contextmanager
def without_hull() -> Iterator[None]:
    """Begin fits of scenes with the cells in the middle: hull and densities of all take seconds."""
    cells = torch.zeros(128, 128, 128, dtype=torch.bool)
    cells[48:80, 48:80, 48:80] = True
    with mock.patch("nerf_posenc_app.kinds.scene.scene.visual_hull", return_value=cells.flatten()):
        yield


@contextlib.contextmanager
def without_figures() -> Iterator[None]:
    """Draw no figures of a run, which take half of its time."""
    with (
        mock.patch("nerf_posenc_app.report.outputs.save_comparison"),
        mock.patch("nerf_posenc_app.report.outputs.save_charts"),
    ):
        yield


@contextlib.contextmanager
def quick_report() -> Iterator[None]:
    """Write an empty page and no figures, where a test is about something else."""

    def write_page(path: Path, *args: object, **kwargs: object) -> None:
        path.write_text("<html></html>\n")

    with without_figures(), mock.patch("nerf_posenc_app.report.outputs.write_page", write_page):
        yield
