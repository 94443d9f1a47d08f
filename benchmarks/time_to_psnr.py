"""PSNR of every recipe at equal seconds, on the same pictures, in one run.

Each recipe is fitted once for each budget, with the same cosine schedule laid over its seconds, so
that none is caught with its rate still high. All of them take turns of a second, so that a slow
minute of the machine is slow for all. The published recipes have their own network, first weights,
optimizer and batch, and the rate that did best for them over a small grid at ``--tune-seconds`` on
the first picture; ours have the product's defaults.

What ``--out`` holds already is kept and not run again, so that a long run can be broken off, and
can be widened by recipes, pictures, seconds and seeds.
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

from app.image_task import with_corners
from benchmarks.timing import Clock, machine
from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP, NETWORKS
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, ShuffledBatches, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from scenes import Picture, open_picture

LEVELS = (25, 30, 35)

# What tells a run from others.
RUN = ("seed", "picture", "size", "budget", "recipe")


@dataclass(frozen=True)
class Recipe:
    """A way to fit a picture.

    Attributes:
        model: from the picture to a fresh model.
        optimizer: from the model and a rate to its optimizer.
        rates: rates to choose from.
        batch_size: pixels a step.
        bfloat16: whether it trains under autocast.
    """

    model: Callable[[Picture], nn.Module]
    optimizer: Callable[[nn.Module, float], OptimizerGroup]
    rates: Sequence[float]
    batch_size: int = 8192
    bfloat16: bool = True


def behind(encoder: Any, *, width: int = 256, depth: int = 4) -> nn.Sequential:
    """ReLU network behind an encoder."""
    return nn.Sequential(encoder, MLP(encoder.out_dim, 3, width=width, depth=depth))


def ours(encoder: Any, picture: Picture, *, width: int = 256, depth: int = 4) -> nn.Module:
    """The same as train_fit.py starts it, at the picture's mean colour."""
    model = behind(encoder, width=width, depth=depth)
    model[1].start_at(picture.colours.mean((0, 1)))
    return model


def gaussian(picture: Picture) -> nn.Module:
    """128 random frequencies, as train_fit.py has them."""
    return recipes.make_encoder("gaussian", 2, resolution=max(picture.size))


def hash_grid(picture: Picture) -> nn.Module:
    """8 levels of 4 features in tables of up to 2^19 rows, as train_fit.py has them."""
    return recipes.make_encoder("hash", 2, resolution=max(picture.size))


def small_hash_grid(picture: Picture) -> nn.Module:
    """12 levels of 2 in tables of 2^14 rows, about as many numbers as the other recipes have."""
    growth = (max(picture.size) / 16) ** (1 / 11)
    return HashGridEncoder(2, 12, log2_table_size=14, growth=growth)


def ngp_hash_grid(picture: Picture) -> nn.Module:
    """16 levels of 2, up to 2^24 rows, to half the longer side, as instant-ngp's configs/image."""
    growth = (max(picture.size) / 2 / 16) ** (1 / 15)
    return HashGridEncoder(2, 16, log2_table_size=24, growth=growth)


def by_adam(module: nn.Module, rate: float) -> OptimizerGroup:
    """Adam on everything."""
    return recipes.make_optimizer(module, "adam", rate)


def by_muon(module: nn.Module, rate: float) -> OptimizerGroup:
    """Muon on the hidden matrices, Adam on the rest."""
    return recipes.make_optimizer(module, "muon", rate)


def by_muon_behind_a_grid(module: nn.Module, rate: float) -> OptimizerGroup:
    """The same as train_fit.py has it behind a hash grid."""
    return recipes.make_optimizer(module, "muon", rate, encoding="hash")


def by_ngp_adam(module: nn.Module, rate: float) -> OptimizerGroup:
    """Adam as instant-NGP has it (Müller et al. 2022, section 4)."""
    return adam(module, lr=rate, betas=(0.9, 0.99))


def on_coordinates(name: str) -> Callable[[Picture], nn.Module]:
    """A network of the field on raw coordinates."""
    return lambda picture: NETWORKS[name](2, 3)


