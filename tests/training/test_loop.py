"""The loop, its batches and its optimizers."""

import io
import math
import threading

import pytest
import torch
from torch import nn

from nerf_posenc import FourierEncoder
from nerf_posenc.networks.mlp import MLP, hidden_matrices
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon
from nerf_posenc.training.schedules import constant, cosine_decay

X = torch.rand(500, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
Y = torch.stack([torch.sin(6 * X[:, 0]), torch.cos(7 * X[:, 1]), X.prod(1)], -1) * 0.4 + 0.5


def small_model() -> nn.Module:
    torch.manual_seed(3)
    encoder = FourierEncoder(2, 3)
    return nn.Sequential(encoder, MLP(encoder.out_dim, 3, width=32, depth=2))


def optimizer_of(name: str, model: nn.Module) -> OptimizerGroup:
    return adam(model) if name == "adam" else muon(model, hidden_matrices(model))


def new_state(name: str, num_steps: int = 40) -> FitState:
    model = small_model()
    return FitState(model, optimizer_of(name, model), num_steps)


def batches() -> ShuffledBatches:
    return ShuffledBatches(X, Y, 128, seed=5)


@pytest.mark.parametrize("name", ["muon", "adam"])
def test_a_fit_brings_the_loss_down(name: str) -> None:
    state = fit(new_state(name, 100), batches())
    assert state.step == 100
    assert state.history[-1].loss < 0.3 * state.history[0].loss


@pytest.mark.parametrize("name", ["muon", "adam"])
def test_a_fit_that_is_saved_and_resumed_is_the_same_to_the_bit(name: str) -> None:
    whole = fit(new_state(name), batches(), record_every=5)
    first = new_state(name)
    fit(first, batches(), record_every=5, should_stop=lambda: first.step == 20)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = new_state(name)
    second.load_state_dict(torch.load(stored, weights_only=True))
    fit(second, batches(), record_every=5)
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [r.loss for r in whole.history] == [r.loss for r in second.history]


def test_what_is_done_with_a_record_is_not_training_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def draw_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        now[0] += 1
        return X, Y

    def dawdle(state: FitState) -> None:
        now[0] += 1000

    state = fit(new_state("adam", 30), draw_batch, on_record=dawdle)
    assert [record.seconds for record in state.history] == [10, 20, 30]


def test_a_fit_runs_and_stops_in_a_thread_of_its_own() -> None:
    state, stop = new_state("adam", 1_000_000), threading.Event()
    thread = threading.Thread(
        target=lambda: fit(
            state, batches(), on_record=lambda s: stop.set(), should_stop=stop.is_set
        )
    )
    thread.start()
    thread.join(timeout=60)
    assert state.step == 10


def test_stopping_early_keeps_what_there_is() -> None:
    state = new_state("adam")
    fit(state, batches(), record_every=10, should_stop=lambda: state.step == 7)
    assert state.step == 7
    # No record of 7 steps, which a fit that does not stop would not have.
    assert state.history == []
    assert len(state.losses) == 7


def test_records_hold_the_mean_loss_since_the_one_before() -> None:
    fine, coarse = new_state("adam"), new_state("adam")
    fit(fine, batches(), record_every=1)
    fit(coarse, batches(), record_every=10)
    for i, record in enumerate(coarse.history):
        mean = sum(r.loss for r in fine.history[10 * i : 10 * i + 10]) / 10
        assert record.loss == pytest.approx(mean, rel=1e-5)


def test_a_loss_that_is_not_finite_says_what_to_do() -> None:
    with pytest.raises(FloatingPointError, match="smaller learning rate"):
        fit(new_state("adam"), batches(), lambda p, t: (p - t).mean() * math.nan)


def test_each_pass_holds_every_row_once_in_a_new_order() -> None:
    draw = ShuffledBatches(X, Y, 100, seed=0)
    passes = [torch.cat([draw(step)[0] for step in range(5 * p, 5 * p + 5)]) for p in (0, 1)]
    for rows in passes:
        assert torch.equal(rows.sort(0).values, X.sort(0).values)
    assert not torch.equal(passes[0], passes[1])


def test_batches_depend_on_the_step_alone() -> None:
    forward, backward = batches(), batches()
    seen = [forward(step)[0] for step in range(9)]
    for step in reversed(range(9)):
        assert torch.equal(backward(step)[0], seen[step])


def test_a_batch_larger_than_the_rows_is_all_of_them() -> None:
    inputs, targets = ShuffledBatches(X, Y, 10_000, seed=0)(3)
    assert len(inputs) == len(targets) == len(X)
    assert torch.equal(inputs.sort(0).values, X.sort(0).values)
    for rows, targets, batch_size in ((X, Y[:4], 2), (X, Y, 0), (X[:0], Y[:0], 2)):
        with pytest.raises(ValueError, match="same number of rows"):
            ShuffledBatches(rows, targets, batch_size, seed=0)


def test_rows_that_fill_no_last_batch_are_left_out_of_their_pass() -> None:
    rows = torch.arange(10)[:, None]
    draw = ShuffledBatches(rows, rows + 100, 4, seed=3)
    orders = []
    for first in (0, 2, 4):
        inputs, targets = (
            torch.cat(parts) for parts in zip(draw(first), draw(first + 1), strict=True)
        )
        assert len(set(inputs[:, 0].tolist())) == 8
        assert torch.equal(targets, inputs + 100)
        orders.append(inputs[:, 0].tolist())
    # Every pass and every seed has an order of its own.
    orders.append(ShuffledBatches(rows, rows, 4, seed=4)(0)[0][:, 0].tolist())
    assert len({tuple(order[:4]) for order in orders}) == 4


def test_one_row_is_a_batch() -> None:
    inputs, targets = ShuffledBatches(X[:1], Y[:1], 1, seed=0)(5)
    assert torch.equal(inputs, X[:1])
    assert torch.equal(targets, Y[:1])


def test_the_schedule_falls_from_1_to_its_final_value() -> None:
    values = [cosine_decay(i / 50) for i in range(51)]
    assert values[0] == 1
    assert values[25] == pytest.approx(0.505)
    assert values[-1] == pytest.approx(0.01)
    assert values == sorted(values, reverse=True)
    # A third of the way the cosine is 1/2, two thirds of the way -1/2.
    assert cosine_decay(1 / 3, final=0.2) == pytest.approx(0.2 + 0.8 * 0.75)
    assert cosine_decay(2 / 3, final=0.2) == pytest.approx(0.2 + 0.8 * 0.25)
    assert [constant(progress) for progress in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]


def test_the_rate_of_a_part_follows_its_power_of_the_schedule() -> None:
    model = MLP(2, 3, width=8, depth=2)
    group = muon(model, hidden_matrices(model), lr=0.03, adam_lr=0.01, lr_power=2.0)
    group.scale_lrs(0.5)
    rates = [part.param_groups[0]["lr"] for part in group.optimizers]
    assert rates == pytest.approx([0.0075, 0.005])
    with pytest.raises(ValueError, match="one per part; got 2 for 1"):
        OptimizerGroup(group.optimizers[:1], [1.0, 2.0])


def test_muon_without_matrices_and_states_of_other_optimizers_are_refused() -> None:
    model = small_model()
    with pytest.raises(ValueError, match="at least one weight matrix"):
        muon(model, [])
    with pytest.raises(ValueError, match="holds 1 optimizers and this group 2"):
        optimizer_of("muon", model).load_state_dict(adam(model).state_dict())
    state = new_state("adam")
    with pytest.raises(ValueError, match="40 steps long and this one 30"):
        new_state("adam", 30).load_state_dict(state.state_dict())


def test_predictions_in_pieces_are_those_of_one_piece() -> None:
    model = small_model()
    torch.testing.assert_close(predict(model, X, chunk_size=64), model(X).detach())
    assert predict(model, X[:0]).shape == (0, 3)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has it since 2.9")
def test_muon_takes_the_steps_of_torchs_own() -> None:
    # Torch iterates in bfloat16, ours does where it is fast and the matrix is large.
    shapes = [(16, 16), (16, 5), (5, 16), (16, 16), (128, 96), (128, 96)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    before = [p.detach().clone() for p in ours]
    optimizer = muon(nn.ParameterList(ours), ours, lr=0.1)
    reference = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.0)
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        optimizer.step()
        reference.step()
    for a, b, start in zip(ours, theirs, before, strict=True):
        assert (a - b).norm() < 0.02 * (b - start).norm()


def test_muon_takes_learning_rates_that_lie_on_a_device() -> None:
    def stepped(on_device: bool) -> torch.Tensor:
        torch.manual_seed(3)
        layer = nn.Linear(8, 6, bias=False)
        group = muon(layer, [layer.weight], lr=0.1)
        if on_device:
            group.make_capturable(torch.device("cpu"))
        for factor in (1.0, 0.3):
            group.scale_lrs(factor)
            layer.weight.grad = torch.cos(layer.weight.detach() * 30)
            group.step()
        return layer.weight.detach()

    torch.testing.assert_close(stepped(True), stepped(False))
