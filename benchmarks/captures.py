"""All fields on all kinds of views at equal time: an object, and captures without opacity.

The built-in scene ``spheres``, as an object over nothing (``object``) and in surroundings that
reach to infinity: a patterned ground and a sky, photographed from all around (``around``), or a
wall behind it, in forward-facing views (``forward-facing``), where all pixels are opaque as in
photographs. PSNR of held-out views, and the share of their opaque pixels in which the field has a
hole: less than half opaque.
"""

import argparse
import itertools
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import machine
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.field_training import (
    forward_for,
    make_batches,
    make_field_optimizer,
    update_renderer,
)
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.rays import Rays, camera_rays
from nerf_posenc.radiance.recipes import FieldOptions, make_renderer
from nerf_posenc.radiance.renderers import photometric_loss
from nerf_posenc.radiance.scene_spaces import space_for
from nerf_posenc.radiance.views import Background, Scene, Views
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory
from nerf_posenc.training.loop import FitState, fit
from scenes import open_scene
from scenes.analytic import BUILT_IN
from scenes.quadrature import render_exactly

_GROUND, _WALL = -1.1, -4.0
FIELDS = {
    "mlp": FieldOptions("mlp", "fourier"),
    "factored": FieldOptions("factored", "vector-matrix"),
    "proposal": FieldOptions("proposal", "hash"),
}
UP = torch.tensor([0.0, 0.0, 1.0])


def pattern(x: Tensor, y: Tensor, distance: Tensor) -> Tensor:
    """A color at each point of a plane, with detail of several sizes that fades into a haze."""
    waves = [torch.sin(3 * x + 1), torch.sin(5 * y), torch.sin(2 * x - 3 * y) * torch.sin(9 * x)]
    detail = 0.2 * torch.stack(waves, dim=-1) + 0.15 * torch.sin(7 * (x + y))[:, None]
    # A pixel far away would cover several waves, which no camera shows.
    return 0.5 + detail * torch.exp(-((distance - 3).clamp(min=0)) / 3)[:, None]


def surroundings(rays: Rays, kind: str) -> Tensor:
    """Color behind the scene, for each ray."""
    axis, at = (2, _GROUND) if kind == "around" else (1, _WALL)
    distance = (at - rays.origins[:, axis]) / rays.directions[:, axis]
    hits = (distance > 0) & (distance < 60)
    points = rays.origins + rays.directions * distance.clamp(0, 60)[:, None]
    across = points[:, 0], points[:, 1 if axis == 2 else 2]
    azimuth = torch.atan2(rays.directions[:, 1], rays.directions[:, 0])
    height = rays.directions[:, 2]
    sky = torch.stack([0.4 + 0.3 * height, 0.6 + 0.2 * torch.cos(2 * azimuth), 0.9 - 0.3 * height])
    return torch.where(hits[:, None], pattern(*across, distance), sky.T).clamp(0, 1)


def poses(count: int, kind: str, shift: float) -> Tensor:
    """Cameras all around, or on a grid before the scene."""
    found = []
    for i in range(count):
        turn = (i + shift) * 2.399963
        if kind == "around":
            low = 0.15 + 0.7 * ((i + shift) / count)
            flat = math.sqrt(1 - low * low)
            position = 2.6 * torch.tensor([flat * math.cos(turn), flat * math.sin(turn), low])
        else:
            radius = 0.7 * math.sqrt((i + shift) / count)
            position = torch.tensor([radius * math.cos(turn), 3.0, 0.3 + radius * math.sin(turn)])
        target = torch.zeros(3) if kind == "around" else torch.tensor([0.0, -1.0, 0.0])
        found.append(look_at(position, target, UP))
    return torch.stack(found)


