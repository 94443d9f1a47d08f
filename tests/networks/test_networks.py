"""Coordinate networks against their papers."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from nerf_posenc.networks import (
    MLP,
    MultiplicativeFilterNetwork,
    hidden_matrices,
    num_parameters,
    siren,
    wire,
)
from nerf_posenc.networks.activations import FinerSine, GaborWavelet, GaussianBump, Sine
from nerf_posenc.networks.mlp import seeded_linear
from nerf_posenc.training.recipes import NETWORKS

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "encoding_vectors.json").read_text())


def test_activations_have_the_numbers_of_the_libraries() -> None:
    (vector,) = (v for v in VECTORS["vectors"] if v["id"] == "activations")
    z = torch.tensor(vector["input"])
    sine, finer, gauss30, gauss10, gabor = vector["output"]
    for module, expected in (
        (Sine(30.0), sine),
        (FinerSine(30.0), finer),
        (GaussianBump(30.0), gauss30),
        (GaussianBump(10.0), gauss10),
    ):
        torch.testing.assert_close(module(z), torch.tensor(expected), atol=2e-6, rtol=0)
    wavelet = GaborWavelet(10.0, 40.0)(z)
    expected = torch.complex(torch.tensor(gabor["real"]), torch.tensor(gabor["imag"]))
    torch.testing.assert_close(wavelet, expected, atol=1e-6, rtol=0)
    real = GaborWavelet(10.0, 40.0, real=True)(z)
    torch.testing.assert_close(real, expected.real, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("depth", [1, 3])
def test_every_network_maps_coordinates_to_values_and_can_be_trained(name: str, depth: int) -> None:
    network = NETWORKS[name].build(2, 3, width=32, depth=depth)
    values = network(torch.rand(7, 2))
    assert values.shape == (7, 3)
    assert values.dtype == torch.float32
    values.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    with pytest.raises(ValueError, match="depth must be 1 or more; got 0"):
        NETWORKS[name].build(2, 3, depth=0)


def test_a_network_starts_at_the_mean_of_its_targets() -> None:
    network = MLP(2, 3, width=32, depth=3)
    network.start_at(torch.tensor([0.2, 0.9, 1.0]))
    # All biases but the last are zero, and so is what comes of zeros.
    values = network(torch.zeros(1, 2))
    torch.testing.assert_close(values, torch.tensor([[0.2, 0.9, 0.99]]))


@pytest.mark.parametrize("name", ["relu", "siren", "finer", "gauss"])
def test_networks_of_one_width_have_one_size(name: str) -> None:
    expected = 2 * 256 + 256 + 3 * (256 * 256 + 256) + 256 * 3 + 3
    assert num_parameters(NETWORKS[name].build(2, 3)) == expected


def test_complex_networks_have_about_the_size_of_real_ones() -> None:
    assert num_parameters(wire(2, 3)) == pytest.approx(num_parameters(MLP(2, 3)), rel=0.02)
    real = wire(2, 3, width=32, depth=2, real=True)
    assert num_parameters(real) == num_parameters(MLP(2, 3, width=32, depth=2))
    assert real(torch.rand(5, 2)).shape == (5, 3)


def test_siren_keeps_its_signal_from_layer_to_layer() -> None:
    # Sitzmann et al. 2020, section 3.2: sines of arguments of standard deviation 1 or more
    # are arcsine distributed, with variance 1/2.
    network = siren(2, 3, width=1024, depth=5)
    values = torch.rand(2000, 2) * 2 - 1
    for layer in list(network)[:-2]:
        values = layer(values)
        if isinstance(layer, Sine):
            assert float(values.detach().var()) == pytest.approx(0.5, abs=0.06)


def test_filter_networks_are_sums_of_sines() -> None:
    # With two filters every output is bilinear in sines of the coordinates, whose products
    # are sines of sums: on a line its spectrum ends where the frequencies' sum ends.
    network = MultiplicativeFilterNetwork(1, 1, width=16, depth=2, input_scale=20.0)
    weights = [layer.weight for layer in network.filters]
    reach = sum(float(w.detach().abs().max()) for w in weights if isinstance(w, torch.Tensor))
    n, length = 4096, 64 * math.pi
    x = torch.arange(n)[:, None] * (length / n)
    window = torch.hann_window(n)[:, None]
    values = network(x).detach()
    spectrum = torch.fft.rfft((values - values.mean()) * window, dim=0).abs()
    omega = torch.arange(len(spectrum)) * (2 * math.pi / length)
    assert spectrum[omega > reach + 1].max() < 1e-3 * spectrum.max()


def test_matrices_for_muon_are_real_and_hidden() -> None:
    assert [tuple(m.shape) for m in hidden_matrices(MLP(40, 3, depth=2))] == [(256, 40), (256, 256)]
    assert all(not m.is_complex() for m in hidden_matrices(wire(2, 3, depth=3)))
    assert hidden_matrices(nn.Linear(3, 3)) == []


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_autocast_does_not_round_coordinates(name: str) -> None:
    # bfloat16 has 386 numbers for the centers of 512 pixels.
    network = NETWORKS[name].build(2, 3, width=8, depth=2, generator=None)
    first = next(layer for layer in network.modules() if isinstance(layer, nn.Linear))
    seen: list[torch.Tensor] = []
    first.register_forward_hook(lambda _, inputs, output: seen.append(output.clone()))
    x = torch.stack([(torch.arange(512) + 0.5) / 256 - 1, torch.zeros(512)], dim=-1)
    with torch.autocast("cpu", torch.bfloat16):
        network(x)
    torch.testing.assert_close(seen[0], nn.functional.linear(x, first.weight, first.bias))
    assert len(seen[0].unique(dim=0)) == 512


def test_small_layers_behind_rounded_ones_work_under_autocast() -> None:
    network = nn.Sequential(seeded_linear(8, 4), nn.ReLU(), seeded_linear(4, 3))
    with torch.autocast("cpu", torch.bfloat16):
        assert network(torch.rand(5, 8)).dtype == torch.float32
