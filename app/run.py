"""Runs: what is fitted, one encoding after the other, and the folder that is left."""

import contextlib
import platform
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nerf_posenc
from app import report
from app.config import (
    behind,
    device_of,
    model_of,
    pixels_of,
    precision_of,
    rate_of,
    resolve,
    sigma_given,
    sigma_of,
    training_of,
    warn_of_bands,
)
from app.image_task import try_picture
from app.options import PROGRAM, Options, UsageError
from app.preview import filmed_truth, sampled_windows
from app.progress import Audience, Nobody
from app.report.viewer import LivePage
from app.scene_task import try_scene
from nerf_posenc.metrics.image import psnr
from nerf_posenc.radiance.recipes import FieldOptions
from nerf_posenc.training import recipes
from nerf_posenc.training.devices import describe
from scenes import BUILT_IN, Picture, Scene, open_picture, open_scene

# A fit this little above one constant colour has not learned the picture.
COLLAPSED_DB = 0.5


@dataclass
class Job:
    """A picture or a scene to be fitted.

    Attributes:
        subject: what is fitted.
        options: resolved.
        device: where to compute.
        folder: of the run, made.
        results: of the encodings fitted so far, but for those that failed.
    """

    subject: Picture | Scene
    options: Options
    device: torch.device
    folder: Path
    results: list[report.FitResult] = field(default_factory=list)


def run(options: Options, arguments: Sequence[str]) -> list[report.FitResult]:
    """Fit what was asked for and write the run folder; return the fits that did not fail."""
    job = prepare(options, device_of(options))
    fit_encodings(job)
    return finish(job, arguments)


def prepare(options: Options, device: torch.device) -> Job:
    """Open what is to be fitted, settle what was left to the program and make the run folder.

    Raises:
        UsageError: where options do not go together, or the folder cannot be made.
        SceneError: where there is nothing to open.
    """
    say = speaker(options)
    subject = open_subject(options, say)
    size = subject.size if isinstance(subject, Picture) else subject.train.size
    pixels = pixels_of(subject, options) if isinstance(subject, Picture) else None
    resolve(options, pixels.resolution if pixels else max(size), device)
    folder = run_folder(options, subject.name)
    say(f"{kind_of(subject):8} {subject.source}, {size[0]} x {size[1]}")
    if isinstance(subject, Scene):
        say(f"views    {len(subject.train)} to fit, {len(subject.test)} to measure by")
        for note in subject.notes:
            say(f"note: {note}")
    if pixels and pixels.held_out:
        fitted, measured = (each.colours[..., 0].numel() for each in (pixels, pixels.measured))
        say(f"pixels   {fitted:,} to fit, {measured:,} between them to measure by")
    say(f"device   {describe(device)}")
    if pixels and not options.quiet and "fourier" in options.fitted:
        assert options.bands is not None
        warn_of_bands(options.bands, pixels.resolution)
    if pixels and options.sigma == "auto":
        say("choosing sigma by held-out pixels ...")
        options.sigma = sigma_of(pixels, options, device)
        say(f"sigma    {options.sigma:.2f} cycles per unit")
    return Job(subject, options, device, folder)


def fit_encodings(job: Job) -> None:
    """Fit with one encoding after the other."""
    with contextlib.ExitStack() as stack:
        audience: Audience = Nobody()
        if job.options.live:
            audience = page = stack.enter_context(live_page(job.subject, job.options, job.device))
            print(f"live     {page.url}", flush=True)
        for encoding in job.options.fitted:
            fit_alone(job, encoding, audience)


def fit_alone(job: Job, encoding: recipes.Encoding, audience: Audience) -> None:
    """Fit with one encoding; where that fails, say so and go on."""
    try:
        job.results.append(fit_one(job, encoding, audience))
    except (FloatingPointError, RuntimeError) as error:
        print(f"{PROGRAM}: error: {encoding}: {reason_of(error)}", file=sys.stderr)


def reason_of(error: Exception) -> str:
    """Why a fit failed, and what to change.

    Raises:
        Exception: the error itself, where nothing that was asked for explains it.
    """
    if isinstance(error, FloatingPointError):
        return f"{error} (--lr)"
    if isinstance(error, torch.OutOfMemoryError):
        return "out of memory; use --batch-size"
    # By name, since to import these errors takes a second.
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return f"{str(error).strip().splitlines()[0]} (leave out --compile)"
    raise error


def fit_one(job: Job, encoding: recipes.Encoding, audience: Audience) -> report.FitResult:
    """Fit the picture or the scene with one encoding."""
    subject, options = job.subject, job.options
    training = training_of(encoding, options, job.device, audience)
    if isinstance(subject, Picture):
        return try_picture(pixels_of(subject, options), model_of(encoding, options), training)
    assert options.bands is not None
    scene_field = FieldOptions(
        options.field,
        encoding,
        num_bands=options.bands,
        sigma=sigma_given(options),
        width=options.width,
        depth=options.depth,
        seed=options.seed,
    )
    try:
        return try_scene(
            subject.train,
            subject.test,
            scene_field,
            training,
            background=options.background,
            film=job.folder / f"turntable_{encoding}" if options.turntable else None,
            num_frames=options.turntable,
        )
    except ValueError as error:
        raise UsageError(f"--scene {options.scene}: {error}") from None


