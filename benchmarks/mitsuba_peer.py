"""PSNR of a radiance field that Mitsuba 3 fits on held-out views after so many seconds of training.

The method is the one Mitsuba documents for radiance fields: ray marching through a grid of density
with a ReLU after the interpolation (Karnewar et al. 2022, ReLU Fields) and a grid of spherical
harmonics, refined from coarse to fine. A second march replays the first for the gradients (Vicini
et al. 2021, path replay backpropagation). Gradients, textures and Adam are Mitsuba's and Dr.Jit's.
Rays, poses and pixels are ours. Not as documented: ray batches, squared error, a sigmoid for the
color, degree 0 (theirs is 2), random backgrounds and the box of the visual hull.

The clock includes compilation. Dr.Jit keeps its kernels in ``~/.drjit``; an empty folder in
``DRJIT_CACHE_DIR`` makes it compile again. ``--ours`` fits our factored field in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.radiance import RECIPES, fit_for
from benchmarks.timing import Clock, machine
from nerf_posenc.metrics.image import psnr, ssim
from nerf_posenc.radiance.occupancy import cell_centers, visual_hull
from nerf_posenc.radiance.ray_batches import RayBatches
from nerf_posenc.radiance.rays import Rays, ray_aabb_intersect
from nerf_posenc.radiance.views import Views
from nerf_posenc.training.devices import keep_freed_memory
from scenes import open_scene

UNAVAILABLE = ""
try:
    import drjit as dr
    import mitsuba as mi

    mi.set_variant("llvm_ad_rgb")
except ImportError as error:
    UNAVAILABLE = f"{error}".partition("\n")[0]

# Where a ray has at most this transmittance, the rest of it does not show.
_OPAQUE = 1e-3

# Cells per axis of the visual hull, and the longer side of the views that it is found from.
_HULL_CELLS, _HULL_PIXELS = 128, 100


@dataclass(frozen=True)
class Method:
    """Settings of the fit; the defaults were chosen by test views of the chair, on a busy machine.

    Attributes:
        degree: of the spherical harmonics.
        resolutions: cells along the longest side of the box, stage by stage.
        refine_at: shares of the fit at which the next stage begins.
        rays: per step.
        lr: learning rate at first; at the end it is a tenth.
        density_scale: density per unit of length of a grid value of 1.
    """

    degree: int = 0
    resolutions: tuple[int, ...] = (16, 32, 64, 128)
    refine_at: tuple[float, ...] = (0.03, 0.1, 0.6)
    rays: int = 4096
    lr: float = 0.2
    density_scale: float = 25.0

    @property
    def num_coefficients(self) -> int:
        """Of three colors each."""
        return (self.degree + 1) ** 2


@dataclass(frozen=True)
class Box:
    """An axis-aligned box around the scene.

    Attributes:
        center: of the box, ``(3,)``.
        half: half its sides, ``(3,)``.
    """

    center: Tensor
    half: Tensor

    def intersect(self, rays: Rays) -> tuple[Tensor, Tensor]:
        """Distances at which rays enter and leave the box; equal for a ray that misses."""
        return ray_aabb_intersect(
            (rays.origins - self.center) / self.half, rays.directions / self.half
        )

    def shape(self, resolution: int) -> tuple[int, int, int]:
        """Cells along z, y and x, with ``resolution`` along the longest side."""
        z, y, x = (
            round(float(side)) for side in (self.half / self.half.max() * resolution).flip(0)
        )
        return z, y, x


def hull_box(views: Views) -> Box:
    """Find the bounding box of the visual hull."""
    hull = visual_hull(views.resized(_HULL_PIXELS), _HULL_CELLS)
    centers = cell_centers(_HULL_CELLS)[hull]
    low, high = centers.amin(0), centers.amax(0)
    return Box((low + high) / 2, (high - low) / 2 + 1 / _HULL_CELLS)


def columns(values: Tensor) -> Any:
    """Give ``(n, 3)`` to Dr.Jit, which has one array per component."""
    return values.T.contiguous().numpy()


class Field:
    """Grids of density and of emission, and their optimizer."""

    def __init__(self, method: Method, box: Box) -> None:
        self.method, self.box = method, box
        self.resolution = method.resolutions[0]
        shape = box.shape(self.resolution)
        density = dr.full(mi.TensorXf, 0.01, (*shape, 1))
        emission = dr.zeros(mi.TensorXf, (*shape, 3 * method.num_coefficients))
        self.optimizer = mi.ad.Adam(method.lr, {"density": density, "emission": emission})
        self.load()

    def load(self) -> None:
        """Make textures of the optimizer's values."""
        self.textures = {
            name: mi.Texture3f(value, wrap_mode=dr.WrapMode.Clamp)
            for name, value in self.optimizer.items()
        }

    def refine(self, resolution: int) -> None:
        """Interpolate the grids at a higher resolution."""
        self.resolution = resolution
        for name, value in list(self.optimizer.items()):
            shape = (*self.box.shape(resolution), value.shape[-1])
            finer = dr.resample(dr.detach(value), shape, filter="linear")
            dr.enable_grad(finer)
            self.optimizer[name] = finer

    def density(self, position: Any, active: Any) -> Any:
        """Density of the samples, 0 or more."""
        value = self.textures["density"].eval(position, active)[0]
        # LLVM 15 cannot compile the maximum that Dr.Jit would use.
        return dr.select(value > 0, value, 0) * self.method.density_scale

    def emission(self, position: Any, harmonics: Any, active: Any) -> Any:
        """Color of the samples as the rays see it."""
        values = self.textures["emission"].eval(position, active)
        total = mi.Color3f(0)
        for i, harmonic in enumerate(harmonics):
            total += harmonic * mi.Color3f(values[3 * i : 3 * i + 3])
        return 1 / (1 + dr.exp(-total))

    def march(
        self, rays: Rays, jitter: Any, *, color: Any = None, slope: Any = None
    ) -> tuple[Any, Any]:
        """Color in front of the background, and transmittance; or replay that for the gradients.

        Args:
            rays: to march along.
            jitter: position of the samples within the steps, 0 to 1.
            color: of the rays, as rendered, to be replayed; None to render.
            slope: derivative of the loss by it.
        """
        replays = color is not None
        step = float(2 * self.box.half.max()) / self.resolution
        near, far = (mi.Float(distance.numpy()) for distance in self.box.intersect(rays))
        low, sides = self.box.center - self.box.half, 2 * self.box.half
        origin = mi.Point3f(columns((rays.origins - low) / sides))
        direction = mi.Vector3f(columns(rays.directions / sides))
        harmonics = dr.sh_eval(mi.Vector3f(columns(rays.directions)), self.method.degree)

        def advance(t: Any, active: Any, through: Any, rest: Any) -> tuple[Any, ...]:
            position = origin + t * direction
            with dr.resume_grad(when=replays):
                passed = dr.exp(-self.density(position, active) * step)
                dense = active & (dr.detach(passed) < 1)
                seen = through * (1 - passed) * self.emission(position, harmonics, dense)
            part = dr.select(dense, dr.detach(seen), 0)
            rest = rest - part if replays else rest + part
            if replays:
                # What lies beyond a sample depends on its density alone.
                with dr.resume_grad():
                    beyond = rest * (passed / dr.detach(passed))
                    dr.backward_from(slope * dr.select(dense, seen + beyond, 0))
            through = dr.select(dense, through * dr.detach(passed), through)
            t = t + step
            return t, active & (t < far) & (through > _OPAQUE), through, rest

        start = (near + jitter * step, far > near, mi.Float(1), mi.Color3f(color if replays else 0))
        with dr.suspend_grad():
            _, _, through, rest = dr.while_loop(start, lambda t, active, *_: active, advance)
        return rest, through


