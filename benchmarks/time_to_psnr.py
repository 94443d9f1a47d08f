"""PSNR of every recipe at equal seconds, on the same images, in one run.

Each recipe is fitted once for each budget, with the same cosine schedule laid over its seconds, so
that none ends with its learning rate still high. All of them take turns of a second, so that a
slow minute of the machine is slow for all. The published recipes have their own network, initial
weights, optimizer and batch, and the learning rate that did best for them over a small grid at
``--tune-seconds`` on the first image; ours have the program's defaults.

Results that ``--out`` already holds are kept, so that a long run can be interrupted, and
extended by recipes, images, seconds and seeds.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn.utils import clip_grad_norm_

from benchmarks.cafe import CAFEEncoder
from benchmarks.timing import Clock, machine
from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import MLP, wire
from nerf_posenc.networks.activations import FromSymmetric
from nerf_posenc.networks.mlp import hidden_matrices
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import DrawBatch, ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.encoding_recipe import EncoderDescription
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from nerf_posenc.training.recipes import NETWORKS
from nerf_posenc_app.data import open_image

LEVELS = (25, 30, 35)

# What tells a run from others.
RUN = ("seed", "image", "size", "budget", "recipe")


@dataclass(frozen=True)
class Recipe:
    """A way to fit an image.

    Attributes:
        model: from the image to a fresh model.
        optimizer: from the model and a learning rate to its optimizer.
        lrs: learning rates to choose from.
        batch_size: pixels per step.
        bfloat16: whether it trains under autocast.
    """

    model: Callable[[Image], nn.Module]
    optimizer: Callable[[nn.Module, float], OptimizerGroup]
    lrs: Sequence[float]
    batch_size: int = 8192
    bfloat16: bool = True


def with_mlp(
    encoder: Encoder, *, width: int = 256, depth: int = 4, generator: torch.Generator | None = None
) -> nn.Sequential:
    """ReLU network after an encoder."""
    network = MLP(encoder.out_dim, 3, width=width, depth=depth, generator=generator)
    return nn.Sequential(encoder, network)


def ours(encoder: Encoder, image: Image, *, width: int = 256, depth: int = 4) -> nn.Module:
    """The same as train_fit.py starts it, at the image's mean color."""
    model = with_mlp(encoder, width=width, depth=depth)
    network = model[1]
    assert isinstance(network, MLP)
    network.start_at(image.rgb.mean((0, 1)))
    return model


def gaussian(image: Image) -> Encoder:
    """128 random frequencies, as train_fit.py has them."""
    return recipes.make_encoder(EncoderDescription("gaussian", resolution=image.resolution))


def hash_grid(image: Image) -> Encoder:
    """8 levels of 4 features in tables of up to 2^19 rows, as train_fit.py has them."""
    return recipes.make_encoder(EncoderDescription("hash", resolution=image.resolution))


def few_features(image: Image) -> Encoder:
    """A grid of as many features as the other recipes have parameters."""
    features = 213_000
    return recipes.make_encoder(
        EncoderDescription("hash", resolution=image.resolution, num_features=features)
    )


def small_hash_grid(image: Image) -> Encoder:
    """12 levels of 2 in tables of 2^14 rows, about as many parameters as the other recipes."""
    growth = (max(image.size) / 16) ** (1 / 11)
    return HashGridEncoder(2, 12, log2_table_size=14, growth=growth)


def cafe(image: Image) -> nn.Module:
    """CAFE+ with one hidden layer: 88 frequencies, 30 polynomials and products of three."""
    return with_mlp(CAFEEncoder(2), width=236, depth=1)


def cafe_symmetric(image: Image) -> nn.Module:
    """CAFE+ with targets in [-1, 1], as its authors fit it."""
    model = cafe(image)
    assert isinstance(model, nn.Sequential)
    return model.append(FromSymmetric())


def by_adam(module: nn.Module, lr: float) -> OptimizerGroup:
    """Adam on everything."""
    return recipes.make_optimizer(module, "adam", lr)


def _clip(parameters: Sequence[nn.Parameter]) -> None:
    clip_grad_norm_(parameters, 1 / 4)


