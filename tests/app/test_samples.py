"""Pixels that are not all equal: masks and observed shares of images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from torch import nn

import train_fit
from nerf_posenc.core.encoder import Identity
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.loop import weighted_mse
from nerf_posenc_app import fit
from nerf_posenc_app.kinds.image.image import ImageKind
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.kinds.image.reconstruction import reconstruct
from nerf_posenc_app.kinds.image.samples import masked
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.values.blocks import View
from tests.fits import fit_alone

FEW: dict[str, Any] = dict(steps=20, width=16, depth=1, video=0, quiet=True)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Pillow.fromarray(rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)).save("a.png")
    mask = np.full((16, 24), 255, dtype=np.uint8)
    mask[:, 10:] = 0
    Pillow.fromarray(mask).save("mask.png")


def opened(**options: Any) -> Image:
    return ImageKind.open(ImageOptions(image="a.png", **options)).image


@pytest.mark.parametrize("encoding", ["fourier", "hash"])
def test_what_a_mask_leaves_out_is_never_read(encoding: str) -> None:
    weights = np.ones((16, 24), np.float32)
    weights[:, 10:] = 0
    plain, poisoned = opened(), opened()
    results = []
    for image, value in ((plain, 0.0), (poisoned, float("nan"))):
        pixels = image.rgb.clone()
        pixels[:, 10:] = value
        made = Image(pixels, image.x, image.y, "a", weights=torch.from_numpy(weights))
        options = ImageOptions(encodings=(encoding,), steps=20, batch_size=50, device="cpu")
        kind = ImageKind(options, made)
        config = kind.resolve(options)
        (name,) = kind.fit_names(config)
        results.append(fit_alone(kind, name, config))
    first, second = results
    assert first.scores == second.scores
    assert first.history[-1].score == second.history[-1].score
    views = [result.blocks(View)[0].reconstruction for result in results]
    assert torch.equal(*views)


def test_weights_scale_the_loss() -> None:
    image = opened()
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(16, 24, generator=generator)
    weights[3] = 0
    made = Image(image.pixels, image.x, image.y, weights=weights)
    batches = PixelBatches(made, 10_000, seed=0)
    points, targets = batches(0)
    assert len(points) == 15 * 24 == made.num_fitted
    assert batches.is_weighted
    guess = torch.rand(len(points), 3, generator=generator)
    kept = weights[weights > 0]
    order = batches.rows(0)
    expected = (kept[order] * (guess - targets[:, :3]).square().mean(1)).mean() / kept.mean()
    torch.testing.assert_close(weighted_mse(guess, targets), expected)
    # Weights that are all alike are none.
    alike = Image(image.pixels, image.x, image.y, weights=torch.full((16, 24), 0.5))
    rows = PixelBatches(alike, 100, seed=0)(0)
    plain = PixelBatches(image, 100, seed=0)(0)
    assert all(torch.equal(*pair) for pair in zip(rows, plain, strict=True))


def test_ssim_of_valid_pixels_reads_no_others() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = torch.rand(2, 30, 40, 3, generator=generator)
    valid = torch.zeros(30, 40, dtype=torch.bool)
    valid[:, :25] = True
    c = a.clone()
    c[:, 25:] = float("nan")
    assert ssim(c, b, valid) == pytest.approx(ssim(a, b, valid))
    assert ssim(a, b, torch.ones_like(valid)) == pytest.approx(ssim(a, b))
    inside = torch.zeros_like(valid)
    inside[:, :20] = True
    # Their centers end 5 pixels before the crop does.
    crop = [torch.where(inside[..., None], image, 0.0)[:, :25] for image in (a, b)]
    assert ssim(a, b, inside) == pytest.approx(ssim(*crop))


def test_a_reduced_mask_averages_what_it_keeps() -> None:
    image = opened()
    weights = (torch.arange(16 * 24).reshape(16, 24) % 3 > 0).float()
    pixels = image.rgb.clone()
    pixels[weights == 0] = float("nan")
    small = Image(pixels, image.x, image.y, weights=weights).resized(12)
    assert small.weights is not None
    for row, column in ((0, 0), (5, 7)):
        block = (slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2))
        kept = weights[block] > 0
        torch.testing.assert_close(small.rgb[row, column], image.rgb[block][kept].mean(0))
        assert float(small.weights[row, column]) == float(kept.float().mean())


def test_observed_and_unobserved_pixels_have_a_score_each() -> None:
    image = opened()
    is_observed = torch.rand(16, 24, generator=torch.Generator().manual_seed(0)) > 0.3
    model = nn.Sequential(Identity(2), MLP(2, 3, width=8, depth=1))
    found = reconstruct(image.observed(is_observed), model, torch.device("cpu"))
    for score, weights in ((found.psnr, ~is_observed), (found.psnr_fitted, is_observed)):
        assert score == pytest.approx(psnr(found.values, image.rgb, weights.float()))
    assert found.psnr != found.psnr_fitted


def test_a_mask_keeps_no_pixel_that_has_no_value() -> None:
    has_value = torch.rand(16, 24, generator=torch.Generator().manual_seed(0)) > 0.2
    image = replace(opened(), weights=has_value.float())
    found = masked(ImageOptions(image="a.png", mask="mask.png"), image).weights
    # The mask keeps the ten columns on the left.
    expected = has_value & (torch.arange(24) < 10)
    assert found is not None
    assert torch.equal(found, expected.float())


def test_an_observed_share_is_exact_seeded_and_disjoint() -> None:
    image = opened(observed="0.25")
    held = image.evaluated
    assert image.num_fitted == 96 == round(0.25 * 16 * 24)
    assert held.num_fitted == 3 * 96
    assert image.weights is not None
    assert held.weights is not None
    assert not bool((image.weights * held.weights).any())
    again, other = opened(observed="0.25"), opened(observed="0.25", seed=1)
    assert torch.equal(image.weights, again.weights)  # type: ignore[arg-type]
    assert not torch.equal(image.weights, other.weights)  # type: ignore[arg-type]
    # Half as many samples across as the image has: bands and sigma follow.
    assert image.resolution == 12
    columns = opened(observed="columns:0.5")
    assert columns.weights is not None
    assert bool((columns.weights == columns.weights[:1]).all())
    pattern = opened(observed="mask.png")
    assert pattern.weights is not None
    assert bool(pattern.weights[:, :10].all())
    assert not bool(pattern.weights[:, 10:].any())
    # The file has the size of the whole image, whatever --size reduces it to.
    assert opened(observed="mask.png", size=12).size == (12, 8)
    Pillow.new("L", (12, 8), 255).save("small.png")
    with pytest.raises(UsageError, match="must be of the size of the image, 24 x 16; it is 12 x 8"):
        opened(observed="small.png", size=12)


def test_a_run_scores_observed_and_unobserved_pixels() -> None:
    x, y = np.meshgrid(np.linspace(0, 1, 24), np.linspace(0, 1, 16))
    ramp = np.stack([x, y, 0.5 * (x + y)], -1)
    run = fit(image=ramp, observed=0.3, encodings=["none", "fourier"], **FEW)
    assert {"given", "linear", "rbf"} <= set(run.scores)
    assert set(run.scores["none"]) == {"psnr_db", "psnr_fitted_db", "ssim"}
    # Linear interpolation has a ramp but for its border, thin-plate splines have all of it.
    assert run.scores["linear"]["psnr_db"] > 30
    assert run.scores["rbf"]["psnr_db"] > 60
    again = fit(image=ramp, observed=0.3, encodings=["none", "fourier"], **FEW)
    assert again.scores["none"] == run.scores["none"]


def test_alpha_is_a_mask_and_colors_are_those_beneath() -> None:
    rng = np.random.default_rng(4)
    rgba = rng.integers(0, 256, (16, 24, 4), dtype=np.uint8)
    rgba[:, 12:, 3] = 0
    rgba[:, :12, 3] = np.maximum(rgba[:, :12, 3], 128)
    Pillow.fromarray(rgba).save("alpha.png")
    image = ImageKind.open(ImageOptions(image="alpha.png", mask="alpha")).image
    assert image.num_fitted == 16 * 12
    expected = torch.from_numpy(rgba[:, :12, :3]).float() / 255
    torch.testing.assert_close(image.rgb[:, :12], expected, atol=1e-5, rtol=0)


def test_auto_judges_by_fitted_values_that_are_held_out() -> None:
    asked = ImageOptions(
        observed="0.5",
        image="a.png",
        encodings=("fourier",),
        num_bands="auto",
        steps=20,
        device="cpu",
        quiet=True,
    )
    image = ImageKind.open(asked).image
    assert image.held_out is not None
    chosen = []
    for clean in (image.held_out.rgb, torch.full_like(image.rgb, float("nan"))):
        held_out = replace(image.held_out, pixels=clean)
        kind = ImageKind(asked, replace(image, held_out=held_out))
        chosen.append((kind.resolve(asked).num_bands, kind.facts["auto_bands"]))
    # What is scored has no say: not even whether it is a number.
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--mask small.png", "--mask small.png must be of the size of the image, 24 x 16; it is 8"),
        ("--mask black.png", "--mask black.png leaves no pixel to fit"),
        ("--mask a.png", "--mask a.png has colors; save it in black and white"),
        ("--mask none.png", "none.png: there is no such file"),
        ("--mask alpha", "--mask alpha: a.png has no alpha channel"),
        ("--observed 0", "--observed must be above 0 and below 1, or a file; got 0"),
        ("--observed columns:1.5", "above 0 and below 1, or a file; got 1.5"),
        ("--observed 0.0001", "it observes 0 of 384 pixels"),
        ("--observed white.png", "it observes 384 of 384 pixels"),
        ("--observed 0.1 --held-out", "--observed and --held-out exclude each other"),
        ("--references rbf", "--references rbf is for --observed or --held-out; add it"),
    ],
)
def test_a_mistake_names_the_file_and_what_to_do(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("black", 0), ("white", 255)):
        Pillow.fromarray(np.full((16, 24), value, dtype=np.uint8)).save(f"{name}.png")
    Pillow.fromarray(np.full((8, 8), 255, dtype=np.uint8)).save("small.png")
    assert train_fit.main(["--image", "a.png", *words.split(), "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") <= 2
    assert not Path("run").exists()
