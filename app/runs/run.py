"""One run: open the data, fit it with one encoding after the other, write the run folder."""

import contextlib
import shlex
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import report
from app.details import run_details
from app.failures import failure_reason, is_out_of_memory
from app.options import Options
from app.parsing import PROGRAM
from app.prepare import AnyRun, Run, RunContext, prepare_image, prepare_scene
from app.prepare_sequence import prepare_sequence
from app.processes import command_words, require_distributable, require_own_gpu
from app.report.metrics_file import METRICS
from app.report.outputs import REPORT
from app.run_folder import RunFolder
from app.runtime_config import resolve_device
from app.task import FitControl, Viewer
from app.terminal import printable
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.results import FitResult


def run(options: Options, context: RunContext, folder: RunFolder | None = None) -> bool:
    """Fit every encoding and write the run folder.

    Args:
        options: as parsed.
        context: what runs have in common.
        folder: of the run to be resumed; None for a new one.

    Returns:
        Whether every encoding was fitted.

    Raises:
        SaveError: If a fit or the run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If the data cannot be opened, or options conflict.
    """
    world = context.world
    require_distributable(options, world)
    world.broadcast(options)
    device = resolve_device(options)
    require_own_gpu(device, world)
    with contextlib.ExitStack() as stack:
        prepared: AnyRun
        if options.is_sequence:
            prepared = prepare_sequence(options, device, context, folder)
        elif options.is_scene:
            prepared = prepare_scene(options, device, context, folder)
        else:
            prepared = prepare_image(options, device, context, folder)
        stack.callback(prepared.folder.close)
        world.broadcast((prepared.config, prepared.folder.path))
        fit_encodings(prepared)
        world.broadcast(None)
        return finish(prepared)


def fit_encodings(prepared: AnyRun) -> None:
    """Fit with one encoding after the other; fits that are only to be evaluated come last."""
    encodings = prepared.config.encodings
    with contextlib.ExitStack() as stack:
        viewer: Viewer | None = None
        if prepared.config.runtime.live:
            viewer = page = prepared.task.open_viewer()
            stack.callback(page.close)
            print(f"live     {page.url}", flush=True)
        for encoding in sorted(encodings, key=lambda name: prepared.fit_file(name).is_complete()):
            fit_one(prepared, encoding, viewer)
    prepared.results.sort(key=lambda result: encodings.index(result.encoding))


def fit_one(prepared: Run[Any], encoding: str, viewer: Viewer | None = None) -> None:
    """Fit with one encoding; if that fails, print why and go on.

    Raises:
        SaveError: If the fit cannot be saved.
        Stopped: If the run was asked to end.
    """
    stop, fit_file = prepared.context.stop, prepared.fit_file(encoding)
    world = prepared.context.world
    control = FitControl(stop, viewer, fit_file, fit_file.saved_batch_size(), world)
    saved = fit_file.saved_steps()
    if saved is not None:
        of = f" of {saved[1]}" if prepared.config.training.seconds is None else ""
        prepared.log(f"{encoding} goes on at step {saved[0]}{of}")
    try:
        result, control = _fit_in_memory(prepared, encoding, control)
    except (FloatingPointError, RuntimeError, MemoryError, CheckpointError) as error:
        if world.size > 1 and not isinstance(error, FloatingPointError | CheckpointError):
            # The other processes do not have it, and wait in the middle of a step.
            raise
        print(printable(f"{PROGRAM}: error: {encoding}: {failure_reason(error)}"), file=sys.stderr)
        return
    prepared.results.append(result)
    if control.batch_size is not None:
        prepared.batch_sizes[encoding] = control.batch_size
    training = prepared.config.training
    if not result.has_all_steps(training.steps, training.seconds):
        of = f" of {training.steps}" if training.seconds is None else ""
        prepared.log(
            f"stopped {encoding} at step {result.steps}{of}; press "
            f"again to quit; resume with: {resume_command(stop.folder or prepared.folder.path)}"
        )


def _fit_in_memory(
    prepared: Run[Any], encoding: str, control: FitControl
) -> tuple[FitResult, FitControl]:
    """Fit; if the batches are too large for the memory, once more with half of them."""
    world = prepared.context.world
    world.broadcast((encoding, control.batch_size))
    try:
        return prepared.task.fit(encoding, control), control
    except (RuntimeError, MemoryError) as error:
        batch_size = prepared.config.training.batch_size
        cannot_halve = batch_size < 2 or control.batch_size is not None or world.size > 1
        if not is_out_of_memory(error) or cannot_halve:
            raise
        print(
            f"{PROGRAM}: warning: {encoding}: out of memory with batches of {batch_size}; once "
            f"more with {batch_size // 2}",
            file=sys.stderr,
        )
    control = replace(control, batch_size=batch_size // 2)
    return prepared.task.fit(encoding, control), control


def resume_command(folder: Path) -> str:
    """Command that goes on with a run."""
    return shlex.join([*command_words(), "--resume", str(folder)])


def finish(prepared: Run[Any]) -> bool:
    """Write the run folder and print the table; return whether every encoding was fitted.

    Raises:
        SaveError: If the run folder cannot be written.
    """
    task, results = prepared.task, prepared.results
    if not results:
        return False
    details = run_details(
        task,
        replace(prepared.options, out=prepared.folder.path),
        prepared.config,
        prepared.context.arguments,
        prepared.batch_sizes,
    )
    shown = [*results, *task.references()]
    with prepared.folder.publishing() as folder:
        task.write_report(folder, shown, details)
        report.write_metrics(folder / METRICS, shown, details, task.measures)
    prepared.log(f"\n{report.table(shown, task.measures)}\n")
    for note in task.notes(shown):
        prepared.log(f"note: {note}")
    prepared.log(f"wrote {prepared.folder.path}/; open {prepared.folder.path / REPORT}")
    if prepared.options.open and not webbrowser.open(
        (prepared.folder.path / REPORT).resolve().as_uri()
    ):
        print("note: --open found no browser", file=sys.stderr)
    return len(results) == len(prepared.config.encodings)
