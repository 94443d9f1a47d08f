"""Before the first fit of a sequence: open the data, build the system, create the run folder."""

import torch

from app.data import open_data
from app.options import Options
from app.prepare import Run, RunContext, announce, begin
from app.run_folder import RunFolder, closed_on_error, create_run_folder
from app.sequence_config import resolve_sequence, system_options
from app.sequence_task import SequenceTask
from app.terminal import printable
from nerf_posenc.training.system import SequenceResult


def prepare_sequence(
    options: Options, device: torch.device, context: RunContext, folder: RunFolder | None = None
) -> Run[SequenceResult]:
    """Open a sequence, resolve the configuration and create the run folder.

    Raises:
        UsageError: If the data cannot be opened, does not suit the model, options conflict, or the
            folder cannot be made.
    """
    name, asked = options.sequences.sequence or "", system_options(options)
    system = open_data(context.openers, lambda: context.openers.sequence(name, asked))
    config = resolve_sequence(options, system, device)
    if folder is None:
        folder = create_run_folder(options.out, printable(system.name), overwrite=options.overwrite)
    task = SequenceTask(system, config)
    prepared: Run[SequenceResult] = Run(task, config, options, folder, context)
    with closed_on_error(folder):
        announce(prepared)
        begin(prepared, None)
    return prepared
