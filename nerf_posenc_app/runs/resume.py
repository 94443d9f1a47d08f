"""Continue an interrupted run with the options that its folder holds."""

import contextlib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc_app.in_memory import InMemory, file_options
from nerf_posenc_app.json_values import from_json
from nerf_posenc_app.kinds import KINDS, require_installed
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, Seconds, UsageError
from nerf_posenc_app.own_encodings import imported, require_same_files
from nerf_posenc_app.runs.folder import REPORT, RunFolder, open_run_folder
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.saved import DATA, FIT_SUFFIX, FITS, RunState, read_metrics
from nerf_posenc_app.terminal import say
from nerf_posenc_app.values.names import file_stem


def options_of_resume(
    resume: Path,
    *,
    encodings: tuple[str, ...] = (),
    save_every: Seconds = None,
    device: str | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Continue an interrupted run with the options that it was started with.

    Args:
        resume: Run folder to continue.
        encodings: FILE.py:CLASS of each encoding of your own; its code runs only if you name it.
        save_every: Seconds between two saves of a fit (default: as before).
        device: Device to compute on (default: as before).
        quiet: Print errors only.
    """
    return locals()


def resumed(
    context: Context,
    resume: Path,
    *,
    encodings: Sequence[str],
    save_every: float | None,
    device: str | None,
    quiet: bool,
) -> tuple[type[Kind[Any]], CommonOptions, Context, RunFolder] | None:
    """Prepare the experiment that resumes a run: its arguments, or None if the run is complete.

    Args:
        context: state that the runs of one command share.
        resume: run folder.
        encodings: the run's encodings of files, as ``FILE.py:CLASS``, which are imported.
        save_every: seconds between two saves of a fit; None to leave them as they were.
        device: name of the device to compute on; None for that of the options.
        quiet: whether to print errors only.

    Raises:
        UsageError: If there is no such run, its data has changed, or it needs an encoding of a file
            that is not named.
    """
    folder, state = open_run_folder(resume)
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        if not state.digest:
            raise UsageError(f"--resume {resume}: its run.json has no checksum of the data")
        if _is_complete(resume, state):
            for name in state.fits:
                file = resume / FITS / f"{file_stem(name)}{FIT_SUFFIX}"
                try:
                    load_checkpoint(file)
                except CheckpointError as error:
                    raise UsageError(f"{error}; remove the file to fit it again") from None
            if not quiet:
                say(f"{resume} is already complete; there is nothing to resume")
            return None
        given = [imported(name) for name in encodings]
        for own, name in zip(given, encodings, strict=True):
            if own not in state.own_encodings:
                known = ", ".join(state.own_encodings) or "none"
                raise UsageError(
                    f"--resume {resume}: leave out --encodings {name}: the option is for encodings "
                    f"of your own, and this run has {known}"
                )
        require_same_files(state.own_encodings, given, resume)
        kind, options = _saved_options(resume, state, given)
        options = replace(
            options,
            out=resume,
            overwrite=False,
            open=False,
            save_every=save_every or options.save_every,
            device=device or options.device,
            quiet=quiet,
        )
        options.check()
        context = replace(context, command=state.command, cwd=state.cwd, resumed=state)
        context.stop.folder = resume
        # The experiment closes it.
        stack.pop_all()
        return kind, options, context, folder


def _is_complete(folder: Path, state: RunState) -> bool:
    """Whether a run has its report and its checkpoints, with every fit complete."""
    try:
        fits = read_metrics(folder).complete_fits()
        files = [f"{FITS}/{file_stem(name)}{FIT_SUFFIX}" for name in state.fits]
        repeats = state.config.get("num_seeds", 1) > 1
        is_whole = {*fits} == {*(state.config["encodings"] if repeats else state.fits)}
        return is_whole and all((folder / file).is_file() for file in (REPORT, *files))
    except (OSError, ValueError):
        return False


def _saved_options(
    run: Path, state: RunState, own: Sequence[str]
) -> tuple[type[Kind[Any]], CommonOptions]:
    """Options that a run was begun with, with paths that are found from this folder.

    Args:
        run: run folder.
        state: state that the run folder holds.
        own: the run's encodings of files, imported.
    """
    try:
        require_installed(state.kind)
        if state.kind not in KINDS:
            raise UsageError(f"there is no kind of data {state.kind!r}")
        kind = KINDS[state.kind]
        options = from_json(kind.Options, state.options, "options")
        # Only names of options: another text could lead out of the run folder.
        if unknown := set(state.in_memory) - {field.name for field in fields(options)}:
            raise ValueError(f"in_memory names no option: {', '.join(sorted(unknown))}")
        texts = {name: str(getattr(options, name)) for name in state.in_memory}
        held = {name: InMemory.load(run / DATA, name, text) for name, text in texts.items()}
        if options.encodings is not None:
            rows = {str(name): name for name in own}
            names = tuple(rows.get(name, name) for name in options.encodings)
            options = replace(options, encodings=names)
        options = replace(options, **held)
        options.check()
    except (UsageError, ValueError, ImportError, OSError, CheckpointError) as error:
        raise UsageError(f"--resume {run}: {error}") from None

    # Words that are no files there, such as a built-in name, are left as they are.
    found = {
        name: str(Path(state.cwd, value))
        for name in {kind.name, *file_options(kind.Options)} - set(state.in_memory)
        if (value := getattr(options, name)) and Path(state.cwd, value).exists()
    }
    return kind, options if Path(state.cwd) == Path.cwd() else replace(options, **found)
