"""Before the first fit: open the data, resolve the configuration, create the run folder."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

import torch

from app.auto import choose_encodings
from app.config import RunConfig, band_warning, resolve
from app.details import versions
from app.fit_file import FitFile
from app.fit_settings import precision_for
from app.image_fit import ImageResult
from app.image_limits import require_sizes, require_small
from app.image_task import ImageTask
from app.options import Options
from app.parsing import UsageError
from app.plan import PLANNED_PIXELS, plan
from app.run_folder import RunFolder, RunState, closed_on_error, create_run_folder
from app.scene_fit import SceneResult
from app.scene_task import SceneTask
from app.sigma_search import choose_sigma
from app.stop import Stop
from app.task import Openers, Result, Task
from app.terminal import printable
from nerf_posenc.images import Image
from nerf_posenc.radiance.views import Scene, Views
from nerf_posenc.training.devices import describe
from nerf_posenc.training.system import SequenceResult


@dataclass(frozen=True)
class RunContext:
    """What runs have in common.

    Attributes:
        arguments: of the command line.
        openers: how data is opened.
        stop: what a signal asked for.
        cwd: folder that relative paths start from.
        resumed: state of the run that is resumed; None for a new one.
    """

    arguments: Sequence[str]
    openers: Openers
    stop: Stop
    cwd: str
    resumed: RunState | None = None


@dataclass
class Run(Generic[Result]):
    """A task with its configuration and its run folder.

    Attributes:
        task: what is fitted.
        config: of the run.
        options: as parsed.
        folder: of the run, created.
        context: what runs have in common.
        results: of the encodings fitted so far, without those that failed.
        batch_sizes: by encoding, of fits whose batches did not fit into memory.
    """

    task: Task[Result]
    config: RunConfig
    options: Options
    folder: RunFolder
    context: RunContext
    results: list[Result] = field(default_factory=list)
    batch_sizes: dict[str, int] = field(default_factory=dict)

    def log(self, line: str) -> None:
        """Print a line, unless ``--quiet``."""
        if not self.config.runtime.quiet:
            print(printable(line))

    def fit_file(self, encoding: str) -> FitFile:
        """Where an encoding's fit is saved."""
        about = {"name": self.task.name, "config": self.config.as_json(), "versions": versions()}
        path = self.folder.fit_path(encoding)
        return FitFile(path, seconds=self.options.save_every, about=about)


AnyRun = Run[ImageResult] | Run[SceneResult] | Run[SequenceResult]


def prepare_image(
    options: Options, device: torch.device, context: RunContext, folder: RunFolder | None = None
) -> Run[ImageResult]:
    """Open an image, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the image cannot be opened, options conflict, or the folder cannot be made.
    """
    name = "cat" if options.image is None else options.image
    whole = open_data(context, lambda: context.openers.image(name, max_pixels=options.max_pixels))
    whole = replace(whole, name=printable(whole.name), source=printable(whole.source))
    if options.size is not None:
        whole = whole.resized(options.size)
    image = split_image(whole, options)
    # Checks all options before seconds are spent on choosing sigma.
    config = resolve(options, image.resolution, device, num_pixels=image.num_pixels)
    reason = None
    if options.is_auto:
        options, reason = choose_encodings(image, options, config.training.steps)
        config = resolve(options, image.resolution, device, num_pixels=image.num_pixels)
    require_small(image, config)
    task = ImageTask(image, whole.size, config, reason)
    require_sizes(task)
    if folder is None:
        folder = create_run_folder(options.out, whole.name, overwrite=options.overwrite)
    prepared: Run[ImageResult] = Run(task, config, options, folder, context)
    with closed_on_error(folder):
        return _begin_image(prepared, task)


