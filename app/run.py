"""One run: open the data, fit it with one encoding after the other, write the run folder."""

import contextlib
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch

import nerf_posenc
from app import report
from app.config import RunConfig, band_warning, resolve, resolve_device
from app.fit_settings import lr_for, precision_for
from app.image_fit import ImageResult
from app.image_task import ImageTask
from app.options import PROGRAM, Options, UsageError
from app.scene_fit import SceneResult
from app.scene_task import SceneTask
from app.sigma_search import choose_sigma
from app.task import Interruptible, Openers, Result, Task, Viewer
from nerf_posenc.images import Image
from nerf_posenc.metrics.image import psnr
from nerf_posenc.training.devices import describe
from nerf_posenc.training.results import FitResult

# A fit this little above one constant color has not learned the image.
COLLAPSED_DB = 0.5


@dataclass
class Run(Generic[Result]):
    """A task with its configuration and its run folder.

    Attributes:
        task: what is fitted.
        config: of the run.
        options: as parsed.
        folder: of the run, created.
        interruptible: makes a context in which Ctrl-C sets an event that ends a fit early.
        results: of the encodings fitted so far, without those that failed.
    """

    task: Task[Result]
    config: RunConfig
    options: Options
    folder: Path
    interruptible: Interruptible
    results: list[Result] = field(default_factory=list)

    def log(self, line: str) -> None:
        """Print a line, unless ``--quiet``."""
        if not self.config.runtime.quiet:
            print(line)


AnyRun = Run[ImageResult] | Run[SceneResult]


def run(
    options: Options, arguments: Sequence[str], openers: Openers, interruptible: Interruptible
) -> Sequence[FitResult]:
    """Fit every encoding and write the run folder; return the fits that did not fail."""
    device = resolve_device(options)
    prepared: AnyRun
    if options.is_scene:
        prepared = prepare_scene(options, device, openers, interruptible)
    else:
        prepared = prepare_image(options, device, openers, interruptible)
    fit_encodings(prepared)
    return finish(prepared, arguments)


def prepare_image(
    options: Options, device: torch.device, openers: Openers, interruptible: Interruptible
) -> Run[ImageResult]:
    """Open an image, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the image cannot be opened, options conflict, or the folder cannot be made.
    """
    whole = _open(openers, lambda: openers.image(options.image or "cat"))
    if options.size is not None:
        whole = whole.resized(options.size)
    image = split_image(whole, options)
    # Checks all options before seconds are spent on choosing sigma.
    config = resolve(options, image.resolution, device)
    folder = make_run_folder(options, whole.name)
    prepared = Run(ImageTask(image, whole.size, config), config, options, folder, interruptible)
    announce(prepared)
    warning = band_warning(config, image.resolution)
    if warning is not None and not options.quiet:
        print(f"warning: {warning}", file=sys.stderr)
    if options.sigma == "auto":
        prepared.log("choosing sigma by held-out pixels ...")
        precision = precision_for("gaussian", config)
        sigma = choose_sigma(
            image,
            device,
            autocast_dtype=None if precision == torch.float32 else precision,
            seed=options.seed,
        )
        prepared.log(f"sigma    {sigma:.2f} cycles per unit")
        config = resolve(options, image.resolution, device, sigma=sigma)
        task = ImageTask(image, whole.size, config)
        prepared = replace(prepared, task=task, config=config)
    return prepared


def prepare_scene(
    options: Options, device: torch.device, openers: Openers, interruptible: Interruptible
) -> Run[SceneResult]:
    """Open a scene, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the scene cannot be opened, options conflict, or the folder cannot be made.
    """
    name = options.scene or ""
    if name in openers.built_in and not Path(name).is_dir() and not options.quiet:
        print(f"rendering the built-in scene {name} ...")
    scene = _open(openers, lambda: openers.scene(name, size=options.size))
    scene = replace(scene, test=scene.test.subset(options.test_views))
    config = resolve(options, max(scene.train.size), device)
    folder = make_run_folder(options, scene.name)
    prepared = Run(SceneTask(scene, config), config, options, folder, interruptible)
    announce(prepared)
    return prepared


def _open(openers: Openers, open_data: Any) -> Any:
    try:
        return open_data()
    except openers.error as error:
        raise UsageError(str(error)) from None


def split_image(image: Image, options: Options) -> Image:
    """Hold pixels out if the options say so.

    Raises:
        UsageError: If the image has none to hold out.
    """
    try:
        return image.split_held_out() if options.held_out else image
    except ValueError as error:
        raise UsageError(f"--held-out: {image.source}: {error}") from None


