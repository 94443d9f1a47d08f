"""Comparison of runs, read back from their folders."""

import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from app.report.metrics_file import Metrics, read_metrics
from app.report.page import Group, write_page
from app.report.sequence_comparison import write_sequence_comparison
from app.report.tables import storage_measures
from app.task import Panel
from nerf_posenc.images import LARGE_PIXELS, unit_range
from nerf_posenc.training.results import FIELD_MEASURES, FieldResult, FitResult, Measure

_MOST_VIEWS = 6
_MOST_PIXELS = 200_000_000
_MOST_VIDEO_BYTES = 16 << 20
_MOST_SETTING = 80
# Deflate compresses no further (RFC 1951).
_MOST_COMPRESSION = 1032


def write_comparison(
    path: Path, folders: Sequence[Path]
) -> tuple[Sequence[FitResult], Sequence[Measure]]:
    """Write one page that compares several runs.

    Args:
        path: HTML file; its folder is created once all runs are read.
        folders: of runs, each with its ``metrics.json`` and images.

    Returns:
        All fits, in the order of the folders, named by folder and encoding, and the columns of
        their table.

    Raises:
        ValueError: If a folder contains no complete run, or is given twice, or the runs cannot be
            compared.
    """
    labels = _unique_labels(folders)
    runs = {label: _read_metrics(folder) for folder, label in zip(folders, labels, strict=True)}
    details: dict[str, Any] = {"command": "\n".join(run.command for run in runs.values())}
    for label, run in runs.items():
        details[label] = {"config": run.config, "versions": run.versions}
    title = "Comparison of " + ", ".join(labels)
    kinds = {run.kind == "sequence": label for label, run in runs.items()}
    if len(kinds) > 1:
        raise ValueError(
            f"{kinds[True]} is a run of a sequence and {kinds[False]} is not; compare runs of one "
            "kind"
        )
    if True in kinds:
        fits = write_sequence_comparison(path, title, runs, details)
        return fits, next(iter(runs.values())).measures
    folder_of = dict(zip(labels, folders, strict=True))
    results = _write_field_comparison(path, title, runs, folder_of, details)
    return results, (*FIELD_MEASURES, *storage_measures(results))


