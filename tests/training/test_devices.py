"""Devices, autocast and the cache of hash-grid corners."""

import pytest
import torch
from torch import nn

from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.training import corner_cache
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast, computes_bfloat16, describe, pick_device


def pretend(monkeypatch: pytest.MonkeyPatch, *, cuda: int, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "first"),
    [(0, False, "cpu"), (0, True, "mps"), (1, False, "cuda"), (1, True, "cuda")],
)
def test_the_first_of_cuda_mps_and_the_cpu_is_picked(
    cuda: int, mps: bool, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, cuda=cuda, mps=mps)
    assert pick_device() == torch.device(first)
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_float32_is_no_autocast(dtype: torch.dtype | None) -> None:
    # A CPU's autocast would warn of it.
    with autocast(torch.device("cpu"), dtype):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32


def test_a_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, cuda=2, mps=False)
    for name in ("cuda", "cuda:0", "cuda:1"):
        assert pick_device(name) == torch.device(name)
    with pytest.raises(ValueError, match="cuda:2 is not on this machine; available are: cuda, cpu"):
        pick_device("cuda:2")
    with pytest.raises(ValueError, match="mps is not on this machine"):
        pick_device("mps")


def test_a_gpu_computes_bfloat16_unless_it_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def supported(including_emulation: bool = True) -> bool:
        asked.append(including_emulation)
        return True

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert computes_bfloat16(torch.device("cuda"))
    assert asked == [False]
    for has in (True, False):
        monkeypatch.setattr(
            torch.cpu, "_is_avx512_bf16_supported", lambda has=has: has, raising=False
        )
        assert computes_bfloat16(torch.device("cpu")) == has
        assert not computes_bfloat16(torch.device("mps"))


def test_a_device_is_described_by_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    assert describe(torch.device("cuda:1")) == "cuda:1 (Some GPU)"
    assert describe(torch.device("cpu")) == f"cpu ({torch.get_num_threads()} threads)"
    assert describe(torch.device("mps")) == "mps"


def test_autocast_is_in_the_type_that_is_asked_for() -> None:
    x = torch.rand(4, 4)
    with autocast(torch.device("cpu"), None):
        assert (x @ x).dtype == torch.float32
    with autocast(torch.device("cpu"), torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16


POINTS = torch.rand(100, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_cached_corners_give_the_batches_and_outputs_of_the_model() -> None:
    encoder, network = HashGridEncoder(3, 3, log2_table_size=6), nn.Linear(6, 2)
    nn.init.normal_(encoder.table)
    plain = ShuffledBatches(POINTS, POINTS * 2, 30, seed=4)
    draw, forward = cache_corners(encoder, network, plain)
    assert forward is not None
    for step in range(7):
        corners, targets = draw(step)
        inputs, expected = plain(step)
        assert torch.equal(targets, expected)
        torch.testing.assert_close(forward(corners), network(encoder(inputs)))


def test_corners_are_cached_as_long_as_their_bytes_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert corner_cache._MOST_BYTES == 512 * 2**20
    encoder = HashGridEncoder(3, 3, log2_table_size=6)
    batches = ShuffledBatches(POINTS, POINTS, 30, seed=4)
    corners = encoder.corners(POINTS)
    num_bytes = corners.rows.nbytes + corners.weights.nbytes
    for most, fits in ((num_bytes, True), (num_bytes - 1, False)):
        monkeypatch.setattr(corner_cache, "_MOST_BYTES", most)
        draw, forward = cache_corners(encoder, nn.Identity(), batches)
        assert (forward is not None) == fits
        assert (draw is batches) != fits


def test_an_encoder_without_a_grid_has_no_corners_to_cache() -> None:
    batches = ShuffledBatches(POINTS, POINTS, 30, seed=4)
    assert cache_corners(FourierEncoder(3, 2), nn.Identity(), batches) == (batches, None)