def _begin_image(prepared: Run[ImageResult], task: ImageTask) -> Run[ImageResult]:
    """Announce an image, choose sigma if it is asked for, and write what resumes the run."""
    options, context = prepared.options, prepared.context
    image, config = task.image, task.config
    if options.image is None:
        prepared.log("no --image, --scene or --sequence is given: the bundled photograph cat")
    announce(prepared)
    if task.reason is not None:
        prepared.log(f"auto     {task.reason}")
    warning = band_warning(config, image.resolution)
    if warning is not None and not options.quiet:
        print(f"warning: {warning}", file=sys.stderr)
    sigma = None if context.resumed is None else context.resumed.sigma
    if options.sigma == "auto" and sigma is None:
        prepared.log("choosing sigma by held-out pixels ...")
        precision = precision_for("gaussian", config)
        sigma = choose_sigma(
            image,
            config.runtime.device,
            autocast_dtype=None if precision == torch.float32 else precision,
            seed=options.seed,
        )
    if sigma is not None:
        prepared.log(f"sigma    {sigma:.2f} cycles per unit")
        config = resolve(
            options,
            image.resolution,
            config.runtime.device,
            num_pixels=image.num_pixels,
            sigma=sigma,
        )
        task = ImageTask(image, task.size, config, task.reason)
        prepared = replace(prepared, task=task, config=config)
    begin(prepared, sigma)
    if image.num_pixels > PLANNED_PIXELS and not options.quiet and options.parameters is None:
        prepared.log(plan(task))
    return prepared


def prepare_scene(
    options: Options, device: torch.device, context: RunContext, folder: RunFolder | None = None
) -> Run[SceneResult]:
    """Open a scene, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the scene cannot be opened, options conflict, or the folder cannot be made.
    """
    name, openers = options.scene or "", context.openers
    if name in openers.built_in and not Path(name).is_dir() and not options.quiet:
        print(f"rendering the built-in scene {name} ...")
    scene = open_data(
        context, lambda: openers.scene(name, size=options.size, max_pixels=options.max_pixels)
    )
    scene = _printable_scene(replace(scene, test=scene.test.subset(options.test_views)))
    config = resolve(options, max(scene.train.size), device)
    if folder is None:
        folder = create_run_folder(options.out, scene.name, overwrite=options.overwrite)
    prepared: Run[SceneResult] = Run(SceneTask(scene, config), config, options, folder, context)
    with closed_on_error(folder):
        announce(prepared)
        begin(prepared, None)
    return prepared


def open_data(context: RunContext, opener: Callable[[], Any]) -> Any:
    """Open data.

    Raises:
        UsageError: If it cannot be opened.
    """
    try:
        return opener()
    except context.openers.errors as error:
        raise UsageError(str(error)) from None


def _printable_scene(scene: Scene) -> Scene:
    def views(part: Views) -> Views:
        return replace(part, names=[printable(name) for name in part.names])

    return replace(
        scene,
        name=printable(scene.name),
        source=printable(scene.source),
        notes=tuple(printable(note) for note in scene.notes),
        train=views(scene.train),
        test=views(scene.test),
    )


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
    for line in task.summary():
        prepared.log(line)
    prepared.log(f"device   {describe(config.runtime.device)}")


def begin(prepared: AnyRun, sigma: float | None) -> None:
    """Write what resumes the run; or check that a resumed run is what it was.

    Raises:
        UsageError: If the folder cannot be written, or the data or the configuration has changed.
    """
    context, options = prepared.context, prepared.options
    # What a fit depends on; the rest of the configuration may differ.
    config = {key: prepared.config.as_json()[key] for key in ("encodings", "model", "training")}
    state = RunState(
        arguments=list(context.arguments),
        cwd=context.cwd,
        config=config,
        digest=prepared.task.digest(),
        sigma=sigma,
        is_part=bool(options.images),
    )
    before = context.resumed
    folder = prepared.folder
    if before is not None and before.digest:
        if before.digest != state.digest:
            raise UsageError(
                f"--resume {folder.path}: {prepared.task.source} has changed since the run began; "
                "begin a new one"
            )
        changed = _first_difference(before.config, _as_lists(config))
        if changed:
            raise UsageError(
                f"--resume {folder.path}: {changed}; resume it on the kind of device it was begun "
                "on (--device)"
            )
    else:
        try:
            folder.begin(state)
        except OSError as error:
            raise UsageError(f"cannot write to {folder.path}: {error.strerror}") from None
    if not options.images:
        context.stop.folder = folder.path


def _as_lists(value: Any) -> Any:
    """Plain values with lists for tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _first_difference(before: Any, now: dict[str, Any]) -> str | None:
    if not isinstance(before, dict):
        return "its configuration is damaged"
    for part, values in now.items():
        if before.get(part) == values:
            continue
        if not isinstance(values, dict) or not isinstance(before.get(part), dict):
            return f"it had {part} {before.get(part)} and would now have {values}"
        for name, value in values.items():
            if before[part].get(name) != value:
                return f"it had {name} {before[part].get(name)} and would now have {value}"
    return None
