"""Comparison of runs, read back from their folders."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import torch
from torch import Tensor

from app.report.page import write_page
from app.task import Panel
from nerf_posenc.training.results import FitResult, Record


def write_comparison(path: Path, folders: Sequence[Path]) -> list[FitResult]:
    """Write one page that compares several runs.

    Args:
        path: HTML file; its folder is created once all runs are read.
        folders: of runs, each with its ``metrics.json`` and images.

    Returns:
        All fits, in the order of the folders, named by folder and encoding.

    Raises:
        ValueError: If a folder contains no complete run, or is given twice.
    """
    results: list[FitResult] = []
    panels: list[Panel] = []
    commands = []
    details = {}
    labels = _unique_labels(folders)
    for folder, label in zip(folders, labels, strict=True):
        run, fits, run_panels = _read_run(folder, label)
        commands.append(run["command"])
        details[label] = {key: run[key] for key in ("config", "versions") if key in run}
        results += fits
        for panel in run_panels:
            twin = next((i for i, one in enumerate(panels) if _same_image(one, panel)), None)
            if twin is None:
                panels.append(panel)
            else:
                panels[twin] = replace(panels[twin], fits={**panels[twin].fits, **panel.fits})
    title = "Comparison of " + ", ".join(labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(path, title, panels, results, {"command": "\n".join(commands), **details})
    return results


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


def _read_run(folder: Path, label: str) -> tuple[dict[str, Any], list[FitResult], list[Panel]]:
    try:
        run = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        fits = [_fit(entry, label) for entry in run["fits"]]
        encodings = [entry["encoding"] for entry in run["fits"]]
        panels = [
            _read_panel(folder, label, name, original, fit, encodings)
            for name, original, fit in _image_files(run)
        ]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{folder} is not the folder of a complete run ({type(error).__name__}: {error})"
        ) from None
    return run, fits, panels


def _image_files(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, file of the original and pattern of the fits' files, for each panel."""
    if "image" in run:
        return [(run["image"]["name"], "original.png", "{}.png")]
    return [
        (
            f"{run['scene']['name']} {view['name']}",
            f"truth/view_{i:03}.png",
            f"{{}}/view_{i:03}.png",
        )
        for i, view in enumerate(run["fits"][0]["views"][:6])
    ]


def _read_panel(
    folder: Path, label: str, name: str, original: str, fit: str, encodings: Sequence[str]
) -> Panel:
    fits = {
        f"{label}: {encoding}": _read_image(folder / fit.format(encoding)) for encoding in encodings
    }
    return Panel(name, _read_image(folder / original), fits, {})


def _fit(entry: dict[str, Any], label: str) -> FitResult:
    return FitResult(
        encoding=f"{label}: {entry['encoding']}",
        parameters=entry["parameters"],
        psnr=_number(entry["psnr_db"]),
        ssim=_number(entry["ssim"]),
        seconds=entry["seconds"],
        steps=entry["steps"],
        history=[Record(r["step"], r["seconds"], _number(r["mse"])) for r in entry["history"]],
    )


def _number(value: float | str | None) -> float:
    """Read a number of ``metrics.json``: null is NaN, and infinite ones are strings."""
    return math.nan if value is None else float(value)


def _read_image(file: Path) -> Tensor:
    return torch.from_numpy(iio.imread(file)).float() / 255
