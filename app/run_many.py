"""Runs of several images, one after the other or as batched ensembles."""

import contextlib
import shlex
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from app import report
from app.config import resolve_device
from app.failures import failure_reason
from app.fit_file import FitFile, SaveError
from app.fit_settings import fit_settings
from app.image_ensemble import fit_images
from app.image_fit import ImageResult
from app.image_task import ImageTask
from app.options import Options
from app.parsing import PROGRAM, UsageError
from app.prepare import Run, RunContext, open_data, prepare_image
from app.run import finish, fit_encodings, fit_one
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
from app.task import FitControl
from app.terminal import printable
from nerf_posenc.training.checkpoints import CheckpointError

INDEX = "index.html"

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

# A larger ensemble gains nothing: this many fill any GPU, and the memory grows with each.
MOST_MEMBERS = 16


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
    resumed = context.resumed
    if resumed is not None and resumed.files is not None:
        files = list(resumed.files)
    else:
        files = find_images(options.images or ())
        _require_all(files, options, context)
    device = resolve_device(options)
    if folder is None:
        folder = create_run_folder(options.out, "images", overwrite=options.overwrite)
        try:
            folder.begin(RunState(arguments=context.arguments, cwd=context.cwd, files=files))
        except OSError as error:
            raise UsageError(f"cannot write to {folder.path}: {error.strerror}") from None
    context.stop.folder = folder.path
    uses_ensembles = options.stack == "on" or (options.stack == "auto" and device.type == "cuda")
    waiting = _Waiting(folder) if uses_ensembles and not options.live else None
    names: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        for number, file in enumerate(files):
            name = f"{number:03}-{short_name(Path(file).stem)}"
            own_folder = folder.path / name
            names.append(name)
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
        # Read back, so that no result is kept while others are fitted.
        scores = {name: _scores_of(folder.path / name) for name in names}
        return _write_tables(folder, scores, options, context)


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
            command = printable(shlex.join(["python", PROGRAM, *context.arguments]))
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
            open_data(context, partial(context.openers.image, file, max_pixels=options.max_pixels))


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


class _Waiting:
    """Images that wait to be fitted as ensembles, never more than one ensemble takes.

    Args:
        folder: of the run of all images, where ensembles in progress are saved.

    Attributes:
        had_ensembles: whether a run that is resumed was interrupted within one.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._groups: dict[int, list[Run[ImageResult]]] = {}
        self.had_ensembles = any(folder.fits.glob("ensemble-*"))

    def add(self, prepared: Run[ImageResult]) -> None:
        """Let an image wait; fit the largest group if that makes enough."""
        num_pixels = image_task(prepared).image.num_pixels
        batch_size = min(prepared.config.training.batch_size, num_pixels)
        self._groups.setdefault(batch_size, []).append(prepared)
        if sum(map(len, self._groups.values())) >= MOST_MEMBERS:
            self._fit(max(self._groups, key=lambda size: len(self._groups[size])))

    def fit_all(self) -> None:
        """Fit those that still wait."""
        for batch_size in list(self._groups):
            self._fit(batch_size)

    def _fit(self, batch_size: int) -> None:
        members = self._groups.pop(batch_size)
        for encoding in members[0].config.encodings:
            names = [prepared.folder.path.name for prepared in members]
            number = zlib.crc32("/".join(names).encode())
            fit_ensemble(members, encoding, self._folder.fit_path(f"ensemble-{encoding}-{number}"))
        for prepared in members:
            _finish(prepared)


def fit_ensemble(runs: Sequence[Run[ImageResult]], encoding: str, path: Path) -> None:
    """Fit images as one batched ensemble; if that fails, each alone.

    Args:
        runs: of the images.
        encoding: of all of them.
        path: where the ensemble is saved until each member is saved in its own run folder.

    Raises:
        SaveError: If a fit cannot be saved.
        Stopped: If the run was asked to end.
    """
    runs[0].log(f"\n{encoding}: {', '.join(prepared.task.name for prepared in runs)}")
    files = [prepared.fit_file(encoding) for prepared in runs]
    is_begun = path.exists() or not any(file.is_complete() for file in files)
    if len(runs) > 1 and is_begun:
        tasks = [image_task(prepared) for prepared in runs]
        images, models = [task.image for task in tasks], [task.model(encoding) for task in tasks]
        file = FitFile(path, seconds=runs[0].options.save_every)
        control = FitControl(runs[0].context.stop, file=file)
        try:
            settings = fit_settings(encoding, tasks[0].config, control)
            results = fit_images(images, models, settings, files=files)
        except (FloatingPointError, RuntimeError, MemoryError, CheckpointError) as error:
            reason = failure_reason(error)
            print(f"note: {encoding}: {reason}; now each image alone", file=sys.stderr)
            path.unlink(missing_ok=True)
        else:
            for prepared, result in zip(runs, results, strict=True):
                prepared.results.append(result)
            return
    for prepared in runs:
        fit_one(prepared, encoding)


def image_task(prepared: Run[ImageResult]) -> ImageTask:
    """Return the task of an image's run."""
    assert isinstance(prepared.task, ImageTask)
    return prepared.task
