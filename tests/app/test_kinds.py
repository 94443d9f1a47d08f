"""What holds for every kind of data of this project: a table of small inputs and the properties."""

from collections.abc import Callable
from pathlib import Path
from typing import assert_type

import numpy as np
import pytest
import torch

from nerf_posenc.images import Image
from nerf_posenc_app.kinds import KINDS
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageConfig, ImageOptions
from nerf_posenc_app.kinds.kind import Kind
from tests import kind_properties
from tests.kind_properties import QUICK, Small, kinds, saved, written
from tests.small import SMALL_SCENE, SMALL_SEQUENCE, write_noise
from tests.texts import made_text

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull")


def write_text(seed: int = 0) -> None:
    """A text of a few words."""
    Path("text.txt").write_text(made_text(600, seed))


SMALL = {
    "image": Small(
        ["--image", "a.png", "--encodings", "none", "fourier", *QUICK],
        ["none", "fourier"],
        [24, 16],
        lambda: write_noise("a.png"),
        lambda: write_noise("a.png", seed=1),
    ),
    "scene": Small([*SMALL_SCENE, "--quiet"], ["none", "fourier"], [8, 8], is_slow=True),
    "sequence": Small(
        [*SMALL_SEQUENCE, "--quiet"],
        ["none", "sinusoidal", "guess"],
        write=write_text,
        change=lambda: write_text(1),
    ),
}
"""A small run of every kind, by its name."""


def test_every_kind_is_in_the_table() -> None:
    assert set(SMALL) <= set(KINDS)
    modules = {name: kind.__module__ for name, kind in KINDS.items()}
    own = {name for name, module in modules.items() if module.startswith("nerf_posenc_app.")}
    assert own == set(SMALL)


def test_types_say_that_options_are_open_until_they_are_resolved() -> None:
    asked = ImageOptions(device="cpu")
    assert_type(asked.steps, int | None)
    with pytest.raises(TypeError, match="NoneType"):
        asked.steps + 1  # type: ignore[operator]
    kind = ImageKind(asked, Image.from_rgb(torch.rand(4, 4, 3)))
    with pytest.raises(TypeError, match="give encodings a default"):
        Kind.with_defaults(asked, num_bands=1, steps=2, batch_size=3)
    config = assert_type(kind.resolve(asked), ImageConfig)
    assert assert_type(config.steps, int) + 1 == 601


@pytest.mark.parametrize("kind", kinds(SMALL))
def test_a_run_is_reported_compared_and_resumed_to_the_bit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind_properties.require_resumed_to_the_bit(kind, SMALL[kind], monkeypatch)


def test_a_fit_begins_at_the_mean_and_one_that_stays_there_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind_properties.require_flat_fit_named("image", capsys)


@pytest.mark.parametrize("kind", kinds(SMALL, "scene"))
def test_data_that_has_changed_is_not_resumed(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind_properties.require_changed_data_refused(SMALL[kind], capsys)


@pytest.mark.parametrize("kind", kinds(SMALL))
def test_a_saved_fit_is_rendered_where_there_is_something_to_render(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind_properties.require_rendered(kind, SMALL[kind], capsys)


# What is no data of a kind: file, what writes it, and the words of the error.
BAD: list[tuple[str, str, Callable[[str], object], str]] = [
    ("image", "a.png", written(b"\x89PNG\r\n\x1a\n"), "cannot read a.png as an image"),
    ("image", "a.png", lambda name: None, "no image at a.png"),
    ("image", "a.npy", saved(np.zeros((4, 4), np.complex64)), "uint8, uint16 or floating-point"),
    ("image", "a.npy", saved(np.zeros((4, 4), np.int64)), "uint8, uint16 or floating-point"),
    ("image", "a.npy", saved(np.zeros((2, 4, 4, 3), np.uint8)), "uint8, uint16 or floating-point"),
    ("image", "a.npy", saved(np.zeros((4, 4, 7), np.uint8)), "not an image of 1 to 4 channels"),
    ("image", "a.npy", saved(np.zeros((0, 4), np.uint8)), "not an image of 1 to 4 channels"),
    ("image", "a.npy", saved(np.full((4, 4), np.nan, np.float32)), "all pixels are NaN"),
    ("image", "a.npy", saved(np.array([[{}]])), "cannot read a.npy as an image"),
    ("image", "a.npy", written(b"\x93NUMPY"), "cannot read a.npy as an image"),
    ("scene", "a.png", lambda name: None, "no scene at a.png"),
    ("scene", "a.png", lambda name: Path(name).mkdir(), "contains no posed images"),
    ("sequence", "a.txt", written(b""), "0 characters"),
    ("sequence", "a.txt", written(b"\xff\xfe\0"), "is not UTF-8 text (byte 1)"),
    ("sequence", "a.txt", written(b"a\0" * 999), "is a binary file"),
    ("sequence", "a.txt", lambda name: Path(name).mkdir(), "it is a folder"),
    ("sequence", "a.txt", lambda name: None, "there is no such file"),
]


@pytest.mark.parametrize(("kind", "name", "write", "message"), BAD)
def test_what_is_no_data_of_the_kind_is_refused_in_one_line(
    kind: str,
    name: str,
    write: Callable[[str], object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(name)
    kind_properties.require_refused(kind, name, message, capsys)
