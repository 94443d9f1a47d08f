"""Fit one image by a ReLU network, by the same on Fourier features, and by SIREN.

The image is made of rings and an edge, so that no file is needed. All networks have the same width
and depth and take the same steps. The rings run in every direction: random frequencies, which do
too, fit them better than bands along the axes.
"""

import math

import torch
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, GaussianEncoder, grid_positions
from nerf_posenc.networks.implicit import siren

SIZE = 64


def image() -> tuple[Tensor, Tensor]:
    """Pixel centers in [-1, 1], ``(4096, 2)``, and gray values in [0, 1], ``(4096, 1)``."""
    coordinates = grid_positions((SIZE, SIZE), units="longer", xy=True)
    x, y = coordinates.unbind(-1)
    rings = 0.5 + 0.5 * torch.cos(40 * (x * x + y * y))
    disk = ((x - 0.3) ** 2 + (y + 0.2) ** 2 < 0.1).float()
    values = 0.7 * rings * (1 - disk) + disk
    return coordinates.reshape(-1, 2), values.reshape(-1, 1)


def relu_network(in_dim: int) -> nn.Sequential:
    """Three hidden layers of 64 units."""
    layers: list[nn.Module] = []
    for width in (in_dim, 64, 64):
        layers += [nn.Linear(width, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 1))


def psnr_after(model: nn.Module, lr: float, steps: int = 300) -> float:
    """Fit all pixels with Adam; return the PSNR in dB."""
    x, values = image()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        loss = (model(x) - values).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return -10 * math.log10(loss.item())


def main() -> dict[str, float]:
    """Fit the image by each network; return the PSNR of each."""
    torch.manual_seed(0)
    bands = FourierEncoder(2, 6)
    random = GaussianEncoder(2, 64, sigma=4.0)
    results = {
        "ReLU on raw coordinates": psnr_after(relu_network(2), 3e-3),
        "ReLU on 6 frequency bands": psnr_after(
            nn.Sequential(bands, relu_network(bands.out_dim)), 3e-3
        ),
        "ReLU on random frequencies": psnr_after(
            nn.Sequential(random, relu_network(random.out_dim)), 3e-3
        ),
        "SIREN": psnr_after(siren(2, 1, width=64, depth=3), 1e-3),
    }
    for name, psnr in results.items():
        print(f"{name:28s} {psnr:5.1f} dB")
    return results


if __name__ == "__main__":
    main()
