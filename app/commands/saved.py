"""The saved fits of a run folder."""

import math
from pathlib import Path

import torch

from app.parsing import UsageError
from app.report import read_metrics
from nerf_posenc.fits import ImageFit, SceneFit, load_fit
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.devices import pick_device


def open_saved_fit(
    run: Path, encoding: str | None, device: str
) -> tuple[str, ImageFit | SceneFit, Path]:
    """Load a fit of a run.

    Args:
        run: run folder, or the file of a fit.
        encoding: its name; None for the fit of the highest PSNR.
        device: where to compute.

    Returns:
        The encoding, the fit, and the folder for what is made of it.

    Raises:
        UsageError: If there is none, or it cannot be loaded.
    """
    try:
        chosen_device = pick_device(device)
        if run.is_file():
            return run.stem, _load(run, chosen_device), run.parent
        files = sorted((run / "fits").glob("*.safetensors"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{run}: {getattr(error, 'strerror', None) or error}") from None
    by_name = {file.stem: file for file in files if not file.name.startswith(".")}
    if not by_name:
        inner = any(run.glob("*/fits/*.safetensors")) if run.is_dir() else False
        several = "; it is a run of several images: name the folder of one" if inner else ""
        raise UsageError(f"{run} contains no saved fit (fits/NAME.safetensors){several}")
    name = _best(run, list(by_name)) if encoding is None else encoding
    if name not in by_name:
        raise UsageError(f"{run} has no fit {name!r}; it has {', '.join(by_name)}")
    return name, _load(by_name[name], chosen_device), run


def note_of_choice(run: Path, encoding: str | None, chosen: str) -> str | None:
    """Say which of several fits was taken, if none was named.

    Args:
        run: run folder, or the file of a fit.
        encoding: that was asked for; None if none was.
        chosen: the fit that was taken.
    """
    names = [] if run.is_file() else fit_names(run)
    if encoding is not None or len(names) < 2:
        return None
    why = "the one of the highest PSNR" if _psnr_by_name(run) else "as the run is not complete"
    return f"note: took {chosen} of {', '.join(names)}, {why}; --encoding names another"


def fit_names(run: Path) -> list[str]:
    """Names of the saved fits of a run folder."""
    files = (run / "fits").glob("*.safetensors")
    return sorted(file.stem for file in files if not file.name.startswith("."))


def _load(file: Path, device: torch.device) -> ImageFit | SceneFit:
    try:
        return load_fit(file, device=device)
    except (CheckpointError, OSError, ImportError) as error:
        raise UsageError(str(error)) from None


def _best(run: Path, names: list[str]) -> str:
    """Fit of the highest PSNR; the last by name if the run is not complete."""
    scores = _psnr_by_name(run)
    return max(names, key=lambda name: scores.get(name, -math.inf))


def _psnr_by_name(run: Path) -> dict[str, float]:
    """PSNR of the fits of a run; empty if it is not complete."""
    try:
        return {f.encoding: f.scores.get("psnr_db", -math.inf) for f in read_metrics(run).fits}
    except (OSError, ValueError):
        return {}


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuse to overwrite a file or a folder.

    Raises:
        UsageError: If it exists, or its name is none.
    """
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise UsageError(f"--out {path}: {getattr(error, 'strerror', None) or error}") from None
    if exists and not overwrite:
        raise UsageError(f"--out {path} exists already; name another or add --overwrite")
