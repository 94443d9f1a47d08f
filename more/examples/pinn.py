"""Solve a differential equation by a network (a PINN), on the coordinate and on frequency bands.

u' = f on [0, 1] with u(0) = 0. The solution has a wave of 2 cycles and a small one of 20. The loss
is what the equation leaves (Raissi et al. 2019), so that training differentiates the features
twice.
"""

import math

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from nerf_posenc import FourierEncoder, linear_bands
from nerf_posenc.core import Encoder, Identity

CYCLES = torch.tensor([2.0, 20.0])
AMPLITUDES = torch.tensor([1.0, 0.1])


def solution(x: Tensor) -> Tensor:
    """The function that solves the equation."""
    return (AMPLITUDES * torch.sin(2 * math.pi * CYCLES * x[:, None])).sum(1)


def right_side(x: Tensor) -> Tensor:
    """Its derivative, which is given."""
    omega = 2 * math.pi * CYCLES
    return (AMPLITUDES * omega * torch.cos(omega * x[:, None])).sum(1)


def error_of(encoder: Encoder, steps: int = 300) -> float:
    """Train a network on the features of an encoder; return its relative error."""
    network = nn.Sequential(
        encoder,
        nn.Linear(encoder.out_dim, 48),
        nn.Tanh(),
        nn.Linear(48, 48),
        nn.Tanh(),
        nn.Linear(48, 1),
    )
    derivative = vmap(grad(lambda x: network(x[None])[0]))
    x = torch.linspace(0, 1, 257)[:-1]
    start = torch.zeros(1, 1)
    scale = right_side(x).square().mean()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        left = (derivative(x) - right_side(x)).square().mean() / scale
        loss = left + network(start).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = network(x[:, None])[:, 0]
    return float((found - solution(x)).norm() / solution(x).norm())


def main() -> dict[str, float]:
    """Solve the equation on the coordinate, on bands and on trained bands."""
    torch.manual_seed(0)
    bands = linear_bands(24, first=2 * math.pi, last=48 * math.pi)
    results = {
        "the coordinate": error_of(Identity(1)),
        "6 octaves": error_of(FourierEncoder(1, 6)),
        "6 octaves, trained": error_of(FourierEncoder(1, 6, trainable=True)),
        "1 to 24 cycles": error_of(FourierEncoder(1, frequencies=bands)),
    }
    for name, error in results.items():
        print(f"{name:18s} relative error {error:.2%}")
    return results


if __name__ == "__main__":
    main()
