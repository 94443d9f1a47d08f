"""Whether the levels of a hash grid matter: PSNR by their number and by the finest, after as long.

    python -m benchmarks.grid_levels IMAGE ... --size 256 --steps 800

Every grid has 32 features and the network, the learning rates and the batches of the program; what
changes is how many levels share the features, and how many nodes the finest has per pixel. Coarse
images are tried as well: ``--smooth 4`` shrinks each to a fourth and stretches it again, so that no
level finer than that is needed.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from nerf_posenc import HashGridEncoder
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks import MLP
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, fit, predict
from scenes import open_image

_FEATURES, _BASE, _BATCH = 32, 16, 8192
LEVELS = (4, 8, 16)
FINEST = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


def grid(image: Image, levels: int, finest: float) -> HashGridEncoder:
    """A grid from 16 nodes per axis to so many per pixel, with 32 features in all."""
    nodes = max(_BASE, round(finest * image.resolution))
    return HashGridEncoder(
        2,
        levels,
        features_per_level=_FEATURES // levels,
        base_resolution=_BASE,
        growth=(nodes / _BASE) ** (1 / (levels - 1)),
        generator=torch.Generator().manual_seed(0),
    )


def measured(image: Image, levels: int, finest: float, steps: int) -> dict[str, Any]:
    """PSNR of a fit, and the CPU seconds that it took."""
    encoder = grid(image, levels, finest)
    recipe = recipes.get_recipe("hash")
    width, depth = recipe.layers
    network = MLP(
        encoder.out_dim, 3, width=width, depth=depth, generator=torch.Generator().manual_seed(0)
    )
    network.start_at(image.mean_color())
    model = nn.Sequential(encoder, network)
    lr = recipes.default_lr("relu", "muon", "hash")
    state = FitState(model, recipes.make_optimizer(model, "muon", lr, encoding="hash"), steps)
    points, rgb = image.coordinates.reshape(-1, 2), image.rgb.reshape(-1, 3)
    draw, forward = cache_corners(encoder, network, ShuffledBatches(points, rgb, _BATCH, seed=0))
    started = time.process_time()
    fit(state, draw, forward=forward)
    seconds = time.process_time() - started
    rendered = predict(model, points, chunk_size=2048).reshape(image.rgb.shape)
    return {
        "image": image.name,
        "levels": levels,
        "finest": finest,
        "nodes": encoder.resolutions[-1],
        "psnr_db": psnr(rendered, image.rgb),
        "seconds": seconds,
    }


def opened(name: str, size: int, smooth: int) -> Image:
    """An image so many pixels long, without what is finer than ``smooth`` pixels."""
    image = open_image(name).resized(size)
    if smooth == 1:
        return image
    small = image.resized(size // smooth).rgb.permute(2, 0, 1)[None]
    width, height = image.size
    rgb = nn.functional.interpolate(small, (height, width), mode="bicubic").clamp(0, 1)
    return Image.from_rgb(rgb[0].permute(1, 2, 0).contiguous(), name=f"{image.name} / {smooth}")


def print_table(rows: list[dict[str, Any]], finest: list[float]) -> None:
    """PSNR of each image by levels and finest nodes per pixel, and the best grid's gain."""
    heads = "".join(f"{share:>8g}" for share in finest)
    print(f"\nPSNR (dB) by levels and by nodes of the finest per pixel\n{'':28}{heads}  seconds")
    for name in dict.fromkeys(row["image"] for row in rows):
        mine = [row for row in rows if row["image"] == name]
        for levels in dict.fromkeys(row["levels"] for row in mine):
            of = [row for row in mine if row["levels"] == levels]
            cells = "".join(f"{row['psnr_db']:8.2f}" for row in of)
            seconds = sum(row["seconds"] for row in of) / len(of)
            print(f"{name:18} {levels:3} levels{cells}  {seconds:7.1f}")
        best = max(mine, key=lambda row: row["psnr_db"])
        default = next((r for r in mine if (r["levels"], r["finest"]) == (8, 1.0)), None)
        if default is not None:
            gap = best["psnr_db"] - default["psnr_db"]
            print(
                f"{name:18} best {best['levels']} levels to {best['nodes']} nodes: "
                f"{gap:.2f} dB above the default"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("images", nargs="+")
    parser.add_argument("--size", type=int, default=256, help="pixels along the longer side")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--finest", type=float, nargs="+", default=FINEST, help="nodes per pixel")
    parser.add_argument("--smooth", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/grid_levels.json"))
    options = parser.parse_args()
    keep_freed_memory()
    tries = list(itertools.product(options.images, options.smooth, options.levels, options.finest))
    rows = []
    for name, smooth, levels, finest in tqdm(tries, unit="fit"):
        rows.append(measured(opened(name, options.size, smooth), levels, finest, options.steps))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))
    print_table(rows, list(options.finest))


if __name__ == "__main__":
    main()
