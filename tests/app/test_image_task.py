"""Fits of images: what is learned from, what is held out, and where a fit starts."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
import torch
from torch import Tensor

import train_fit
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.schedules import constant
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.interpolation import INTERPOLATIONS
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.kind import Fit, Problem
from nerf_posenc_app.options import CommonConfig
from nerf_posenc_app.runs.saved import read_metrics
from nerf_posenc_app.values.blocks import View
from nerf_posenc_app.values.measures import BATCH_PSNR
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.fits import fitted, train_alone
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def fit_image(
    image: Image, encoding: str, steps: int, batch_size: int, lr: float, **options: Any
) -> Result:
    kind = ImageKind(ImageOptions(), image)
    return fitted(
        kind, encoding, steps=steps, batch_size=batch_size, lr=lr, references=(), **options
    )


def reconstruction(result: Result) -> Tensor:
    view = result.blocks(View)[0]
    assert isinstance(view, View)
    return view.reconstruction


def test_pixels_that_are_held_out_are_not_learned_from() -> None:
    colors = torch.rand(16, 16, 3, generator=torch.Generator().manual_seed(0))
    others = colors.clone()
    others[1::2, 1::2] = 1 - colors[1::2, 1::2]
    small = {"width": 32, "depth": 2, "num_bands": 3}
    fits = [
        fit_image(Image.from_rgb(rgb).split_held_out(), "fourier", 30, 64, 0.02, **small)
        for rgb in (colors, others)
    ]
    assert torch.equal(*map(reconstruction, fits))
    for fit, image in zip(fits, (colors, others), strict=True):
        expected = psnr(reconstruction(fit), image[1::2, 1::2])
        assert fit.scores["psnr_db"] == pytest.approx(expected)


def test_a_page_of_text_is_recovered_at_the_default_rate() -> None:
    page = PIL.Image.new("RGB", (96, 96), "white")
    pen = PIL.ImageDraw.Draw(page)
    for line in range(5):
        pen.text((4, 4 + 18 * line), "a page of text", fill="black")
    colors = torch.from_numpy(np.array(page)).float() / 255
    lr = recipes.default_lr("muon", "fourier")
    result = fit_image(Image.from_rgb(colors), "fourier", 30, 2048, lr, num_bands=10)
    one_color = psnr(colors.mean((0, 1)).expand_as(colors), colors)
    assert result.scores["psnr_db"] > one_color + 6


@pytest.mark.parametrize("encoding", ["none", "gaussian", "hash"])
def test_a_fit_depends_on_its_seed_alone_and_leaves_torch_s_generator_alone(encoding: str) -> None:
    image = Image.from_rgb(torch.rand(9, 9, 3))
    small = {"width": 8, "depth": 1}
    state = torch.random.get_rng_state()
    first = fit_image(image, encoding, 3, 20, 0.01, seed=1, **small)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(99)
    again, other = (fit_image(image, encoding, 3, 20, 0.01, seed=seed, **small) for seed in (1, 2))
    assert torch.equal(reconstruction(first), reconstruction(again))
    assert not torch.equal(reconstruction(first), reconstruction(other))


def test_the_moving_average_of_the_weights_is_that_of_every_step() -> None:
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.rand(60, 3, generator=torch.Generator().manual_seed(1))

    def weights_with(ema_decay: float | None) -> list[torch.Tensor]:
        model = MLP(2, 3, width=8, depth=2, generator=torch.Generator().manual_seed(0))
        matrix = next(model.parameters())
        optimizer = recipes.make_optimizer(model, "muon", 0.02)
        passed: list[torch.Tensor] = []
        problem = Problem(
            draw_batch=ShuffledBatches(x, y, 20, seed=0),
            optimizer=optimizer,
            schedule=constant,
            ema_decay=ema_decay,
            after_step=lambda state: passed.append(matrix.detach().double()),
        )
        config = CommonConfig(steps=12, video=0, quiet=True)
        state = FitState(model, optimizer, 12)
        name = FitName("none")
        fit = Fit(name=name, config=config, model=model, problem=problem, state=state)
        train_alone(fit, BATCH_PSNR)
        return [*passed, matrix.detach().double()]

    *passed, last = weights_with(None)
    assert torch.equal(passed[-1], last)
    *_, mean = weights_with(0.7)
    expected = passed[0]
    for weight in passed[1:]:
        expected = 0.7 * expected + 0.3 * weight
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-5)
    assert (mean - last).abs().max() > 1e-3


@pytest.mark.parametrize("ema_decay", [None, 0.9])
def test_snapshots_are_denser_at_the_start_of_a_fit_and_one_is_of_its_end(
    ema_decay: float | None,
) -> None:
    x = torch.rand(8, 2, generator=torch.Generator().manual_seed(0))
    model = MLP(2, 3, width=4, depth=1, generator=torch.Generator().manual_seed(0))
    optimizer = recipes.make_optimizer(model, "adam", 0.02)
    problem = Problem(
        draw_batch=ShuffledBatches(x, torch.ones(8, 3), 8, seed=0),
        optimizer=optimizer,
        ema_decay=ema_decay,
        preview=lambda: [model(x)[None].detach()],
    )
    fit = Fit(
        name=FitName("none"),
        config=CommonConfig(steps=200, video=5, quiet=True),
        model=model,
        problem=problem,
        state=FitState(model, optimizer, 200),
    )
    train_alone(fit, BATCH_PSNR)
    steps = [snapshot.step for snapshot in fit.snapshots]
    gaps = [b - a for a, b in itertools.pairwise(steps)]
    assert len(steps) == 5
    assert steps[-1] == 200
    assert gaps == sorted(set(gaps))
    assert torch.equal(fit.snapshots[-1].images[0], model(x)[None])


def test_snapshots_that_are_due_together_are_one() -> None:
    model = MLP(2, 3, width=4, depth=1, generator=torch.Generator().manual_seed(0))
    optimizer = recipes.make_optimizer(model, "adam", 0.02)
    x = torch.rand(8, 2, generator=torch.Generator().manual_seed(0))
    fit = Fit(
        name=FitName("none"),
        config=CommonConfig(steps=30, video=20, quiet=True),
        model=model,
        problem=Problem(
            draw_batch=ShuffledBatches(x, torch.ones(8, 3), 8, seed=0),
            optimizer=optimizer,
            preview=lambda: [torch.zeros(1, 1, 3)],
        ),
        state=FitState(model, optimizer, 30),
    )
    train_alone(fit, BATCH_PSNR)
    assert [snapshot.step for snapshot in fit.snapshots] == [10, 20, 30]


def test_a_held_out_run_shows_and_measures_what_it_did_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--held-out", "--encodings", "none", "fourier", "gaussian", *SMALL_RUN]
    assert train_fit.main([*options, "--out", "run"]) == 0
    assert "96 to fit, 96 others to evaluate on" in capsys.readouterr().out
    metrics = json.loads(Path("run/metrics.json").read_text())
    names = ["none", "fourier", "gaussian", *INTERPOLATIONS]
    assert [fit["encoding"] for fit in metrics["fits"]] == names
    assert metrics["fits"][1]["lr"] == recipes.HeldOutRecipe().lr
    assert metrics["fits"][0]["lr"] == recipes.default_lr("muon")
    keys = ("schedule", "ema_decay", "adam_lr")
    fits = read_metrics(Path("run")).fits
    none, fourier, *_ = ([fit.details[key] for key in keys] for fit in fits)
    assert (none, fourier) == (["cosine_decay", 0, 0.01], ["constant", 0.97, 0.001])
    assert (
        "learning rate 0.01 against 0.05, Adam learning rate 0.001 against 0.01, constant against "
        "cosine decay schedule, EMA decay 0.97 against 0"
    ) in metrics["finding"]["qualifications"][1]
    # 12 pixels to fit: half a cycle per pixel is pi * 6, between octaves 2 and 3; one less.
    assert metrics["config"]["num_bands"] == 3
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
    assert "After 1 of the usual 600 steps, too few to compare: PSNR" in printed
    assert f"{fits[best]['psnr_db']:.2f} dB ({best})" in printed
    assert fits[best]["parameters"] == fits[best]["steps"] == 0


def test_a_image_without_pixels_between_cannot_hold_any_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PIL.Image.new("RGB", (9, 1), "red").save("line.png")
    assert train_fit.main(["--image", "line.png", "--held-out", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "--held-out: line.png: an image of one row or column" in error
    assert not Path("run").exists()