def train_step(field: Field, batches: RayBatches, step: int, generator: torch.Generator) -> None:
    """Fit a batch of rays by one step of Adam."""
    batch, truth = batches(step)
    jitter = mi.Float(torch.rand(len(truth), generator=generator).numpy())
    field.load()
    with dr.suspend_grad():
        color, through = field.march(batch.rays, jitter)
        color += through * mi.Color3f(columns(batch.rays.background))
        dr.eval(color)
        slope = (color - mi.Color3f(columns(truth))) * (2 / truth.numel())
    field.march(batch.rays, jitter, color=color, slope=slope)
    field.optimizer.step()
    dr.sync_thread()


def fit_peer(method: Method, train: Views, seconds: float) -> tuple[Field, int, float]:
    """Fit for so many seconds.

    Returns:
        The field, its steps and the seconds they took.
    """
    field = Field(method, hull_box(train))
    height_width = train.size[::-1]
    distances = [field.box.intersect(train.rays(view)) for view in range(len(train))]
    live = torch.stack([(far > near).view(height_width) for near, far in distances])
    # Only empty space explains a transparent pixel over changing backgrounds.
    batches = RayBatches(train, method.rays, seed=0, background="random", live=live)
    # Not the seed of the batches, whose draws would repeat.
    generator = torch.Generator().manual_seed(1 << 32)
    clock, step, stage = Clock(seconds), 0, 0
    while not clock.is_over():
        if stage < len(method.refine_at) and clock.progress() >= method.refine_at[stage]:
            stage += 1
            field.refine(method.resolutions[stage])
        field.optimizer.set_learning_rate(method.lr * 0.1 ** clock.progress())
        train_step(field, batches, step, generator)
        step += 1
    return field, step, clock.used()


