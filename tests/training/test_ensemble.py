"""Batched ensembles: each member must become what it would alone."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from app.fit_settings import FitSettings
from app.image_ensemble import fit_images
from app.image_fit import fit_image
from torch import nn

import train_fit
from app import ensembles
from nerf_posenc.images import Image
from nerf_posenc.networks import MLP, NETWORKS
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.ensemble import BatchedEnsemble, EnsembleLoss, stacked_batches
from nerf_posenc.training.image_model import ImageModel
from nerf_posenc.training.loop import FitState, fit
from scenes import open_image
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")

SETTINGS = FitSettings(
    name="fourier",
    steps=30,
    batch_size=200,
    optimizer="muon",
    lr=0.03,
    device=torch.device("cpu"),
    num_snapshots=3,
)
SMALL = ImageModel("fourier", width=16, depth=2, num_bands=4)


def cat(size: int) -> Image:
    return open_image("cat").resized(size)


def pair(encoding: str, name: str, seed: int) -> tuple[nn.Module, nn.Module]:
    generator = torch.Generator().manual_seed(seed)
    encoder = recipes.make_encoder(
        encoding, 2, resolution=24 + 8 * seed, num_bands=4, generator=generator
    )
    network = NETWORKS[name](encoder.out_dim, 3, width=16, depth=2, generator=generator)
    return encoder, network


@pytest.mark.parametrize(
    ("encoding", "network"),
    [("fourier", "relu"), ("gaussian", "relu"), ("hash", "relu")]
    + [("none", name) for name in NETWORKS],
)
def test_each_member_gives_what_it_gives_alone(encoding: str, network: str) -> None:
    pairs = [pair(encoding, network, seed) for seed in range(3)]
    ensemble = BatchedEnsemble([e for e, _ in pairs], [n for _, n in pairs])
    inputs = torch.rand(3, 50, 2) * 2 - 1
    outputs = ensemble(inputs)
    for x, y, (encoder, network_) in zip(inputs, outputs, pairs, strict=True):
        torch.testing.assert_close(y, network_(encoder(x)))
    weighting = torch.rand_like(outputs)
    (outputs * weighting).sum().backward()
    for x, w, (encoder, network_) in zip(inputs, weighting, pairs, strict=True):
        for parameter in nn.Sequential(encoder, network_).parameters():
            ensemble_gradient, parameter.grad = parameter.grad, None
            (network_(encoder(x)) * w).sum().backward(inputs=[parameter])
            torch.testing.assert_close(ensemble_gradient, parameter.grad)


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_an_ensemble_takes_the_steps_of_its_members_alone(optimizer: recipes.Optimizer) -> None:
    generator = torch.Generator().manual_seed(0)
    data = [
        (torch.rand(300, 2, generator=generator) * 2 - 1, torch.rand(300, 3, generator=generator))
        for _ in range(3)
    ]
    draws = [ShuffledBatches(x, y, 100, seed=i) for i, (x, y) in enumerate(data)]

    def lone(i: int) -> list[float]:
        model = nn.Sequential(*pair("fourier", "relu", i))
        state = FitState(model, recipes.make_optimizer(model, optimizer, 0.01), 20)
        return [record.loss for record in fit(state, draws[i], record_every=5).history]

    pairs = [pair("fourier", "relu", i) for i in range(3)]
    ensemble = BatchedEnsemble([e for e, _ in pairs], [n for _, n in pairs])
    group = recipes.make_optimizer(ensemble, optimizer, 0.01, matrices=ensemble.hidden_matrices())
    loss = EnsembleLoss()
    losses: list[list[float]] = []
    fit(
        FitState(ensemble, group, 20),
        stacked_batches(draws),
        loss,
        record_every=5,
        on_record=lambda state: losses.append(loss.take()),
    )
    for i in range(3):
        assert [each[i] for each in losses] == pytest.approx(lone(i), rel=2e-3)


def test_images_fitted_together_have_results_of_their_own() -> None:
    images = [cat(24), cat(32)]
    together = fit_images(images, [SMALL] * 2, SETTINGS)
    alone = [fit_image(image, SMALL, SETTINGS) for image in images]
    for mine, other in zip(together, alone, strict=True):
        assert mine.reconstruction.shape == other.reconstruction.shape
        assert mine.psnr == pytest.approx(other.psnr, abs=0.1)
        assert mine.parameters == other.parameters
        steps, losses = zip(*((r.step, r.loss) for r in mine.history), strict=True)
        assert steps == tuple(r.step for r in other.history)
        assert losses == pytest.approx([r.loss for r in other.history], rel=0.02)
        assert [s.step for s in mine.snapshots] == [s.step for s in other.snapshots]
        previews = mine.snapshots[-1].images, other.snapshots[-1].images
        for preview, expected in zip(*previews, strict=True):
            torch.testing.assert_close(preview, expected, atol=0.05, rtol=0)
        assert mine.snapshots[-1].psnr == pytest.approx(-10 * math.log10(losses[-1]))


def test_images_whose_batches_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="one size"):
        fit_images([cat(8), cat(32)], [SMALL] * 2, SETTINGS)


def test_members_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="one encoder for each network"):
        BatchedEnsemble([], [])
    with pytest.raises(ValueError, match="one encoder for each network"):
        BatchedEnsemble([nn.Identity()], [MLP(2, 3), MLP(2, 3)])
    with pytest.raises(ValueError, match="same shapes"):
        BatchedEnsemble([nn.Identity(), nn.Identity()], [MLP(2, 3), MLP(2, 3, width=8)])


@pytest.mark.slow
def test_the_program_batches_images_of_one_size(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8)
    PIL.Image.fromarray(noise).save("in/small.png")
    Path("in/broken.png").write_text("no image")
    sizes: list[int] = []

    def counted(images, *arguments, **settings):  # type: ignore[no-untyped-def]
        sizes.append(len(images))
        return fit_images(images, *arguments, **settings)

    monkeypatch.setattr(ensembles, "fit_images", counted)
    arguments = ["--images", "in", "cat", "cat", "--stack", "on", "--out", "run", *SMALL_RUN]
    assert train_fit.main(arguments) == 1
    printed = capsys.readouterr()
    assert "cannot read in/broken.png" in printed.err
    assert sizes == [2, 2, 2]
    table = Path("run/images.txt").read_text()
    assert table.strip() in printed.out
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert list(rows)[1:4] == ["001-small", "002-cat", "003-cat"]
    assert rows["002-cat"] == rows["003-cat"]
    for name in ("001-small", "002-cat", "003-cat"):
        assert Path(f"run/{name}/report.html").exists()


@pytest.mark.usefixtures("no_report")
def test_a_series_has_no_ensemble(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--images", "cat", "rocket", "--stack", "on", "--size", "16", "--video", "0"]
    arguments += ["--encodings", "none", "local-cosine", "--steps", "3", "--out", "run"]
    assert train_fit.main(arguments) == 0
    assert "note" not in capsys.readouterr().err
    for folder in ("000-cat", "001-rocket"):
        fits = json.loads(Path("run", folder, "metrics.json").read_text())["fits"]
        assert [fit["encoding"] for fit in fits] == ["none", "local-cosine"]


@pytest.mark.slow
def test_images_whose_ensemble_fails_are_fitted_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **settings: object) -> None:
        raise FloatingPointError("the loss became nan at step 3")

    monkeypatch.setattr(ensembles, "fit_images", fails)
    arguments = ["--images", "cat", "cat", "--stack", "on", "--out", "run", *SMALL_RUN]
    assert train_fit.main(arguments) == 0
    assert "now each image alone" in capsys.readouterr().err
    assert len(Path("run/images.txt").read_text().splitlines()) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_fit_takes_the_same_steps() -> None:
    training = replace(SETTINGS, num_snapshots=0)
    plain = fit_image(cat(24), SMALL, training)
    compiled = fit_image(cat(24), SMALL, replace(training, compiled=True))
    losses = [record.loss for record in plain.history]
    assert [record.loss for record in compiled.history] == pytest.approx(losses, rel=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_a_compiler_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.compiler.reset()
    arguments = ["--compile", "--encodings", "none", "--quiet", "--out", "run", *SMALL_RUN]
    with torch._inductor.config.patch({"force_disable_caches": True, "cpp.cxx": (None, "/no/c++")}):
        assert train_fit.main(arguments) == 1
    assert "leave out --compile" in capsys.readouterr().err
    assert not Path("run").exists()
