"""What it costs to add a kind of data, or a block of the page: one class and one row each."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

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
from nerf_posenc_app.values.results import Result
from tests.signals import resumed_to_the_bit


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
        return self.scored(fit.model(self.times))

    def scored(self, output: Tensor) -> Evaluation:
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
        def _with_gauge(self, output: Tensor) -> Evaluation:
            found = self.scored(output)
            return replace(found, blocks=[*found.blocks, Gauge("Peaks <kept>", 0.25)])

        def evaluate(self, fit: Fit[SignalOptions]) -> Evaluation:
            return self._with_gauge(fit.model(self.times).detach())

        def references(self, config: SignalOptions) -> Mapping[str, Callable[[], Result]]:
            mean = self.values.mean().expand_as(self.values)
            result = partial(Result, name=FitName("mean"), seconds=0.0, is_reference=True)
            return {"mean": lambda: result(evaluation=self._with_gauge(mean))}

    monkeypatch.setitem(KINDS, "signal", GaugedKind)
    monkeypatch.setitem(SECTIONS, "gauges", Section(Gauge, GAUGES))
    metrics = resumed_to_the_bit(monkeypatch, ARGUMENTS[:-2], 3)
    gauge = {"title": "Peaks <kept>", "share": 0.25}
    assert [fit["gauges"] for fit in metrics["fits"]] == [[gauge]] * 3
    # Read back from metrics.json, it is on the page of a comparison too: of one mean of both runs.
    for page, count in (("whole/report.html", 3), ("both.html", 5)):
        text = Path(page).read_text()
        assert text.count('<p class="gauge">Peaks &lt;kept&gt; of') == count
        assert ".gauge { color: red; }" in text
        assert f"window.gauges = {count};" in text


def test_scores_are_those_that_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherKind(SignalKind):
        def measures(self, config: SignalOptions) -> Sequence[Measure]:
            return [*super().measures(config), Measure("ssim", "SSIM")]

    monkeypatch.setitem(KINDS, "signal", OtherKind)
    with pytest.raises(AssertionError, match="none"):
        train_fit.main([*ARGUMENTS, "run"])


def test_options_of_other_kinds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main([*ARGUMENTS, "run", "--held-out"]) == 2
    assert "--held-out is for --image, not for --signal" in capsys.readouterr().err
    assert train_fit.main(["--signal", "--help"]) == 0
    assert "File of samples in [0, 1]." in capsys.readouterr().out
