"""Fit an image once and evaluate it down to an eighth of its resolution, without aliasing.

A field that has learned points gives points: at fewer pixels its fine rings become false ones. Here
the field learns means over boxes of every size, each from a single random point of the box (Yaldiz
et al. 2025, arXiv:2510.08394), with the features filtered by the same box. Then it is asked for
coarse pixels, by the box and by a filter that it has not been trained on.
"""

import math

import torch
from torch import Tensor, nn

from nerf_posenc import GaussianEncoder
from nerf_posenc.encoders import Box, Lanczos

SIZE = 128
FACTORS = (1, 2, 4, 8)


def image(x: Tensor) -> Tensor:
    """Values in [0, 1] at points ``(n, 2)``: rings that get finer outwards, and a disk."""
    rings = 0.5 + 0.5 * torch.cos(60 * x.square().sum(-1, keepdim=True))
    center = torch.tensor([0.3, -0.2])
    disk = ((x - center).square().sum(-1, keepdim=True) < 0.1).float()
    return 0.7 * rings * (1 - disk) + disk


def centers(size: int) -> Tensor:
    """Centers of the pixels of an image of that size, ``(size * size, 2)``."""
    line = (torch.arange(size) + 0.5) / size * 2 - 1
    return torch.cartesian_prod(line, line)


def means(size: int, samples: int = 16) -> Tensor:
    """Mean of the image over each pixel's area, ``(size * size, 1)``."""
    inner = centers(samples) / size
    return torch.stack([image(centers(size) + offset) for offset in inner]).mean(0)


class Field(nn.Module):
    """Random Fourier features and a small network."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = GaussianEncoder(2, 128, sigma=8.0)
        layers: list[nn.Module] = []
        for width in (self.encoder.out_dim, 128, 128):
            layers += [nn.Linear(width, 128), nn.ReLU()]
        self.network = nn.Sequential(*layers, nn.Linear(128, 1))

    def forward(self, x: Tensor, filter: Box | Lanczos | None = None) -> Tensor:
        """Values at points, or means over areas around them."""
        values: Tensor = self.network(self.encoder(x, filter=filter))
        return values


def fit(field: Field, *, areas: bool, steps: int = 1500, batch: int = 2048) -> None:
    """Fit points, or the means over boxes of random width, by Adam."""
    optimizer = torch.optim.Adam(field.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = torch.rand(batch, 2) * 2 - 1
        if areas:
            # Up to the pixels of the coarsest image, evenly over the octaves.
            width = 2 / SIZE * max(FACTORS) ** torch.rand(batch, 1).expand(-1, 2)
            inside = x + (torch.rand(batch, 2) - 0.5) * width
            loss = (field(x, Box(width)) - image(inside)).square().mean()
        else:
            loss = (field(x) - image(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


@torch.no_grad()
def main() -> dict[str, list[float]]:
    """Fit both ways; return the PSNR of each evaluation at each factor of reduction."""
    torch.manual_seed(0)
    points, areas = Field(), Field()
    with torch.enable_grad():
        fit(points, areas=False)
        fit(areas, areas=True)
    rows: dict[str, list[float]] = {
        "points": [],
        "points, filtered by the box": [],
        "areas, filtered by the box": [],
        "areas, filtered by Lanczos": [],
    }
    for factor in FACTORS:
        size = SIZE // factor
        truth, x, pitch = means(size), centers(size), 2 / size
        predictions = (
            points(x),
            points(x, Box(pitch)),
            areas(x, Box(pitch)),
            areas(x, Lanczos(pitch)),
        )
        for row, predicted in zip(rows.values(), predictions, strict=True):
            row.append(-10 * math.log10((predicted - truth).square().mean().item()))
    print("reduced to            " + "".join(f"    1/{factor}" for factor in FACTORS))
    for name, row in rows.items():
        print(f"{name:28s}" + " ".join(f"{psnr:5.1f}" for psnr in row) + " dB")
    return rows


if __name__ == "__main__":
    main()
