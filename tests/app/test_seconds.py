"""Fits whose length is given in seconds of training."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import train_fit
from nerf_posenc.fits import load_fit
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import adam
from nerf_posenc_app.kinds.kind import Fit, Problem
from nerf_posenc_app.options import CommonConfig
from nerf_posenc_app.runs.saved import FitFile, read_metrics
from nerf_posenc_app.runs.stop import Stop
from nerf_posenc_app.runs.train import training
from nerf_posenc_app.values.measures import BATCH_PSNR
from nerf_posenc_app.values.names import FitName

pytestmark = pytest.mark.usefixtures("own_folder")

X = torch.rand(64, 2, generator=torch.Generator().manual_seed(0))


class Clock:
    """A clock that each step of a fit takes forward, and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("nerf_posenc.training.loop.time.perf_counter", lambda: self.now)

    def draw(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.now += 0.5 if step < 20 else 1.0
        return X, X[:, :1]


def new_state(limit: float | None) -> FitState:
    generator = torch.Generator().manual_seed(1)
    model = torch.nn.Linear(2, 1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return FitState(model, adam(model, lr=0.01), 7, limit_seconds=limit)


def test_the_schedule_follows_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = Clock(monkeypatch), []

    def schedule(progress: float) -> float:
        seen.append(progress)
        return 1.0

    state = fit(new_state(20.0), clock.draw, schedule=schedule)
    # 20 steps of half a second, then 10 of a second; a step begins before its batch is drawn.
    assert seen == pytest.approx(
        [min(1.0, (0.5 * n if n <= 20 else n - 10) / 20) for n in range(30)], abs=1e-5
    )
    assert max(seen) < 1
    assert state.step == state.num_steps == 30
    assert state.is_complete
    assert state.seconds == 20
    assert [record.step for record in state.history] == [10, 20, 30]


def test_at_an_even_pace_the_number_of_steps_is_right_from_the_first_step_on() -> None:
    state = new_state(20.0)
    for step in (1, 2, 37, 79):
        state.step = step
        # Four steps per second.
        state.estimate_length(step / 4)
        assert state.num_steps == 80
        assert not state.is_complete


def test_one_step_is_taken_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fit(new_state(1e-3), Clock(monkeypatch).draw)
    assert state.step == state.num_steps == 1
    assert len(state.history) == 1


def test_a_resumed_fit_goes_on_with_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, whole = Clock(monkeypatch), new_state(20.0)
    fit(whole, clock.draw)
    first = new_state(20.0)
    fit(first, clock.draw, should_stop=lambda: first.step == 13)
    assert not first.is_complete
    assert first.seconds == 6.5
    assert first.num_steps > first.step
    second = new_state(20.0)
    second.load_state_dict(first.state_dict())
    clock.now += 1000
    fit(second, clock.draw)
    assert second.step == whole.step
    assert second.seconds == 20
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    again = new_state(20.0)
    again.load_state_dict(second.state_dict())
    assert fit(again, clock.draw).step == whole.step


def test_a_resumed_fit_has_the_snapshots_of_one_that_was_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)

    def snapshots(file: str, stop_at: int | None = None) -> list[int]:
        state, stop = new_state(20.0), Stop()

        def after_step(state: FitState) -> None:
            if state.step == stop_at:
                stop.request()

        problem = Problem(
            draw_batch=clock.draw,
            optimizer=state.optimizer,
            after_step=after_step,
            preview=lambda: [torch.zeros(1, 1, 3)],
        )
        config = CommonConfig(steps=7, seconds=20.0, video=3, quiet=True)
        part = Fit(
            name=FitName("none"), config=config, model=state.model, problem=problem, state=state
        )
        with training(part, stop, score=BATCH_PSNR, file=FitFile(Path(file))) as session:
            train_fit.train(part, session)
        return [snapshot.step for snapshot in part.snapshots]

    whole = snapshots("whole.safetensors")
    # At 0, 5 and 20 seconds, or at the record after: the first two are one.
    assert whole == [10, 30]
    snapshots("part.safetensors", stop_at=15)
    clock.now += 1000
    assert snapshots("part.safetensors") == whole


@pytest.mark.parametrize(("saved", "own"), [(20.0, 10.0), (20.0, None), (None, 20.0)])
def test_a_fit_of_another_length_is_refused(saved: float | None, own: float | None) -> None:
    with pytest.raises(ValueError, match="both the same length"):
        new_state(own).load_state_dict(new_state(saved).state_dict())


RUN = ["--image", "cat", "--size", "24", "--encodings", "fourier", "--width", "16", "--quiet"]


@pytest.mark.usefixtures("no_report")
def test_a_run_of_seconds_records_its_length() -> None:
    assert train_fit.main([*RUN, "--seconds", "0.2", "--out", "run"]) == 0
    written: dict[str, Any] = json.loads(Path("run/metrics.json").read_text())
    (result,) = written["fits"]
    assert result["seconds"] >= 0.2
    assert result["history"][-1]["step"] == result["steps"] >= 1
    assert written["config"]["seconds"] == 0.2
    assert list(read_metrics(Path("run")).complete_fits()) == ["fourier"]
    fit = load_fit("run/fits/fourier.safetensors")
    assert fit.step == fit.num_steps == result["steps"]
    assert train_fit.main(["--resume", "run"]) == 0