def score_peer(field: Field, test: Views) -> dict[str, float]:
    """Render the test views over white, and compare."""
    field.load()
    width, height = test.size
    started, images = time.perf_counter(), []
    for view in range(len(test)):
        color, through = field.march(test.rays(view), mi.Float(0.5))
        images.append(torch.tensor((color + through).numpy()).T.reshape(height, width, 3))
    seconds = (time.perf_counter() - started) / len(test)
    truth = [test.over(view, 1.0) for view in range(len(test))]
    return {
        "psnr_db": statistics.mean(map(psnr, images, truth)),
        "ssim": statistics.mean(map(ssim, images, truth)),
        "seconds_a_view": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", help="folder of posed images, or a built-in scene")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0])
    parser.add_argument("--test-views", type=int, default=25)
    parser.add_argument("--ours", action="store_true", help="fit our factored field as well")
    options = parser.parse_args()
    if UNAVAILABLE:
        parser.exit(
            2,
            f"Mitsuba cannot be used: {UNAVAILABLE}; pip install mitsuba, install LLVM "
            "(on Debian libllvm15 or newer) and put its libLLVM.so in DRJIT_LIBLLVM_PATH\n",
        )
    keep_freed_memory()
    dr.set_thread_count(torch.get_num_threads())
    method = Method()
    scene = open_scene(options.scene, size=options.size)
    test = scene.test.subset(options.test_views)
    print(f"{machine()}, Mitsuba {mi.__version__}, Dr.Jit {dr.__version__}")
    print(f"{scene.source}, {scene.train.size}, {len(test)} test views\n{method}", flush=True)
    print(f"{'':<22} {'dB':>6} {'SSIM':>7} {'steps':>6} {'s':>6} {'s per view':>10}")

    def peer(seconds: float) -> dict[str, float]:
        field, steps, used = fit_peer(method, scene.train, seconds)
        return {"steps": steps, "seconds": used, **score_peer(field, test)}

    def ours(seconds: float) -> dict[str, float]:
        recipe = RECIPES["ours: factored field"]
        return fit_for(recipe, scene.train, test, seconds, torch.device("cpu"), None)

    fits: dict[str, Callable[[float], dict[str, float]]] = {"Mitsuba, voxel grids": peer}
    if options.ours:
        fits["ours: factored field"] = ours
    for seconds in options.seconds:
        for name, fit in fits.items():
            row = fit(seconds)
            print(
                f"{name:<22} {row['psnr_db']:6.2f} {row['ssim']:7.4f} {row['steps']:6.0f} "
                f"{row['seconds']:6.1f} {row['seconds_a_view']:10.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
