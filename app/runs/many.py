"""Runs of several images, one after the other or as batched ensembles."""

import contextlib
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from app import report
from app.data import open_data
from app.ensembles import WaitingImages
from app.fit_file import SaveError
from app.image_fit import ImageResult
from app.options import Options
from app.parsing import PROGRAM, UsageError
from app.prepare import Run, RunContext, prepare_image
from app.processes import (
    command_words,
    report_error,
    require_distributable,
    require_own_gpu,
    require_same_data,
)
from app.run import finish, fit_encodings
from app.run_folder import (
    STATE,
    RunFolder,
    RunState,
    closed_on_error,
    create_run_folder,
    open_run_folder,
    short_name,
    write_text,
)
from app.runtime_config import resolve_device
from app.terminal import printable
from nerf_posenc.training.distributed import ALONE

INDEX = "index.html"

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")


def run_many(options: Options, context: RunContext, folder: RunFolder | None = None) -> bool:
    """Fit several images, each in a folder of its own; one that fails does not stop the rest.

    Args:
        options: as parsed.
        context: what runs have in common.
        folder: of the run to be resumed; None for a new one.

    Returns:
        Whether every image was fitted with every encoding.

    Raises:
        SaveError: If a fit or a run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If a folder contains no image, or the run folder cannot be created.
    """
    require_distributable(options, context.world)
    context.world.broadcast(options)
    require_own_gpu(resolve_device(options), context.world)
    resumed = context.resumed
    if resumed is not None and resumed.files is not None:
        files = list(resumed.files)
    else:
        files = find_images(options.images or ())
        _require_all(files, options, context)
    if folder is None:
        folder = create_run_folder(options.out, "images", overwrite=options.overwrite)
        try:
            folder.begin(RunState(arguments=context.arguments, cwd=context.cwd, files=files))
        except OSError as error:
            raise UsageError(f"cannot write to {folder.path}: {error.strerror}") from None
    context.stop.folder = folder.path
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        shared = (folder.path, files, context.arguments, context.cwd, context.resumed)
        context.world.broadcast(shared)
        _require_shared(folder.path, context)
        names = _fit_share(files, folder, options, context)
        # All are fitted once all ranks have come here.
        context.world.gather(None)
        # Read back, so that no result is kept while others are fitted.
        scores = {name: _scores_of(folder.path / name) for name in names}
        return _write_tables(folder, scores, options, context)


def fit_dealt_images(options: Options, context: RunContext) -> None:
    """Fit the images that are dealt to a rank above 0.

    Args:
        options: of rank 0.
        context: what runs have in common.

    Raises:
        PeerError: If another process has ended.
        SaveError: If a fit or a run folder cannot be written.
        Stopped: If the run was asked to end.
        UsageError: If a rank has no device, or does not see the run folder.
    """
    path, files, arguments, cwd, resumed = context.world.broadcast()
    context = replace(context, arguments=arguments, cwd=cwd, resumed=resumed)
    context.stop.folder = path
    try:
        require_own_gpu(resolve_device(options), context.world)
    except UsageError as error:
        report_error(context.world, str(error))
        raise
    _require_shared(path, context)
    _fit_share(files, RunFolder(path, is_joined=True), options, context)
    context.world.gather(None)


def _require_shared(path: Path, context: RunContext) -> None:
    """Check that all ranks write to one run folder.

    Raises:
        UsageError: If one does not see it, as on a machine with other disks.
    """

    def content() -> str:
        file = path / STATE
        return file.read_text(encoding="utf-8") if file.exists() else ""

    require_same_data(context.world, str(path), content)


