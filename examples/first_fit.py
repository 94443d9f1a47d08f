"""Fit a photograph by a small network, on raw coordinates and on frequency bands: plain PyTorch.

    python -m examples.first_fit [IMAGE]

This is the method of train_fit.py, without its measures, saves and page. It needs imageio.
"""

import math
import sys
from pathlib import Path

import torch
from imageio.v3 import imread
from torch import Tensor, nn

from nerf_posenc import FourierEncoder, grid_positions

CAT = Path(__file__).parents[1] / "scenes" / "cat.png"


def fit(encoder: nn.Module, num_features: int, x: Tensor, rgb: Tensor, steps: int = 1000) -> float:
    """Train an encoder and a network after it on pixels.

    Args:
        encoder: module from coordinates ``(n, 2)`` to features ``(n, num_features)``.
        num_features: number of its features.
        x: coordinates of all pixels, ``(n, 2)``.
        rgb: their colors in [0, 1], ``(n, 3)``.
        steps: number of gradient steps.

    Returns:
        PSNR of the reconstruction in dB.
    """
    torch.manual_seed(0)
    network = nn.Sequential(
        encoder,
        *(nn.Linear(num_features, 128), nn.ReLU()),
        *(nn.Linear(128, 128), nn.ReLU()),
        nn.Linear(128, 3),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = torch.randint(len(x), (4096,))
        loss = (network(x[batch]) - rgb[batch]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        reconstruction = network(x).clamp(0, 1)
    return -10 * math.log10(float((reconstruction - rgb).square().mean()))


def main(file: Path = CAT) -> tuple[float, float]:
    """Fit an image twice; return the PSNR on raw coordinates and on bands."""
    # Every second pixel of every second row, and its center, x right and y down, in [-1, 1].
    pixels = torch.tensor(imread(file, mode="RGB")[::2, ::2]) / 255
    x = grid_positions(pixels.shape[:2], units="longer", xy=True).reshape(-1, 2)
    rgb = pixels.reshape(-1, 3)
    encoder = FourierEncoder(in_dim=2, num_bands=7)  # sin and cos of 2^k pi x, k = 0 ... 6
    raw = fit(nn.Identity(), 2, x, rgb)
    bands = fit(encoder, encoder.out_dim, x, rgb)
    print(f"raw coordinates {raw:.1f} dB, 7 bands {bands:.1f} dB")
    return raw, bands


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