def by_clipped_adam(module: nn.Module, lr: float) -> OptimizerGroup:
    """Adam on gradients of norm 1 at most, of errors in [-1, 1]: of 1/4, in [0, 1]."""
    group = recipes.make_optimizer(module, "adam", lr)
    parameters = list(module.parameters())
    for optimizer in group.optimizers:
        optimizer.register_step_pre_hook(lambda *_: _clip(parameters))
    return group


def by_muon(module: nn.Module, lr: float) -> OptimizerGroup:
    """Muon on the hidden matrices, Adam on the rest."""
    return recipes.make_optimizer(module, "muon", lr)


def by_muon_after_a_grid(module: nn.Module, lr: float) -> OptimizerGroup:
    """The same as train_fit.py has it after a hash grid."""
    return recipes.make_optimizer(module, "muon", lr, encoding="hash")


def by_muon_after_a_small_grid(module: nn.Module, lr: float) -> OptimizerGroup:
    """Muon on the hidden matrices and Adam at 0.02 on the grid, both by one cosine."""
    matrices = hidden_matrices(module)
    return recipes.get_optimizer("muon").build(module, matrices, lr=lr, adam_lr=0.02, lr_power=1.0)


def by_ngp_adam(module: nn.Module, lr: float) -> OptimizerGroup:
    """Adam as instant-NGP has it (Müller et al. 2022, section 4)."""
    return adam(module, lr=lr, betas=(0.9, 0.99))


def on_coordinates(name: str) -> Callable[[Image], nn.Module]:
    """A network of the field on raw coordinates."""
    return lambda image: NETWORKS[name].build(2, 3)


# Adam at 0.006 gains 0.5 dB in 6 s with positional encoding and Gaussian features, and diverges in
# 30 s on one image in three; it is left out.
RECIPES = {
    "ours: 10 bands, Muon": Recipe(lambda p: ours(FourierEncoder(2, 10), p), by_muon, (0.05,)),
    "ours: Gaussian, Muon": Recipe(lambda p: ours(gaussian(p), p), by_muon, (0.05,)),
    "ours: hash grid, Muon": Recipe(
        lambda p: ours(hash_grid(p), p, width=64, depth=2),
        by_muon_after_a_grid,
        (0.03,),
        bfloat16=False,
    ),
    "ours: hash grid of 0.2 M, Muon": Recipe(
        lambda p: ours(few_features(p), p, width=64, depth=2),
        by_muon_after_a_small_grid,
        (0.03,),
        bfloat16=False,
    ),
    "Fourier features, Adam": Recipe(lambda p: with_mlp(gaussian(p)), by_adam, (1e-3, 2e-3, 3e-3)),
    "SIREN": Recipe(on_coordinates("siren"), by_adam, (3e-4, 1e-3, 2e-3)),
    "FINER": Recipe(on_coordinates("finer"), by_adam, (3e-4, 1e-3, 2e-3)),
    "Gauss": Recipe(on_coordinates("gauss"), by_adam, (1e-3, 3e-3, 6e-3)),
    # The networks to which McGinnis et al. 2025 (arXiv:2512.14366) give Muon, on hidden matrices.
    "SIREN, Muon": Recipe(on_coordinates("siren"), by_muon, (5e-4, 2e-3, 8e-3)),
    "FINER, Muon": Recipe(on_coordinates("finer"), by_muon, (5e-4, 2e-3, 8e-3)),
    "Gauss, Muon": Recipe(on_coordinates("gauss"), by_muon, (2e-3, 1e-2, 4e-2)),
    # Real wavelets, which they and a CPU prefer to complex ones.
    "WIRE, real": Recipe(lambda p: wire(2, 3, real=True), by_adam, (1e-3, 2e-3, 5e-3)),
    "WIRE, real, Muon": Recipe(lambda p: wire(2, 3, real=True), by_muon, (2e-3, 1e-2, 4e-2)),
    "MFN": Recipe(on_coordinates("mfn"), by_adam, (5e-3, 1e-2, 2e-2)),
    # The network and the learning rates of github.com/JunboKe0619/CAFE.
    "CAFE+": Recipe(cafe, by_adam, (5e-3, 1e-2, 2e-2), bfloat16=False),
    "CAFE+, as published": Recipe(
        cafe_symmetric, by_clipped_adam, (5e-3, 1e-2, 2e-2), batch_size=1 << 30, bfloat16=False
    ),
    "CAFE+, Muon": Recipe(cafe, by_muon, (0.01, 0.02, 0.05), bfloat16=False),
    "instant-NGP, 2^14 rows": Recipe(
        lambda p: with_mlp(small_hash_grid(p), width=64, depth=2),
        by_ngp_adam,
        (5e-3, 1e-2, 2e-2),
        bfloat16=False,
    ),
}