def _fit_share(
    files: Sequence[str], folder: RunFolder, options: Options, context: RunContext
) -> list[str]:
    """Fit the images that are dealt to this process, all of them if it is alone.

    Returns:
        Names of the folders of all images.
    """
    device, world = resolve_device(options), context.world
    uses_ensembles = options.stack == "on" or (options.stack == "auto" and device.type == "cuda")
    waiting = WaitingImages(folder, _finish) if uses_ensembles and not options.live else None
    context = replace(context, world=ALONE)
    names = [f"{i:03}-{short_name(Path(file).stem)}" for i, file in enumerate(files)]
    for number in range(world.rank, len(files), world.size):
        file, own_folder = files[number], folder.path / names[number]
        if set(_complete_fits(own_folder)) >= set(options.fitted):
            continue
        if not options.quiet:
            print(printable(f"\n[{number + 1} of {len(files)}] {file}"))
        own = replace(options, image=file, out=own_folder)
        try:
            prepared = _prepare(own, context)
        except UsageError as error:
            print(printable(f"{PROGRAM}: error: {error}"), file=sys.stderr)
            continue
        if waiting is not None and (waiting.had_ensembles or not _is_fitted(prepared)):
            waiting.add(prepared)
        else:
            fit_encodings(prepared)
            _finish(prepared)
    if waiting is not None:
        waiting.fit_all()
    return names


def _write_tables(
    folder: RunFolder,
    scores: Mapping[str, Mapping[str, float]],
    options: Options,
    context: RunContext,
) -> bool:
    """Write and print the table of all images, and its page; return whether every fit is in it."""
    done = {name: known for name, known in scores.items() if known}
    names = [*options.fitted, *(name for known in done.values() for name in known)]
    table = report.table_of_images(done, list(dict.fromkeys(names)))
    if done:
        try:
            command = printable(shlex.join([*command_words(), *context.arguments]))
            report.write_index(folder.path / INDEX, done, options.fitted, command)
            # Last: a run with it is complete.
            write_text(folder.path / "images.txt", table + "\n")
        except OSError as error:
            raise SaveError(f"cannot write to {folder.path}: {error.strerror}") from None
    if not options.quiet:
        print(printable(f"\n{table}\n\nwrote {folder.path}/; open {folder.path / INDEX}"))
    return all(set(options.fitted) <= set(known) for known in scores.values())


def find_images(names: Sequence[str]) -> list[str]:
    """Files and samples, with a folder replaced by the images in it.

    Raises:
        UsageError: If a folder contains none, or cannot be read.
    """
    files: list[str] = []
    for name in names:
        try:
            folder = Path(name)
            if not folder.is_dir():
                files.append(name)
                continue
            found = sorted(f for f in folder.iterdir() if f.suffix.lower() in IMAGE_SUFFIXES)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"--images {name}: {reason}") from None
        if not found:
            raise UsageError(f"--images {name} contains no image")
        files += map(str, found)
    return files


def _require_all(files: Sequence[str], options: Options, context: RunContext) -> None:
    """Open all that are no files, so that a mistyped name is found before anything is fitted.

    Raises:
        UsageError: If there is no file and no sample of a name.
    """
    for file in dict.fromkeys(files):
        if not Path(file).exists():
            open_data(
                context.openers, partial(context.openers.image, file, max_pixels=options.max_pixels)
            )


def _prepare(options: Options, context: RunContext) -> Run[ImageResult]:
    """Open an image, and its run folder if the run was begun before."""
    assert options.out is not None
    if context.resumed is None or not (options.out / STATE).exists():
        return prepare_image(options, resolve_device(options), replace(context, resumed=None))
    folder, state = open_run_folder(options.out)
    with closed_on_error(folder):
        resumed = replace(context, resumed=state)
        return prepare_image(options, resolve_device(options), resumed, folder)


def _is_fitted(prepared: Run[ImageResult]) -> bool:
    """Whether all fits are saved, and only the report is missing."""
    return all(prepared.fit_file(name).is_complete() for name in prepared.config.encodings)


def _finish(prepared: Run[ImageResult]) -> None:
    """Write a run folder and let go of it."""
    try:
        finish(prepared)
    finally:
        prepared.folder.close()


def _complete_fits(folder: Path) -> Collection[str]:
    """Encodings whose fits took all their steps, in a run folder that is complete."""
    try:
        return report.read_metrics(folder).complete_fits()
    except (OSError, ValueError):
        return ()


def _scores_of(folder: Path) -> dict[str, float]:
    """PSNR by encoding of a run folder that is complete."""
    try:
        return {f.encoding: f.scores["psnr_db"] for f in report.read_metrics(folder).fits}
    except (OSError, ValueError):
        return {}
