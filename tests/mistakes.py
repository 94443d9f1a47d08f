"""Mistakes at the command line, checked alike whatever they are about."""

from pathlib import Path

import numpy as np
import pytest
from imageio.v3 import imwrite

import train_fit

_FILES = {
    "text.png": "not an image\n" * 20,
    "empty.txt": "",
    "text.txt": "A text that is long enough.\n" * 800,
    "short.txt": "too short",
    "table.csv": "a,b\n1,2\n",
    "one.tsv": "one column\nanother\n",
    "babi/qa1_train.txt": "1 Ada went to the garden.\n",
    "babi/qa1_test.txt": "1 Ada went to the garden.\n",
    "scene/transforms.json": "{}",
}


def write_files() -> None:
    """Write what the command lines of mistakes name to the current folder."""
    for folder in ("folder", "babi", "scene"):
        Path(folder).mkdir()
    for name, text in _FILES.items():
        Path(name).write_text(text)
    Path("binary.txt").write_bytes(bytes(range(256)) * 40)
    Path("nulls.txt").write_bytes(b"a\0" * 4000)
    noise = np.random.default_rng(0).integers(0, 255, (50, 50, 3), np.uint8)
    Path("truncated.png").write_bytes(imwrite("<bytes>", noise, extension=".png")[:3000])


def require_one_line(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail unless a command line ends with one line and status 2, and writes nothing.

    Args:
        mistake: the command line, ``=>``, and words of its error.
        capsys: fixture that captures the output.
    """
    write_files()
    before = sorted(Path().rglob("*"))
    line, words = mistake.split(" => ")
    assert train_fit.main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("train_fit.py: error: ")
    assert len(printed.err) < 400
    assert sorted(Path().rglob("*")) == before
