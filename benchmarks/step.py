"""Where the time of a training step goes, and what share of the matrix peak it reaches.

The peak is measured in the same run, interleaved: the fastest of a large square product and of
the products that a hidden layer itself needs. Operations counted are the network's, two a weight
and sample forward, four backward, two fewer for a first layer whose inputs need no gradient; and,
apart, those of Muon's iteration, 5 rounds of three products per matrix.
"""

import argparse
import itertools
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import machine, medians
from nerf_posenc.networks.mlp import MLP, hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import autocast, computes_bfloat16, keep_freed_memory
from nerf_posenc.training.loop import mse

_PIXELS = 451 * 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoding", choices=["none", "fourier", "gaussian", "hash"])
    parser.add_argument("--width", type=int, help="default: train_fit.py's for the encoding")
    parser.add_argument("--depth", type=int, help="likewise")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--optimizer", choices=["muon", "adam"], default="muon")
    parser.add_argument("--rounds", type=int, default=15)
    parser.set_defaults(encoding="fourier")
    options = parser.parse_args()
    keep_freed_memory()
    device = torch.device("cpu")
    # As train_fit.py has them.
    is_grid = options.encoding == "hash"
    dtype = torch.bfloat16 if computes_bfloat16(device) and not is_grid else torch.float32
    width, depth = recipes.ENCODINGS[options.encoding].layers
    width, depth = options.width or width, options.depth or depth
    encoder = recipes.make_encoder(options.encoding, 2, resolution=451)
    in_dim = encoder.out_dim
    network = MLP(in_dim, 3, width=width, depth=depth)
    model = nn.Sequential(encoder, network)
    optimizer = recipes.make_optimizer(model, options.optimizer, 1e-3, encoding=options.encoding)
    # As many pixels as the bundled cat has, or one batch.
    num_pixels = max(_PIXELS, options.batch)
    pixels = torch.rand(num_pixels, 2) * 2 - 1, torch.rand(num_pixels, 3)
    batches = ShuffledBatches(*pixels, options.batch, seed=0)
    draw_batch, cached = cache_corners(encoder, network, batches)
    forward = model if cached is None else cached
    steps = itertools.count()
    some, _ = draw_batch(0)

    def draw() -> tuple[Any, Tensor]:
        return draw_batch(next(steps))

    def loss() -> Tensor:
        x, y = draw()
        optimizer.zero_grad()
        with autocast(device, None if dtype == torch.float32 else dtype):
            prediction: Tensor = forward(x)
        return mse(prediction, y)

    def step() -> None:
        loss().backward()
        optimizer.step()

    @torch.no_grad()
    def encode() -> None:
        if cached is None:
            encoder(some)
        else:
            encoder.interpolate(some)  # type: ignore[operator]

    square = torch.randn(4096, 4096, dtype=dtype)
    rows = torch.randn(options.batch, width, dtype=dtype)
    weight = torch.randn(width, width, dtype=dtype)
    calls = {
        "square": lambda: square @ square,
        "layer": lambda: rows @ weight,
        "layer, gradient": lambda: rows.T @ rows,
        "draw": draw,
        "encode": encode,
        "forward": torch.no_grad()(loss),
        "forward, backward": lambda: loss().backward(),
        "step": step,
    }
    times = medians(calls, rounds=options.rounds)
    products = options.batch * width**2 * 2
    peaks = {
        "square": 2 * 4096**3 / times["square"],
        "layer": products / times["layer"],
        "layer, gradient": products / times["layer, gradient"],
    }
    peak = max(peaks.values())
    sizes = [in_dim, *[width] * depth, 3]
    weights = [a * b for a, b in itertools.pairwise(sizes)]
    operations = options.batch * (6 * sum(weights) - (0 if is_grid else 2 * weights[0]))
    iterations = 0
    if options.optimizer == "muon":
        for short, long in (sorted(matrix.shape) for matrix in hidden_matrices(model)):
            iterations += 5 * (4 * short**2 * long + 2 * short**3)
    print(machine())
    print(f"{options.encoding}, {depth} x {width}, batch {options.batch:,}, {dtype}")
    for name, value in peaks.items():
        print(f"product, {name:<18} {value / 1e9:8.0f} GFLOP/s")
    parts = {
        "draw the batch": times["draw"],
        "encode": times["encode"],
        "network forward": times["forward"] - times["encode"] - times["draw"],
        "backward": times["forward, backward"] - times["forward"],
        "optimizer": times["step"] - times["forward, backward"],
    }
    for name, seconds in parts.items():
        print(f"{name:<27} {seconds * 1e3:8.2f} ms {seconds / times['step']:6.0%}")
    share = operations / times["step"] / peak
    whole = (operations + iterations) / times["step"] / peak
    print(
        f"{'step':<27} {times['step'] * 1e3:8.2f} ms, {share:.0%} of the peak by the network's "
        f"products, {whole:.0%} with the optimizer's"
    )


if __name__ == "__main__":
    main()
