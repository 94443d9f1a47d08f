"""Error, time and peak memory of encoders beside other libraries' forms.

The forms are the libraries' formulas in PyTorch: ``sin(2^k pi x)`` by one product (siren, BARF,
tiny-cuda-nn's torch stand-ins), nerfstudio's and pytorch3d's, which take the cosine as a sine a
quarter turn on, and nerf-pytorch's loop over the bands. Calls of a few rows are timed beside the
plain form in torch.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.timing import machine, medians
from nerf_posenc import FourierEncoder, GaussianEncoder, SphericalHarmonicsEncoder
from nerf_posenc.core import octave_bands, sincos
from nerf_posenc.presets import FOURIER

NUM_BANDS = 10
OCTAVES = 2.0 ** torch.arange(NUM_BANDS)


def nerfstudio(x: Tensor) -> Tensor:
    scaled = (2 * math.pi * x)[..., None] * OCTAVES
    scaled = scaled.flatten(-2)
    return torch.sin(torch.cat([scaled, scaled + math.pi / 2], -1))


def pytorch3d(x: Tensor) -> Tensor:
    embedded = (x[..., None] * OCTAVES).flatten(-2)
    return torch.cat([embedded, embedded + math.pi / 2], -1).sin()


def nerf_pytorch(x: Tensor) -> Tensor:
    return torch.cat(
        [f(x * octave) for octave in OCTAVES.tolist() for f in (torch.sin, torch.cos)], -1
    )


def nerf_pytorch_embedder(x: Tensor) -> Tensor:
    """As run_nerf_helpers.Embedder has it: one concatenation of all its functions."""
    waves = [f(x * octave) for octave in OCTAVES.tolist() for f in (torch.sin, torch.cos)]
    return torch.cat([x, *waves], -1)


def sine_and_cosine(x: Tensor) -> Tensor:
    angles = (x[..., None] * (math.pi * OCTAVES)).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], -1)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "nerfstudio": nerfstudio,
    "pytorch3d": pytorch3d,
    "nerf-pytorch": nerf_pytorch,
    "sin, cos": sine_and_cosine,
}


def error_table(octaves: list[int], reach: float) -> None:
    """Largest error of a sine or a cosine, against float64 on exactly reduced angles."""
    x = (torch.rand(200_000, generator=torch.Generator().manual_seed(0)) * 2 - 1) * reach
    print(f"\nlargest error in float32, |x| <= {reach:g} (bands pi 2^k; last two: 2^k and e 2^k)")
    print(
        f"{'k':>3} {'sin(pi 2^k x)':>14} {'sin(.. + pi/2)':>14} "
        f"{'ours':>9} {'base 1':>9} {'base e':>9}"
    )
    for k in octaves:
        halves = np.fmod(np.ldexp(x.double().numpy(), k), 2.0)
        exact = torch.from_numpy(np.stack([np.sin(math.pi * halves), np.cos(math.pi * halves)], -1))
        angle = x * (math.pi * 2.0**k)
        naive = torch.stack([angle.sin(), angle.cos()], -1)
        shifted = torch.stack([angle.sin(), (angle + math.pi / 2).sin()], -1)
        ours = sincos(x[:, None], octave_bands(1, min_octave=k))
        errors = [float((form.double() - exact).abs().max()) for form in (naive, shifted, ours)]
        for base in (1.0, math.e):
            # Extended precision holds the angle to 2^-64 of itself; numpy's sine reduces it well.
            wide = x.numpy().astype(np.longdouble) * np.longdouble(base) * np.longdouble(2.0) ** k
            expected = np.stack([np.sin(wide), np.cos(wide)], -1).astype(np.float64)
            features = sincos(x[:, None], octave_bands(1, min_octave=k, base=base))
            errors.append(float(np.abs(features.double().numpy() - expected).max()))
        columns = " ".join(f"{e:{w}.1e}" for e, w in zip(errors, (14, 14, 9, 9, 9), strict=True))
        print(f"{k:>3} {columns}")


class PeakBytes(TorchDispatchMode):
    """Most bytes of tensor storage that live at once, from the first operation on."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, tuple[Any, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        outputs = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.live[storage._cdata] = (
                    torch.multiprocessing.reductions.StorageWeakRef(storage),
                    storage.nbytes(),
                )
        self.live = {
            key: (ref, size) for key, (ref, size) in self.live.items() if not ref.expired()
        }
        self.peak = max(self.peak, sum(size for _, size in self.live.values()))
        return outputs


