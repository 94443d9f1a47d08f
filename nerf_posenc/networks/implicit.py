"""Coordinate networks that need no encoding: SIREN, FINER, Gauss, WIRE and MFN."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nerf_posenc.core.checks import require_counts
from nerf_posenc.networks.activations import (
    FinerSine,
    FromSymmetric,
    GaborWavelet,
    GaussianBump,
    Sine,
)
from nerf_posenc.networks.mlp import seeded_linear

if TYPE_CHECKING:
    from jaxtyping import Float


def siren(
    in_dim: int,
    out_dim: int,
    *,
    width: int = 256,
    depth: int = 4,
    omega: float = 30.0,
    weight_scale: float = 1.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """SIREN on raw coordinates in [-1, 1] (Sitzmann et al. 2020, section 3.2).

    Weights are uniform in ±1/n in the first layer and ±sqrt(6/n)/omega in the others, where n is
    the layer's number of inputs; the linear output is fitted to values in [-1, 1]. Larger ones in
    all layers but the last learn high frequencies sooner (Yeom et al. 2025, "Fast Training of
    Sinusoidal Neural Fields via Scaling Initialization").

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        omega: factor of every sine's argument.
        weight_scale: factor of the initial weights of all layers but the last.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.
    """
    network = _network(lambda: Sine(omega), in_dim, out_dim, width, depth, generator)
    network = _with_siren_weights(network, omega, generator)
    with torch.no_grad():
        for linear in [layer for layer in network if isinstance(layer, nn.Linear)][:-1]:
            linear.weight.mul_(weight_scale)
    return network


def finer(
    in_dim: int,
    out_dim: int,
    *,
    width: int = 256,
    depth: int = 4,
    omega: float = 30.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """FINER: SIREN with sines whose frequency grows with their argument (Liu et al. 2024).

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        omega: factor of every sine's argument.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.
    """
    network = _network(lambda: FinerSine(omega), in_dim, out_dim, width, depth, generator)
    return _with_siren_weights(network, omega, generator)


def gauss(
    in_dim: int,
    out_dim: int,
    *,
    width: int = 256,
    depth: int = 4,
    scale: float = 30.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Network with Gaussian activations on raw coordinates, with torch's own initialization.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer.
        depth: number of hidden layers, 1 or more.
        scale: inverse width of every Gaussian; 30 in the comparison of FINER, 10 in that of WIRE.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.
    """
    return _network(lambda: GaussianBump(scale), in_dim, out_dim, width, depth, generator)


def wire(
    in_dim: int,
    out_dim: int,
    *,
    width: int = 256,
    depth: int = 4,
    omega: float = 20.0,
    scale: float = 10.0,
    real: bool = False,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """WIRE: complex Gabor wavelets on raw coordinates (Saragadam et al. 2023).

    Complex layers have width / sqrt(2) units, so that the number of parameters stays the same.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each hidden layer of a real network of the same size.
        depth: number of hidden layers, 1 or more.
        omega: frequency of every wavelet.
        scale: narrowness of every wavelet.
        real: keep the wavelets' real part and real layers.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.
    """
    require_counts(width=width)
    units = width if real else max(1, round(width / math.sqrt(2)))
    # The first layer takes real coordinates.
    dtype = None if real else torch.complex64
    wavelet = functools.partial(GaborWavelet, omega, scale, real=real)
    return _network(wavelet, in_dim, out_dim, units, depth, generator, dtype=dtype)


class MultiplicativeFilterNetwork(nn.Module):
    r"""FourierNet: products of sines of the coordinates, with linear layers between them.

    $z_1 = g_1(x)$, $z_{i+1} = g_{i+1}(x) \circ (W_i z_i + b_i)$ with
    $g_i(x) = \sin(\omega_i x + \phi_i)$ (Fathony et al. 2021), initialized as in the
    authors' code.

    Args:
        in_dim: number of coordinates.
        out_dim: number of outputs, in [0, 1].
        width: units in each layer.
        depth: number of filters, 1 or more.
        input_scale: reach of the frequencies.
        generator: random number generator of the initial weights; None is torch's own.

    Raises:
        ValueError: If a count is below 1.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        width: int = 256,
        depth: int = 4,
        input_scale: float = 256.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
        filters = [seeded_linear(in_dim, width, generator) for _ in range(depth)]
        linears = [seeded_linear(width, width, generator) for _ in range(depth - 1)]
        with torch.no_grad():
            for layer in filters:
                layer.weight *= input_scale / math.sqrt(depth)
                layer.bias.uniform_(-math.pi, math.pi, generator=generator)
            for layer in linears:
                reach = 1 / math.sqrt(width)
                layer.weight.uniform_(-reach, reach, generator=generator)
        self.filters = nn.ModuleList(filters)
        self.linears = nn.ModuleList(linears)
        self.output = nn.Sequential(seeded_linear(width, out_dim, generator), FromSymmetric())

    def forward(self, x: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out_dim"]:
        """Map coordinates to values."""
        z = torch.sin(self.filters[0](x))
        for i, linear in enumerate(self.linears, start=1):
            z = torch.sin(self.filters[i](x)) * linear(z)
        values: Tensor = self.output(z)
        return values


def _network(
    activation: Callable[[], nn.Module],
    in_dim: int,
    out_dim: int,
    width: int,
    depth: int,
    generator: torch.Generator | None,
    *,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """Linear layers, each followed by the activation, and an output for values in [-1, 1]."""
    require_counts(in_dim=in_dim, out_dim=out_dim, width=width, depth=depth)
    layers: list[nn.Module] = [seeded_linear(in_dim, width, generator), activation()]
    for _ in range(depth - 1):
        layers += [seeded_linear(width, width, generator, dtype=dtype), activation()]
    output = seeded_linear(width, out_dim, generator, dtype=dtype)
    return nn.Sequential(*layers, output, FromSymmetric())


def _with_siren_weights(
    network: nn.Sequential, omega: float, generator: torch.Generator | None
) -> nn.Sequential:
    """Draw the weights of the linear layers as SIREN does."""
    linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    for i, linear in enumerate(linears):
        n = linear.in_features
        reach = 1 / n if i == 0 else math.sqrt(6 / n) / omega
        nn.init.uniform_(linear.weight, -reach, reach, generator=generator)
    return network
