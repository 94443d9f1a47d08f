"""Fits of images: what is learned from, what is held out, and where a fit starts."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
import torch
from app.fit_settings import FitSettings
from app.image_fit import fit_image
from app.progress import fit_with_progress

import train_fit
from baselines.interpolation import INTERPOLATIONS
from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training import corner_cache, patch_network, recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.schedules import constant
from scenes import open_image
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def settings_for(steps: int, batch_size: int, lr: float, **others: Any) -> FitSettings:
    return FitSettings(
        name="test",
        steps=steps,
        batch_size=batch_size,
        optimizer="muon",
        lr=lr,
        device=torch.device("cpu"),
        **others,
    )


def test_pixels_that_are_held_out_are_not_learned_from() -> None:
    colors = torch.rand(16, 16, 3, generator=torch.Generator().manual_seed(0))
    others = colors.clone()
    others[1::2, 1::2] = 1 - colors[1::2, 1::2]
    options = ImageModel("fourier", width=32, depth=2, num_bands=3)
    settings = settings_for(30, 64, 0.02)
    fits = [
        fit_image(Image.from_rgb(rgb).split_held_out(), options, settings)
        for rgb in (colors, others)
    ]
    assert torch.equal(fits[0].reconstruction, fits[1].reconstruction)
    for fit, image in zip(fits, (colors, others), strict=True):
        assert fit.psnr == pytest.approx(psnr(fit.reconstruction, image[1::2, 1::2]))


def test_a_page_of_text_is_recovered_at_the_default_rate() -> None:
    page = PIL.Image.new("RGB", (96, 96), "white")
    pen = PIL.ImageDraw.Draw(page)
    for line in range(5):
        pen.text((4, 4 + 18 * line), "a page of text", fill="black")
    colors = torch.from_numpy(np.array(page)).float() / 255
    lr = recipes.default_lr("relu", "muon", "fourier")
    result = fit_image(Image.from_rgb(colors), ImageModel("fourier"), settings_for(30, 2048, lr))
    one_color = psnr(colors.mean((0, 1)).expand_as(colors), colors)
    assert result.psnr > one_color + 6


def test_cached_corners_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.from_rgb(torch.rand(12, 17, 3))
    options, settings = ImageModel("hash", width=16, depth=2), settings_for(9, 50, 0.03)
    batches = ShuffledBatches(torch.rand(9, 2), torch.rand(9, 3), 4, seed=0)
    encoder = HashGridEncoder(2, 2)
    assert cache_corners(encoder, MLP(4, 3), batches)[0] is not batches
    cached = fit_image(image, options, settings).reconstruction
    # No image is small enough now to be cached.
    monkeypatch.setattr(corner_cache, "_MOST_BYTES", 0)
    assert cache_corners(encoder, MLP(4, 3), batches) == (batches, None)
    assert torch.equal(cached, fit_image(image, options, settings).reconstruction)


def test_without_a_grid_nothing_is_cached() -> None:
    batches = ShuffledBatches(torch.rand(9, 2), torch.rand(9, 3), 4, seed=0)
    assert cache_corners(FourierEncoder(2, 2), MLP(8, 3), batches) == (batches, None)


@pytest.mark.parametrize("encoding", ["none", "gaussian", "hash"])
def test_a_fit_depends_on_its_seed_alone_and_leaves_torch_s_generator_alone(encoding: str) -> None:
    image = Image.from_rgb(torch.rand(9, 9, 3))
    options = ImageModel(encoding, width=8, depth=1)
    state = torch.random.get_rng_state()
    first = fit_image(image, options, settings_for(3, 20, 0.01, seed=1))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(99)
    again, other = (
        fit_image(image, options, settings_for(3, 20, 0.01, seed=seed)) for seed in (1, 2)
    )
    assert torch.equal(first.reconstruction, again.reconstruction)
    assert not torch.equal(first.reconstruction, other.reconstruction)


def test_the_moving_average_of_the_weights_is_that_of_every_step() -> None:
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.rand(60, 3, generator=torch.Generator().manual_seed(1))

    def weights_with(ema_decay: float | None) -> list[torch.Tensor]:
        model = MLP(2, 3, width=8, depth=2, generator=torch.Generator().manual_seed(0))
        matrix = next(model.parameters())
        settings = settings_for(12, 20, 0.02, schedule=constant, ema_decay=ema_decay)
        optimizer = recipes.make_optimizer(model, "muon", 0.02)
        passed: list[torch.Tensor] = []
        fit_with_progress(
            FitState(model, optimizer, 12),
            ShuffledBatches(x, y, 20, seed=0),
            settings,
            after_step=lambda state: passed.append(matrix.detach().double()),
            render_preview=list,
        )
        return [*passed, matrix.detach().double()]

    *passed, last = weights_with(None)
    assert torch.equal(passed[-1], last)
    *_, mean = weights_with(0.7)
    expected = passed[0]
    for weight in passed[1:]:
        expected = 0.7 * expected + 0.3 * weight
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-5)
    assert (mean - last).abs().max() > 1e-3


def test_a_held_out_run_shows_and_measures_what_it_did_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--held-out", "--encodings", "none", "fourier", "gaussian", *SMALL_RUN]
    assert train_fit.main([*options, "--out", "run"]) == 0
    assert "96 to fit, 96 between them to evaluate on" in capsys.readouterr().out
    metrics = json.loads(Path("run/metrics.json").read_text())
    names = ["none", "fourier", "gaussian", *INTERPOLATIONS]
    assert [fit["encoding"] for fit in metrics["fits"]] == names
    assert metrics["fits_with"]["fourier"]["lr"] == recipes.HeldOutRecipe().lr
    assert metrics["fits_with"]["none"]["lr"] == recipes.default_lr("relu", "muon")
    # 12 pixels to fit: half a cycle per pixel is pi * 6, between octaves 2 and 3; one less.
    assert metrics["config"]["model"]["bands"] == 2
    original = np.asarray(PIL.Image.open("run/original.png")).astype(float) / 255
    assert original.shape == (8, 12, 3)
    for fit in metrics["fits"]:
        image = np.asarray(PIL.Image.open(f"run/{fit['encoding']}.png")).astype(float) / 255
        eight_bit_psnr = -10 * np.log10(((image - original) ** 2).mean())
        assert fit["psnr_db"] == pytest.approx(eight_bit_psnr, abs=0.1)


def test_a_run_says_where_interpolation_is_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    # Too few steps to learn anything.
    options = ["--held-out", *SMALL_RUN, "--steps", "1", "--encodings", "none", "--out", "run"]
    assert train_fit.main(options) == 0
    printed = capsys.readouterr().out
    fits = {
        fit["encoding"]: fit for fit in json.loads(Path("run/metrics.json").read_text())["fits"]
    }
    best = max(INTERPOLATIONS, key=lambda name: fits[name]["psnr_db"])
    assert f"{best} interpolation is ahead of every fit" in printed
    assert fits[best]["parameters"] == fits[best]["steps"] == 0


@pytest.fixture
def quick_patch_network(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = functools.partial(patch_network.fit_patch_network, num_steps=20)
    monkeypatch.setattr("app.image_fit.fit_patch_network", quick)


@pytest.mark.usefixtures("quick_patch_network")
def test_a_grid_that_learns_from_the_image_fits_what_lies_between() -> None:
    options = ["--held-out", "--encodings", "hash", "hash-internal", "--size", "48"]
    options += ["--steps", "200", "--batch-size", "400", "--video", "0", "--quiet", "--out", "run"]
    assert train_fit.main(options) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    reached = {fit["encoding"]: fit["psnr_db"] for fit in metrics["fits"]}
    # Alone it has no reason to be smooth; with the network it is about as good as interpolation.
    assert reached["hash-internal"] > reached["hash"] + 0.5
    assert reached["hash-internal"] > reached["bicubic"] - 1
    again = load_fit("run/fits/hash-internal.safetensors")
    assert isinstance(again, ImageFit)
    between = open_image("cat").resized(48).split_held_out().evaluated
    rgb = again(between.coordinates.flatten(0, 1)).clamp(0, 1)
    loaded = psnr(rgb, between.rgb.flatten(0, 1))
    assert loaded == pytest.approx(reached["hash-internal"], abs=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_patch_network")
def test_images_that_are_stacked_learn_what_lies_between_each() -> None:
    options = ["--held-out", "--encodings", "hash-internal", "--quiet", "--video", "0", *SMALL_RUN]
    assert train_fit.main(["--image", "rocket", "--out", "alone", *options]) == 0
    arguments = ["--images", "cat", "rocket", "--stack", "on", "--out", "both", *options]
    assert train_fit.main(arguments) == 0
    alone, stacked = (
        json.loads(Path(name, "metrics.json").read_text())["fits"][0]["psnr_db"]
        for name in ("alone", "both/001-rocket")
    )
    assert stacked == pytest.approx(alone, abs=0.1)


@pytest.mark.slow
def test_many_images_are_held_out_of_alike() -> None:
    options = [
        "--held-out",
        "--encodings",
        "fourier",
        "--quiet",
        "--video",
        "0",
        *SMALL_RUN,
    ]
    assert train_fit.main(["--image", "cat", "--out", "alone", *options]) == 0
    arguments = ["--images", "cat", "cat", "--stack", "on", "--out", "both", *options]
    assert train_fit.main(arguments) == 0
    alone, *both = (
        json.loads(Path(name, "metrics.json").read_text())["fits"][0]["psnr_db"]
        for name in ("alone", "both/000-cat", "both/001-cat")
    )
    assert both == pytest.approx([alone, alone], abs=0.1)


def test_a_image_without_pixels_between_cannot_hold_any_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PIL.Image.new("RGB", (9, 1), "red").save("line.png")
    assert train_fit.main(["--image", "line.png", "--held-out", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "--held-out: line.png: an image of one row or column" in error
    assert not Path("run").exists()