def announce(prepared: AnyRun) -> None:
    """Print what is about to be fitted."""
    task, config = prepared.task, prepared.config
    prepared.log(f"{task.kind:8} {task.source}, {task.size[0]} x {task.size[1]}")
    for line in task.summary():
        prepared.log(line)
    prepared.log(f"device   {describe(config.runtime.device)}")


def fit_encodings(prepared: AnyRun) -> None:
    """Fit with one encoding after the other."""
    with contextlib.ExitStack() as stack:
        viewer: Viewer | None = None
        if prepared.config.runtime.live:
            viewer = page = prepared.task.open_viewer()
            stack.callback(page.close)
            print(f"live     {page.url}", flush=True)
        for encoding in prepared.config.encodings:
            fit_one(prepared, encoding, viewer)


def fit_one(prepared: Run[Any], encoding: str, viewer: Viewer | None = None) -> None:
    """Fit with one encoding; if that fails, print why and go on."""
    try:
        with prepared.interruptible() as stop:
            result = prepared.task.fit(encoding, stop=stop, viewer=viewer)
    except (FloatingPointError, RuntimeError) as error:
        print(f"{PROGRAM}: error: {encoding}: {failure_reason(error)}", file=sys.stderr)
    else:
        prepared.results.append(result)


def failure_reason(error: Exception) -> str:
    """Explain why a fit failed, and what to change.

    Raises:
        Exception: The error itself, if no option explains it.
    """
    if isinstance(error, FloatingPointError):
        return f"{error} (--lr)"
    # On a CPU torch raises a plain RuntimeError.
    if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
        return "out of memory; use a smaller --batch-size, --width or --size"
    # By name, since importing these errors takes a second.
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return f"{str(error).strip().splitlines()[0]} (leave out --compile)"
    raise error


def finish(prepared: Run[Any], arguments: Sequence[str]) -> Sequence[FitResult]:
    """Write the run folder and print the table; return the fits that did not fail."""
    task, folder, results = prepared.task, prepared.folder, prepared.results
    if not results:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return []
    details = run_details(prepared, arguments)
    report.write_metrics(folder / "metrics.json", results, details)
    turntables = task.write(folder, results)
    training_video = report.write_training_video(folder / "learning", task.preview_truth(), results)
    report.write_page(
        folder / "report.html",
        task.name,
        task.panels(results),
        results,
        details,
        turntables=turntables,
        training_video=training_video,
    )
    prepared.log(f"\n{report.table(results)}\n")
    for note in notes(results, prepared.config, _flat_psnr(task)):
        prepared.log(f"note: {note}")
    for file in sorted(folder.iterdir()):
        prepared.log(f"wrote {file}{'/' if file.is_dir() else ''}")
    return results


def run_details(prepared: Run[Any], arguments: Sequence[str]) -> dict[str, Any]:
    """Everything that reproduces a run: command, options, configuration, data and versions."""
    task, options = prepared.task, prepared.options
    return {
        "command": shlex.join(["python", PROGRAM, *arguments]),
        "options": {**asdict(options), "out": str(prepared.folder)},
        "config": prepared.config.as_json(),
        "fits_with": {
            encoding: {
                "lr": lr_for(encoding, prepared.config),
                "precision": str(precision_for(encoding, prepared.config)).removeprefix("torch."),
            }
            for encoding in prepared.config.encodings
        },
        task.kind: {"name": task.name, "source": task.source, "size": task.size},
        "versions": {
            "nerf_posenc": nerf_posenc.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


def make_run_folder(options: Options, name: str) -> Path:
    """Create the run folder.

    Raises:
        UsageError: If it cannot be created or written, or already contains files.
    """
    try:
        return report.make_run_folder(options.out, name, overwrite=options.overwrite)
    except FileExistsError as error:
        if options.out is not None and options.out.is_dir():
            raise UsageError(f"--out {error}; name another folder or add --overwrite") from None
        raise UsageError(f"--out {options.out} is a file; name a folder") from None
    except OSError as error:
        folder = options.out or "runs"
        raise UsageError(
            f"cannot write to the folder {folder}: {error.strerror}; use --out"
        ) from None


def notes(results: Sequence[FitResult], config: RunConfig, flat_db: float) -> Iterator[str]:
    """Remarks that a reader of the table should know."""
    for result in results:
        if result.steps < config.training.steps:
            taken = f"{result.steps} of {config.training.steps} steps"
            yield f"{result.encoding} was ended early, after {taken}"
        elif result.psnr < flat_db + COLLAPSED_DB:
            yield (
                f"{result.encoding} stayed at one constant color ({flat_db:.1f} dB); try more "
                "--steps, another --seed or a smaller --lr"
            )


def _flat_psnr(task: Task[Any]) -> float:
    """PSNR of one constant color, the mean."""
    truth = task.truth()
    return psnr(truth.flatten(0, -2).mean(0).expand_as(truth), truth)
