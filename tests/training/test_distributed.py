"""Shares of a global batch, and what processes tell each other."""

from collections import namedtuple
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.networks import MLP
from nerf_posenc.radiance.fields import nerf_field
from nerf_posenc.radiance.ray_batches import RayBatch
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.renderers import HierarchicalRenderer
from nerf_posenc.radiance.sampling import importance_samples, stratified_samples
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.distributed import (
    ALONE,
    PeerError,
    World,
    find_world,
    join_world,
    leave_world,
    peer_errors,
)
from nerf_posenc.training.loop import FitState, fit, mse
from nerf_posenc.training.optimizers import adam


@given(st.integers(1, 9), st.integers(0, 50))
def test_shares_are_all_rows_in_order_and_differ_by_one_at_most(size: int, extra: int) -> None:
    num_rows = size + extra
    shares = [range(num_rows)[World(rank, size).rows(num_rows)] for rank in range(size)]
    assert [row for share in shares for row in share] == list(range(num_rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    weights = [World(rank, size).weight(num_rows) for rank in range(size)]
    assert sum(weights) == pytest.approx(size)


def test_a_batch_with_fewer_rows_than_processes_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 2 cannot be shared by 3 processes"):
        World(0, 3).rows(2)


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("kind", ["fourier", "hash"])
def test_the_mean_of_weighted_gradients_is_the_gradient_of_the_batch(kind: str, size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    encoder: Any = FourierEncoder(2, 3)
    if kind == "hash":
        encoder = HashGridEncoder(2, num_levels=3, log2_table_size=6, generator=generator)
    network = MLP(encoder.out_dim, 3, width=8, depth=1, generator=generator)
    model = nn.Sequential(encoder, network).double()
    batch = (torch.rand(16, 2).double() * 2 - 1, torch.rand(16, 3).double())

    def gradients(world: World) -> list[torch.Tensor]:
        inputs, targets = world.share(batch, 16)
        loss = mse(model(inputs).double(), targets) * world.weight(16)
        return list(torch.autograd.grad(loss, list(model.parameters())))

    whole = gradients(ALONE)
    shares = [gradients(World(rank, size)) for rank in range(size)]
    for expected, *parts in zip(whole, *shares, strict=True):
        torch.testing.assert_close(sum(parts) / size, expected, rtol=1e-5, atol=1e-8)


def test_a_share_of_nested_tuples_keeps_their_types_and_refuses_what_has_no_rows() -> None:
    pair = namedtuple("pair", "a b")
    world = World(1, 2)
    rows = torch.arange(5)
    shared, (own,) = world.share((pair(rows, rows + 5), (rows,)), 5)
    assert isinstance(shared, pair)
    assert shared.a.tolist() == own.tolist() == [2, 3, 4]
    assert shared.b.tolist() == [7, 8, 9]
    with pytest.raises(TypeError, match="holds a list"):
        world.share(([1],), 5)


@pytest.mark.parametrize("size", [2, 3])
def test_samples_along_the_rays_of_all_shares_are_those_of_the_batch(size: int) -> None:
    num_rays = 10
    edges = torch.linspace(0, 1, 9).expand(num_rays, 9) + torch.rand(num_rays, 1)
    weights = torch.rand(num_rays, 8)

    def samples(world: World) -> torch.Tensor:
        generator = torch.Generator().manual_seed(4)
        (own_edges, own_weights), own = world.share(((edges, weights), generator), num_rays)
        first = stratified_samples(own_edges, own)
        return torch.cat([first, importance_samples(own_edges, own_weights, 5, own)], dim=-1)

    whole = samples(ALONE)
    shares = [samples(World(rank, size)) for rank in range(size)]
    assert torch.equal(torch.cat(shares), whole)


def test_renderings_of_all_shares_are_the_rendering_of_the_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    field = nerf_field(2, width=8, depth=1, generator=generator)
    renderer = HierarchicalRenderer(field, num_coarse=6, num_fine=4)
    directions = nn.functional.normalize(torch.rand(7, 3), dim=-1)
    rays = Rays(-2 * directions, directions, torch.rand(7), torch.rand(7, 3))

    def rgb(world: World) -> torch.Tensor:
        batch = RayBatch(rays, torch.Generator().manual_seed(1), torch.zeros(7, dtype=torch.long))
        shared = world.share(batch, 7)
        assert isinstance(shared, RayBatch)
        rendering: Rendering = renderer(shared.rays, shared.generator)
        return rendering.rgb.detach()

    shares = [rgb(World(rank, 2)) for rank in range(2)]
    torch.testing.assert_close(torch.cat(shares), rgb(ALONE))


def test_one_process_tells_itself_what_it_knows() -> None:
    batch, value = (torch.arange(3), torch.Generator()), torch.tensor(2.0)
    assert ALONE.is_first
    assert ALONE.share(batch, 3) is batch
    assert ALONE.mean(value) is value
    assert ALONE.maximum(3.0) == 3.0
    assert ALONE.broadcast("a") == ALONE.from_first(lambda: "a") == "a"
    assert ALONE.gather("a") == ["a"]
    assert ALONE.is_first_to("report")
    assert ALONE.weight(5) == 1.0
    model = nn.Linear(2, 2)
    assert ALONE.data_parallel(model, model) is model


def test_a_process_that_torchrun_did_not_start_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert join_world() == ALONE
    leave_world()
    variables = {"RANK": "2", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_PORT": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_world() == ALONE
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert find_world() == World(2, 4, 1)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert join_world() == ALONE


def test_a_lost_connection_is_told_from_other_errors() -> None:
    lost = "[/gloo/transport/tcp/pair.cc:553] Connection closed by peer"
    with pytest.raises(PeerError, match="another process of this run has ended"), peer_errors():
        raise RuntimeError(lost)
    with pytest.raises(RuntimeError, match="out of memory"), peer_errors():
        raise RuntimeError("out of memory")


class Store:
    """Counters, as a store of processes has them; a lost one answers nobody."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.counts: dict[str, int] = {}
        self.is_lost = is_lost

    def add(self, name: str, amount: int) -> int:
        if self.is_lost:
            raise RuntimeError("Connection reset by peer")
        self.counts[name] = self.counts.get(name, 0) + amount
        return self.counts[name]


def test_the_first_to_ask_is_found_by_the_store_and_a_lost_store_lets_all_report() -> None:
    store = Store()
    ranks = [World(rank, 3, rank, store) for rank in range(3)]
    assert [world.is_first_to("report") for world in ranks] == [True, False, False]
    assert ranks[2].is_first_to("another name")
    assert World(1, 3, 1, Store(is_lost=True)).is_first_to("report")


def test_a_compiled_model_is_refused_for_several_processes() -> None:
    model = nn.Linear(2, 3)
    batches = ShuffledBatches(torch.rand(4, 2), torch.rand(4, 3), 4, seed=0)
    with pytest.raises(ValueError, match="a compiled model is trained by one process"):
        fit(FitState(model, adam(model), 1), batches, compiled=True, world=World(0, 2))