def peak_memory(form: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Peak memory of a call in units of its output."""
    form(x)
    with PeakBytes() as mode:
        output = form(x)
    return float(mode.peak / (output.numel() * output.element_size()))


def time_table(num_points: int, rounds: int) -> None:
    """Time and peak memory of a call, 3-D, 10 bands."""
    x = torch.rand(num_points, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    ours: dict[str, Callable[[Tensor], Tensor]] = {"ours (default)": FourierEncoder(3, NUM_BANDS)}
    for name in ("nerf", "mipnerf", "nerfstudio", "pytorch3d", "tiny-cuda-nn"):
        assert name in FOURIER
        ours[f"ours ({name})"] = FourierEncoder.preset(name, 3, NUM_BANDS)
    forms = {**FORMS, **ours}
    times = medians({name: partial(form, x) for name, form in forms.items()}, rounds=rounds)
    fastest = min(times[name] for name in FORMS)
    print(f"\n{num_points:,} points, 3-D, L=10: median of {rounds} interleaved rounds")
    print(f"{'form':<22} {'ms':>8} {'to fastest form':>16} {'peak / output':>14}")
    for name, form in forms.items():
        print(
            f"{name:<22} {times[name] * 1e3:8.3f} {times[name] / fastest:16.2f} "
            f"{peak_memory(form, x):14.2f}"
        )


def plain_features(x: Tensor) -> Tensor:
    angles = (x[..., None, :] * (math.pi * OCTAVES)[:, None]).flatten(-2)
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


def small_calls(rounds: int) -> None:
    """What a call costs for one row and for 1,024 directions."""
    print("\ncalls of a few rows")
    fourier, x = FourierEncoder(3, 10), torch.rand(1, 3)
    trained = x.clone().requires_grad_()
    harmonics, toward = SphericalHarmonicsEncoder(4), F.normalize(torch.randn(1024, 3), dim=-1)
    pairs: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
        "one row of features": (lambda: fourier(x), lambda: plain_features(x)),
        "the same with its gradient": (
            lambda: with_gradient(fourier, trained),
            lambda: with_gradient(plain_features, trained),
        ),
        "harmonics of 1,024 rows": (lambda: harmonics(toward), lambda: plain_harmonics(toward)),
    }
    for name, (ours, plain) in pairs.items():
        times = medians({"ours": ours, "plain": plain}, rounds=rounds)
        print(
            f"{name:<28} {1e6 * times['ours']:6.1f} us, plain {1e6 * times['plain']:6.1f}, "
            f"ratio {times['ours'] / times['plain']:.2f}"
        )


def nerfstudio_harmonics(directions: Tensor) -> Tensor:
    """Four levels, written column by column into zeros, as nerfstudio's torch code does."""
    x, y, z = directions.unbind(-1)
    xx, yy, zz = x**2, y**2, z**2
    columns = directions.new_zeros(*directions.shape[:-1], 16)
    columns[..., 0] = 0.28209479177387814
    columns[..., 1] = 0.4886025119029199 * y
    columns[..., 2] = 0.4886025119029199 * z
    columns[..., 3] = 0.4886025119029199 * x
    columns[..., 4] = 1.0925484305920792 * x * y
    columns[..., 5] = 1.0925484305920792 * y * z
    columns[..., 6] = 0.9461746957575601 * zz - 0.31539156525251999
    columns[..., 7] = 1.0925484305920792 * x * z
    columns[..., 8] = 0.5462742152960396 * (xx - yy)
    columns[..., 9] = 0.5900435899266435 * y * (3 * xx - yy)
    columns[..., 10] = 2.890611442640554 * x * y * z
    columns[..., 11] = 0.4570457994644658 * y * (5 * zz - 1)
    columns[..., 12] = 0.3731763325901154 * z * (5 * zz - 3)
    columns[..., 13] = 0.4570457994644658 * x * (5 * zz - 1)
    columns[..., 14] = 1.445305721320277 * z * (xx - yy)
    columns[..., 15] = 0.5900435899266435 * x * (xx - 3 * yy)
    return columns


def drop_in(rounds: int) -> None:
    """How much faster an encoder is than the code that it replaces, with and without gradients."""
    matrix = 10 * torch.randn(128, 2, generator=torch.Generator().manual_seed(0))

    def rff(x: Tensor) -> Tensor:
        angles = 2 * math.pi * x @ matrix.T
        return torch.cat([angles.cos(), angles.sin()], -1)

    pairs: dict[str, tuple[int, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "nerf-pytorch, 3-D, L=10": (
            3,
            nerf_pytorch_embedder,
            FourierEncoder.preset("nerf-pytorch", 3, NUM_BANDS),
        ),
        "rff, 128 of 10 cycles": (2, rff, GaussianEncoder(2, matrix=matrix, phases=("cos", "sin"))),
    }
    harmonics = SphericalHarmonicsEncoder(4, condon_shortley=False)
    pairs["harmonics, 4 levels"] = 3, nerfstudio_harmonics, harmonics
    print("\ntime of the code that is replaced, over ours: forward, forward and backward")
    for name, (in_dim, theirs, ours) in pairs.items():
        for count in (1_000, 2_048, 4_096, 8_192, 16_384, 65_536, 262_144):
            x = torch.rand(count, in_dim, generator=torch.Generator().manual_seed(0)) * 2 - 1
            # Harmonics are of directions.
            x = F.normalize(x, dim=-1) if ours is harmonics else x
            # What is compared gives the same numbers; rff rounds angles of many turns.
            torch.testing.assert_close(theirs(x), ours(x), atol=2e-4, rtol=0)
            trained = x.clone().requires_grad_()
            with torch.no_grad():
                plain = medians({"a": partial(theirs, x), "b": partial(ours, x)}, rounds=rounds)
            forms = {"a": partial(with_gradient, theirs, trained)}
            forms["b"] = partial(with_gradient, ours, trained)
            both = medians(forms, rounds=rounds)
            ratios = [each["a"] / each["b"] for each in (plain, both)]
            print(f"{name:<26} {count:>8,} {ratios[0]:8.2f} {ratios[1]:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(machine())
    with torch.no_grad():
        error_table([0, 3, 6, 9, 12, 15, 20, 25, 30], 1.0)
        error_table([0, 9, 20, 30], 1000.0)
        for num_points in (8_192, 262_144):
            time_table(num_points, rounds)
    small_calls(rounds)
    drop_in(rounds)


if __name__ == "__main__":
    main()
