"""PSNR between the pixels: encodings as train_fit.py --held-out fits them, and interpolation.

Every second pixel of every second row is fitted and those diagonally between are tested, the
protocol of Tancik et al. 2020, section 6. All encodings fit the same images in one run. With
``--prior FOLDER`` a patch network learns first from the whole images there, which must be others,
and a row of its own shows what a hash grid reaches that fits its predictions. A run that was
interrupted goes on with the images that ``--out`` lacks.
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import torch
from app.config import resolve
from app.fit_settings import fit_settings
from app.image_fit import fit_image
from app.image_task import ImageTask
from app.stop import Stop
from app.task import FitControl
from tqdm import tqdm

from app.options import Options
from baselines.interpolation import INTERPOLATIONS, interpolate_held_out
from baselines.patch_network import (
    MOST_STEPS_OF_IMAGES,
    PatchNetwork,
    fit_patch_network_to,
)
from benchmarks.timing import machine
from nerf_posenc.metrics.image import psnr
from nerf_posenc.training.devices import keep_freed_memory
from scenes import open_image

ENCODINGS = ("fourier", "gaussian", "hash", "hash-internal")
WITH_PRIOR = "hash grid, prior of other images"


def scores_of(
    path: Path,
    encodings: tuple[str, ...],
    steps: int | None,
    prior: PatchNetwork | None,
    seed: int,
) -> dict[str, float]:
    """PSNR of the held-out pixels of one image, by what predicts them."""
    whole = open_image(str(path))
    image = whole.split_held_out()
    scores = {
        method: psnr(interpolate_held_out(image, method), image.evaluated.rgb)
        for method in INTERPOLATIONS
    }
    options = Options(
        held_out=True, encodings=encodings, steps=steps, seed=seed, video=0, quiet=True
    )
    config = resolve(options, image.resolution, torch.device("cpu"), num_pixels=image.num_pixels)
    task = ImageTask(image, whole.size, config)
    for encoding in encodings:
        scores[encoding] = task.fit(encoding, FitControl(Stop())).psnr
    if prior is not None:
        settings = fit_settings("hash-internal", config, FitControl(Stop()))
        fitted = fit_image(image, task.model("hash-internal"), replace(settings, prior=prior))
        scores[WITH_PRIOR] = fitted.psnr
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of images to test")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--encodings", nargs="*", default=list(ENCODINGS))
    parser.add_argument("--steps", type=int, default=None, help="None is the program's default")
    parser.add_argument("--prior", type=Path, default=None, help="folder of other images")
    parser.add_argument("--prior-steps", type=int, default=MOST_STEPS_OF_IMAGES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/between_pixels.json"))
    options = parser.parse_args()
    keep_freed_memory()
    print(machine(), flush=True)
    prior = None
    if options.prior is not None:
        known = [open_image(str(path)).rgb for path in sorted(options.prior.glob("*.png"))]
        prior = fit_patch_network_to(known, seed=options.seed, num_steps=options.prior_steps)
    used = {name: str(value) for name, value in vars(options).items() if name != "images"}
    rows: dict[str, dict[str, float]] = {}
    if options.out.exists():
        before = json.loads(options.out.read_text())
        if before["options"] != used:
            parser.error(f"{options.out} is of other options: {before['options']}; choose --out")
        rows = before["scores"]
    paths = sorted(options.folder.glob("*.png"))[: options.images]
    for path in tqdm(paths):
        if path.name in rows:
            continue
        encodings = tuple(options.encodings)
        rows[path.name] = scores_of(path, encodings, options.steps, prior, options.seed)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        values = {"machine": machine(), "options": used, "scores": rows}
        options.out.write_text(json.dumps(values, indent=1))
    print(f"\nheld-out PSNR (dB), mean over {len(paths)} images of {options.folder}")
    for name in rows[paths[0].name]:
        print(f"{name:<34} {statistics.mean(rows[path.name][name] for path in paths):6.2f}")


if __name__ == "__main__":
    main()
