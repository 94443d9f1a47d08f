"""``train_fit.py --resume RUN``: go on with a run that was interrupted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.options import Options, parse
from app.parsing import UsageError, read_options
from app.prepare import RunContext
from app.report import read_metrics
from app.report.outputs import REPORT
from app.run import run
from app.run_folder import RunState, open_run_folder
from app.run_many import run_many
from app.terminal import printable


@dataclass(frozen=True)
class ResumeOptions:
    """Go on with a run that was interrupted, with the options that it was begun with."""

    resume: Path
    """Run folder."""

    save_every: float | None = None
    """Seconds between two saves of a fit; None as before."""

    device: str | None = None
    """Where to compute; None as before."""

    live: bool = False
    """Show the fits in progress on a page at 127.0.0.1."""

    quiet: bool = False
    """Print errors only."""


def resume(arguments: Sequence[str], context: RunContext) -> bool:
    """Go on with all that is missing in a run; return whether every fit is complete.

    Raises:
        SaveError: If a fit or the run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If there is no such run, or its data has changed.
    """
    try:
        asked = read_options(ResumeOptions, arguments)
    except UsageError as error:
        raise UsageError(f"{error}; --resume takes the options of the run") from None
    if asked.save_every is not None and not 0 < asked.save_every < math.inf:
        raise UsageError(
            f"--save-every must be a finite number of seconds above 0; got {asked.save_every}"
        )
    folder, state = open_run_folder(asked.resume)
    try:
        if state.is_part:
            raise UsageError(
                f"--resume {asked.resume}: it is one of several images; resume "
                f"{asked.resume.resolve().parent}"
            )
        options = _options(asked, state)
        context = replace(context, arguments=state.arguments, cwd=state.cwd, resumed=state)
        context.stop.folder = asked.resume
        if not options.images and _is_complete(asked.resume, state):
            if not options.quiet:
                print(printable(f"{asked.resume} is complete: nothing is missing"))
            context.world.broadcast(None)
            return True
        if options.images:
            return run_many(options, context, folder)
        return run(options, context, folder)
    finally:
        folder.close()


def _is_complete(folder: Path, state: RunState) -> bool:
    """Whether a run has its report and its checkpoints, with every fit complete."""
    try:
        encodings = [str(name) for name in state.config["encodings"]]
        complete = set(read_metrics(folder).complete_fits()) == set(encodings)
        files = [f"fits/{name}.safetensors" for name in encodings]
        return complete and all((folder / file).exists() for file in (REPORT, *files))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _options(asked: ResumeOptions, state: RunState) -> Options:
    """Options of the run, with paths that are found from this folder."""
    try:
        options = parse(state.arguments)
    except UsageError as error:
        raise UsageError(f"--resume {asked.resume}: {error}") from None
    return replace(
        options,
        image=_found(options.image, state.cwd),
        images=options.images and tuple(str(_found(n, state.cwd)) for n in options.images),
        scene=_found(options.scene, state.cwd),
        sequences=replace(
            options.sequences, sequence=_found(options.sequences.sequence, state.cwd)
        ),
        out=asked.resume,
        overwrite=False,
        save_every=options.save_every if asked.save_every is None else asked.save_every,
        device=options.device if asked.device is None else asked.device,
        live=asked.live,
        quiet=asked.quiet,
    )


def _found(name: str | None, cwd: str) -> str | None:
    """Path of data from this folder, if it is a path from the run's."""
    if name is None or Path(cwd) == Path.cwd():
        return name
    path = Path(cwd) / name
    return str(path) if path.exists() else name
