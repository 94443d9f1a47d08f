"""``--tensorboard``: fits in progress as scalars and images of TensorBoard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nerf_posenc.training.loop import FitState
from nerf_posenc_app.kinds.kind import Problem
from nerf_posenc_app.runs.folder import short_name
from nerf_posenc_app.runs.train import Watcher
from nerf_posenc_app.terminal import warning_once
from nerf_posenc_app.values.measures import TrainingScore

# Images are written each time a fit is half as long again, about twenty times.
_GROWTH = 1.5


@contextmanager
def tensorboard_log(folder: Callable[[str], Path], score: TrainingScore) -> Iterator[Watcher]:
    """Write what a watcher is shown: the score of the batches, the learning rate, the previews.

    Args:
        folder: function that creates the folder of a fit by its name.
        score: score of the batches.
    """
    # Imported here since only --tensorboard needs it.
    from torch.utils.tensorboard import SummaryWriter

    writers: dict[str, SummaryWriter] = {}
    next_images: dict[str, float] = {}

    def show(name: str, state: FitState, problem: Problem) -> None:
        if name not in writers:
            writers[name] = SummaryWriter(str(folder(short_name(name))))
        writer, step = writers[name], state.step
        record = state.history[-1]
        writer.add_scalar(f"batches/{score.measure.name}", score.score_from_loss(record.loss), step)
        rate = float(problem.optimizer.optimizers[0].param_groups[0]["lr"])
        writer.add_scalar("learning_rate", rate, step)
        writer.add_scalar("seconds", record.seconds, step)
        if step >= next_images.get(name, 0):
            next_images[name] = _GROWTH * step
            for i, image in enumerate(problem.preview()):
                writer.add_image(f"preview/{i}", image.clamp(0, 1), step, dataformats="HWC")
        # Flushed, so that a killed run keeps its logs.
        writer.flush()

    try:
        yield show
    finally:
        for writer in writers.values():
            warning_once(writer.close, "TensorBoard log")()
