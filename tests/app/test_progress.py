"""Progress bars: one width for all of a run, and a line that sums up."""

import re

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc.training.loop import FitState
from nerf_posenc.training.optimizers import adam
from nerf_posenc_app.kinds.coordinates import PSNR
from nerf_posenc_app.kinds.kind import Fit, Problem
from nerf_posenc_app.options import CommonConfig
from nerf_posenc_app.runs.train import print_ending
from nerf_posenc_app.terminal import progress_bar, sum_up
from nerf_posenc_app.values.blocks import Evaluation
from nerf_posenc_app.values.measures import BATCH_PSNR, Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.fits import train_alone


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a terminal showed, one state of the bar after the other."""
    return [line for line in re.split(r"[\r\n]+", capsys.readouterr().err) if line.strip()]


def fit_a_line(steps: int, *, quiet: bool = False, measure: Measure = PSNR) -> None:
    """Train, and print the ending as a run does."""
    module = nn.Linear(1, 1)
    state = FitState(module, adam(module), steps)

    def draw(step: int) -> tuple[Tensor, Tensor]:
        return torch.ones(2, 1), torch.zeros(2, 1)

    problem = Problem(draw_batch=draw, optimizer=state.optimizer)
    config = CommonConfig(steps=steps, quiet=quiet, video=0)
    fit = Fit(name=FitName("fourier"), config=config, model=module, problem=problem, state=state)
    train_alone(fit, BATCH_PSNR)
    scores = Evaluation({measure.name: 21.876}, [])
    result = Result(name=fit.name, seconds=1.0, steps=state.step, evaluation=scores)
    print_ending(result, measure, config)


def test_bars_of_several_names_and_units_have_one_width(capsys: pytest.CaptureFixture[str]) -> None:
    for name, total, unit in (("none", 600, "step"), ("gaussian test views", 25, "view")):
        with progress_bar(name, total, unit) as bar:
            bar.update(total // 2)
            bar.refresh()
    shown = lines(capsys)
    assert len({line.index("|") for line in shown}) == 1
    assert len({line.rindex("|") for line in shown}) == 1
    assert len({line.index("/") for line in shown}) == 1
    assert all(len(line + ", PSNR 21.88 dB") < 80 for line in shown)


def test_a_fit_ends_in_a_line_with_its_steps_seconds_and_the_score_of_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fit_a_line(20)
    shown = lines(capsys)
    assert re.fullmatch(r"fourier +20 steps in \d+\.\d s, PSNR 21\.88 dB", shown[-1].strip())
    assert not any("PSNR" in line and "batches" not in line for line in shown[:-1])


def test_a_log_has_one_line_for_each_fit(capsys: pytest.CaptureFixture[str]) -> None:
    fit_a_line(20)
    assert re.fullmatch(r"fourier +20 steps in .*\n", capsys.readouterr().err)


def test_the_last_line_has_the_unit_of_the_measure(capsys: pytest.CaptureFixture[str]) -> None:
    fit_a_line(10, measure=Measure("iou", "IoU", "%", 1))
    assert lines(capsys)[-1].strip().endswith("s, IoU 21.9%")


def test_a_count_is_summed_up_without_a_score(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("none turntable", 4, "frame") as bar:
        bar.update(4)
        sum_up(bar)
    assert re.fullmatch(r"none turntable +4 frames in \d+\.\d s", lines(capsys)[-1].strip())


def test_a_quiet_fit_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fit_a_line(10, quiet=True)
    assert capsys.readouterr().err == ""


def test_a_quiet_bar_is_summed_up_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("views", 2, "view", quiet=True) as bar:
        bar.update(2)
        sum_up(bar)
    assert capsys.readouterr().err == ""