class InterleavedFit:
    """A recipe's fit of an image, run a turn at a time."""

    def __init__(self, recipe: Recipe, lr: float, image: Image, seconds: float, seed: int) -> None:
        self.image = image
        self.coordinates = image.coordinates.reshape(-1, 2)
        self._autocast_dtype = torch.bfloat16 if recipe.bfloat16 else None
        self.clock = Clock(0.2)
        # The first calls of a recipe are not counted.
        self.state = self._fresh(recipe, lr, seed)
        self.turn(0.2)
        self.state = self._fresh(recipe, lr, seed)
        self.clock = Clock(seconds)
        self.clock.pause()

    def _fresh(self, recipe: Recipe, lr: float, seed: int) -> FitState:
        torch.manual_seed(seed)
        model = recipe.model(self.image)
        batches = ShuffledBatches(
            self.coordinates, self.image.rgb.reshape(-1, 3), recipe.batch_size, seed=seed
        )
        self._batches: DrawBatch = batches
        self._forward: Callable[[Any], Any] | None = None
        if isinstance(model, nn.Sequential) and isinstance(model[0], Encoder):
            self._batches, self._forward = cache_corners(model[0], model[1], batches)
        return FitState(model, recipe.optimizer(model, lr), num_steps=1 << 40)

    def turn(self, seconds: float) -> None:
        """Go on for so long, or to the end of the budget."""
        self.clock.go_on()
        due = self.clock.used() + seconds
        fit(
            self.state,
            self._batches,
            forward=self._forward,
            schedule=self.clock.schedule,
            should_stop=lambda: self.clock.is_over() or self.clock.used() >= due,
            autocast_dtype=self._autocast_dtype,
            record_every=1000,
        )
        self.clock.pause()

    def result(self) -> dict[str, float]:
        """Measure what came of it."""
        reconstruction = predict(self.state.model, self.coordinates)
        score = psnr(reconstruction.reshape(self.image.rgb.shape), self.image.rgb)
        return {"psnr_db": score, "steps": self.state.step, "seconds": self.clock.used()}


