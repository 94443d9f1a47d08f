"""What only a real GPU can show; skipped where there is none.

python -m pytest -m slow tests/test_gpu.py
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.networks import finer, hidden_matrices, siren, wire
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import OptimizerGroup, adam, muon
from tests.encoders import test_family
from tests.encoders.family import Case, encoded
from tests.optional import needs
from tests.pretended_gpu import NEEDS, RUNS, interrupted_and_resumed, write_data

CASES = test_family.TestEncoders.CASES
ALL = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    pytest.mark.usefixtures("unchecked"),
    # Of the compiler of another version than CI's.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def features_and_gradient(
    encoder: nn.Module, x: Tensor, run: Callable[[nn.Module, Tensor], Tensor] = encoded
) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    features = run(encoder, x)
    weights = torch.linspace(-1, 1, features.numel(), dtype=torch.float64, device=x.device)
    (features * weights.view_as(features)).sum().backward()
    assert x.grad is not None
    return features.detach().double().cpu(), x.grad.double().cpu()


def assert_near(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    """Features to 3e-6 of the largest; gradients, which sum many terms, to 1e-5."""
    for a, b, tolerance in zip(found, expected, (3e-6, 1e-5), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * float(b.abs().max()))


@ALL
def test_features_and_gradients_are_those_of_float64_on_a_cpu(case: Case) -> None:
    x = case.draw(257)
    encoder = case.make()
    exact = features_and_gradient(copy.deepcopy(encoder).double(), x.double())
    assert_near(features_and_gradient(encoder.cuda(), x.cuda()), exact)


@pytest.mark.usefixtures("_fresh_compiler")
@ALL
def test_compiled_features_and_gradients_are_those_of_float64_on_a_cpu(case: Case) -> None:
    x = case.draw(257)
    encoder = case.make()
    exact = features_and_gradient(copy.deepcopy(encoder).double(), x.double())
    run = torch.compile(lambda model, points: encoded(model, points), fullgraph=True)
    assert_near(features_and_gradient(encoder.cuda(), x.cuda(), run), exact)


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("base", [torch.pi, 1.0, 0.7])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_large_angles_keep_their_fraction_of_a_cycle(base: float, is_compiled: bool) -> None:
    # A compiler that fuses a product and a sum into one rounding must not spoil the remainder.
    encoder = FourierEncoder(1, 20, base=base).cuda()
    x = torch.cat([torch.rand(4096, 1) * 2 - 1, (torch.rand(4096, 1) - 0.5) * 2e4]).cuda()
    run = torch.compile(encoder) if is_compiled else encoder
    expected = FourierEncoder(1, 20, base=base)(x.double().cpu())
    torch.testing.assert_close(run(x).double().cpu(), expected, rtol=0, atol=5e-7)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "fourier": lambda: nn.Sequential(FourierEncoder(2, 6), MLP(24, 3, width=64, depth=2)),
    "hash": lambda: nn.Sequential(
        HashGridEncoder(2, 4, log2_table_size=8), MLP(8, 3, width=64, depth=2)
    ),
    "siren": lambda: siren(2, 3, width=64, depth=2),
    "finer": lambda: finer(2, 3, width=64, depth=2),
    "wire": lambda: wire(2, 3, width=64, depth=2),
}


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_captured_step_is_the_step(name: str, optimizer: str) -> None:
    if (name, optimizer) == ("wire", "muon"):
        pytest.skip("complex weights have no Muon")
    x = torch.rand(5000, 2, device="cuda") * 2 - 1
    y = torch.stack([torch.sin(6 * x[:, 0]), torch.cos(7 * x[:, 1]), x.prod(1)], -1) * 0.4 + 0.5
    losses = []
    for captured in (False, True):
        torch.manual_seed(3)
        model = NETWORKS[name]().cuda()
        group = adam(model) if optimizer == "adam" else muon(model, hidden_matrices(model), lr=2e-3)
        state = FitState(model, group, 60)
        fit(state, ShuffledBatches(x, y, 1000, seed=5), captured=captured, record_every=1)
        losses.append([record.loss for record in state.history])
    assert losses[0][-1] < 0.7 * losses[0][0]
    # A step's roundings differ, and bfloat16 in Muon makes them grow.
    assert losses[1][:10] == pytest.approx(losses[0][:10], rel=1e-2)
    assert losses[1][-1] == pytest.approx(losses[0][-1], rel=0.3)


def test_a_captured_step_draws_the_samples_of_its_batch() -> None:
    x = torch.rand(1000, 2, device="cuda")

    def draw_batch(step: int) -> tuple[tuple[Tensor, torch.Generator], Tensor]:
        generator = torch.Generator("cuda").manual_seed(step)
        torch.rand(3, device="cuda", generator=generator)
        return (x, generator), x

    losses = []
    for captured in (False, True):
        model = nn.Linear(2, 2).cuda()
        model.requires_grad_(False)
        state = FitState(model, OptimizerGroup([]), 12)

        def forward(batch: tuple[Tensor, torch.Generator]) -> Tensor:
            points, generator = batch
            noise = torch.rand(points.shape, device="cuda", generator=generator)
            return (points * noise).requires_grad_()

        fit(state, draw_batch, forward=forward, captured=captured, record_every=1)
        losses.append([record.loss for record in state.history])
    assert len(set(losses[0])) == 12
    assert losses[1] == losses[0]


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("name", [*RUNS, "compiled"])
def test_runs_are_stopped_and_resumed(name: str) -> None:
    needs(*NEEDS.get(name, ()))
    write_data()
    arguments = f"{RUNS['image']} --compile" if name == "compiled" else RUNS[name]
    interrupted_and_resumed(arguments.split())
    require_whole_run()


def require_whole_run() -> None:
    """The run in the current folder has its pages and its fits."""
    pages = list(Path("run").rglob("report.html"))
    assert min(page.stat().st_size for page in pages) > 10_000
    assert list(Path("run").rglob("*.safetensors"))
