"""The part in a run of the ranks above 0: they fit with rank 0, and neither write nor print.

Rank 0 runs as if it were alone. It sends the others its options, then the configuration, then each
fit as it begins; they open the data themselves.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from app.config import FieldRunConfig
from app.data import open_image_data, open_scene_data
from app.digest import digest_of_image, digest_of_scene
from app.field_task import FieldTask
from app.image_task import ImageTask
from app.options import Options
from app.parsing import UsageError
from app.prepare import RunContext
from app.processes import report_error, require_own_gpu, require_same_data
from app.run_many import fit_dealt_images
from app.runtime_config import resolve_device
from app.scene_task import SceneTask
from app.task import FitControl
from nerf_posenc.training.checkpoints import CheckpointError


def follow(context: RunContext) -> None:
    """Take part in the run of rank 0, as another rank.

    Raises:
        PeerError: If another process has ended.
        SaveError: If the run of an image cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If a rank cannot take part, or sees other data than rank 0.
    """
    options = context.world.broadcast()
    if options is None:
        return
    options = replace(options, quiet=True, live=False, open=False)
    if options.images:
        fit_dealt_images(options, context)
        return
    make_task = _open_task(options, context)
    config, context.stop.folder = context.world.broadcast()
    task = make_task(config)
    while (fit := context.world.broadcast()) is not None:
        encoding, batch_size = fit
        control = FitControl(context.stop, batch_size=batch_size, world=context.world)
        try:
            task.train(encoding, control)
        except (FloatingPointError, CheckpointError):
            # All ranks have it at the same step; rank 0 prints it and goes on.
            continue


def _open_task(options: Options, context: RunContext) -> Callable[[FieldRunConfig], FieldTask]:
    """Open the data, and compare it with that of all ranks.

    Returns:
        From the configuration of rank 0 to the task.
    """
    world = context.world
    make_task: Callable[[FieldRunConfig], FieldTask]
    try:
        device = resolve_device(options)
        require_own_gpu(device, world)
        if options.is_scene:
            scene = open_scene_data(options, context.openers)
            source, digest = scene.source, partial(digest_of_scene, scene)
            make_task = partial(SceneTask, scene)
        else:
            whole, image = open_image_data(options, context.openers)
            source, digest = image.source, partial(digest_of_image, image)
            make_task = partial(ImageTask, image, whole.size)
    except UsageError as error:
        report_error(world, str(error))
        raise
    require_same_data(world, source, digest)

    def own_task(config: FieldRunConfig) -> FieldTask:
        runtime = replace(config.runtime, device=device, quiet=True, live=False)
        return make_task(replace(config, runtime=runtime))

    return own_task
