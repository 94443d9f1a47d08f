"""What it costs to add a radiance field: one row of a table."""

import json
from pathlib import Path

import pytest
import torch

import train_fit
from nerf_posenc.core.encoder import Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.fits import SceneFit, load_fit
from nerf_posenc.radiance.base_renderer import FieldRates, Renderer
from nerf_posenc.radiance.build import FIELDS, FieldOptions, FieldParts, FieldRecipe
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.renderers import GridRenderer


def build(options: FieldOptions, parts: FieldParts) -> Renderer:
    assert parts.hull is None or not bool(parts.hull.all())
    width, depth = options.layers
    encoder = FourierEncoder(3, 2)
    field = RadianceField(encoder, Identity(3), width=width, depth=depth, generator=parts.generator)
    return GridRenderer(field, OccupancyGrid(possible=parts.hull), num_samples=12)


ARGUMENTS = ["--scene", "spheres", "--size", "16", "--steps", "12", "--test-views", "1"]
ARGUMENTS += ["--turntable", "0", "--video", "0", "--device", "cpu", "--field"]


@pytest.mark.usefixtures("own_folder")
def test_a_new_field_is_fitted_saved_and_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert train_fit.main([*ARGUMENTS, "mine", "--out", "run", "--quiet"]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    (of_fit,) = metrics["fits"]
    assert metrics["config"]["field"] == "mine"
    assert (of_fit["encoding"], of_fit["lr"]) == ("fourier", 0.04)
    (saved,) = Path("run/fits").glob("*")
    fit = load_fit(saved)
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
        assert train_fit.main([*ARGUMENTS, *wrong, "--out", "other"]) == 2
        assert message in capsys.readouterr().err
