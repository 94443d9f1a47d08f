"""What a run says that it found: from results and doubts to one sentence."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nerf_posenc_app.commands import comparison
from nerf_posenc_app.kinds.coordinates import doubts_of_flat_fits
from nerf_posenc_app.kinds.image.options import ImageOptions
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.finding import Doubt, Finding, find
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Point, Result

PSNR = Measure("psnr_db", "PSNR", "dB")
ERROR = Measure("warp_error", "warp error", digits=4, higher_is_better=False)
TRAINED = {
    **{"network": "relu", "width": 32, "depth": 2, "optimizer": "muon", "lr": 0.05},
    **{"adam_lr": 0.01, "schedule": "cosine_decay", "ema_decay": 0.0, "batch_size": 1024},
}


def fit(
    name: str,
    score: float,
    *,
    measure: Measure = PSNR,
    parameters: int = 1251,
    is_reference: bool = False,
    by_seed: Sequence[float] = (),
    swept: tuple[str, float] | None = None,
    **details: Any,
) -> Result:
    return Result(
        name=FitName(name, swept),
        seconds=1.0,
        steps=0 if is_reference else 310,
        parameters=parameters,
        evaluation=Evaluation(
            {measure.name: score}, by_seed=[{measure.name: each} for each in by_seed]
        ),
        details={**TRAINED, **details},
        is_reference=is_reference,
    )


def said(
    *results: Result, measure: Measure = PSNR, doubts: tuple[Doubt, ...] = (), length: str = ""
) -> Finding:
    finding = find(results, measure, doubts, length or None)
    assert finding is not None
    return finding


def test_a_gain_is_said_in_the_numbers_of_the_table() -> None:
    fourier = fit("fourier", 42.96, title="Positional encoding")
    finding = said(fit("none", 28.95), fourier)
    assert finding.verdict == "gains"
    assert finding.sides == ("none", "fourier")
    assert finding.sentence == (
        "Positional encoding gained 14.0 dB: PSNR 42.96 dB against 28.95 dB without it; same "
        "network, optimizer and 310 steps"
    )


@pytest.mark.parametrize(
    ("changed", "conditions"),
    [
        (
            {"parameters": 9379},
            "same hidden layers, optimizer and 310 steps, 9,379 against 1,251 parameters",
        ),
        (
            {"batch_size": 512},
            "same network, optimizer and 310 steps, batch size 512 against 1,024",
        ),
        (
            {"lr": 0.01, "schedule": "constant"},
            "same network and 310 steps, learning rate 0.01 against 0.05, constant against cosine "
            "decay schedule",
        ),
        # Of equal numbers of parameters, as SIREN and ReLU layers have them.
        ({"network": "siren"}, "same optimizer and 310 steps, siren against relu network"),
    ],
)
def test_what_differs_between_two_fits_is_named(changed: dict[str, Any], conditions: str) -> None:
    finding = said(fit("none", 20.0), fit("gaussian", 24.0, **changed))
    assert finding.sentence.partition("; ")[2] == conditions
    assert not finding.qualifications


def test_many_differences_have_their_numbers_in_a_note() -> None:
    changed: dict[str, Any] = {"lr": 0.01, "schedule": "constant", "ema_decay": 0.97}
    finding = said(fit("none", 20.0), fit("fourier", 24.0, parameters=2000, **changed))
    assert finding.sentence.partition("; ")[2] == (
        "same hidden layers and 310 steps, different parameters, learning rate, schedule and EMA "
        "decay"
    )
    assert finding.qualifications == [
        "fourier against none: 2,000 against 1,251 parameters, learning rate 0.01 against 0.05, "
        "constant against cosine decay schedule, EMA decay 0.97 against 0"
    ]


@pytest.mark.parametrize(
    ("measure", "none", "other", "verdict"),
    [
        (ERROR, 0.04, 0.002, "gains"),
        (ERROR, 0.04, 0.0398, "unclear"),
        (PSNR, 20.0, 20.04, "unclear"),
        (PSNR, 20.0, 19.9, "loses"),
        (PSNR, math.inf, math.inf, "unclear"),
        (Measure("accuracy", "accuracy", "%", 2), 50.0, 50.05, "unclear"),
        (Measure("ssim", "SSIM", digits=4, least_gain=0.002), 0.95, 0.953, "gains"),
    ],
)
def test_a_difference_counts_in_the_unit_of_its_measure(
    measure: Measure, none: float, other: float, verdict: str
) -> None:
    fits = fit("none", none, measure=measure), fit("fourier", other, measure=measure)
    assert said(*fits, measure=measure).verdict == verdict


def test_the_best_fit_has_the_least_error_where_lower_is_better() -> None:
    names = {"none": 0.04, "hash": 0.05, "fourier": 0.002, "gaussian": 0.01}
    fits = [fit(name, error, measure=ERROR) for name, error in names.items()]
    finding = said(*fits, measure=ERROR)
    assert finding.sides == ("none", "fourier")
    assert finding.sentence.startswith('"fourier" gained 0.0380: ')


@pytest.mark.parametrize(("measure", "best"), [(PSNR, "b: hash"), (ERROR, "a: fourier")])
def test_a_comparison_names_the_best_by_the_direction_of_its_measure(
    measure: Measure, best: str
) -> None:
    results = [
        replace(fit(name, score, measure=measure), name=FitName(name, run=run))
        for run, name, score in (("a", "fourier", 0.1), ("a", "none", 0.3), ("b", "hash", 0.7))
    ]
    sentence = comparison.finding(results, {"cat": [each.label for each in results]}, measure)
    assert sentence is not None
    assert sentence.startswith(f"{best} is best: ")
    assert sentence.endswith(" for a: none")


@pytest.mark.parametrize(("lowest", "is_ranked"), [(20.5, False), (22.0, True)])
def test_a_comparison_does_not_rank_fits_whose_seeds_overlap(
    lowest: float, is_ranked: bool
) -> None:
    a = fit("none", 20.5, by_seed=(20.0, 21.0))
    b = fit("hash", lowest + 1, by_seed=(lowest, lowest + 2))
    groups = {"cat: PSNR": ["none", "hash"], "dog: PSNR": []}
    sentence = comparison.finding([a, b], groups, PSNR)
    assert sentence is not None
    assert ("cat: hash is best: " in sentence) == is_ranked
    assert ("hash and none differ by less than their seeds" in sentence) != is_ranked


def test_chance_alone_makes_a_difference_of_shares_in_one_of_twenty_comparisons() -> None:
    counts = np.random.default_rng(0).binomial(400, 0.7, size=(1000, 2))
    measure = Measure("accuracy", "accuracy", "%", count=400)
    verdicts = [
        said(fit("none", a, measure=measure), fit("rope", b, measure=measure), measure=measure)
        for a, b in 100 * counts / 400
    ]
    # The probability beyond two standard errors is 0.046; that of 1000 draws has one of 0.007.
    found = sum(finding.verdict != "unclear" for finding in verdicts) / 1000
    assert found == pytest.approx(0.046, abs=0.02)


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        ((22.0, 25.0), "gains"),
        ((15.0, 18.0), "loses"),
        ((20.5, 25.0), "unclear"),
        ((15.0, 19.5), "unclear"),
        ((19.5, 20.4), "unclear"),
        ((15.0, 26.0), "unclear"),
        # One seed has no range.
        ((20.5,), "gains"),
    ],
)
def test_seeds_whose_ranges_overlap_on_either_side_make_no_clear_difference(
    seeds: tuple[float, ...], verdict: str
) -> None:
    none = fit("none", 20.0, by_seed=(19.0, 21.0))
    fourier = fit("fourier", sum(seeds) / len(seeds), by_seed=seeds)
    assert said(none, fourier).verdict == verdict


def test_fits_that_are_too_short_gain_nothing() -> None:
    finding = said(fit("none", 20.41), fit("fourier", 19.56), length="30 of the usual 600 steps")
    assert finding.verdict == "doubtful"
    assert finding.qualifications == ["30 of the usual 600 steps are too few to compare"]
    assert finding.sentence == (
        "After 30 of the usual 600 steps, too few to compare: PSNR 20.41 dB (none), 19.56 dB "
        "(fourier)"
    )


def test_a_best_fit_in_doubt_gains_nothing() -> None:
    doubt = Doubt(FitName("fourier"), "did not learn the sound (0.40 dB)", "Wait")
    finding = said(fit("none", 0.3), fit("fourier", 0.4), doubts=(doubt,))
    assert finding.verdict == "doubtful"
    assert finding.sentence == (
        '"fourier" did not learn the sound (0.40 dB): PSNR 0.40 dB (fourier), 0.30 dB (none)'
    )
    assert finding.qualifications == ['"fourier" did not learn the sound (0.40 dB). Wait']
    doubted = replace(doubt, fit=FitName("none"))
    assert said(fit("none", 0.3), fit("fourier", 20.0), doubts=(doubted,)).verdict == "gains"


def test_a_better_reference_is_what_pages_open_on() -> None:
    finding = said(fit("none", 20.0), fit("gaussian", 24.0), fit("linear", 30.0, is_reference=True))
    assert finding.verdict == "behind"
    assert finding.sides == ("gaussian", "linear")
    assert finding.sentence.startswith("No fit reached linear: PSNR 30.00 dB (linear), 24.00 dB")


def test_values_of_an_option_are_named_by_it() -> None:
    bands = [fit("fourier", 20.0 + n, swept=("num_bands", n)) for n in (4, 8)]
    assert said(fit("none", 20.0), *bands).sentence.startswith('"fourier-8" gained 8.0 dB: ')
    assert said(*bands).sentence == "PSNR 28.00 dB (fourier-8), 24.00 dB (fourier-4)"


@pytest.mark.parametrize("results", [(), (fit("fourier", float("nan")),)])
def test_without_scores_nothing_is_found(results: tuple[Result, ...]) -> None:
    assert find(results, PSNR) is None


@pytest.mark.parametrize(("batches", "reason"), [(12.0, "did not learn"), (22.0, "learned what")])
def test_what_fits_only_its_own_samples_is_told_from_what_fits_nothing(
    batches: float, reason: str
) -> None:
    poor = Result(
        name=FitName("fourier"),
        seconds=1.0,
        evaluation=Evaluation({"psnr_db": 9.0, "ssim": 0.0}),
        history=[Point(10, 1.0, batches)],
    )
    (doubt,) = doubts_of_flat_fits([poor], 11.0, ImageOptions(), data="scene", others="views")
    assert doubt.reason.startswith(reason)
    assert ("fewer --bands" in doubt.advice) == (reason == "learned what")
    bandless = replace(poor, name=FitName("hash"))
    (doubt,) = doubts_of_flat_fits([bandless], 11.0, ImageOptions(), others="views")
    assert "--bands" not in doubt.advice
    # Without it, batches may measure another quantity than the fit's score.
    (doubt,) = doubts_of_flat_fits([poor], 11.0, ImageOptions())
    assert doubt.reason.startswith("did not learn")
