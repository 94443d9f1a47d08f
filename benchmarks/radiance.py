"""PSNR of radiance-field recipes on held-out views after equal seconds of training, in one run.

The scene is a folder, a built-in one, or the built-in spheres in surroundings that reach to
infinity, where all pixels are opaque as in photographs: ``around``, a patterned ground and a sky
from all around, or ``forward-facing``, a wall behind the spheres. Holes are the share of the opaque
pixels of test views in which a field is less than half opaque.

Each recipe gets as many steps as its seconds allow, with its schedule laid over them; all take
turns of two seconds. The published ones keep their network, samples, rays, optimizer and rate:
tiny-NeRF (8 x 256, L = 6, 64 samples, Adam 5e-4, one whole view a step, no occupancy grid), a small
NeRF (4 x 128, L = 10, 64 samples, 1024 rays, Adam 5e-4) and instant-NGP's architecture (16 levels
of 2 features, 2^19 rows, Adam 1e-2, occupancy grid, random background) in PyTorch, of two numbers
of rays. ``--table`` compares encodings of our field instead.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import machine
from nerf_posenc import FourierEncoder
from nerf_posenc.core.encoder import Identity
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.build import FieldOptions, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import evaluate_views
from nerf_posenc.radiance.fields import RadianceField, hash_field
from nerf_posenc.radiance.occupancy import OccupancyGrid
from nerf_posenc.radiance.poses import look_at
from nerf_posenc.radiance.ray_batches import RayBatch
from nerf_posenc.radiance.rays import Rays, camera_rays
from nerf_posenc.radiance.renderers import GridRenderer, HierarchicalRenderer
from nerf_posenc.radiance.scene_spaces import space_for
from nerf_posenc.radiance.views import Background, Scene, Views
from nerf_posenc.training.batches import DrawBatch
from nerf_posenc.training.devices import computes_bfloat16, keep_freed_memory, pick_device
from nerf_posenc.training.loop import FitState, fit
from nerf_posenc.training.optimizers import OptimizerGroup, adam
from nerf_posenc_app.data import open_scene
from nerf_posenc_app.data.formulas.quadrature import render_exactly
from nerf_posenc_app.data.shipped import module_of, shipped

FIELDS = {
    "mlp": FieldOptions("fourier", field="mlp"),
    "proposal": FieldOptions("hash", field="proposal"),
}
"""Our fields with the encoding of each."""

# Samples per ray of our field of bands; the command line has 96, for speed.
NUM_SAMPLES = 256
# Height of the ground, and position of the wall behind the spheres.
_GROUND, _WALL = -1.1, -4.0
# Seconds of a turn.
_TURN = 2.0


@dataclass(frozen=True)
class Recipe:
    """A way to fit a field.

    Attributes:
        renderer: function that makes the renderer of the field from the views.
        optimizer: function that makes the optimizer from the renderer.
        rays: rays per step; None for a whole view.
        background: background of the rays.
        drawn_by: renderer that draws the rays of a step; None for the field's own.
    """

    renderer: Callable[[Views], Renderer]
    optimizer: Callable[[Renderer], OptimizerGroup]
    rays: int | None
    background: Background = "white"
    drawn_by: Callable[[Views], Renderer] | None = None


def small(encoding: str, num_bands: int = 10) -> Callable[[Views], Renderer]:
    """Our field."""

    def make(views: Views) -> Renderer:
        options = FieldOptions(encoding, field="mlp", num_bands=num_bands, num_samples=NUM_SAMPLES)
        return make_renderer(options, views)

    return make


def by_muon(renderer: Renderer) -> OptimizerGroup:
    """Our optimizer."""
    return renderer.make_optimizer("muon")


def tiny_nerf(views: Views) -> Renderer:
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


def small_nerf(views: Views) -> Renderer:
    """A NeRF for a small machine."""
    field = RadianceField(
        FourierEncoder(3, 10, include_input="front"),
        FourierEncoder(3, 4, include_input="front"),
        density="softplus",
    )
    return HierarchicalRenderer(field, num_coarse=64, num_fine=0)


def instant_ngp(views: Views) -> Renderer:
    """Instant-NGP's field as published: 16 levels of 2 features to 2,048 nodes, 2^19 rows."""
    return GridRenderer(hash_field(), OccupancyGrid())


def by_ngp_adam(renderer: Renderer) -> OptimizerGroup:
    """Adam as instant-NGP has it (Müller et al. 2022, section 4)."""
    return adam(renderer, lr=1e-2, betas=(0.9, 0.99))


def ours(field: str) -> Callable[[Views], Renderer]:
    """One of ``FIELDS``, in the space that suits the views."""

    def make(views: Views) -> Renderer:
        space = space_for(views) if field != "mlp" else "box"
        return make_renderer(replace(FIELDS[field], space=space), views)

    return make


