"""Rotating queries and keys beside other libraries' forms: time, ratio and error.

    python -m more.benchmarks.rotary [--device cuda] [--batch 4 --heads 16 --length 1024 --dim 64]

The forms are the libraries' formulas in PyTorch, with tables that are computed once: torchtune's
stacks the products of neighbors, rotary-embedding-torch's and transformers' add the rotated half.
Errors are against float64, for the positions at the end of the sequence of ``--last``.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import machine, medians
from nerf_posenc import geometric_bands
from nerf_posenc_attention import RotaryEncoder


def torchtune_table(positions: Tensor, dim: int) -> Tensor:
    """Cosines and sines of float32 angles, ``(length, dim / 2, 2)``."""
    bands = 1.0 / (10_000 ** (torch.arange(0, dim, 2, device=positions.device).float() / dim))
    angles = torch.einsum("i,j->ij", positions.float(), bands)
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def torchtune(x: Tensor, table: Tensor) -> Tensor:
    """``(batch, length, heads, dim)``, pairs of neighbors."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    table = table[None, :, None]
    rotated = [
        pairs[..., 0] * table[..., 0] - pairs[..., 1] * table[..., 1],
        pairs[..., 1] * table[..., 0] + pairs[..., 0] * table[..., 1],
    ]
    return torch.stack(rotated, -1).flatten(-2).type_as(x)


def neighbors_rotated(x: Tensor) -> Tensor:
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([-second, first], dim=-1).flatten(-2)


def halves_rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def added(x: Tensor, table: tuple[Tensor, Tensor], rotated: Callable[[Tensor], Tensor]) -> Tensor:
    """``x cos + rotated(x) sin``, as rotary-embedding-torch and transformers have it."""
    cosine, sine = table
    return (x * cosine + rotated(x) * sine).to(x.dtype)


def float32_columns(positions: Tensor, dim: int) -> Tensor:
    """Angles of each column as rotary-embedding-torch computes them, float32."""
    bands = 1.0 / (10_000 ** (torch.arange(0, dim, 2, device=positions.device).float() / dim))
    return (positions.float()[:, None] * bands).repeat_interleave(2, dim=-1)


def exact(x: Tensor, positions: Tensor) -> Tensor:
    """The rotation of neighbors in float64."""
    angles = positions.double()[:, None].cpu() * geometric_bands(x.shape[-1] // 2)
    turn = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.double().cpu().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)


def compare(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str, last: int) -> None:
    """Print seconds, ratios and errors for one type of queries and keys."""
    length, dim = shape[2], shape[3]
    query, key = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    query_last, key_last = (x.transpose(1, 2).contiguous() for x in (query, key))
    positions = torch.arange(length, device=device)
    neighbors = RotaryEncoder(dim).to(device)
    halves = RotaryEncoder(dim, pairing="half").to(device)
    tables = {"neighbors": neighbors(positions), "halves": halves(positions)}
    cast = {name: (c.to(dtype), s.to(dtype)) for name, (c, s) in tables.items()}
    stacked = torchtune_table(positions, dim)

    def both(rotate: Callable[[Tensor], Tensor], *tensors: Tensor) -> Callable[[], object]:
        def call() -> object:
            rotated = [rotate(x) for x in tensors]
            if device == "cuda":
                torch.cuda.synchronize()
            return rotated

        return call

    calls = {
        "ours, neighbors": both(
            lambda x: neighbors.rotate_with(x, *tables["neighbors"]), query, key
        ),
        "ours, neighbors, with its table": both(
            lambda x: neighbors.rotate(x, positions), query, key
        ),
        "ours, halves": both(lambda x: halves.rotate_with(x, *tables["halves"]), query, key),
        "torchtune": both(lambda x: torchtune(x, stacked), query_last, key_last),
        "rotary-embedding-torch": both(
            lambda x: added(x, tables["neighbors"], neighbors_rotated), query, key
        ),
        "transformers (Llama), in the type of x": both(
            lambda x: added(x, cast["halves"], halves_rotated), query, key
        ),
    }
    with torch.no_grad():
        seconds = medians(calls)
    for name, value in seconds.items():
        ratio = value / seconds["ours, neighbors"]
        print(f"  {name:40s} {1e3 * value:8.2f} ms  {ratio:5.2f} x")

    far = torch.arange(last - length, last, device=device)
    angles = float32_columns(far, dim)
    rotated = {
        "ours": neighbors.rotate(query, far),
        "torchtune": torchtune(query_last, torchtune_table(far, dim)).transpose(1, 2),
        "rotary-embedding-torch": added(query, (angles.cos(), angles.sin()), neighbors_rotated),
    }
    expected = exact(query, far)
    for name, output in rotated.items():
        error = float((output.double().cpu() - expected).abs().max())
        print(f"  {name:40s} error at position {last}: {error:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--last", type=int, default=8192)
    options = parser.parse_args()
    shape = (options.batch, options.heads, options.length, options.dim)
    print(machine() if options.device == "cpu" else torch.cuda.get_device_name())
    for dtype in (torch.float32, torch.bfloat16):
        print(f"queries and keys {shape}, {dtype}")
        compare(shape, dtype, options.device, options.last)


if __name__ == "__main__":
    main()
