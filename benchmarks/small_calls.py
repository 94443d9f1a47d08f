"""What a call of an encoder costs for a few rows, beside the plain form in torch."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import machine, medians
from nerf_posenc import FourierEncoder, RotaryEncoder, SphericalHarmonicsEncoder

OMEGA = math.pi * 2.0 ** torch.arange(10)


def plain_rotation(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-b, a], dim=-1) * sine


def plain_features(x: Tensor) -> Tensor:
    angles = (x[..., None, :] * OMEGA[:, None]).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def plain_harmonics(directions: Tensor) -> Tensor:
    """The polynomials of four levels, as instant-NGP's ports have them."""
    x, y, z = directions.unbind(-1)
    xx, yy, zz = x * x, y * y, z * z
    columns = [torch.full_like(x, 0.28209479177387814)]
    columns += [-0.48860251190291987 * y, 0.48860251190291987 * z, -0.48860251190291987 * x]
    columns += [1.0925484305920792 * x * y, -1.0925484305920792 * y * z]
    columns += [0.94617469575756008 * zz - 0.31539156525252005, -1.0925484305920792 * x * z]
    columns += [0.54627421529603959 * (xx - yy), 0.59004358992664352 * y * (-3 * xx + yy)]
    columns += [2.8906114426405538 * x * y * z, 0.45704579946446572 * y * (1 - 5 * zz)]
    columns += [0.3731763325901154 * z * (5 * zz - 3), 0.45704579946446572 * x * (1 - 5 * zz)]
    columns += [1.4453057213202769 * z * (xx - yy), 0.59004358992664352 * x * (-xx + 3 * yy)]
    return torch.stack(columns, dim=-1)


def with_gradient(encode: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(encode(x).sum(), x)
    return gradient


def main() -> None:
    print(machine())
    query, rotary = torch.randn(1, 8, 1, 64), RotaryEncoder(64, pairing="half")
    tables = rotary(torch.tensor([5]))
    fourier, x = FourierEncoder(3, 10), torch.rand(1, 3)
    trained = x.clone().requires_grad_()
    harmonics, toward = SphericalHarmonicsEncoder(4), F.normalize(torch.randn(1024, 3), dim=-1)
    pairs: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
        "one token rotated": (
            lambda: rotary.rotate_with(query, *tables),
            lambda: plain_rotation(query, *tables),
        ),
        "one row of features": (lambda: fourier(x), lambda: plain_features(x)),
        "the same with its gradient": (
            lambda: with_gradient(fourier, trained),
            lambda: with_gradient(plain_features, trained),
        ),
        "harmonics of 1,024 rows": (lambda: harmonics(toward), lambda: plain_harmonics(toward)),
    }
    for name, (ours, plain) in pairs.items():
        times = medians({"ours": ours, "plain": plain})
        print(
            f"{name:<28} {1e6 * times['ours']:6.1f} us, plain {1e6 * times['plain']:6.1f}, "
            f"ratio {times['ours'] / times['plain']:.2f}"
        )


if __name__ == "__main__":
    main()
