"""What a run says that it found: from results and doubts to one sentence."""

import pytest

from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.finding import Doubt, Finding, find
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

PSNR = Measure("psnr_db", "PSNR", "dB")
ERROR = Measure("warp_error", "warp error", digits=4, higher_is_better=False)


def fit(
    name: str,
    score: float,
    *,
    measure: Measure = PSNR,
    parameters: int = 9,
    is_reference: bool = False,
    swept: tuple[str, float] | None = None,
) -> Result:
    return Result(
        name=FitName(name, swept),
        seconds=1.0,
        steps=0 if is_reference else 30,
        parameters=parameters,
        evaluation=Evaluation({measure.name: score}),
        is_reference=is_reference,
    )


def said(
    *results: Result, measure: Measure = PSNR, doubts: tuple[Doubt, ...] = (), length: str = ""
) -> Finding:
    finding = find(results, measure, doubts, length or None)
    assert finding is not None
    return finding


def test_a_gain_is_said_in_the_numbers_of_the_table() -> None:
    finding = said(fit("none", 28.95), fit("fourier", 42.96, parameters=20))
    assert finding.verdict == "gains"
    assert finding.sides == ("none", "fourier")
    assert finding.sentence == (
        "Positional encoding gains 14.0 dB: PSNR 42.96 dB against 28.95 dB without it, same "
        "network with a wider first layer, same 30 steps"
    )


def test_fits_that_are_too_short_gain_nothing() -> None:
    finding = said(fit("none", 20.41), fit("fourier", 19.56), length="30 of the usual 600 steps")
    assert finding.verdict == "doubtful"
    assert finding.qualifications == ["30 of the usual 600 steps are too few to compare"]
    assert finding.sentence == (
        "After 30 of the usual 600 steps, too few to compare: PSNR 20.41 dB without an encoding, "
        "19.56 dB with positional encoding"
    )
    alone = said(fit("fourier", 38.65), length="25 of the usual 300 steps")
    assert alone.sentence.startswith("After 25 of the usual 300 steps, too few to compare: PSNR")
    beside = said(fit("fourier", 18.67), fit("sart", 32.68, is_reference=True), length="15 of 500")
    assert beside.sentence == (
        "After 15 of 500, too few to compare: PSNR 18.67 dB with positional encoding, 32.68 dB of "
        "sart"
    )
    assert beside.sides == ("fourier", "sart")


def test_a_best_fit_in_doubt_reaches_nothing() -> None:
    reason = "did not find the patches (warp error 0.7084; 0.3186 at the start)"
    name = "fourier-eased"
    finding = said(
        fit(name, 0.7084, measure=ERROR),
        fit("none", 0.9, measure=ERROR),
        measure=ERROR,
        doubts=(Doubt(FitName("none"), reason), Doubt(FitName(name), reason)),
    )
    assert finding.verdict == "doubtful"
    assert finding.sentence == (
        f'"{name}" {reason}: warp error 0.7084 with {name}, 0.9000 without an encoding'
    )
    assert len(finding.qualifications) == 2


def test_a_doubt_about_another_fit_leaves_the_gain() -> None:
    doubt = Doubt(FitName("none"), "did not learn the sound (0.40 dB; silence scores 0 dB)", "Wait")
    finding = said(fit("none", 0.4), fit("fourier", 20.0), doubts=(doubt,))
    assert finding.verdict == "gains"
    assert finding.qualifications == [f'"none" {doubt.reason}. Wait']


def test_networks_that_differ_are_not_called_the_same() -> None:
    # Of equal numbers of parameters, as SIREN and ReLU layers have them.
    finding = said(fit("none", 20.0), fit("siren", 24.8))
    assert "another network" in finding.sentence
    assert "same network" not in finding.sentence


def test_a_better_reference_is_what_pages_open_on() -> None:
    finding = said(fit("none", 20.0), fit("gaussian", 24.0), fit("linear", 30.0, is_reference=True))
    assert finding.verdict == "behind"
    assert finding.sides == ("gaussian", "linear")
    assert finding.sentence.startswith("No fit reaches linear, PSNR 30.00 dB: 24.00 dB with random")


def test_values_of_an_option_are_named_by_it() -> None:
    bands = [fit("fourier", 20.0 + n, swept=("num_bands", n)) for n in (4, 8)]
    assert said(fit("none", 20.0), *bands).sentence.startswith("8 bands gain 8.0 dB: ")
    assert said(*bands).sentence == "8 bands reach PSNR 28.00 dB, 4 bands 24.00 dB"


@pytest.mark.parametrize("results", [(), (fit("fourier", float("nan")),)])
def test_without_scores_nothing_is_found(results: tuple[Result, ...]) -> None:
    assert find(results, PSNR) is None
