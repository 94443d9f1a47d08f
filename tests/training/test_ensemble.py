"""Batched ensembles: each member must become what it would alone."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor, nn

import train_fit
from app.runs import many
from nerf_posenc.networks import MLP
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.ensemble import Ensemble, MemberLosses, stacked_draws
from nerf_posenc.training.loop import FitState, fit, mse
from nerf_posenc.training.optimizers import adam
from nerf_posenc.training.recipes import NETWORKS
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


def pair(encoding: str, name: str, seed: int) -> tuple[nn.Module, nn.Module]:
    generator = torch.Generator().manual_seed(seed)
    encoder = recipes.make_encoder(
        encoding, 2, resolution=24 + 8 * seed, num_bands=4, generator=generator
    )
    network = NETWORKS[name].build(encoder.out_dim, 3, width=16, depth=2, generator=generator)
    return encoder, network


@pytest.mark.parametrize(
    ("encoding", "network"),
    [("fourier", "relu"), ("gaussian", "relu"), ("hash", "relu")]
    + [("none", name) for name in NETWORKS],
)
def test_each_member_gives_what_it_gives_alone(encoding: str, network: str) -> None:
    pairs = [pair(encoding, network, seed) for seed in range(3)]
    ensemble = Ensemble([n for _, n in pairs], [e for e, _ in pairs])
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


def test_a_module_that_stands_in_two_places_is_that_of_each_member() -> None:
    shared = [nn.Linear(4, 4) for _ in range(2)]
    members = [nn.Sequential(layer, nn.Tanh(), layer) for layer in shared]
    ensemble, inputs = Ensemble(members), torch.rand(2, 5, 4)
    for _ in range(2):  # The second time finds what the first one left.
        outputs = ensemble(inputs)
        for x, y, member in zip(inputs, outputs, members, strict=True):
            torch.testing.assert_close(y, member(x))
    assert [name for name, _ in members[0].named_parameters()] == ["0.weight", "0.bias"]


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_an_ensemble_takes_the_steps_of_its_members_alone(optimizer: str) -> None:
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
    ensemble = Ensemble([n for _, n in pairs], [e for e, _ in pairs])
    matrices = [matrix for _, network in pairs for matrix in hidden_matrices(network)]
    group = recipes.make_optimizer(ensemble, optimizer, 0.01, matrices=matrices)
    loss = MemberLosses(mse)
    fit(
        FitState(ensemble, group, 20),
        stacked_draws(draws),
        loss,
        record_every=5,
        on_record=lambda state: loss.record(),
    )
    for i in range(3):
        assert [each[i] for each in loss.histories] == pytest.approx(lone(i), rel=2e-3)


def fits_of(folder: str) -> dict[str, Any]:
    return {f["encoding"]: f for f in json.loads(Path(folder, "metrics.json").read_text())["fits"]}


@pytest.mark.slow
def test_images_fitted_together_have_results_of_their_own() -> None:
    small = [*SMALL_RUN, "--encodings", "fourier", "--quiet"]
    several = ["--images", "cat", "rocket", "--stack", "on", "--out", "run"]
    assert train_fit.main([*several, *small]) == 0
    for folder, name in (("run/000-cat", "cat"), ("run/001-rocket", "rocket")):
        assert train_fit.main(["--image", name, "--out", name, *small]) == 0
        mine, other = fits_of(folder)["fourier"], fits_of(name)["fourier"]
        assert mine["psnr_db"] == pytest.approx(other["psnr_db"], abs=0.1)
        assert mine["parameters"] == other["parameters"]
        steps, losses = zip(*((r["step"], r["mse"]) for r in mine["history"]), strict=True)
        assert list(steps) == [r["step"] for r in other["history"]]
        assert losses == pytest.approx([r["mse"] for r in other["history"]], rel=0.02)
        assert mine["history"][-1]["psnr_db"] == pytest.approx(-10 * math.log10(losses[-1]))
        one, two = (iio.imread(f"{f}/fourier.png") for f in (folder, name))
        assert one.shape == two.shape


def test_members_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 1 member or more"):
        Ensemble([])
    with pytest.raises(ValueError, match="got 2 members and 1 encoders"):
        Ensemble([MLP(2, 3), MLP(2, 3)], [nn.Identity()])
    with pytest.raises(ValueError, match="same shapes"):
        Ensemble([MLP(2, 3), MLP(2, 3, width=8)])


@pytest.mark.slow
def test_images_of_one_configuration_are_fitted_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in").mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8)
    PIL.Image.fromarray(noise).save("in/small.png")
    Path("in/broken.png").write_text("no image")
    sizes: list[int] = []
    together = many._train_together

    def counted(runs: Sequence[Any], *arguments: Any) -> None:
        sizes.append(len(runs))
        together(runs, *arguments)

    monkeypatch.setattr(many, "_train_together", counted)
    arguments = ["--images", "in", "cat", "cat", "--stack", "on", "--out", "run", *SMALL_RUN]
    assert train_fit.main(arguments) == 1
    printed = capsys.readouterr()
    assert "cannot read in/broken.png" in printed.err
    assert sizes == [2, 2, 2]
    table = Path("run/table.txt").read_text()
    assert table.strip() in printed.out
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert list(rows)[1:4] == ["001-small", "002-cat", "003-cat"]
    assert rows["002-cat"] == rows["003-cat"]
    for name in ("001-small", "002-cat", "003-cat"):
        assert Path(f"run/{name}/report.html").exists()


@pytest.mark.slow
def test_images_whose_ensemble_fails_are_fitted_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **settings: object) -> None:
        raise FloatingPointError("the loss became nan at step 3")

    monkeypatch.setattr(many, "_train_together", fails)
    arguments = ["--images", "cat", "cat", "--stack", "on", "--out", "run", *SMALL_RUN]
    assert train_fit.main(arguments) == 0
    assert "now each alone" in capsys.readouterr().err
    assert len(Path("run/table.txt").read_text().splitlines()) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_fit_takes_the_same_steps() -> None:
    small = [*SMALL_RUN, "--encodings", "fourier", "--quiet", "--video", "0"]
    assert train_fit.main([*small, "--out", "plain"]) == 0
    assert train_fit.main([*small, "--compile", "--out", "compiled"]) == 0
    plain, compiled = (
        [r["mse"] for r in fits_of(f)["fourier"]["history"]] for f in ("plain", "compiled")
    )
    assert compiled == pytest.approx(plain, rel=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_a_compiler_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    torch.compiler.reset()
    arguments = ["--compile", "--encodings", "none", "--quiet", "--out", "run", *SMALL_RUN]
    with torch._inductor.config.patch({"force_disable_caches": True, "cpp.cxx": (None, "/no/c++")}):
        assert train_fit.main(arguments) == 1
    assert "leave out --compile" in capsys.readouterr().err
    assert not Path("run").exists()


def member(seed: int) -> nn.Sequential:
    norm = nn.BatchNorm1d(8)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), norm, nn.Linear(8, 2)).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=generator)
    norm.load_state_dict({**norm.state_dict(), "running_mean": torch.randn(8, generator=generator)})
    return model


def draw(seed: int):  # type: ignore[no-untyped-def]
    def batch(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(100 * seed + step)
        x = torch.rand(16, 3, generator=generator)
        return x, x[:, :2].square()

    return batch


@pytest.mark.parametrize("is_stackable", [True, False])
def test_every_member_runs_its_own_inputs_with_its_own_weights_and_buffers(
    is_stackable: bool,
) -> None:
    members = [member(seed) for seed in range(3)]
    inputs = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(0))
    together = Ensemble(members, is_stackable=is_stackable)(inputs)
    for i in range(3):
        torch.testing.assert_close(together[i], members[i](inputs[i]))


def test_nested_inputs_are_split_by_member() -> None:
    class Sum(nn.Module):
        def __init__(self, weight: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(weight))

        def forward(self, inputs: tuple[Tensor, tuple[Tensor]]) -> Tensor:
            return self.weight * (inputs[0] + inputs[1][0])

    x = torch.rand(2, 4, generator=torch.Generator().manual_seed(0))
    for is_stackable in (True, False):
        ensemble = Ensemble([Sum(1.0), Sum(3.0)], is_stackable=is_stackable)
        expected = torch.stack([2 * x[0], 6 * x[1]])
        torch.testing.assert_close(ensemble((x, (x,))), expected)


def test_members_train_as_if_each_were_alone() -> None:
    alone = []
    for seed in range(3):
        model = member(seed)
        fit(FitState(model, adam(model, lr=0.01), 30), draw(seed), mse)
        alone.append(model)
    members = [member(seed) for seed in range(3)]
    ensemble = Ensemble(members)
    loss = MemberLosses(mse)
    state = FitState(ensemble, adam(ensemble, lr=0.01), 30)
    fit(state, stacked_draws([draw(s) for s in range(3)]), loss, on_record=lambda s: loss.record())
    for mine, other in zip(members, alone, strict=True):
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    # The history is the mean over members, and each member's own loss is kept.
    for record, losses in zip(state.history, loss.histories, strict=True):
        assert record.loss == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_a_loss_of_several_seeds_goes_on_from_what_was_saved() -> None:
    loss, other = MemberLosses(mse), MemberLosses(mse)
    x = torch.rand(2, 4, 2)
    for _ in range(3):
        loss(x, x + 1)
    other.load_state_dict(loss.state_dict())
    for each in (loss, other):
        each(x, x + 3)
        each.record()
    assert loss.histories == other.histories == [[3.0, 3.0]]
