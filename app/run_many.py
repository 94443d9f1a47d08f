"""Runs of several pictures, one after the other or in the same steps."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app import report
from app.config import device_of, model_of, pixels_of, training_of
from app.image_task import try_pictures
from app.options import PROGRAM, Options, UsageError
from app.progress import Nobody
from app.run import (
    Job,
    finish,
    fit_alone,
    fit_encodings,
    prepare,
    reason_of,
    run_folder,
    speaker,
)
from nerf_posenc.training import recipes
from scenes import Picture, SceneError

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

# More pictures share no steps: by then they fill any GPU, and the memory grows with each.
MOST_STACKED = 16


def run_each(options: Options, arguments: Sequence[str]) -> int:
    """Fit several pictures, each in a folder of its own; one that fails does not stop the rest."""
    files = pictures_of(options.images)
    device = device_of(options)
    parent = run_folder(options, "pictures")
    shares_steps = options.stack == "on" or (options.stack == "auto" and device.type == "cuda")
    say = speaker(options)
    waiting: list[Job] = []
    scores: dict[str, dict[str, float]] = {}
    finished = 0

    def finish_each(jobs: Sequence[Job]) -> None:
        nonlocal finished
        for job in jobs:
            results = finish(job, arguments)
            finished += len(results) == len(options.fitted)
            if results:
                scores[job.folder.name] = {result.encoding: result.psnr for result in results}

    for number, file in enumerate(files):
        say(f"\n[{number + 1} of {len(files)}] {file}")
        name = f"{number:03}-{Path(file).stem}"
        mine = replace(options, image=file, images=(), out=parent / name)
        try:
            job = prepare(mine, device)
        except (UsageError, SceneError) as error:
            print(f"{PROGRAM}: error: {error}", file=sys.stderr)
            continue
        if shares_steps and not options.live:
            waiting.append(job)
        else:
            fit_encodings(job)
            finish_each([job])
    fit_stacked(waiting)
    finish_each(waiting)
    table = report.table_of_pictures(scores, options.fitted)
    if scores:
        (parent / "pictures.txt").write_text(table + "\n", encoding="utf-8")
    else:
        with contextlib.suppress(OSError):
            parent.rmdir()
    say(f"\n{table}\n\nwrote {parent}/")
    return 0 if finished == len(files) else 1


def pictures_of(names: Sequence[str]) -> list[str]:
    """Files and samples, with the pictures of a folder in its place.

    Raises:
        UsageError: where a folder holds none.
    """
    files: list[str] = []
    for name in names:
        folder = Path(name)
        if folder.is_dir():
            found = sorted(f for f in folder.iterdir() if f.suffix.lower() in PICTURE_SUFFIXES)
            if not found:
                raise UsageError(f"--images {name} holds no picture")
            files += map(str, found)
        else:
            files.append(name)
    return files


def fit_stacked(jobs: Sequence[Job]) -> None:
    """Fit pictures that share their steps, those with batches of one size together."""
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        assert isinstance(job.subject, Picture)
        assert job.options.batch_size is not None
        height, width, _ = pixels_of(job.subject, job.options).colours.shape
        batch_size = min(job.options.batch_size, height * width)
        groups.setdefault(batch_size, []).append(job)
    for group in groups.values():
        for start in range(0, len(group), MOST_STACKED):
            stack = group[start : start + MOST_STACKED]
            for encoding in stack[0].options.fitted:
                fit_together(stack, encoding)


def fit_together(jobs: Sequence[Job], encoding: recipes.Encoding) -> None:
    """Fit pictures in the same steps; where that fails, each alone."""
    names = ", ".join(job.subject.name for job in jobs)
    speaker(jobs[0].options)(f"\n{encoding}: {names}")
    pixels = [
        pixels_of(job.subject, job.options) for job in jobs if isinstance(job.subject, Picture)
    ]
    if len(jobs) > 1:
        try:
            results = try_pictures(
                pixels,
                [model_of(encoding, job.options) for job in jobs],
                training_of(encoding, jobs[0].options, jobs[0].device, Nobody()),
            )
        except (FloatingPointError, RuntimeError) as error:
            reason = reason_of(error)
            print(f"note: {encoding}: {reason}; now each picture alone", file=sys.stderr)
        else:
            for job, result in zip(jobs, results, strict=True):
                job.results.append(result)
            return
    for job in jobs:
        fit_alone(job, encoding, Nobody())