def capture(kind: str, size: int, num_train: int = 48, num_test: int = 8) -> Scene:
    """Render the scene with its surroundings, all pixels opaque; or over nothing."""
    if kind == "object":
        return open_scene("spheres", size=size)
    camera, medium = Camera.from_angle(size, size, 0.9), BUILT_IN["spheres"]()

    def views(at: Tensor, name: str) -> Views:
        rays = Rays.cat(camera_rays(camera, pose, background=0.0) for pose in at)
        rendering = render_exactly(medium, rays)
        rgb = rendering.rgb.float() + (1 - rendering.opacity.float())[:, None] * surroundings(
            rays, kind
        )
        names = [f"{name} {i}" for i in range(len(at))]
        return Views(rgb.view(-1, size, size, 3), [camera] * len(at), at, names, 1.5)

    train, test = poses(num_train, kind, 0.0), poses(num_test, kind, 0.5)
    return Scene(kind, views(train, "train"), views(test, "test"), f"spheres, {kind}")


def with_exposures(scene: Scene) -> Scene:
    """The same views with gains for each view and channel."""
    gains = torch.randn(len(scene.train), 3, generator=torch.Generator().manual_seed(1))
    rgb = scene.train.pixels * torch.exp(0.15 * (gains - gains.mean(0)))[:, None, None]
    return replace(scene, train=replace(scene.train, pixels=rgb.clamp(0, 1)))


def fit_for(scene: Scene, options: FieldOptions, seconds: float) -> tuple[float, ...]:
    """Fit a field; return PSNR in dB, the share of holes, the steps and the seconds per view."""
    renderer = make_renderer(options, scene.train)
    background: Background = "random" if scene.train.is_opaque else "white"
    draw = make_batches(renderer, scene.train, 1024, seed=options.seed, background=background)
    dtype = torch.bfloat16 if computes_bfloat16(torch.device("cpu")) else None
    state = FitState(
        renderer, make_field_optimizer(renderer, "muon"), 1 << 40, limit_seconds=seconds
    )

    fit(
        state,
        draw,
        photometric_loss,
        forward=forward_for(renderer),
        autocast_dtype=dtype,
        after_step=update_renderer(renderer, autocast_dtype=dtype),
    )
    started = time.perf_counter()
    scores = evaluate_views(renderer, scene.test, autocast_dtype=dtype)
    per_view = (time.perf_counter() - started) / len(scores)
    holes = statistics.mean(
        float(((s.rendering.opacity < 0.5) & (scene.test.opacity(i) > 0.5)).float().mean())
        for i, s in enumerate(scores)
    )
    return statistics.mean(score.psnr for score in scores), holes, state.step, per_view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["object", "around", "forward-facing"])
    parser.add_argument("--scene", nargs="+", default=[], help="folders of posed images as well")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--fields", nargs="+", choices=sorted(FIELDS), default=sorted(FIELDS))
    parser.add_argument(
        "--exposure", action="store_true", help="photographs of different exposure, 15%% apart"
    )
    options = parser.parse_args()
    keep_freed_memory()
    print(f"{machine()}\n{options.size} pixels")
    print(f"{'capture':<9} {'field':<9} {'seconds':>7} {'dB':>6} {'holes':>6} {'steps':>5} s/view")
    scenes = [(kind, capture(kind, options.size)) for kind in options.kinds]
    scenes += [(Path(p).name, open_scene(p, size=options.size)) for p in options.scene]
    for (name, scene), field, seconds in itertools.product(scenes, options.fields, options.seconds):
        data = with_exposures(scene) if options.exposure else scene
        chosen = replace(
            FIELDS[field],
            space=space_for(scene.train) if field != "mlp" else "box",
            num_exposures=len(scene.train) if options.exposure and field != "mlp" else 0,
        )
        runs = [fit_for(data, replace(chosen, seed=seed), seconds) for seed in options.seeds]
        psnr, holes, steps, per_view = (statistics.median(each) for each in zip(*runs, strict=True))
        print(
            f"{name:<9} {field:<9} {seconds:7g} {psnr:6.2f} {holes:6.1%} {steps:5.0f} "
            f"{per_view:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
