"""What one more row of a table costs: it is fitted, stopped, resumed, compared and scored."""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
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
from nerf_posenc_app.kinds import KINDS
from nerf_posenc_app.kinds.coordinates import PSNR, SSIM
from nerf_posenc_app.kinds.image.scores import SCORES
from nerf_posenc_app.report.page import SECTIONS
from nerf_posenc_app.values.blocks import Evaluation, Table
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.signals import resumed_to_the_bit
from tests.small import code_of_docs, write_noise

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
    assert found["linear"] == ["sgd", 0.25, "linear", 2 * 3 + 3]
    # Between the pixels, sinusoids are fitted slowly.
    assert found["fourier"][:3] == ["sgd", 0.02, "relu"]
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


@pytest.fixture
def of_page(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import the block of docs/extend.md that defines a name; its rows are removed afterwards."""

    def load(name: str) -> Any:
        Path("of_page.py").write_text(code_of_docs(name))
        spec = importlib.util.spec_from_file_location("of_page", "of_page.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Help reads the source of the options.
        monkeypatch.setitem(sys.modules, "of_page", module)
        spec.loader.exec_module(module)
        return getattr(module, name)

    named: list[Any] = [SCORES, SECTIONS]
    tables = [(table, dict(table)) for table in named]
    yield load
    for table, rows in tables:
        table.clear()
        table.update(rows)


def test_a_new_score_is_a_column_of_fits_and_references(
    of_page: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_page("mean_absolute_error")
    write_noise()
    metrics = resumed_to_the_bit(monkeypatch, [*HELD_OUT, "--encodings", "fourier"], 1)
    errors = values(metrics, "mae")
    assert list(errors) == ["fourier", "bilinear"]
    assert all(0 < error < 1 for (error,) in errors.values())
    page = Path("both.html").read_text()
    assert "mean absolute error" in page
    assert f"{errors['bilinear'][0]:.3f}" in page


@pytest.fixture
def signal(of_page: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kind of docs/extend.md, and a file for it."""
    kind = of_page("SignalKind")
    monkeypatch.setitem(KINDS, "signal", kind)
    np.save("signal.npy", 0.5 + 0.4 * np.sign(np.sin(20 * np.linspace(-1, 1, 256))))
    return kind


SIGNAL = ["--signal", "signal.npy", "--width", "32", "--depth", "2", "--optimizer", "adam"]


@pytest.mark.usefixtures("signal", "figures")
def test_a_new_kind_is_fitted_reported_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = resumed_to_the_bit(monkeypatch, [*SIGNAL, "--figures"], 3)
    none, fourier = metrics["fits"]
    assert fourier["psnr_db"] > none["psnr_db"]
    assert fourier["gain_db"] == pytest.approx(fourier["psnr_db"] - none["psnr_db"])
    assert metrics["config"]["signal"] == "signal.npy"
    assert "Signal" in Path("whole/report.html").read_text()
    assert Path("whole/figures/results.svg").exists()
    assert "signal.npy" in Path("both.html").read_text()
    assert train_fit.main([*SIGNAL, "--held-out"]) == 2
    assert "--held-out is for --image, not for --signal" in capsys.readouterr().err
    assert train_fit.main(["--signal", "--help"]) == 0
    assert "File of values in [0, 1]." in capsys.readouterr().out


def test_a_new_block_is_shown_and_saved(
    signal: Any, of_page: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gauge = of_page("Gauge")("Peaks <kept>", 0.25)
    blocks = [gauge, Table("Largest errors", ["samples"], [["256"]])]

    class GaugedKind(signal):  # type: ignore[misc]
        def evaluate(self, fit: Any) -> Evaluation:
            return Evaluation(super().evaluate(fit).scores, blocks)

        def references(self, config: Any) -> Mapping[str, Callable[[], Result]]:
            found, name = Evaluation({"psnr_db": 8.0}, blocks), FitName("mean")
            return {
                "mean": lambda: Result(name=name, evaluation=found, seconds=0, is_reference=True)
            }

    monkeypatch.setitem(KINDS, "signal", GaugedKind)
    metrics = resumed_to_the_bit(monkeypatch, SIGNAL, 3)
    saved = {"title": "Peaks <kept>", "share": 0.25}
    assert [fit["gauges"] for fit in metrics["fits"]] == [[saved]] * 3
    # Both runs have one mean.
    for page, count in (("whole/report.html", 3), ("both.html", 5)):
        text = Path(page).read_text()
        assert text.count('<p class="gauge">Peaks &lt;kept&gt; of') == count
        assert ".gauge { color: red; }" in text
        assert "Largest errors" in text


def test_scores_are_those_that_are_declared(signal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "measures", lambda *_: [PSNR, SSIM])
    with pytest.raises(AssertionError, match="none"):
        train_fit.main([*SIGNAL, "--quiet", "--out", "run"])
