"""Spherical harmonics at high degrees: time and error, beside a recurrence for each column.

    python -m benchmarks.harmonics [--levels 40] [--points 10000]

SatCLIP's closed form evaluates the associated Legendre functions of each degree and order anew,
from the diagonal up, in the type of its input, float64. Errors are against scipy where that is
installed, which computes in float64.
"""

import argparse
import math

import torch
from torch import Tensor

from benchmarks.timing import machine, medians
from nerf_posenc import SphericalHarmonicsEncoder
from nerf_posenc.encoders import directions_from_degrees


def legendre(degree: int, order: int, x: Tensor) -> Tensor:
    """Associated Legendre function by the recurrence in the degree."""
    diagonal = torch.ones_like(x)
    root = torch.sqrt((1 - x) * (1 + x))
    for i in range(order):
        diagonal = -diagonal * (2 * i + 1) * root
    if degree == order:
        return diagonal
    before, last = diagonal, x * (2 * order + 1) * diagonal
    for n in range(order + 2, degree + 1):
        before, last = last, ((2 * n - 1) * x * last - (n + order - 1) * before) / (n - order)
    return last


def column_by_column(longitude: Tensor, colatitude: Tensor, levels: int) -> Tensor:
    """All harmonics, each from its own recurrence."""
    cosine = torch.cos(colatitude)
    columns = []
    for degree in range(levels):
        for m in range(-degree, degree + 1):
            order = abs(m)
            ratio = math.factorial(degree - order) / math.factorial(degree + order)
            scale = math.sqrt((2 * degree + 1) / (4 * math.pi) * ratio * (2 if m else 1))
            wave = torch.cos(order * longitude) if m >= 0 else torch.sin(order * longitude)
            columns.append(scale * legendre(degree, order, cosine) * wave)
    return torch.stack(columns, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Spherical harmonics at high degrees")
    parser.add_argument("--levels", type=int, default=40)
    parser.add_argument("--points", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    generator = torch.Generator().manual_seed(0)
    shares = torch.rand(options.points, 2, generator=generator, dtype=torch.float64)
    lon_lat = (shares - 0.5) * torch.tensor([360.0, 180.0])
    longitude = torch.deg2rad(lon_lat[:, 0])
    colatitude = math.pi / 2 - torch.deg2rad(lon_lat[:, 1])
    double = directions_from_degrees(lon_lat)
    single = double.float()
    encoder = SphericalHarmonicsEncoder(options.levels)
    calls = {
        "ours, float32": lambda: encoder(single),
        "ours, float64": lambda: encoder(double),
        "column by column, float64": lambda: column_by_column(
            longitude, colatitude, options.levels
        ),
    }
    with torch.no_grad():
        seconds = medians(calls, rounds=5)
    for name, value in seconds.items():
        ratio = value / seconds["ours, float32"]
        print(f"{name:28s} {1e3 * value:9.1f} ms  {ratio:6.1f} x")
    exact = encoder(double)
    other = column_by_column(longitude, colatitude, options.levels)
    rounded = encoder(single.double())
    print(f"float32 against float64, of the same directions: {_largest(encoder(single) - rounded)}")
    print(f"column by column against ours in float64:        {_largest(other - exact)}")
    try:
        from scipy.special import sph_harm_y
    except ImportError:
        return
    degree, order = options.levels - 1, options.levels // 2
    reference = sph_harm_y(degree, order, colatitude.numpy(), longitude.numpy()).real
    column = exact[:, degree * degree + degree + order]
    error = column - math.sqrt(2) * torch.from_numpy(reference)
    print(f"ours against scipy, degree {degree}, order {order}:      {_largest(error)}")


def _largest(error: Tensor) -> str:
    return f"{float(error.abs().max()):.1e}"


if __name__ == "__main__":
    main()
