"""What one more row of a table costs: it is fitted, stopped, resumed, compared and scored."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import train_fit
from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.fits import SceneFit, load_fit
from nerf_posenc.networks.mlp import seeded_linear
from nerf_posenc.radiance.base_renderer import FieldRates, Renderer
from nerf_posenc.radiance.build import FIELDS, FieldOptions, FieldParts, FieldRecipe
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.renderers import GridRenderer
from nerf_posenc.training.encoding_recipe import EncoderDescription
from nerf_posenc.training.optimizers import OptimizerGroup
from nerf_posenc.training.recipes import (
    ENCODINGS,
    NETWORKS,
    OPTIMIZERS,
    EncodingRecipe,
    HeldOutRecipe,
    NetworkRecipe,
    OptimizerRecipe,
)
from nerf_posenc_app.kinds.image import scores
from nerf_posenc_app.kinds.image.reconstruction import evaluated_pixels
from nerf_posenc_app.values.measures import Measure
from tests.signals import resumed_to_the_bit
from tests.small import write_noise

pytestmark = pytest.mark.usefixtures("own_folder", "no_hull")

SHORT = ["--steps", "30", "--batch-size", "32", "--video", "0"]
HELD_OUT = ["--image", "noise.png", "--held-out", "--references", "bilinear", *SHORT]
SCENE = ["--scene", "spheres", "--size", "8", "--test-views", "1", "--turntable", "0", *SHORT]


def values(metrics: dict[str, Any], *names: str) -> dict[str, list[Any]]:
    """Values of every fit and reference of a run, by its name."""
    return {fit["name"]: [fit.get(name) for name in names] for fit in metrics["fits"]}


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize(
    "data",
    [HELD_OUT, [*SCENE, "--field", "mlp"], [*SCENE, "--field", "proposal"]],
    ids=["image", "mlp", "proposal"],
)
def test_a_new_encoding_says_its_options_and_its_layers_for_all_data(
    data: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(model: EncoderDescription, generator: torch.Generator | None) -> Encoder:
        return HashGridEncoder(
            model.in_dim, model.num_bands, log2_table_size=6, generator=generator
        )

    row = EncodingRecipe(
        title="A grid", build=build, options_used=("num_bands",), is_grid=True, layers=(8, 2)
    )
    monkeypatch.setitem(ENCODINGS, "grid", row)
    write_noise()
    arguments = [*data, "--encodings", "none", "grid", "--bands", "3"]
    metrics = resumed_to_the_bit(monkeypatch, arguments, 2)
    found = values(metrics, "num_bands", "width", "depth")
    assert found["grid"] == [3, 8, 2]
    assert found["none"][0] is None
    assert found["none"][1:] != [8, 2]
    if "--image" in data:
        assert found["bilinear"] == [None] * 3
        several = [*data, "--encodings", "grid", "--bands", "2", "3", "--quiet", "--out", "several"]
        assert train_fit.main(several) == 0
        fits = json.loads(Path("several/metrics.json").read_text())["fits"]
        assert [fit["swept"].get("num_bands") for fit in fits] == [2, 3, None]
    for wrong, message in (
        ([*data, "--sigma", "2"], "--sigma is for the encoding gaussian"),
        ([*SCENE, "--field", "nerf"], "--field nerf does not take grid; use --field mlp"),
    ):
        assert train_fit.main([*wrong, "--encodings", "grid"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("no_report")
def test_a_new_optimizer_and_a_new_network_say_their_learning_rates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def momentum(module: nn.Module, matrices: object, *, lr: float, **_: object) -> OptimizerGroup:
        return OptimizerGroup([torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)])

    def linear(in_dim: int, out_dim: int, *, generator: torch.Generator, **_: object) -> nn.Module:
        return seeded_linear(in_dim, out_dim, generator)

    row = OptimizerRecipe(build=momentum, lr=0.25, held_out=HeldOutRecipe(lr=0.02))
    monkeypatch.setitem(OPTIMIZERS, "momentum", row)
    network = NetworkRecipe(title="A line", build=linear, optimizer="momentum")
    monkeypatch.setitem(NETWORKS, "linear", network)
    write_noise()
    fits = ["--encodings", "linear", "fourier", "--optimizer", "momentum"]
    metrics = resumed_to_the_bit(monkeypatch, [*HELD_OUT, *fits], 2)
    found = values(metrics, "optimizer", "lr", "network", "parameters")
    assert found["linear"] == ["momentum", 0.25, "linear", 2 * 3 + 3]
    # Between the pixels, sinusoids are fitted slowly.
    assert found["fourier"][:3] == ["momentum", 0.02, "relu"]
    assert found["bilinear"] == [None, None, None, 0]
    assert train_fit.main([*HELD_OUT, "--encodings", "linea"]) == 2
    assert "no encoding 'linea'; did you mean linear" in capsys.readouterr().err


@pytest.mark.usefixtures("no_report")
def test_a_new_field_says_its_encodings_its_layers_and_its_rates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(options: FieldOptions, parts: FieldParts) -> Renderer:
        assert parts.hull is None or not bool(parts.hull.all())
        width, depth = options.layers
        encoders = FourierEncoder(3, 2), Identity(3)
        field = RadianceField(*encoders, width=width, depth=depth, generator=parts.generator)
        return GridRenderer(field, OccupancyGrid(possible=parts.hull), num_samples=12)

    row = FieldRecipe(
        about="a tiny one",
        build=build,
        layers=(8, 1),
        encodings=lambda: ["fourier"],
        default_encodings=("fourier",),
        rates=FieldRates({"muon": 0.04}),
        has_grid=True,
    )
    monkeypatch.setitem(FIELDS, "mine", row)
    metrics = resumed_to_the_bit(monkeypatch, [*SCENE, "--field", "mine"], 1)
    (of_fit,) = metrics["fits"]
    assert metrics["config"]["field"] == "mine"
    assert (of_fit["encoding"], of_fit["lr"]) == ("fourier", 0.04)
    fit = load_fit("whole/fits/fourier.safetensors")
    assert isinstance(fit, SceneFit)
    assert (fit.options.field, fit.options.layers) == ("mine", (8, 1))
    assert of_fit["parameters"] == sum(p.numel() for p in fit.renderer.parameters())
    density, rgb = fit.field(torch.zeros(2, 3), torch.zeros(2, 3))
    assert (density.shape, rgb.shape) == ((2,), (2, 3))
    for wrong, message in (
        (["mine", "--encodings", "hash"], "--field mine does not take hash; use --field mlp"),
        (["mine", "--exposure"], "--exposure is for --field proposal or auto"),
        (["mime"], "no field 'mime'; did you mean mine?"),
    ):
        assert train_fit.main([*SCENE, "--field", *wrong, "--out", "other"]) == 2
        assert message in capsys.readouterr().err


def test_a_new_score_is_a_column_of_fits_and_references(monkeypatch: pytest.MonkeyPatch) -> None:
    score = scores.Score(
        Measure("mae", "Mean absolute error", digits=3, higher_is_better=False),
        lambda image, found: float((found.values - evaluated_pixels(image)).abs().mean()),
    )
    monkeypatch.setattr(scores, "SCORES", [*scores.SCORES, score])
    write_noise()
    metrics = resumed_to_the_bit(monkeypatch, [*HELD_OUT, "--encodings", "fourier"], 1)
    errors = values(metrics, "mae")
    assert list(errors) == ["fourier", "bilinear"]
    assert all(0 < error < 1 for (error,) in errors.values())
    page = Path("both.html").read_text()
    assert "Mean absolute error" in page
    assert f"{errors['bilinear'][0]:.3f}" in page
