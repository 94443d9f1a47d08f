"""PSNR of radiance-field recipes on held-out views after equal seconds of training, in one run.

Each recipe gets as many steps as its own measured speed allows, with its schedule laid over them.
The published ones keep their network, samples, rays, optimizer and rate: tiny-NeRF (8 x 256, L = 6,
64 samples, Adam 5e-4, one whole view a step, no occupancy grid), a small NeRF (4 x 128, L = 10, 64
samples, 1024 rays, Adam 5e-4) and instant-NGP's (hash grid, Adam 1e-2, occupancy grid, random
background), at a table size for a CPU. ``--table`` compares encodings of our field instead;
``--view`` also times a larger view, with the occupancy grid and without what it pruned.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.timing import machine
from nerf_posenc import FourierEncoder
from nerf_posenc.core.encoder import Identity
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.field_training import make_batches, make_field_optimizer, update_renderer
from nerf_posenc.radiance.fields import RadianceField, hash_field
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.ray_batches import RayBatch
from nerf_posenc.radiance.recipes import FieldOptions, make_renderer
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer, photometric_loss
from nerf_posenc.radiance.scene_spaces import space_for
from nerf_posenc.radiance.views import Background, Views
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory, pick_device
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from scenes import open_scene

# Of our field. The command line has 96, for speed.
NUM_SAMPLES = 256


@dataclass(frozen=True)
class Recipe:
    """A way to fit a field: its renderer, optimizer and rays per step; None for a whole view."""

    renderer: Callable[[Views], nn.Module]
    optimizer: Callable[[nn.Module], OptimizerGroup]
    rays: int | None
    background: Background = "white"


def small(encoding: str, num_bands: int = 10) -> Callable[[Views], nn.Module]:
    """Our field."""

    def make(views: Views) -> nn.Module:
        options = FieldOptions("mlp", encoding, num_bands=num_bands, num_samples=NUM_SAMPLES)
        return make_renderer(options, views)

    return make


def by_muon(renderer: nn.Module) -> OptimizerGroup:
    """Our optimizer."""
    return make_field_optimizer(renderer, "muon")


def tiny_nerf(views: Views) -> nn.Module:
    """The field of bmild's tiny_nerf.ipynb: no directions, the raw position before the sines."""
    field = RadianceField(
        FourierEncoder(3, 6, include_input="front"),
        Identity(3),
        width=256,
        depth=8,
        skip=5,
        feature_dim=256,
        head_width=128,
        density="relu",
    )
    return HierarchicalRenderer(field, num_coarse=64, num_fine=0)


def small_nerf(views: Views) -> nn.Module:
    """A NeRF for a small machine."""
    field = RadianceField(
        FourierEncoder(3, 10, include_input="front"),
        FourierEncoder(3, 4, include_input="front"),
        density="softplus",
    )
    return HierarchicalRenderer(field, num_coarse=64, num_fine=0)


def instant_ngp(views: Views) -> nn.Module:
    """Instant-NGP's field, with a finest level of two nodes per pixel."""
    field = hash_field(num_levels=8, log2_table_size=15, max_resolution=2 * max(views.size))
    return GridRenderer(field, OccupancyGrid())


def factored(views: Views) -> nn.Module:
    """Our factored field, which ``--field auto`` takes."""
    return make_renderer(FieldOptions("factored", "vector-matrix", space=space_for(views)), views)


RECIPES = {
    "ours: factored field": Recipe(factored, by_muon, 1024),
    "ours: small field, L = 10, Muon": Recipe(small("fourier"), by_muon, 1024),
    "tiny-NeRF": Recipe(tiny_nerf, lambda m: adam(m, lr=5e-4), None),
    "small NeRF, Adam": Recipe(small_nerf, lambda m: adam(m, lr=5e-4), 1024),
    "instant-NGP": Recipe(
        instant_ngp, lambda m: adam(m, lr=1e-2, betas=(0.9, 0.99)), 1024, "random"
    ),
}
TABLE = {
    "none": Recipe(small("none"), by_muon, 1024),
    **{f"L = {bands}": Recipe(small("fourier", bands), by_muon, 1024) for bands in (4, 6, 8, 10)},
    "gaussian": Recipe(small("gaussian"), by_muon, 1024),
}


