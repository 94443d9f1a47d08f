"""Trials of pictures: what is fitted, what is held out, and where a fit starts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import train_fit
from app import image_task as picture_trials
from app.image_task import ModelOptions, Pixels, try_picture, with_corners
from app.progress import Training, fit_with_progress
from nerf_posenc import HashGridEncoder
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.loop import FitState, ShuffledBatches, constant
from scenes import Picture
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")

CPU = torch.device("cpu")


def pixels_of(colours: torch.Tensor) -> Pixels:
    return Pixels.from_rows(Picture("a", colours, "").coordinates(), colours)


@pytest.mark.parametrize("shape", [(6, 8), (5, 7), (2, 2), (9, 4)])
def test_pixels_held_out_lie_diagonally_between_those_that_are_fitted(
    shape: tuple[int, int],
) -> None:
    whole = pixels_of(torch.rand(*shape, 3))
    fitted = whole.holding_out()
    held_out = fitted.measured
    rows, columns = held_out.colours.shape[:2]
    step = torch.full((rows, columns, 2), 2 / max(shape))
    torch.testing.assert_close(
        held_out.coordinates - fitted.coordinates[:rows, :columns], step, atol=1e-6, rtol=0
    )
    known = {
        tuple(place): tuple(colour)
        for place, colour in zip(
            whole.coordinates.reshape(-1, 2).tolist(),
            whole.colours.reshape(-1, 3).tolist(),
            strict=True,
        )
    }
    places: list[tuple[float, ...]] = []
    for part in (fitted, held_out):
        pairs = zip(part.coordinates.reshape(-1, 2), part.colours.reshape(-1, 3), strict=True)
        for place, colour in pairs:
            assert known[tuple(place.tolist())] == tuple(colour.tolist())
            places.append(tuple(place.tolist()))
    assert (
        len(set(places))
        == len(places)
        == (-(-shape[0] // 2) * -(-shape[1] // 2)) + (shape[0] // 2 * (shape[1] // 2))
    )


def test_pixels_that_are_held_out_are_not_learned_from() -> None:
    colours = torch.rand(16, 16, 3, generator=torch.Generator().manual_seed(0))
    others = colours.clone()
    others[1::2, 1::2] = 1 - colours[1::2, 1::2]
    options = ModelOptions("fourier", width=32, depth=2, num_bands=3)
    training = Training(30, 64, "muon", 0.02, CPU)
    fits = [try_picture(pixels_of(c).holding_out(), options, training) for c in (colours, others)]
    assert torch.equal(fits[0].reconstruction, fits[1].reconstruction)
    for fit, picture in zip(fits, (colours, others), strict=True):
        assert fit.psnr == pytest.approx(psnr(fit.reconstruction, picture[1::2, 1::2]))


def test_a_page_of_text_is_recovered_at_the_default_rate() -> None:
    page = Image.new("RGB", (96, 96), "white")
    pen = ImageDraw.Draw(page)
    for line in range(5):
        pen.text((4, 4 + 18 * line), "a page of text", fill="black")
    colours = torch.from_numpy(np.array(page)).float() / 255
    rate = recipes.default_rate("relu", "muon", "fourier")
    result = try_picture(
        pixels_of(colours), ModelOptions("fourier"), Training(30, 2048, "muon", rate, CPU)
    )
    one_colour = psnr(colours.mean((0, 1)).expand_as(colours), colours)
    assert result.psnr > one_colour + 6


def test_corners_found_once_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = pixels_of(torch.rand(12, 17, 3))
    training = Training(9, 50, "muon", 0.03, CPU)
    batches = ShuffledBatches(torch.rand(9, 2), torch.rand(9, 3), 4, seed=0)
    assert with_corners(HashGridEncoder(2, 2), batches) is not batches
    options = ModelOptions("hash", width=16, depth=2)
    once = try_picture(pixels, options, training).reconstruction
    # No picture is small enough now to keep anything of it.
    monkeypatch.setattr(picture_trials, "_MOST_BYTES", 0)
    assert with_corners(HashGridEncoder(2, 2), batches) is batches
    assert torch.equal(once, try_picture(pixels, options, training).reconstruction)


def test_batches_without_a_grid_stay_as_they_are() -> None:
    batches = ShuffledBatches(torch.rand(9, 2), torch.rand(9, 3), 4, seed=0)
    assert with_corners(torch.nn.Identity(), batches) is batches


def test_the_mean_of_the_weights_is_that_of_every_step() -> None:
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.rand(60, 3, generator=torch.Generator().manual_seed(1))

    def weights_of(mean_decay: float | None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = MLP(2, 3, width=8, depth=2)
        matrix = next(model.parameters())
        training = Training(12, 20, "muon", 0.02, CPU, schedule=constant, mean_decay=mean_decay)
        optimizer = recipes.make_optimizer(model, "muon", 0.02)
        passed: list[torch.Tensor] = []
        fit_with_progress(
            FitState(model, optimizer, 12),
            ShuffledBatches(x, y, 20, seed=0),
            "fourier",
            training,
            after_step=lambda state: passed.append(matrix.detach().double()),
            shoot=list,
            watch=lambda state: None,
        )
        return [*passed, matrix.detach().double()]

    *passed, last = weights_of(None)
    assert torch.equal(passed[-1], last)
    *_, mean = weights_of(0.7)
    expected = passed[0]
    for weight in passed[1:]:
        expected = 0.7 * expected + 0.3 * weight
    torch.testing.assert_close(mean, expected, atol=1e-6, rtol=1e-5)
    assert (mean - last).abs().max() > 1e-3


def test_a_held_out_run_shows_and_measures_what_it_did_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train_fit.main(["--held-out", "--out", "run", *SMALL_RUN]) == 0
    assert "96 to fit, 96 between them to measure by" in capsys.readouterr().out
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["encoding"] for fit in metrics["fits"]] == ["none", "fourier", "gaussian"]
    assert metrics["training"]["fourier"]["rate"] == recipes.INTERPOLATION.rate
    assert metrics["training"]["none"]["rate"] == recipes.default_rate("relu", "muon")
    # 12 pixels to fit: half a cycle a pixel is pi * 6, between octaves 2 and 3; one less.
    assert metrics["options"]["bands"] == 2
    original = np.asarray(Image.open("run/original.png")).astype(float) / 255
    assert original.shape == (8, 12, 3)
    for fit in metrics["fits"]:
        picture = np.asarray(Image.open(f"run/{fit['encoding']}.png")).astype(float) / 255
        eight_bit_psnr = -10 * np.log10(((picture - original) ** 2).mean())
        assert fit["psnr_db"] == pytest.approx(eight_bit_psnr, abs=0.1)


def test_many_pictures_are_held_out_of_alike() -> None:
    options = ["--held-out", "--encodings", "fourier", "--quiet", "--film", "0", *SMALL_RUN]
    assert train_fit.main(["--image", "cat", "--out", "alone", *options]) == 0
    arguments = ["--images", "cat", "cat", "--stack", "on", "--out", "both", *options]
    assert train_fit.main(arguments) == 0
    alone, *both = (
        json.loads(Path(name, "metrics.json").read_text())["fits"][0]["psnr_db"]
        for name in ("alone", "both/000-cat", "both/001-cat")
    )
    assert both == pytest.approx([alone, alone], abs=0.1)


def test_a_picture_without_pixels_between_cannot_hold_any_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Image.new("RGB", (9, 1), "red").save("line.png")
    assert train_fit.main(["--image", "line.png", "--held-out", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "--held-out: line.png: a picture of one row or column" in error
    assert not Path("run").exists()