RECIPES = {
    **{f"ours: {field}": Recipe(ours(field), by_muon, 1024) for field in FIELDS},
    "ours: small field, L = 10, Muon": Recipe(small("fourier"), by_muon, 1024),
    "tiny-NeRF": Recipe(tiny_nerf, lambda m: adam(m, lr=5e-4), None),
    "small NeRF, Adam": Recipe(small_nerf, lambda m: adam(m, lr=5e-4), 1024),
    "instant-NGP, 4,096 rays": Recipe(instant_ngp, by_ngp_adam, 4096, "random"),
    "instant-NGP, 1,024 rays": Recipe(instant_ngp, by_ngp_adam, 1024, "random"),
    # Those on and near the object: most rays of an object on a background meet nothing.
    "instant-NGP, our rays": Recipe(
        instant_ngp, by_ngp_adam, 1024, "random", drawn_by=ours("proposal")
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
        found.append(look_at(position, target, torch.tensor([0.0, 0.0, 1.0])))
    return torch.stack(found)


def capture(kind: str, size: int, num_train: int = 48, num_test: int = 8) -> Scene:
    """Render the built-in spheres with their surroundings, all pixels opaque."""
    camera, medium = (
        Camera.from_angle(size, size, 0.9),
        module_of(shipped("scene")["spheres"]).medium(),
    )

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


class InterleavedFit:
    """A recipe's fit of a scene, run a turn at a time.

    Args:
        recipe: recipe of the fit.
        train: the views to fit.
        seconds: training time, over which the schedule is laid.
        device: device of the fit.
        seed: seed of the initial weights and of the rays.
    """

    def __init__(
        self, recipe: Recipe, train: Views, seconds: float, device: torch.device, seed: int = 0
    ) -> None:
        self._recipe, self._train, self._device, self._seed = recipe, train, device, seed
        self._dtype = torch.bfloat16 if computes_bfloat16(device) else None
        # The first calls of a recipe are not counted.
        self._begin(min(2.0, seconds))
        self.turn(seconds)
        self._begin(seconds)

    def _begin(self, seconds: float) -> None:
        torch.manual_seed(self._seed)
        recipe, train = self._recipe, self._train
        self.renderer = recipe.renderer(train).to(self._device)
        self._draw: DrawBatch = whole_views(train, self._device)
        if recipe.rays is not None:
            drawer = self.renderer if recipe.drawn_by is None else recipe.drawn_by(train)
            self._draw = drawer.batches(
                train,
                recipe.rays,
                seed=self._seed,
                # Over white, a hole in front of a white wall costs nothing.
                background="random" if train.is_opaque else recipe.background,
                device=self._device,
            )
        self.state = FitState(
            self.renderer, recipe.optimizer(self.renderer), 1 << 40, limit_seconds=seconds
        )
        self._update = self.renderer.after_step(autocast_dtype=self._dtype)

    def turn(self, seconds: float) -> None:
        """Go on for so long, or to the end of the fit."""
        due = time.perf_counter() + seconds

        def is_due() -> bool:
            if time.perf_counter() < due:
                return False
            if self._device.type == "cuda":
                torch.cuda.synchronize()  # Or what is queued would run in the turn of another.
            return True

        fit(
            self.state,
            self._draw,
            self.renderer.loss,
            forward=lambda batch: self.renderer(batch.rays, batch.generator),
            autocast_dtype=self._dtype,
            after_step=self._update,
            should_stop=is_due,
        )

    def score(self, test: Views) -> dict[str, float]:
        """Score views that were not fitted."""
        started = time.perf_counter()
        scores = evaluate_views(self.renderer, test, autocast_dtype=self._dtype)
        holes = [
            ((score.rendering.opacity < 0.5) & (test.opacity(i) > 0.5)).float().mean()
            for i, score in enumerate(scores)
        ]
        return {
            "psnr_db": statistics.mean(score.psnr for score in scores),
            "ssim": statistics.mean(score.ssim for score in scores),
            "holes": float(torch.stack(holes).mean()),
            "steps": self.state.step,
            "seconds": self.state.seconds,
            "seconds_a_view": (time.perf_counter() - started) / len(test),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", help="folder, built-in scene, around or forward-facing")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--test-views", type=int, default=25)
    parser.add_argument("--table", action="store_true", help="encodings of our field")
    parser.add_argument("--recipes", nargs="+", help="beginnings of their names; all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs/radiance.json"))
    options = parser.parse_args()
    keep_freed_memory()
    is_capture = options.scene in ("around", "forward-facing")
    scene = (capture if is_capture else open_scene)(options.scene, size=options.size)
    test = scene.test.subset(options.test_views)
    print(f"{machine()}\n{scene.source}, {scene.train.size}, {len(test)} test views", flush=True)
    print(
        f"{'recipe':<34} {'dB':>6} {'SSIM':>7} {'holes':>6} {'steps':>6} {'s':>6} {'s per view':>9}"
    )
    device = pick_device(options.device)
    fits = {
        name: InterleavedFit(recipe, scene.train, options.seconds, device, options.seed)
        for name, recipe in (TABLE if options.table else RECIPES).items()
        if not options.recipes or name.startswith(tuple(options.recipes))
    }
    # In turns, so that a slow minute of the machine is slow for all.
    results = {}
    while fits:
        for name, each in list(fits.items()):
            try:
                each.turn(_TURN)
            except FloatingPointError as error:
                print(f"{name:<34} {error}", flush=True)
                del fits[name]
                continue
            if not each.state.is_complete:
                continue
            row = results[name] = fits.pop(name).score(test)
            print(
                f"{name:<34} {row['psnr_db']:6.2f} {row['ssim']:7.4f} {row['holes']:6.1%} "
                f"{row['steps']:6.0f} {row['seconds']:6.1f} {row['seconds_a_view']:9.2f}",
                flush=True,
            )
            options.out.parent.mkdir(parents=True, exist_ok=True)
            record = {"machine": machine(), "scene": scene.source, "results": results}
            options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
