"""Fits that are repeated with several seeds."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.fits import ImageFit
from nerf_posenc_app import FittedRun, fit
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Point, Result, over_seeds
from tests.small import SMALL_RUN, write_noise

pytestmark = pytest.mark.usefixtures("own_folder", "no_report")


def scores(folder: str, *words: str) -> list[dict[str, Any]]:
    arguments = ["--image", "noise.png", *SMALL_RUN, "--encodings", "none", "gaussian"]
    assert train_fit.main([*arguments, "--out", folder, "--quiet", *words]) == 0
    found: list[dict[str, Any]] = json.loads(Path(folder, "metrics.json").read_text())["fits"]
    return found


def test_repetitions_are_the_fits_of_their_seeds_and_the_table_has_their_mean() -> None:
    write_noise()
    repeated = scores("repeated", "--seeds", "2", "--seed", "5")
    alone = [scores(f"seed-{seed}", "--seed", str(seed)) for seed in (5, 6)]
    assert [fit["name"] for fit in repeated] == ["none", "gaussian"]
    for i, row in enumerate(repeated):
        expected = [run[i]["psnr_db"] for run in alone]
        assert [seed["psnr_db"] for seed in row["by_seed"]] == expected
        assert row["psnr_db"] == pytest.approx(sum(expected) / 2)
    assert len({fit["psnr_db"] for fit in repeated[1]["by_seed"]}) == 2


def test_a_curve_of_seeds_has_their_mean_at_the_steps_that_all_have() -> None:
    curves = {
        None: [Point(10, 1.0, 20.0), Point(20, 2.0, 24.0), Point(25, 2.5, 25.0)],
        ("seed", 1): [Point(10, 3.0, 22.0), Point(20, 4.0, 30.0), Point(30, 6.0, 31.0)],
    }
    whole, stopped = (
        Result(
            name=FitName("none", swept),
            seconds=points[-1].seconds,
            evaluation=Evaluation({"psnr_db": points[-1].score}),
            history=points,
            is_complete=swept is None,
        )
        for swept, points in curves.items()
    )
    for pair in ((whole, stopped), (stopped, whole)):
        (mean,) = over_seeds(pair)
        # The deviations of 20 and 22, and of 24 and 30.
        first, second = math.sqrt(2), math.sqrt(18)
        assert mean.history == [Point(10, 2.0, 21.0, first), Point(20, 3.0, 27.0, second)]
        assert (mean.seconds, mean.scores) == (4.25, {"psnr_db": 28.0})
        assert not mean.is_complete


def test_repetitions_are_resumed_and_each_has_a_model() -> None:
    write_noise()
    run = fit(
        image="noise.png", steps=4, width=8, depth=1, encodings=["none"], num_seeds=2, quiet=True
    )
    assert run.model("none").step == 4
    first, later = (run.model(name) for name in ("none", "none-1"))
    assert isinstance(first, ImageFit)
    assert isinstance(later, ImageFit)
    assert not torch.equal(first.render(), later.render())
    for name in ("none-2", "fourier-1", "none-"):
        with pytest.raises(ValueError, match="no fit"):
            run.model(name)
    before = run.scores
    (run.folder / "metrics.json").unlink()
    (run.folder / "fits/none-1.safetensors").unlink()
    assert train_fit.main(["--resume", str(run.folder), "--quiet"]) == 0
    assert FittedRun(run.folder).scores == before


def test_scores_that_are_infinite_have_no_spread() -> None:
    repeated = [
        Result(
            name=FitName("none", swept),
            seconds=1.0,
            evaluation=Evaluation({"psnr_db": score}),
            history=[Point(10, 1.0, score)],
        )
        for swept, score in ((None, math.inf), (("seed", 1), 3.0))
    ]
    (mean,) = over_seeds(repeated)
    assert math.isnan(mean.history[0].deviation)


def test_seeds_and_several_values_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--image", "star", "--bands", "4", "6", "--seeds", "2"]) == 2
    assert "--seeds and several values of another option" in capsys.readouterr().err
    assert not Path("runs").exists()