# Adam at 0.006 gains 0.5 dB in 6 s behind octaves and Gaussian features, and breaks down in 30 s on
# one picture in three; it is left out.
RECIPES = {
    "ours: octaves, Muon": Recipe(lambda p: ours(FourierEncoder(2, 10), p), by_muon, (0.05,)),
    "ours: Gaussian, Muon": Recipe(lambda p: ours(gaussian(p), p), by_muon, (0.05,)),
    "ours: hash grid, Muon": Recipe(
        lambda p: ours(hash_grid(p), p, width=64, depth=2),
        by_muon_behind_a_grid,
        (0.03,),
        bfloat16=False,
    ),
    "raw coordinates, Adam": Recipe(on_coordinates("relu"), by_adam, (3e-3, 1e-2)),
    "octaves, Adam": Recipe(lambda p: behind(FourierEncoder(2, 10)), by_adam, (1e-3, 2e-3, 3e-3)),
    "Fourier features, Adam": Recipe(lambda p: behind(gaussian(p)), by_adam, (1e-3, 2e-3, 3e-3)),
    "SIREN": Recipe(on_coordinates("siren"), by_adam, (3e-4, 1e-3, 2e-3)),
    "FINER": Recipe(on_coordinates("finer"), by_adam, (3e-4, 1e-3, 2e-3)),
    "Gauss": Recipe(on_coordinates("gauss"), by_adam, (1e-3, 3e-3, 6e-3)),
    "WIRE": Recipe(on_coordinates("wire"), by_adam, (2e-3, 5e-3), bfloat16=False),
    "MFN": Recipe(on_coordinates("mfn"), by_adam, (5e-3, 1e-2, 2e-2)),
    "instant-NGP": Recipe(
        lambda p: behind(ngp_hash_grid(p), width=64, depth=2),
        by_ngp_adam,
        (5e-3, 1e-2, 2e-2),
        bfloat16=False,
    ),
    "instant-NGP, 2^14 rows": Recipe(
        lambda p: behind(small_hash_grid(p), width=64, depth=2),
        by_ngp_adam,
        (5e-3, 1e-2, 2e-2),
        bfloat16=False,
    ),
    "instant-NGP, our grid": Recipe(
        lambda p: behind(hash_grid(p), width=64, depth=2),
        by_ngp_adam,
        (5e-3, 1e-2, 2e-2),
        bfloat16=False,
    ),
}


class Turns:
    """A recipe's fit of a picture, run a turn at a time."""

    def __init__(
        self, recipe: Recipe, rate: float, picture: Picture, seconds: float, seed: int
    ) -> None:
        self.picture = picture
        self.coordinates = picture.coordinates()
        self._autocast_dtype = torch.bfloat16 if recipe.bfloat16 else None
        self.clock = Clock(0.2)
        # The first calls of a recipe are not counted.
        self.state = self._fresh(recipe, rate, seed)
        self.turn(0.2)
        self.state = self._fresh(recipe, rate, seed)
        self.clock = Clock(seconds)
        self.clock.pause()

    def _fresh(self, recipe: Recipe, rate: float, seed: int) -> FitState:
        torch.manual_seed(seed)
        model = recipe.model(self.picture)
        encoder = model[0] if isinstance(model, nn.Sequential) else model
        batches = ShuffledBatches(
            self.coordinates, self.picture.colours.reshape(-1, 3), recipe.batch_size, seed=seed
        )
        self._batches = with_corners(encoder, batches)
        return FitState(model, recipe.optimizer(model, rate), num_steps=1 << 40)

    def turn(self, seconds: float) -> None:
        """Go on for so long, or to the end of the budget."""
        self.clock.go_on()
        due = self.clock.used() + seconds
        fit(
            self.state,
            self._batches,
            schedule=self.clock.schedule,
            should_stop=lambda: self.clock.is_over() or self.clock.used() >= due,
            autocast_dtype=self._autocast_dtype,
            record_every=1000,
        )
        self.clock.pause()

    def result(self) -> dict[str, float]:
        """Measure what came of it."""
        reconstruction = predict(self.state.model, self.coordinates)
        score = psnr(reconstruction.reshape(self.picture.colours.shape), self.picture.colours)
        return {"psnr_db": score, "steps": self.state.step, "seconds": self.clock.used()}


