"""Peak memory of loading and fitting a scene of many pixels, and a hash of its losses.

    python -m benchmarks.scene_memory [--views 60 --width 1600 --height 1200] [--mapped]

Synthetic views are written to a temporary folder with a ``transforms.json``, and fitted for a few
steps in a process of its own. Its resident memory is sampled from ``/proc`` (Linux), and that of a
small built-in scene beside it. The part that is not of files is what a machine must have: the
system takes pages of files back when it needs them. Equal hashes are equal bits of every loss.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from benchmarks.timing import machine
from nerf_posenc.radiance.field_training import (
    forward_for,
    make_batches,
    make_field_optimizer,
    update_renderer,
)
from nerf_posenc.radiance.recipes import FieldOptions, make_renderer
from nerf_posenc.radiance.renderers import photometric_loss
from nerf_posenc.radiance.scene_spaces import space_for
from nerf_posenc.training.devices import keep_freed_memory
from nerf_posenc.training.loop import FitState, fit
from scenes import open_scene
from scenes.quadrature import hemisphere_poses

_SMALL = ("spheres", 32)


def write_scene(
    folder: Path, count: int, width: int, height: int, kind: str, *, own_lenses: bool
) -> None:
    """Write views of a disk of smooth colors and noise; ``rgba`` is transparent around it."""
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    noise = np.random.default_rng(0).integers(0, 16, (height, width))
    disk = (x - x.mean()) ** 2 + (y - y.mean()) ** 2 < 0.09
    alpha = np.where(disk, 255, 0).astype(np.uint8)
    frames = []
    for i, pose in enumerate(hemisphere_poses(count)):
        waves = [np.sin(9 * x + i), np.sin(7 * y - i), np.sin(5 * (x + y) + i)]
        rgb = np.stack([(100 + 90 * w + noise).astype(np.uint8) for w in waves], axis=-1)
        name = f"{i:03}.{'jpg' if kind == 'jpg' else 'png'}"
        pixels = np.dstack([rgb, alpha]) if kind == "rgba" else rgb
        Image.fromarray(pixels).save(folder / name, quality=90, compress_level=1)
        frame = {"file_path": name, "transform_matrix": pose.tolist()}
        frames.append(frame | ({"camera_angle_x": 0.7 + 1e-4 * i} if own_lenses else {}))
    meta = {"camera_angle_x": 0.7, "aabb_scale": 1, "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(meta))


def fit_scene(name: str, size: int | None, field: str, steps: int) -> None:
    """Load and fit a scene; print the seconds of both and the hash of the losses."""
    keep_freed_memory()
    started = time.perf_counter()
    scene = open_scene(name, size=size)
    loaded = time.perf_counter()
    options = FieldOptions("mlp", "fourier")
    if field == "factored":
        options = FieldOptions("factored", "vector-matrix", space=space_for(scene.train))
    renderer = make_renderer(options, scene.train)
    batches = make_batches(renderer, scene.train, 128, seed=0, background="random")
    state = FitState(renderer, make_field_optimizer(renderer, "muon"), steps)
    after_step = update_renderer(renderer)
    fit(state, batches, photometric_loss, forward=forward_for(renderer), after_step=after_step)
    losses = json.dumps([record.loss for record in state.history])
    print(
        f"{loaded - started:.1f} s to load, {time.perf_counter() - loaded:.1f} s to fit, losses "
        f"{hashlib.sha256(losses.encode()).hexdigest()[:16]}",
        flush=True,
    )


def peaks_of(arguments: list[str]) -> list[int]:
    """Largest resident bytes of a process of this script: all, and those that are not of files."""
    peaks = [0, 0]
    command = [sys.executable, "-m", "benchmarks.scene_memory", *arguments]
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = dict(line.split(":", 1) for line in status.splitlines())
            # A process that has just ended has neither.
            sizes = [int(found.get(key, "0").split()[0]) << 10 for key in ("VmRSS", "RssAnon")]
            peaks = [max(pair) for pair in zip(peaks, sizes, strict=True)]
            time.sleep(0.005)
    if process.returncode:
        sys.exit(process.returncode)
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--views", type=int, default=60)
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--height", type=int, default=1200)
    parser.add_argument("--kind", choices=["png", "rgba", "jpg"], default="png")
    parser.add_argument("--own-lenses", action="store_true", help="a focal length of each view")
    parser.add_argument("--field", choices=["small", "factored"], default="small")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--mapped", action="store_true", help="as if the memory were too small")
    parser.add_argument("--scene", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scene is not None:
        size = _SMALL[1] if options.scene == _SMALL[0] else None
        share = mock.patch("scenes.pixel_stacks._LARGEST_SHARE", 0.0)
        if options.mapped:
            share.start()
        fit_scene(options.scene, size, options.field, options.steps)
        return
    count, width, height = options.views, options.width, options.height
    print(
        f"{machine()}\n{count} views of {width} x {height}, {options.kind}, {options.field} field"
    )
    common = ["--field", options.field, "--steps", str(options.steps)]
    common += ["--mapped"] if options.mapped else []
    with tempfile.TemporaryDirectory() as folder:
        lenses = options.own_lenses
        write_scene(Path(folder), count, width, height, options.kind, own_lenses=lenses)
        for scene in (_SMALL[0], folder):
            peaks = peaks_of([*common, "--scene", scene])
            print(
                f"{'these views' if scene == folder else scene}: peak {peaks[0] / 1e9:.2f} GB, "
                f"{peaks[1] / 1e9:.2f} GB without files",
                flush=True,
            )


if __name__ == "__main__":
    main()