def fit_in_turns(
    lrs: Mapping[str, float], image: Image, seconds: float, seed: int
) -> dict[str, dict[str, float]]:
    """Fit an image by several recipes for so many seconds each, and measure what came of it.

    They take turns of a second, so that an hour in which the machine is slow is slow for all.

    Args:
        lrs: learning rates of the recipes, by their names.
        image: the image to fit.
        seconds: training time of each fit.
        seed: seed of the weights and the batches.
    """
    fits = {
        name: InterleavedFit(RECIPES[name], lr, image, seconds, seed) for name, lr in lrs.items()
    }
    while not all(each.clock.is_over() for each in fits.values()):
        for each in fits.values():
            if not each.clock.is_over():
                each.turn(1.0)
    return {name: each.result() for name, each in fits.items()}


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """PSNR against seconds, the mean over images of the medians over seeds."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    for name in RECIPES:
        points = medians_of(results, name)
        if points:
            style = "-o" if name.startswith("ours") else "--."
            axis.plot(list(points), list(points.values()), style, label=name)
    axis.set_xscale("log")
    axis.set_xlabel("training time (s)")
    axis.set_ylabel("PSNR (dB)")
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)


def medians_of(results: list[dict[str, Any]], name: str) -> dict[float, float]:
    """From the budget to the mean over images of the median over seeds."""
    mine = [row for row in results if row["recipe"] == name]
    points = {}
    for budget in sorted({row["budget"] for row in mine}):
        by_image: dict[str, list[float]] = {}
        for row in mine:
            if row["budget"] == budget:
                by_image.setdefault(row["image"], []).append(row["psnr_db"])
        points[budget] = statistics.mean(statistics.median(v) for v in by_image.values())
    return points


def seconds_to(points: dict[float, float], level: float) -> str:
    """Seconds until a level, between the budgets by the logarithm of time."""
    (first, score), *_ = points.items()
    if score >= level:
        return f"<{first:g}"
    for (before, low), (after, high) in itertools.pairwise(points.items()):
        if low < level <= high:
            share = (level - low) / (high - low)
            return f"{before * (after / before) ** share:.1f}"
    return "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", nargs="+", default=["cat"])
    parser.add_argument("--size", type=int, default=None, help="longer side of the images")
    parser.add_argument("--seconds", nargs="+", type=float, default=[5, 10, 30])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--tune-seconds", type=float, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/time_to_psnr"))
    options = parser.parse_args()
    keep_freed_memory()
    images = [open_image(name) for name in options.images]
    if options.size is not None:
        images = [image.resized(options.size) for image in images]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    known = json.loads(path.read_text()) if path.exists() else {"lrs": {}, "results": []}
    lrs: dict[str, float] = known["lrs"]
    results: list[dict[str, Any]] = known["results"]
    print(machine(), flush=True)

    for name in options.recipes:
        if name not in lrs:
            tried = {
                lr: fit_in_turns({name: lr}, images[0], options.tune_seconds, 0)[name]
                for lr in RECIPES[name].lrs
            }
            lrs[name] = max(tried, key=lambda lr: tried[lr]["psnr_db"])
            shown = {lr: round(row["psnr_db"], 2) for lr, row in tried.items()}
            print(f"{name:<26} {shown}", flush=True)

    done = {tuple(row[key] for key in RUN) for row in results}
    for seed, image, budget in itertools.product(range(options.seeds), images, options.seconds):
        run = (seed, image.name, "x".join(map(str, image.size)), budget)
        missing = {name: lrs[name] for name in options.recipes if (*run, name) not in done}
        for name, row in fit_in_turns(missing, image, budget, seed).items():
            about = dict(zip(RUN, (*run, name), strict=True))
            results.append({**about, "lr": lrs[name], **row})
        record = {"machine": machine(), "lrs": lrs, "results": results}
        path.write_text(json.dumps(record, indent=1))
    draw(results, options.out / "time_to_psnr.png")
    print_table(results)


def print_table(results: list[dict[str, Any]]) -> None:
    """Print every recipe's figures, and those of each image at the longest time of its own."""
    budgets = sorted({row["budget"] for row in results})
    images = list(dict.fromkeys(row["image"] for row in results))
    print(f"\nPSNR in dB, median over seeds, mean over {', '.join(images)}")
    heads = " ".join(f"{s:>5g} s" for s in budgets)
    print(f"{'recipe':<26} {'lr':>7} seeds {heads}   seconds to {LEVELS} dB")
    for name in RECIPES:
        mine = [row for row in results if row["recipe"] == name]
        if not mine:
            continue
        scores = medians_of(mine, name)
        seeds = len({row["seed"] for row in mine})
        cells = " ".join(f"{scores[s]:7.2f}" if s in scores else f"{'-':>7}" for s in budgets)
        times = " ".join(f"{seconds_to(scores, level):>6}" for level in LEVELS)
        print(f"{name:<26} {mine[0]['lr']:>7g} {seeds:>5} {cells}   {times}")
        for image in images:
            own = medians_of([row for row in mine if row["image"] == image], name)
            cells = " ".join(f"{own[s]:7.2f}" if s in own else f"{'-':>7}" for s in budgets)
            print(f"    {image:<36} {cells}")


if __name__ == "__main__":
    main()