def whole_views(views: Views, device: torch.device) -> DrawBatch:
    """One view a step, as tiny-NeRF draws them."""

    def draw(step: int) -> tuple[RayBatch, Tensor]:
        generator = torch.Generator().manual_seed(step)
        view = int(torch.randint(len(views), (1,), generator=generator))
        samples = torch.Generator(device).manual_seed(step)
        rays = views.rays(view).to(device)
        views_of = torch.full_like(rays.radii, view, dtype=torch.long)
        truth = views.over(view, 1.0).flatten(0, 1)
        return RayBatch(rays, samples, views_of), truth.to(device)

    return draw


def fit_for(
    recipe: Recipe, train: Views, test: Views, seconds: float, device: torch.device
) -> dict[str, float]:
    """Fit for so many seconds, the schedule laid over them, and score the held-out views.

    Args:
        recipe: recipe of the fit.
        train: the views to fit.
        test: the views to measure by.
        seconds: training time.
        device: device of the fit.
    """
    dtype = torch.bfloat16 if computes_bfloat16(device) else None
    # Over white, a hole in front of a white wall costs nothing.
    background: Background = "random" if train.is_opaque else recipe.background

    def run(seconds: float) -> FitState:
        torch.manual_seed(0)
        renderer = recipe.renderer(train).to(device)
        draw: DrawBatch = whole_views(train, device)
        if recipe.rays is not None:
            draw = make_batches(
                renderer, train, recipe.rays, seed=0, background=background, device=device
            )
        state = FitState(
            renderer, recipe.optimizer(renderer), num_steps=1 << 40, limit_seconds=seconds
        )

        def forward(batch: RayBatch) -> Rendering:
            rendering: Rendering = renderer(batch.rays, batch.generator)
            return rendering

        return fit(
            state,
            draw,
            photometric_loss,
            forward=forward,
            autocast_dtype=dtype,
            after_step=update_renderer(renderer, autocast_dtype=dtype),
        )

    run(min(2.0, seconds))
    state = run(seconds)
    started = time.perf_counter()
    scores = evaluate_views(state.model, test, autocast_dtype=dtype)
    return {
        "psnr_db": statistics.mean(score.psnr for score in scores),
        "ssim": statistics.mean(score.ssim for score in scores),
        "steps": state.step,
        "seconds": state.seconds,
        "seconds_a_view": (time.perf_counter() - started) / len(test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", help="folder of posed images, or a built-in scene")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--test-views", type=int, default=25)
    parser.add_argument("--table", action="store_true", help="encodings of our field")
    parser.add_argument("--recipes", nargs="+", help="beginnings of their names; all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs/radiance.json"))
    options = parser.parse_args()
    keep_freed_memory()
    scene = open_scene(options.scene, size=options.size)
    test = scene.test.subset(options.test_views)
    print(f"{machine()}\n{scene.source}, {scene.train.size}, {len(test)} test views", flush=True)
    print(f"{'recipe':<34} {'dB':>6} {'SSIM':>7} {'steps':>6} {'s':>6} {'s per view':>9}")
    results = {}
    device = pick_device(options.device)
    for name, recipe in (TABLE if options.table else RECIPES).items():
        if options.recipes and not name.startswith(tuple(options.recipes)):
            continue
        row = fit_for(recipe, scene.train, test, options.seconds, device)
        results[name] = row
        print(
            f"{name:<34} {row['psnr_db']:6.2f} {row['ssim']:7.4f} {row['steps']:6.0f} "
            f"{row['seconds']:6.1f} {row['seconds_a_view']:9.2f}",
            flush=True,
        )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        record = {"machine": machine(), "scene": scene.source, "results": results}
        options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
