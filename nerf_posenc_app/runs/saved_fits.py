"""The saved fits of a run folder."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc_app.kinds import KINDS, require_installed
from nerf_posenc_app.kinds.kind import Kind
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs.saved import FIT_SUFFIX, FITS, METRICS, FitFile, Metrics, read_metrics


def find_fit(run: Path, encoding: str | None) -> tuple[str, Path, Path]:
    """Find a fit of a run.

    Args:
        run: run folder, or the file of a fit.
        encoding: name of the fit; None for the best by the first measure.

    Returns:
        The name of the fit, its file, and the folder for what is made of it.

    Raises:
        UsageError: If there is none.
    """
    try:
        if run.is_file():
            return unquote(run.stem), run, run.parent
        by_name = fit_files(run)
    except (OSError, ValueError) as error:
        raise UsageError(f"{run}: {getattr(error, 'strerror', None) or error}") from None
    if not run.exists():
        raise UsageError(
            f"there is no folder {run}; a run prints the name of its folder, which --out chooses"
        )
    if not by_name:
        inner = any(run.glob(f"*/{FITS}/*{FIT_SUFFIX}")) if run.is_dir() else False
        several = "; it is a folder of runs: give the folder of one of them" if inner else ""
        raise UsageError(f"{run} contains no saved fit (fits/NAME.safetensors){several}")
    name = _best(run, by_name) if encoding is None else encoding
    if name not in by_name:
        raise UsageError(f"{run} has no fit {name!r}; it has {', '.join(by_name)}")
    return name, by_name[name], run


def fit_files(run: Path) -> dict[str, Path]:
    """Files of the saved fits of a run folder, by their names."""
    files = sorted((run / FITS).glob(f"*{FIT_SUFFIX}"))
    # No link of a stranger's run leads to other files of this machine.
    own = (file for file in files if not (file.name.startswith(".") or file.is_symlink()))
    return {} if (run / FITS).is_symlink() else {unquote(file.stem): file for file in own}


def kind_of_fit(file: Path) -> type[Kind[Any]]:
    """Kind of a saved fit.

    Raises:
        UsageError: If it cannot be read, or is of no kind that this program knows.
    """
    try:
        name = load_checkpoint(file, with_tensors=False)["model"]["kind"]
        require_installed(name)
        return KINDS[name]
    except (CheckpointError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None
    except (KeyError, TypeError):
        raise UsageError(f"{file} has no model that can be rendered or exported") from None


def notes_on_fit(run: Path, encoding: str | None, chosen: str, file: Path) -> list[str]:
    """Say which of several fits was taken if none was named, and how far it is if not complete.

    Args:
        run: run folder, or the file of a fit.
        encoding: name that was asked for; None if none was.
        chosen: the fit that was taken.
        file: its file.
    """
    notes = []
    names = [] if run.is_file() else list(fit_files(run))
    if encoding is None and len(names) > 1:
        metrics = metrics_of(run)
        why = "as the run is not complete"
        if metrics is not None:
            names = [fit.label for fit in metrics.fits if fit.label in names]
            why = f"the best by {metrics.measures[0].quantity}"
            seeds = next(len(f.evaluation.by_seed) for f in metrics.fits if f.label == chosen)
            why += f", and of its {seeds} seeds the first" if seeds > 1 else ""
        notes.append(
            f"note: chose {chosen} of {', '.join(names)}, {why}; choose another with --encoding"
        )
    fit = FitFile(file).progress()
    if fit is not None and fit.step != fit.num_steps:
        notes.append(f"note: {chosen} is at step {fit.step} of {fit.num_steps}")
    return notes


def metrics_of(run: Path) -> Metrics | None:
    """Metrics of a run; None if it is not complete.

    Raises:
        UsageError: If the run has metrics that cannot be read.
    """
    if not (run / METRICS).is_file():
        return None
    try:
        return read_metrics(run)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{run / METRICS} cannot be read: {error}; name a fit with --encoding"
        ) from None


def _best(run: Path, names: Mapping[str, Path]) -> str:
    """Best fit by the first measure; the last by name if the run is not complete."""
    metrics = metrics_of(run)
    if metrics is None:
        return list(names)[-1]
    first = metrics.measures[0]
    sign = 1 if first.higher_is_better else -1
    scores = {fit.label: sign * fit.scores[first.name] for fit in metrics.fits}
    return max(names, key=lambda name: scores.get(name, -math.inf))


def require_new(path: Path, *, overwrite: bool) -> None:
    """Raise if a file or a folder would be overwritten.

    Raises:
        UsageError: If it exists, or its name is none.
    """
    try:
        exists = path.exists() or path.is_symlink()
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {path}: {getattr(error, 'strerror', None) or error}") from None
    if exists and not overwrite:
        raise UsageError(f"{path} exists already; give another name, or add --overwrite")
