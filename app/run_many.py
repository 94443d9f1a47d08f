"""Runs of several images, one after the other or as batched ensembles."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app import report
from app.config import resolve_device
from app.fit_settings import fit_settings
from app.image_fit import ImageResult, fit_images
from app.image_task import ImageTask
from app.options import PROGRAM, Options, UsageError
from app.run import (
    Run,
    failure_reason,
    finish,
    fit_encodings,
    fit_one,
    make_run_folder,
    prepare_image,
)
from app.task import Interruptible, Openers

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

# A larger ensemble gains nothing: this many fill any GPU, and the memory grows with each.
MOST_MEMBERS = 16


def run_many(
    options: Options, arguments: Sequence[str], openers: Openers, interruptible: Interruptible
) -> int:
    """Fit several images, each in a folder of its own; one that fails does not stop the rest."""
    files = find_images(options.images)
    device = resolve_device(options)
    parent = make_run_folder(options, "images")
    uses_ensembles = options.stack == "on" or (options.stack == "auto" and device.type == "cuda")
    waiting: list[Run[ImageResult]] = []
    scores: dict[str, dict[str, float]] = {}
    finished = 0
    for number, file in enumerate(files):
        if not options.quiet:
            print(f"\n[{number + 1} of {len(files)}] {file}")
        own = replace(options, image=file, images=(), out=parent / f"{number:03}-{Path(file).stem}")
        try:
            prepared = prepare_image(own, device, openers, interruptible)
        except UsageError as error:
            print(f"{PROGRAM}: error: {error}", file=sys.stderr)
            continue
        if uses_ensembles and not options.live:
            waiting.append(prepared)
        else:
            fit_encodings(prepared)
            finished += finish_one(prepared, arguments, scores)
    fit_ensembles(waiting)
    finished += sum(finish_one(prepared, arguments, scores) for prepared in waiting)
    table = report.table_of_images(scores, options.fitted)
    if scores:
        (parent / "images.txt").write_text(table + "\n", encoding="utf-8")
    else:
        with contextlib.suppress(OSError):
            parent.rmdir()
    if not options.quiet:
        print(f"\n{table}\n\nwrote {parent}/")
    return 0 if finished == len(files) else 1


def find_images(names: Sequence[str]) -> list[str]:
    """Files and samples, with a folder replaced by the images in it.

    Raises:
        UsageError: If a folder contains none.
    """
    files: list[str] = []
    for name in names:
        folder = Path(name)
        if folder.is_dir():
            found = sorted(f for f in folder.iterdir() if f.suffix.lower() in IMAGE_SUFFIXES)
            if not found:
                raise UsageError(f"--images {name} contains no image")
            files += map(str, found)
        else:
            files.append(name)
    return files


def finish_one(
    prepared: Run[ImageResult], arguments: Sequence[str], scores: dict[str, dict[str, float]]
) -> bool:
    """Write a run folder and note its scores; return whether every encoding was fitted."""
    results = finish(prepared, arguments)
    if results:
        scores[prepared.folder.name] = {result.encoding: result.psnr for result in results}
    return len(results) == len(prepared.config.encodings)


def fit_ensembles(runs: Sequence[Run[ImageResult]]) -> None:
    """Fit images as batched ensembles, those with batches of one size together."""
    groups: dict[int, list[Run[ImageResult]]] = {}
    for prepared in runs:
        num_pixels = image_task(prepared).image.rgb[..., 0].numel()
        batch_size = min(prepared.config.training.batch_size, num_pixels)
        groups.setdefault(batch_size, []).append(prepared)
    for group in groups.values():
        for start in range(0, len(group), MOST_MEMBERS):
            members = group[start : start + MOST_MEMBERS]
            for encoding in members[0].config.encodings:
                fit_ensemble(members, encoding)


def fit_ensemble(runs: Sequence[Run[ImageResult]], encoding: str) -> None:
    """Fit images as one batched ensemble; if that fails, each alone."""
    runs[0].log(f"\n{encoding}: {', '.join(prepared.task.name for prepared in runs)}")
    if len(runs) > 1:
        tasks = [image_task(prepared) for prepared in runs]
        images, models = [task.image for task in tasks], [task.model(encoding) for task in tasks]
        try:
            with runs[0].interruptible() as stop:
                settings = fit_settings(encoding, runs[0].config, stop)
                results = fit_images(images, models, settings)
        except (FloatingPointError, RuntimeError) as error:
            reason = failure_reason(error)
            print(f"note: {encoding}: {reason}; now each image alone", file=sys.stderr)
        else:
            for prepared, result in zip(runs, results, strict=True):
                prepared.results.append(result)
            return
    for prepared in runs:
        fit_one(prepared, encoding)


def image_task(prepared: Run[ImageResult]) -> ImageTask:
    """Return the task of an image's run."""
    assert isinstance(prepared.task, ImageTask)
    return prepared.task
