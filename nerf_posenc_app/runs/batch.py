"""Runs of several data, one after the other."""

import contextlib
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nerf_posenc.training.checkpoints import write_text
from nerf_posenc_app.json_values import as_json
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import PROGRAM, CommonOptions, UsageError
from nerf_posenc_app.own_encodings import own_files
from nerf_posenc_app.report.index_page import write_index
from nerf_posenc_app.report.tables import InputScores, table_of_inputs
from nerf_posenc_app.runs.folder import (
    REPORT,
    RunFolder,
    closed_on_error,
    create_run_folder,
    open_run_folder,
    short_name,
)
from nerf_posenc_app.runs.opening import resolve_device
from nerf_posenc_app.runs.run import Context, versions
from nerf_posenc_app.runs.saved import STATE, Metrics, RunState, SaveError, read_metrics
from nerf_posenc_app.terminal import print_to_stderr, printable, say

INDEX = "index.html"
_TABLE = "table.txt"
_MOST_FILES = 10_000


def run_many(
    kind: type[Kind[Any]], options: CommonOptions, context: Context, folder: RunFolder | None = None
) -> bool:
    """Fit several data, each in a folder of its own; one that fails does not stop the rest.

    Args:
        kind: kind of the data.
        options: options as asked for.
        context: state that the runs share.
        folder: folder of the run to be resumed; None for a new one.

    Returns:
        Whether all data were fitted with every encoding.

    Raises:
        SaveError: If a fit or a run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If an input cannot be found, or the run folder cannot be created.
    """
    resolve_device(options.device)
    resumed = context.resumed
    files = list(resumed.files if resumed is not None and resumed.files else _inputs(kind, options))
    if len(files) > _MOST_FILES:
        raise UsageError(f"{len(files):,} data in one run, more than {_MOST_FILES:,}; split them")
    if folder is None:
        folder = create_run_folder(options.out, "several", overwrite=options.overwrite)
        with closed_on_error(folder):
            try:
                state = RunState(
                    kind=kind.name,
                    options=as_json(asdict(options)),
                    own_encodings=own_files(options.encodings or ()),
                    command=context.command,
                    cwd=context.cwd,
                    files=files,
                    digest=_digest(files),
                    versions=versions(),
                )
                folder.begin(state)
            except OSError as error:
                raise UsageError(f"cannot write to {folder.path}: {error.strerror}") from None
    elif resumed is not None and resumed.digest != _digest(files):
        raise UsageError(
            f"--resume {folder.path}: its data have changed since the run started; start a new run"
        )
    context.stop.folder = folder.path
    with closed_on_error(folder):
        names, failures = _fit_each(kind, files, folder, options, context)
        # Results are read back from disk, so none is held while others are fitted.
        is_whole = _write_tables(
            folder, names, failures, context, noun=kind.name, quiet=options.quiet
        )
    folder.close()
    return is_whole


def _digest(files: Sequence[str]) -> str:
    """Checksum of what the files contain; of samples, their names."""
    digest = hashlib.sha256()
    for file in files:
        path, content = Path(file), b""
        # One that cannot be read is named when its turn comes.
        with contextlib.suppress(OSError):
            if path.is_file():
                with path.open("rb") as opened:
                    content = hashlib.file_digest(opened, "sha256").digest()
        digest.update(content + path.name.encode(errors="replace"))
    return digest.hexdigest()


def _inputs(kind: type[Kind[Any]], options: CommonOptions) -> Sequence[str]:
    return kind.inputs(options) or ()


def _fit_each(
    kind: type[Kind[Any]],
    files: Sequence[str],
    folder: RunFolder,
    options: CommonOptions,
    context: Context,
) -> tuple[list[str], list[str]]:
    """Fit the data one after the other.

    Returns:
        Names of the folders of all data, and why some could not be opened.
    """
    context = replace(context, is_part=True)
    failures: list[str] = []
    names = [f"{i:03}-{short_name(Path(file).stem)}" for i, file in enumerate(files)]
    for number, (file, name) in enumerate(zip(files, names, strict=True)):
        own_folder = folder.path / name
        if context.resumed is not None and _is_whole(own_folder):
            continue
        if not options.quiet:
            say("", f"[{number + 1} of {len(files)}] {file}")
        if own_folder.is_symlink():
            raise UsageError(f"{own_folder} is a link, which no run follows; remove it")
        input_options = replace(kind.of_input(options, file), out=own_folder)
        try:
            _fit_alone(kind, input_options, context)
        except UsageError as error:
            print_to_stderr(f"{PROGRAM}: error: {error}")
            failures.append(printable(str(error)))
    return names, failures


def _fit_alone(kind: type[Kind[Any]], options: CommonOptions, context: Context) -> None:
    """Fit one of the data, in the folder that it has if its run was begun before."""
    assert options.out is not None
    if context.resumed is None or not (options.out / STATE).exists():
        context.experiment(kind, options, replace(context, resumed=None))
        return
    folder, state = open_run_folder(options.out)
    with closed_on_error(folder):
        context.experiment(kind, options, replace(context, resumed=state), folder)


def _has_all(metrics: Metrics, fits: Collection[str]) -> bool:
    """Whether all fits of a run are among these."""
    return bool(metrics.all_fits) and set(metrics.all_fits) <= set(fits)


def _is_whole(folder: Path) -> bool:
    """Whether a run folder has all fits of its configuration, complete."""
    try:
        metrics = read_metrics(folder)
        return _has_all(metrics, metrics.complete_fits())
    except (OSError, ValueError):
        return False


def _write_tables(
    folder: RunFolder,
    names: Sequence[str],
    failures: Sequence[str],
    context: Context,
    *,
    noun: str,
    quiet: bool,
) -> bool:
    """Write and print the table of all data, and its page; return whether every fit is in it."""
    runs = {}
    for name in names:
        try:
            runs[name] = read_metrics(folder.path / name)
        except (OSError, ValueError):
            continue
    text, written = "no run is complete", []
    if runs:
        inputs = {
            name: InputScores(first, {fit.label: fit.scores[first.name] for fit in run.fits})
            for name, run in runs.items()
            for first in run.measures[:1]
        }
        fits, references = (
            list(dict.fromkeys(f.label for f in every if f.is_reference is is_reference))
            for every in [[fit for run in runs.values() for fit in run.fits]]
            for is_reference in (False, True)
        )
        text = table_of_inputs(inputs, fits, references)
        try:
            index = folder.path / INDEX
            write_index(
                index,
                inputs,
                fits,
                references,
                noun=noun,
                command=context.command,
                report=REPORT,
                failures=failures,
            )
            # Written last: a run with this file is complete.
            write_text(folder.path / _TABLE, text + "\n", token=folder.token)
        except OSError as error:
            raise SaveError(f"cannot write to {folder.path}: {error.strerror}") from None
        written = ["", f"wrote {folder.path}/; open {folder.path / INDEX}"]
    if not quiet:
        say("", *text.split("\n"), *written)
    # A fit that the user stopped counts as one.
    return all(
        name in runs and _has_all(runs[name], {fit.label for fit in runs[name].fits})
        for name in names
    )
