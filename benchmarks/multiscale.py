"""NeRF against mip-NeRF: fitted at one size, tested at that size, half and a quarter.

The presets of the library with fewer units and samples, for a CPU; the same rays, steps, optimizer
and rate for both. Smaller test views are area averages of the large ones, as in mip-NeRF's
multiscale protocol (Barron et al. 2021, section 4.1), of which this is the hard half: only the full
size occurs in training.
"""

import argparse
import statistics

import torch
from torch import nn

from benchmarks.timing import machine
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.field_training import make_batches, make_field_optimizer, make_loss
from nerf_posenc.radiance.ray_batches import RayBatch
from nerf_posenc.radiance.recipes import FieldName, FieldOptions, make_renderer
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory, pick_device
from nerf_posenc.training.loop import FitState, fit
from scenes import open_scene


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--rays", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--bands", type=int, default=10)
    parser.add_argument("--optimizer", choices=["muon", "adam"], default="muon")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    keep_freed_memory()
    device = pick_device(options.device)
    scene = open_scene(options.scene, size=options.size)
    dtype = torch.bfloat16 if computes_bfloat16(device) else None
    print(machine())
    print(
        f"{'field':<6} {'params':>8} {'s':>6} {'1':>7} {'1/2':>7} {'1/4':>7}  mean test PSNR (dB)"
    )
    fields: tuple[FieldName, ...] = ("nerf", "mip")
    for name in fields:
        # mip-NeRF's field is one for both passes, with as many samples in each.
        samples = options.samples * (2 if name == "mip" else 1)
        which = FieldOptions(
            name,
            num_bands=options.bands,
            width=options.width,
            depth=options.depth,
            num_samples=samples,
        )
        renderer = make_renderer(which, scene.train).to(device)
        batches = make_batches(renderer, scene.train, options.rays, seed=0, device=device)
        state = FitState(renderer, make_field_optimizer(renderer, options.optimizer), options.steps)

        def forward(batch: RayBatch, renderer: nn.Module = renderer) -> Rendering:
            rendering: Rendering = renderer(batch.rays, batch.generator)
            return rendering

        fit(state, batches, make_loss(which), forward=forward, autocast_dtype=dtype)
        scores = []
        for divisor in (1, 2, 4):
            views = evaluate_views(renderer, scene.test.resized(options.size // divisor))
            scores.append(statistics.mean(view.psnr for view in views))
        parameters = sum(p.numel() for p in renderer.parameters())
        shown = " ".join(f"{score:7.2f}" for score in scores)
        print(f"{name:<6} {parameters:>8,} {state.seconds:6.1f} {shown}", flush=True)


if __name__ == "__main__":
    main()
