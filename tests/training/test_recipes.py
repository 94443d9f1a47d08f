"""Encoders, optimizers and rates by name."""

import math
import platform
import subprocess
import sys

import pytest
import torch

from nerf_posenc import FourierEncoder
from nerf_posenc.images import Image
from nerf_posenc.training.recipes import (
    ENCODINGS,
    NETWORKS,
    EncoderDescription,
    default_lr,
    default_sigma,
    make_encoder,
    make_optimizer,
)
from nerf_posenc_app.kinds.image.auto import sigma_between_pixels


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_every_name_is_an_encoder(name: str) -> None:
    encoder = make_encoder(EncoderDescription(name, in_dim=2, resolution=300))
    features = encoder(torch.rand(5, 2))
    assert features.shape == (5, encoder.out_dim)
    assert encoder.in_dim == 2


@pytest.mark.parametrize("name", ["gaussian", "hash"])
def test_random_numbers_come_from_the_generator(name: str) -> None:
    x = torch.rand(4, 2)
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    first, again, other = (
        make_encoder(EncoderDescription(name, in_dim=2, resolution=64), generator)(x)
        for generator in generators
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_random_frequencies_follow_the_resolution() -> None:
    first = make_encoder(EncoderDescription("gaussian", in_dim=2, resolution=512))
    matrix = first.matrix
    assert isinstance(matrix, torch.Tensor)
    assert float(matrix.std()) == pytest.approx(default_sigma(512), rel=0.15)


def test_every_network_has_an_optimizer_and_a_learning_rate() -> None:
    for name, network in NETWORKS.items():
        lr = default_lr(network.optimizer, "none" if name == "relu" else name)
        module = network.build(2, 3, width=8, depth=2)
        assert len(make_optimizer(module, network.optimizer, lr).optimizers) >= 1


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="no encoding 'magic'; there are fourier, gaussian"):
        make_encoder(EncoderDescription("magic", in_dim=2, resolution=10))
    with pytest.raises(ValueError, match="lr must be finite and positive"):
        make_optimizer(FourierEncoder(2, 2), "adam", float("nan"))


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_kept_memory_is_not_mapped_again() -> None:
    # In a process of its own, since it is for good.
    program = """
import resource, torch
from nerf_posenc.training.devices import keep_freed_memory
assert keep_freed_memory()
def touch(): torch.empty(20, 1 << 18).fill_(1.0)
for _ in range(20): touch()  # The heap grows during the first of them.
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10): touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    # Mapped anew, 10 arrays of 20 MiB take 51,200 pages of 4 KiB.
    assert int(done.stdout) < 10_000


@pytest.mark.slow
def test_sigma_follows_the_detail_of_the_image() -> None:
    side = 24
    line = (torch.arange(side) + 0.5) / side * 2 - 1
    coordinates = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1)
    device = torch.device("cpu")
    chosen = []
    for cycles in (0.5, 3.0):
        wave = 0.5 + 0.4 * torch.sin(2 * math.pi * cycles * coordinates.sum(-1))
        rgb = wave[..., None].expand(side, side, 3).contiguous()
        image = Image(rgb, coordinates[0, :, 0], coordinates[:, 0, 1])
        chosen.append(sigma_between_pixels(image, device)[0])
    assert chosen[0] < chosen[1]
    # One pixel cannot be split into fitted and held-out ones.
    dot = Image(rgb[:1, :1], coordinates[0, :1, 0], coordinates[:1, 0, 1])
    assert sigma_between_pixels(dot, device)[0] == default_sigma(1)
