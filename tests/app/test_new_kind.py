"""What it costs to add a kind of data, or a block of the page: one class and one row each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch
from torch import nn

import train_fit
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.encoding_recipe import EncoderDescription
from nerf_posenc_app.kinds import KINDS
from nerf_posenc_app.kinds.kind import Fit, Kind, Problem, digest_of
from nerf_posenc_app.options import CommonOptions
from nerf_posenc_app.report.page import SECTIONS, Section
from nerf_posenc_app.values.blocks import Curve, Evaluation, Table
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from tests.signals import run_with_signal


@dataclass(frozen=True, kw_only=True)
class SignalOptions(CommonOptions):
    """Fit a signal without and with an encoding."""

    signal: str = "signal.npy"
    """File of samples in [0, 1]."""


class SignalKind(Kind[SignalOptions]):
    """A signal: a network from time in [-1, 1] to one value."""

    name = "signal"
    Options = SignalOptions

    def __init__(self, options: SignalOptions) -> None:
        self.values = torch.from_numpy(np.load(options.signal)).float()[:, None]
        self.times = torch.linspace(-1, 1, len(self.values))[:, None]
        self.title = self.source = options.signal

    def summary(self, config: SignalOptions) -> list[str]:
        return [f"signal   {self.source}, {len(self.values)} samples"]

    def digest(self) -> str:
        return digest_of([(self.values.shape, [self.values])])

    def resolve(self, options: SignalOptions) -> SignalOptions:
        return replace(
            options,
            encodings=options.encodings or ("none", "fourier"),
            steps=options.steps or 100,
            batch_size=options.batch_size or 64,
            lr=options.lr or 1e-3,
        )

    def measures(self, config: SignalOptions) -> Sequence[Measure]:
        return [Measure("psnr_db", "PSNR", "dB", 2)]

    def build(
        self, name: FitName, config: SignalOptions, generator: torch.Generator
    ) -> tuple[nn.Module, None]:
        description = EncoderDescription(name.encoding, in_dim=1, resolution=len(self.values))
        encoder = recipes.make_encoder(description, generator)
        network = MLP(encoder.out_dim, 1, width=32, generator=generator)
        return nn.Sequential(encoder, network), None

    def problem(self, model: nn.Module, description: None, config: SignalOptions) -> Problem:
        assert config.lr
        batches = ShuffledBatches(self.times, self.values, config.batch_size, seed=config.seed)
        return Problem(
            draw_batch=batches, optimizer=recipes.make_optimizer(model, "adam", config.lr)
        )

    @torch.no_grad()
    def evaluate(self, fit: Fit[SignalOptions]) -> Evaluation:
        output = fit.model(self.times)
        curve = Curve("Signal", "time", "value", self.times[:, 0].tolist(), output[:, 0].tolist())
        worst = f"{(output - self.values).abs().max():.3f}"
        table = Table("Largest errors", ["samples", "error"], [[str(len(output)), worst]])
        return Evaluation({"psnr_db": psnr(output, self.values)}, [curve, table])


@pytest.fixture(autouse=True)
def _with_signals(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "signal", SignalKind)
    times = np.linspace(-1, 1, 256)
    np.save("signal.npy", 0.5 + 0.4 * np.sign(np.sin(20 * times)))


ARGUMENTS = ["--signal", "signal.npy", "--steps", "60", "--quiet", "--out"]


@pytest.mark.usefixtures("figures")
def test_a_new_kind_is_fitted_reported_and_compared() -> None:
    assert train_fit.main([*ARGUMENTS, "one"]) == 0
    assert train_fit.main([*ARGUMENTS, "two", "--seed", "1", "--figures"]) == 0
    metrics = json.loads(Path("one/metrics.json").read_text())
    none, fourier = metrics["fits"]
    assert fourier["psnr_db"] > none["psnr_db"]
    assert fourier["gain_db"] == pytest.approx(fourier["psnr_db"] - none["psnr_db"])
    assert metrics["config"]["signal"] == "signal.npy"
    page = Path("one/report.html").read_text()
    assert "Signal" in page
    assert "Largest errors" in page
    assert Path("two/figures/results.svg").exists()
    assert train_fit.main(["compare", "one", "two", "--out", "compared.html"]) == 0
    assert "signal.npy" in Path("compared.html").read_text()


@dataclass(frozen=True)
class Gauge:
    """A block that no kind has."""

    title: str
    share: float


GAUGES = jinja2.Environment(autoescape=True).from_string(
    "{% macro style() %}.gauge { color: red; }{% endmacro %}"
    "{% macro section(gauges) %}{% for name, gauge in gauges %}"
    '<p class="gauge">{{ gauge.title }} of {{ name }}: {{ gauge.share }}</p>'
    "{% endfor %}{% endmacro %}"
    "{% macro script(gauges) %}window.gauges = {{ gauges|length }};{% endmacro %}"
)


def test_a_new_block_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class GaugedKind(SignalKind):
        def evaluate(self, fit: Fit[SignalOptions]) -> Evaluation:
            found = super().evaluate(fit)
            return replace(found, blocks=[*found.blocks, Gauge("Peaks <kept>", 0.25)])

    monkeypatch.setitem(KINDS, "signal", GaugedKind)
    monkeypatch.setitem(SECTIONS, "gauges", Section(Gauge, GAUGES))
    assert train_fit.main([*ARGUMENTS, "run"]) == 0
    page = Path("run/report.html").read_text()
    assert '<p class="gauge">Peaks &lt;kept&gt; of fourier: 0.25</p>' in page
    assert ".gauge { color: red; }" in page
    assert "window.gauges = 2;" in page
    # Read back from metrics.json, it is on the page of a comparison too.
    assert train_fit.main(["compare", "run", "--out", "compared.html"]) == 0
    compared = Path("compared.html").read_text()
    assert '<p class="gauge">Peaks &lt;kept&gt; of' in compared
    assert "window.gauges = 2;" in compared


def test_a_fit_of_a_new_kind_is_resumed_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with_signal(monkeypatch, [*ARGUMENTS, "part"], 3) == 143
    assert train_fit.main(["--resume", "part", "--quiet"]) == 0
    assert train_fit.main([*ARGUMENTS, "whole"]) == 0
    part, whole = (
        json.loads(Path(f"{name}/metrics.json").read_text()) for name in ("part", "whole")
    )
    assert [fit["psnr_db"] for fit in part["fits"]] == [fit["psnr_db"] for fit in whole["fits"]]


def test_options_of_other_kinds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main([*ARGUMENTS, "run", "--held-out"]) == 2
    assert "--held-out is for --image, not for --signal" in capsys.readouterr().err
    assert train_fit.main(["--signal", "--help"]) == 0
    assert "File of samples in [0, 1]." in capsys.readouterr().out
