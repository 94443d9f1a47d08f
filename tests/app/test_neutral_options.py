"""An option at its neutral value changes nothing: alone, in pairs, and beside other options."""

import dataclasses
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest
import torch

from nerf_posenc.radiance.views import Views
from nerf_posenc_app.data import open_scene
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.kind import Fit, Kind
from nerf_posenc_app.kinds.scene.options import SceneOptions
from nerf_posenc_app.kinds.scene.scene import SceneKind
from nerf_posenc_app.options import CommonOptions, CoordinateOptions
from nerf_posenc_app.runs.train import begin_fit
from tests.corpora import scene_corpus

SIZE = (24, 20)  # width, height
SMALL: dict[str, Any] = dict(width=8, depth=1, encodings=("fourier",), quiet=True, device="cpu")


def pixels_of(kind: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    values = rng.uniform(0.05, 1, (SIZE[1], SIZE[0], 4 if "alpha" in kind else 3))
    if "alpha" in kind:
        values[..., 3] = 1 if kind == "opaque alpha" else rng.uniform(0.3, 1, values.shape[:2])
    if kind == "light":
        return (40 * values**3).astype(np.float32)
    largest = {"16 bits": 65535, "float": 1}.get(kind, 255)
    dtype = {"16 bits": np.uint16, "float": np.float32}.get(kind, np.uint8)
    return (values * largest).astype(dtype)


KINDS = ("8 bits", "16 bits", "float", "light", "alpha", "opaque alpha")
ONES = np.ones((SIZE[1], SIZE[0]), np.float32)

# Values of options that leave the fit as it is; each is tried with each, and with each of `ACTIVE`.
NEUTRAL: dict[str, dict[str, Any]] = {
    "a white mask": {"mask": "white.png"},
    "a mask of ones in memory": {"mask": InMemory(ONES.astype(bool))},
    "its own size": {"size": max(SIZE)},
    "a larger size": {"size": 999},
    "the array": {"image": None},
    "the absolute path": {"image": "absolute"},
    "more pixels": {"max_pixels": 1_000_000},
    "no references": {"references": ()},
}
ACTIVE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a smaller size": {"size": 12},
    "held out": {"held_out": True},
    "observed": {"observed": "0.5"},
    "columns": {"observed": "columns:0.5"},
}
# Options without a neutral value: they say which models are fitted, and for how long.
OTHERS = {"light", "mask", "num_bands", "sigma", "compile", *ACTIVE}


def test_every_option_of_an_image_is_tried() -> None:
    inherited = {field.name for field in dataclasses.fields(CoordinateOptions)}
    own = {field.name for field in dataclasses.fields(ImageOptions)} - inherited
    tried = {name for row in (*NEUTRAL.values(), *ACTIVE.values()) for name in row}
    assert own <= tried | OTHERS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    iio.imwrite("white.png", (255 * ONES).astype(np.uint8))
    return tmp_path


def seen(kind: Kind[Any], options: CommonOptions) -> list[torch.Tensor]:
    """All that a fit gets from its data: batches, targets, initial weights, scores of a model."""
    config = kind.resolve(options)
    fit: Fit[Any] = begin_fit(kind, kind.fit_names(config)[0], config)
    inputs, targets = fit.problem.draw_batch(0)
    inputs = inputs if isinstance(inputs, torch.Tensor) else inputs.rays.origins
    scores = kind.evaluate(fit).scores
    return [
        inputs.float(),
        targets[:, :3].float(),
        torch.cat([p.detach().flatten() for p in fit.model.parameters()]),
        torch.tensor([scores[measure.name] for measure in kind.measures(config)]),
        torch.tensor([config.steps, config.batch_size]),
    ]


def options_for(kind: str, *changes: dict[str, Any]) -> ImageOptions:
    pixels = pixels_of(kind)
    name = "image.png" if pixels.dtype == np.uint8 else "image.npy"
    if not Path(name).exists():
        np.save(name, pixels) if name == "image.npy" else iio.imwrite(name, pixels)
    # Light above 1 is known from a file, and said of an array.
    given: dict[str, Any] = {"image": name, "light": kind == "light", **SMALL}
    for change in changes:
        given |= change
    image: Any = given["image"]
    own = {None: InMemory(pixels), "absolute": str(Path(name).resolve())}
    return ImageOptions(**{**given, "image": own.get(image, image)})


def require_same(kind: str, active: dict[str, Any], *neutral: dict[str, Any]) -> None:
    plain, changed = (options_for(kind, *each) for each in ((active,), (*neutral, active)))
    for expected, found in zip(
        *(seen(ImageKind.open(options), options) for options in (plain, changed)), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6, equal_nan=True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("active", ACTIVE)
def test_a_neutral_value_changes_nothing(active: str, kind: str) -> None:
    for neutral in NEUTRAL.values():
        require_same(kind, ACTIVE[active], neutral)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("active", ACTIVE)
def test_two_neutral_values_change_nothing(active: str, kind: str) -> None:
    for pair in itertools.combinations(NEUTRAL.values(), 2):
        if pair[0].keys().isdisjoint(pair[1]):
            require_same(kind, ACTIVE[active], *pair)


@pytest.mark.usefixtures("folder")
def test_opaque_alpha_as_the_mask_is_no_mask() -> None:
    plain, alpha = (options_for("opaque alpha", change) for change in ({}, {"mask": "alpha"}))
    first, second = (seen(ImageKind.open(options), options) for options in (plain, alpha))
    for expected, found in zip(first, second, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6)


def scene_options(scene: Any, **changes: Any) -> SceneOptions:
    few: dict[str, Any] = dict(field="mlp", turntable=0, test_views=1, steps=2, batch_size=64)
    return SceneOptions(**{**SMALL, **few, "scene": scene, **changes})


def test_neutral_values_of_a_scene_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = open_scene("spheres", size=12).train
    views = replace(scene, pixels=scene.pixels[..., :3].contiguous())
    opaque = torch.ones(*views.pixels.shape[:3], 1, dtype=views.pixels.dtype)
    opaque = opaque if views.pixels.is_floating_point() else 255 * opaque
    masks = torch.ones(*views.pixels.shape[:3], dtype=torch.bool)
    variants: dict[str, tuple[Views, dict[str, Any]]] = {
        "white masks": (replace(views, masks=masks), {}),
        "an opaque alpha": (replace(views, pixels=torch.cat([views.pixels, opaque], -1)), {}),
        "its own size": (views, {"size": 12}),
        "more pixels": (views, {"max_pixels": 1_000_000}),
    }
    plain = scene_options(InMemory(views))
    expected = seen(SceneKind.open(plain), plain)
    for name, (changed, more) in variants.items():
        options = scene_options(InMemory(changed), **more)
        for first, second in zip(expected, seen(SceneKind.open(options), options), strict=True):
            torch.testing.assert_close(second, first, rtol=1e-5, atol=2e-6, msg=name)
    # A folder named by a relative path, by an absolute one, and through a link.
    folder = scene_corpus()["transforms"]
    monkeypatch.chdir(folder.parent)
    (tmp_path / "link").symlink_to(folder)
    found = [open_scene(str(name)).train for name in (folder, folder.name, tmp_path / "link")]
    for other in found[1:]:
        assert torch.equal(other.pixels, found[0].pixels)
        assert (other.masks is None) == (found[0].masks is None)
