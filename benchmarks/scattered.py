"""Sigma for scattered samples: what `choose_sigma` recommends beside a sweep of whole fits.

For each function the same network is fitted to samples at random points with Gaussian features of
sigmas an octave apart, and of the one recommended. Printed: PSNR of 4,000 other points, medians
over seeds, on raw coordinates, with the best sigma of the sweep, and with the one recommended; the
sigmas in cycles per unit of [-1, 1]; and the steps of the choice over those of the sweep. The
choice was built on the first six functions.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.timing import machine
from nerf_posenc.analysis import choose_sigma
from nerf_posenc.analysis.scattered import fit_samples
from nerf_posenc.metrics.image import psnr
from nerf_posenc.training.loop import predict
from scenes import open_image

SIGMAS = [2.0**k for k in range(-4, 4)]
PI = math.pi


def balls(p: Tensor) -> Tensor:
    centers = torch.tensor(
        [[0.3, 0.2, -0.4], [-0.5, 0.1, 0.3], [0.1, -0.6, 0.5], [-0.2, 0.6, -0.1]]
    )
    return torch.exp(-(torch.cdist(p, centers) ** 2) / 0.06).sum(-1)


def franke(p: Tensor) -> Tensor:
    x, y = ((p + 1) * 4.5).unbind(-1)
    hills = 0.75 * torch.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4)
    hills += 0.75 * torch.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
    hills += 0.5 * torch.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4)
    return hills - 0.2 * torch.exp(-((x - 4) ** 2) - (y - 7) ** 2)


def waves(p: Tensor) -> Tensor:
    numbers = torch.tensor([[9.0, 4.0], [-14.0, 11.0], [23.0, 19.0]])
    return (p @ numbers.T).sin() @ torch.tensor([1.0, 0.5, 0.25])


def branin(p: Tensor) -> Tensor:
    x, y = 7.5 * p[:, 0] + 2.5, 7.5 * p[:, 1] + 7.5
    bowl = (y - 5.1 / (4 * PI**2) * x**2 + 5 / PI * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * PI)) * x.cos()


def peaks(p: Tensor) -> Tensor:
    x, y = (3 * p).unbind(-1)
    hill = 3 * (1 - x) ** 2 * torch.exp(-(x**2) - (y + 1) ** 2)
    hill -= 10 * (x / 5 - x**3 - y**5) * torch.exp(-(x**2) - y**2)
    return hill - torch.exp(-((x + 1) ** 2) - y**2) / 3


def ishigami(p: Tensor) -> Tensor:
    x, y, z = (PI * p).unbind(-1)
    return x.sin() + 7 * y.sin() ** 2 + 0.1 * z**4 * x.sin()


def gyroid(p: Tensor) -> Tensor:
    return ((6 * p).sin() * (6 * p).cos().roll(-1, -1)).sum(-1)


def cat(p: Tensor) -> Tensor:
    gray = open_image("cat").resized(128).rgb.mean(-1)
    grid = p[None, None]
    sampled = torch.nn.functional.grid_sample(gray[None, None], grid, align_corners=False)
    return sampled.flatten()


FUNCTIONS: dict[str, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    "chirp": (1, 400, lambda p: torch.sin(2 * PI * (2 * p + 3 * p**2))[:, 0]),
    "waves": (2, 2500, waves),
    "Franke": (2, 600, franke),
    "front": (2, 1500, lambda p: torch.tanh(20 * (p[:, 0] - 0.3 * torch.sin(4 * p[:, 1])))),
    "balls": (3, 3000, balls),
    "Friedman": (
        4,
        2000,
        lambda p: (
            torch.sin(PI * (p[:, 0] + 1) * (p[:, 1] + 1) / 4) + p[:, 2] ** 2 / 2 + 0.3 * p[:, 3]
        ),
    ),
    "Doppler": (1, 600, lambda p: ((1 - p**2).sqrt() * torch.sin(2.1 * PI / (p / 2 + 0.65)))[:, 0]),
    "Branin": (2, 500, branin),
    "peaks": (2, 800, peaks),
    "cat": (2, 4000, cat),
    "Ishigami": (3, 2000, ishigami),
    "gyroid": (3, 3000, gyroid),
    "Rosenbrock": (
        4,
        2000,
        lambda p: (25 * (p[:, 1:] - 2 * p[:, :-1] ** 2) ** 2 + (1 - 2 * p[:, :-1]) ** 2).sum(-1),
    ),
}


def psnr_between(
    points: Tensor, values: Tensor, count: int, steps: int, sigma: float | None, seed: int
) -> float:
    """PSNR of all points but the first ``count``, which are fitted."""
    model = fit_samples(points[:count], values[:count], sigma, steps, seed)
    return psnr(predict(model, points[count:]), values[count:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=FUNCTIONS, default=list(FUNCTIONS))
    parser.add_argument("--steps", type=int, default=600, help="steps of a whole fit")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    print(machine())
    print(
        f"{'function':<12}{'raw':>8}{'best':>8}{'(sigma)':>9}{'chosen':>8}{'(sigma)':>9}{'steps':>8}"
    )
    for name in options.only:
        in_dim, count, function = FUNCTIONS[name]
        generator = torch.Generator().manual_seed(100)
        points = 2 * torch.rand(count + 4000, in_dim, generator=generator) - 1
        values = function(points)
        values = ((values - values.min()) / (values.max() - values.min()))[:, None]

        scored = partial(psnr_between, points, values, count, options.steps)
        seeds = range(options.seeds)
        sweep = {s: statistics.median(scored(s, seed) for seed in seeds) for s in SIGMAS}
        best = max(sweep, key=lambda sigma: sweep[sigma])
        choices = [choose_sigma(points[:count], values[:count], seed=seed) for seed in seeds]
        chosen = [scored(choice.sigma, seed) for choice, seed in zip(choices, seeds, strict=True)]
        raw = statistics.median(scored(None, seed) for seed in seeds)
        share = len(choices[0].held_out_errors) * 100 / (len(SIGMAS) * options.steps)
        print(
            f"{name:<12}{raw:8.2f}{sweep[best]:8.2f}{best:9.3f}{statistics.median(chosen):8.2f}"
            f"{statistics.median(choice.sigma for choice in choices):9.3f}{share:8.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