def fit_in_turns(
    rates: Mapping[str, float], picture: Picture, seconds: float, seed: int
) -> dict[str, dict[str, float]]:
    """Fit a picture by several recipes for so many seconds each, and measure what came of it.

    They take turns of a second, so that an hour in which the machine is slow is slow for all.

    Args:
        rates: of the recipes, by their names.
        picture: to be fitted.
        seconds: for each.
        seed: of the weights and the batches.
    """
    fits = {
        name: Turns(RECIPES[name], rate, picture, seconds, seed) for name, rate in rates.items()
    }
    while not all(each.clock.is_over() for each in fits.values()):
        for each in fits.values():
            if not each.clock.is_over():
                each.turn(1.0)
    return {name: each.result() for name, each in fits.items()}


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """PSNR against seconds, the mean over pictures of the medians over seeds."""
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
    """From the budget to the mean over pictures of the median over seeds."""
    mine = [row for row in results if row["recipe"] == name]
    points = {}
    for budget in sorted({row["budget"] for row in mine}):
        by_picture: dict[str, list[float]] = {}
        for row in mine:
            if row["budget"] == budget:
                by_picture.setdefault(row["picture"], []).append(row["psnr_db"])
        points[budget] = statistics.mean(statistics.median(v) for v in by_picture.values())
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
    parser.add_argument("--pictures", nargs="+", default=["cat"])
    parser.add_argument("--size", type=int, default=None, help="longer side of the pictures")
    parser.add_argument("--seconds", nargs="+", type=float, default=[5, 10, 30])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--tune-seconds", type=float, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/time_to_psnr"))
    options = parser.parse_args()
    keep_freed_memory()
    pictures = [open_picture(name) for name in options.pictures]
    if options.size is not None:
        pictures = [picture.resized(options.size) for picture in pictures]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    known = json.loads(path.read_text()) if path.exists() else {"rates": {}, "results": []}
    rates: dict[str, float] = known["rates"]
    results: list[dict[str, Any]] = known["results"]
    print(machine(), flush=True)

    for name in options.recipes:
        if name not in rates:
            tried = {
                rate: fit_in_turns({name: rate}, pictures[0], options.tune_seconds, 0)[name]
                for rate in RECIPES[name].rates
            }
            rates[name] = max(tried, key=lambda rate: tried[rate]["psnr_db"])
            shown = {rate: round(row["psnr_db"], 2) for rate, row in tried.items()}
            print(f"{name:<26} {shown}", flush=True)

    done = {tuple(row[key] for key in RUN) for row in results}
    for seed, picture, budget in itertools.product(range(options.seeds), pictures, options.seconds):
        run = (seed, picture.name, "x".join(map(str, picture.size)), budget)
        missing = {name: rates[name] for name in options.recipes if (*run, name) not in done}
        for name, row in fit_in_turns(missing, picture, budget, seed).items():
            about = dict(zip(RUN, (*run, name), strict=True))
            results.append({**about, "rate": rates[name], **row})
        record = {"machine": machine(), "rates": rates, "results": results}
        path.write_text(json.dumps(record, indent=1))
    draw(results, options.out / "time_to_psnr.png")
    print_table(results)


def print_table(results: list[dict[str, Any]]) -> None:
    """Print every recipe's figures, and those of each picture at the longest time of its own."""
    budgets = sorted({row["budget"] for row in results})
    pictures = list(dict.fromkeys(row["picture"] for row in results))
    print(f"\nPSNR in dB, median over seeds, mean over {', '.join(pictures)}")
    heads = " ".join(f"{s:>5g} s" for s in budgets)
    print(f"{'recipe':<26} {'rate':>7} seeds {heads}   seconds to {LEVELS} dB")
    for name in RECIPES:
        mine = [row for row in results if row["recipe"] == name]
        if not mine:
            continue
        scores = medians_of(mine, name)
        seeds = len({row["seed"] for row in mine})
        cells = " ".join(f"{scores[s]:7.2f}" if s in scores else f"{'-':>7}" for s in budgets)
        times = " ".join(f"{seconds_to(scores, level):>6}" for level in LEVELS)
        print(f"{name:<26} {mine[0]['rate']:>7g} {seeds:>5} {cells}   {times}")
        for picture in pictures:
            own = medians_of([row for row in mine if row["picture"] == picture], name)
            cells = " ".join(f"{own[s]:7.2f}" if s in own else f"{'-':>7}" for s in budgets)
            print(f"    {picture:<36} {cells}")


if __name__ == "__main__":
    main()