def _write_field_comparison(
    path: Path,
    title: str,
    runs: Mapping[str, Metrics],
    folders: Mapping[str, Path],
    details: Mapping[str, Any],
) -> list[FieldResult]:
    panels: list[Panel] = []
    # Fits by image, size and measure: the columns of one group mean the same.
    groups: dict[str, list[tuple[str, FieldResult]]] = {}
    for label, run in runs.items():
        run_panels = _read_panels(folders[label], label, run)
        fits = [fit for fit in run.fits if isinstance(fit, FieldResult)]
        named = [(label, replace(fit, encoding=f"{label}: {fit.encoding}")) for fit in fits]
        groups.setdefault(_group_title(run, run_panels, panels), []).extend(named)
        for panel in run_panels:
            twin = next((i for i, one in enumerate(panels) if _same_image(one, panel)), None)
            if twin is None:
                panels.append(panel)
            else:
                panels[twin] = replace(panels[twin], fits={**panels[twin].fits, **panel.fits})
    results = [fit for fits in groups.values() for _, fit in fits]
    settings = differing_settings({label: run.config for label, run in runs.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(
        path,
        title,
        panels,
        results,
        details,
        turntables=_videos(
            {
                f"{label}: {fit.encoding}": (folders[label], f"turntable_{fit.encoding}")
                for label, run in runs.items()
                for fit in run.fits
            }
        ),
        training_videos=_videos({label: (folders[label], "learning") for label in runs}),
        groups=[
            Group(name, {fit.encoding: settings[label] for label, fit in fits})
            for name, fits in groups.items()
        ],
    )
    return results


def _group_title(run: Metrics, own: Sequence[Panel], known: Sequence[Panel]) -> str:
    """Image or scene, its size, and what its PSNR is of."""
    height, width, _ = own[0].original.shape
    alike = [
        p for p in known if p.name == own[0].name and p.original.shape == own[0].original.shape
    ]
    same = [i for i, panel in enumerate(alike) if _same_image(panel, own[0])]
    number = same[0] if same else len(alike)
    other = f", another image of this name ({number + 1})" if number else ""
    training = run.config.get("training")
    is_held_out = isinstance(training, Mapping) and training.get("held_out") is True
    measure = "PSNR of held-out pixels" if is_held_out else "PSNR"
    if run.kind == "scene":
        measure = "PSNR of test views"
    return f"{run.name}, {width} x {height}{other}: {measure}"


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What each run was configured with that others were not.

    Args:
        configs: of the runs by their names.
    """
    flat = {}
    for label, config in configs.items():
        parts = [config.get(part) for part in ("model", "training")]
        flat[label] = {
            str(name): value
            for part in parts
            if isinstance(part, Mapping)
            for name, value in part.items()
        }
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    differing = [n for n in names if len({repr(s.get(n)) for s in flat.values()}) > 1]
    return {
        label: ", ".join(
            f"{name.replace('_', ' ')} {settings[name]}"[:_MOST_SETTING]
            for name in differing
            if settings.get(name) is not None
        )
        for label, settings in flat.items()
    }


def _videos(names: Mapping[str, tuple[Path, str]]) -> dict[str, Path]:
    """Those videos of run folders that are there, by what they are shown as.

    Args:
        names: folder and name without suffix.
    """
    found = {}
    for shown, (folder, stem) in names.items():
        for suffix in (".mp4", ".webp"):
            file = (folder / (stem + suffix)).resolve()
            inside = file.is_relative_to(folder.resolve()) and file.is_file()
            if inside and file.stat().st_size <= _MOST_VIDEO_BYTES:
                found[shown] = file
    return found


def _unique_labels(folders: Sequence[Path]) -> list[str]:
    """Names of run folders, with as many of their parents as tell them apart."""
    resolved = [folder.resolve() for folder in folders]
    for depth in range(1, max((len(folder.parts) for folder in resolved), default=1) + 1):
        labels = ["/".join(folder.parts[-depth:]) for folder in resolved]
        if len(set(labels)) == len(labels):
            return labels
    raise ValueError("a run folder is given twice")


def _same_image(a: Panel, b: Panel) -> bool:
    return a.original.shape == b.original.shape and torch.equal(a.original, b.original)


def _read_metrics(folder: Path) -> Metrics:
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; name the folders of runs")
    try:
        return read_metrics(folder)
    except (OSError, ValueError) as error:
        raise _not_complete(folder, error) from None


def _read_panels(folder: Path, label: str, run: Metrics) -> list[Panel]:
    try:
        return [
            _read_panel(folder, label, name, original, fit, run)
            for name, original, fit in _image_files(run)
        ]
    except (OSError, ValueError) as error:
        raise _not_complete(folder, error) from None


def _not_complete(folder: Path, error: OSError | ValueError) -> ValueError:
    reason = getattr(error, "strerror", None) or error
    return ValueError(f"{folder} is not the folder of a complete run: {reason}")


def _image_files(run: Metrics) -> list[tuple[str, str, str]]:
    """Name, file of the original and pattern of the fits' files, for each panel."""
    if run.kind == "image":
        return [(run.name, "original.png", "{}.png")]
    return [
        (f"{run.name} {view}", f"truth/view_{i:03}.png", f"{{}}/view_{i:03}.png")
        for i, view in enumerate(run.view_names[:_MOST_VIEWS])
    ]


def _read_panel(
    folder: Path, label: str, name: str, original: str, pattern: str, run: Metrics
) -> Panel:
    truth = read_run_image(folder, original)
    fits = {}
    for fit in run.fits:
        file = pattern.format(fit.encoding)
        image = read_run_image(folder, file)
        if image.shape != truth.shape:
            raise ValueError(f"{file} and {original} differ in size")
        fits[f"{label}: {fit.encoding}"] = image
    return Panel(name, truth, fits, {})


def read_run_image(folder: Path, name: str) -> Tensor:
    """Read a PNG of a run folder.

    Raises:
        ValueError: If it is missing, damaged, too large, or leads out of the folder.
    """
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        raise ValueError(f"it has no {name}")
    try:
        with warnings.catch_warnings():
            # Pillow's own limit, which is below ours.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=("PNG",)) as image:
                size = f"{image.width} x {image.height} {image.mode}"
                num_pixels = image.width * image.height
                if num_pixels > _MOST_PIXELS or image.mode != "RGB":
                    raise ValueError(f"{size} is no RGB image of a run")
                if 3 * num_pixels > _MOST_COMPRESSION * file.stat().st_size:
                    raise ValueError(f"the file is too short for {size} pixels")
                pixels = np.array(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, struct.error) as error:
        raise ValueError(f"cannot read {name}: {error}") from None
    kept = torch.from_numpy(pixels)
    return kept if num_pixels > LARGE_PIXELS else unit_range(kept)
