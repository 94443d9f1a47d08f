"""Before the first fit: open the data, resolve the configuration, create the run folder."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import torch

from app.auto import choose_encodings
from app.config import RunConfig, band_warning, resolve
from app.data import open_image_data, open_scene_data
from app.details import versions
from app.digest import digest_of_image, digest_of_scene
from app.fit_file import FitFile
from app.fit_settings import precision_for
from app.image_fit import ImageResult
from app.image_limits import require_sizes, require_small
from app.image_task import ImageTask
from app.options import Options
from app.parsing import UsageError
from app.plan import PLANNED_PIXELS, plan
from app.processes import require_rows, require_same_data
from app.run_folder import RunFolder, RunState, closed_on_error, create_run_folder
from app.scene_config import resolve_scene
from app.scene_fit import SceneResult
from app.scene_task import SceneTask
from app.sigma_search import choose_sigma
from app.stop import Stop
from app.task import Openers, Result, Task
from app.terminal import printable
from nerf_posenc.training.devices import describe
from nerf_posenc.training.distributed import ALONE, World
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
        world: the processes that run the program together.
    """

    arguments: Sequence[str]
    openers: Openers
    stop: Stop
    cwd: str
    resumed: RunState | None = None
    world: World = ALONE


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
    whole, image = open_image_data(options, context.openers)
    require_same_data(context.world, image.source, lambda: digest_of_image(image))
    # Checks all options before seconds are spent on choosing sigma.
    config = resolve(options, image.resolution, device, num_pixels=image.num_pixels)
    reason = None
    if options.is_auto:
        options, reason = choose_encodings(image, options, config.training.steps)
        config = resolve(options, image.resolution, device, num_pixels=image.num_pixels)
    require_small(image, config)
    require_rows(config, image.num_pixels, context.world)
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
    is_planned = options.parameters is None and context.world.size == 1
    if image.num_pixels > PLANNED_PIXELS and not options.quiet and is_planned:
        prepared.log(plan(task))
    return prepared


def prepare_scene(
    options: Options, device: torch.device, context: RunContext, folder: RunFolder | None = None
) -> Run[SceneResult]:
    """Open a scene, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the scene cannot be opened, options conflict, or the folder cannot be made.
    """
    scene = open_scene_data(options, context.openers)
    require_same_data(context.world, scene.source, lambda: digest_of_scene(scene))
    config = resolve_scene(options, scene, device)
    require_rows(config, config.training.batch_size, context.world)
    if folder is None:
        folder = create_run_folder(options.out, scene.name, overwrite=options.overwrite)
    prepared: Run[SceneResult] = Run(SceneTask(scene, config), config, options, folder, context)
    with closed_on_error(folder):
        announce(prepared)
        begin(prepared, None)
    return prepared


def announce(prepared: AnyRun) -> None:
    """Print what is about to be fitted."""
    task, config = prepared.task, prepared.config
    for line in task.summary():
        prepared.log(line)
    size = prepared.context.world.size
    processes = "" if size == 1 else f", {size} processes"
    prepared.log(f"device   {describe(config.runtime.device)}{processes}")


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
