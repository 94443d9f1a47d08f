"""``train_fit.py --resume RUN``: go on with a run that was interrupted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import CommonOptions, Seconds, UsageError, read
from nerf_posenc_app.own_encodings import with_own_encodings
from nerf_posenc_app.runs.batch import run_many
from nerf_posenc_app.runs.folder import REPORT, open_run_folder
from nerf_posenc_app.runs.run import Context
from nerf_posenc_app.runs.saved import FIT_SUFFIX, FITS, RunState, read_metrics
from nerf_posenc_app.terminal import printable

Parse = Callable[[Sequence[str]], tuple[type[Kind[Any]], CommonOptions]]


def asked_of_resume(
    resume: Path,
    *,
    save_every: Seconds = None,
    device: str | None = None,
    live: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Go on with a run that was interrupted, with the options that it was begun with.

    Args:
        resume: Run folder.
        save_every: Seconds between two saves of a fit; as before by default.
        device: Where to compute; as before by default.
        live: Show the fits in progress on a page at 127.0.0.1.
        quiet: Print errors only.
    """
    return locals()


def resume(arguments: Sequence[str], context: Context, parse: Parse) -> bool:
    """Go on with all that is missing in a run; return whether every fit is complete.

    Args:
        arguments: words of the command line.
        context: what the runs of one command have in common.
        parse: reads the command line of the run.

    Raises:
        SaveError: If a fit or the run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If there is no such run, or its data has changed.
    """
    asked = read(asked_of_resume, arguments, others=lambda: {"a new run": CommonOptions})
    path = asked["resume"]
    folder, state = open_run_folder(path)
    try:
        if state.is_part:
            parent = path.resolve().parent
            raise UsageError(f"--resume {path}: it is one of several; resume {parent}")
        kind, options = _options(asked, state, parse)
        context = replace(context, arguments=state.arguments, cwd=state.cwd, resumed=state)
        context.stop.folder = path
        if state.files is not None:
            return run_many(kind, options, context, folder)
        if _is_complete(path, state):
            if not options.quiet:
                print(printable(f"{path} is complete: nothing is missing"))
            context.world.broadcast(None)
            return True
        return context.experiment(kind, options, context, folder)
    finally:
        folder.close()


def _is_complete(folder: Path, state: RunState) -> bool:
    """Whether a run has its report and its checkpoints, with every fit complete."""
    try:
        fits = read_metrics(folder).complete_fits()
        files = [f"{FITS}/{fit.name.stem}{FIT_SUFFIX}" for fit in fits.values()]
        is_whole = set(fits) == set(state.fits)
        return is_whole and all((folder / file).is_file() for file in (REPORT, *files))
    except (OSError, ValueError):
        return False


def _options(
    asked: Mapping[str, Any], state: RunState, parse: Parse
) -> tuple[type[Kind[Any]], CommonOptions]:
    """Options of the run, with paths that are found from this folder."""
    if not state.digest:
        raise UsageError(f"--resume {asked['resume']}: its run.json has no checksum of the data")
    try:
        words = [word for word in state.arguments if word not in ("-h", "--help")]
        kind, options = parse(with_own_encodings(words, Path(state.cwd)))
    except UsageError as error:
        raise UsageError(f"--resume {asked['resume']}: {error}") from None
    except SystemExit:
        raise UsageError(f"--resume {asked['resume']}: its command line cannot be read") from None

    def found(name: str) -> str:
        path = Path(state.cwd, name)
        is_here = Path(state.cwd) == Path.cwd()
        return str(path) if not is_here and path.exists() else name

    chosen = replace(
        kind.relocated(options, found),
        out=asked["resume"],
        overwrite=False,
        open=False,
        save_every=asked["save_every"] or options.save_every,
        device=asked["device"] or options.device,
        live=asked["live"],
        quiet=asked["quiet"],
    )
    chosen.check()
    return kind, chosen