def finish(job: Job, arguments: Sequence[str]) -> list[report.FitResult]:
    """Write the run folder and say what came of it; return the fits that did not fail."""
    subject, options, folder, results = job.subject, job.options, job.folder, job.results
    if not results:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return []
    size = subject.size if isinstance(subject, Picture) else subject.train.size
    run_details = {
        "command": shlex.join(["python", PROGRAM, *arguments]),
        "options": {**asdict(options), "out": str(folder)},
        kind_of(subject): {"name": subject.name, "source": subject.source, "size": size},
        "device": describe(job.device),
        "training": {
            encoding: {
                "rate": rate_of(encoding, options),
                "precision": str(precision_of(encoding, options, job.device)).removeprefix(
                    "torch."
                ),
            }
            for encoding in options.fitted
        },
        "versions": {
            "nerf_posenc": nerf_posenc.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }
    truth = write_run(folder, subject, results, options, run_details)
    say = speaker(options)
    say(f"\n{report.table(results)}\n")
    for note in notes(results, options, flat_psnr(truth)):
        say(f"note: {note}")
    for file in sorted(folder.iterdir()):
        say(f"wrote {file}{'/' if file.is_dir() else ''}")
    return results


def open_subject(options: Options, say: Callable[[str], None]) -> Picture | Scene:
    """Open what is to be fitted, in the size that was asked for."""
    if options.scene is None:
        options.image = options.image or "cat"
        picture = open_picture(options.image)
        return picture if options.size is None else picture.resized(options.size)
    if options.scene in BUILT_IN and not Path(options.scene).is_dir():
        say(f"rendering the built-in scene {options.scene} ...")
    scene = open_scene(options.scene, size=options.size)
    return replace(scene, test=scene.test.subset(options.test_views))


def kind_of(subject: Picture | Scene) -> str:
    """What it is called."""
    return "picture" if isinstance(subject, Picture) else "scene"


def run_folder(options: Options, name: str) -> Path:
    """Make the run folder.

    Raises:
        UsageError: where it cannot be made or written, or holds files already.
    """
    try:
        return report.make_run_folder(options.out, name, overwrite=options.overwrite)
    except FileExistsError as error:
        if options.out is not None and options.out.is_dir():
            raise UsageError(f"--out {error}; name another folder or add --overwrite") from None
        raise UsageError(f"--out {options.out} is a file; name a folder") from None
    except OSError as error:
        place = options.out or "runs"
        raise UsageError(
            f"cannot write to the folder {place}: {error.strerror}; use --out"
        ) from None


def live_page(subject: Picture | Scene, options: Options, device: torch.device) -> LivePage:
    """Page that shows the fits of a picture or a scene."""
    if isinstance(subject, Picture):
        truth = pixels_of(subject, options).measured.colours
        whole, _ = sampled_windows(truth, truth)
        return LivePage(subject.name, original=whole)
    pixels = 96**2 if device.type == "cpu" else 512**2
    return LivePage(subject.name, poses=subject.train.world_from_camera, pixels=pixels)


def speaker(options: Options) -> Callable[[str], None]:
    """What prints a line, but for ``--quiet``."""
    return (lambda line: None) if options.quiet else print


def write_run(
    folder: Path,
    subject: Picture | Scene,
    results: Sequence[report.FitResult],
    options: Options,
    run_details: dict[str, Any],
) -> Tensor:
    """Write all that the run folder holds; return what the fits were measured by."""
    report.write_metrics(folder / "metrics.json", results, run_details)
    if isinstance(subject, Picture):
        pictures = [r for r in results if isinstance(r, report.PictureResult)]
        truth = pixels_of(subject, options).measured.colours
        report.write_picture_run(folder, truth, pictures, figures=options.figures)
        shown = report.shown_picture(subject.name, truth, pictures)
        filmed = sampled_windows(truth, truth)
        films = {}
    else:
        fields = [r for r in results if isinstance(r, report.SceneResult)]
        truth = subject.test.over(behind(options))
        report.write_scene_run(folder, truth, fields, figures=options.figures)
        shown = report.shown_views(truth, fields)
        films = {r.encoding: r.film for r in fields if r.film is not None}
        filmed = [filmed_truth(subject.test, behind(options))]
    learning = report.write_film(folder / "learning", filmed, results)
    report.write_page(
        folder / "report.html",
        subject.name,
        shown,
        results,
        run_details,
        films=films,
        learning=learning,
    )
    return truth


def notes(results: Sequence[report.FitResult], options: Options, flat_db: float) -> Iterator[str]:
    """What a person should know who reads the table."""
    for result in results:
        if result.steps < (options.steps or 0):
            taken = f"{result.steps} of {options.steps} steps"
            yield f"{result.encoding} was ended early, after {taken}"
        elif result.psnr < flat_db + COLLAPSED_DB:
            yield (
                f"{result.encoding} stayed at one constant colour ({flat_db:.1f} dB); try more "
                "--steps, another --seed or a smaller --lr"
            )


def flat_psnr(truth: Tensor) -> float:
    """PSNR of one constant colour, the mean."""
    return psnr(truth.flatten(0, -2).mean(0).expand_as(truth), truth)
