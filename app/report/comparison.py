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
        ValueError: If a folder contains no complete run.
    """
    results: list[FitResult] = []
    panels: list[Panel] = []
    commands = []
    for folder in folders:
        run, fits, run_panels = _read_run(folder)
        commands.append(run["command"])
        results += fits
        for panel in run_panels:
            twin = next((i for i, one in enumerate(panels) if _same_image(one, panel)), None)
            if twin is None:
                panels.append(panel)
            else:
                panels[twin] = replace(panels[twin], fits={**panels[twin].fits, **panel.fits})
    title = "Comparison of " + ", ".join(folder.name for folder in folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(path, title, panels, results, {"command": "\n".join(commands)})
    return results


def _same_image(a: Panel, b: Panel) -> bool:
    return a.original.shape == b.original.shape and torch.equal(a.original, b.original)


def _read_run(folder: Path) -> tuple[dict[str, Any], list[FitResult], list[Panel]]:
    try:
        run = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        fits = [_fit(entry, folder.name) for entry in run["fits"]]
        encodings = [entry["encoding"] for entry in run["fits"]]
        panels = [
            _read_panel(folder, label, original, fit, encodings)
            for label, original, fit in _image_files(run)
        ]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{folder} is not the folder of a complete run ({type(error).__name__}: {error})"
        ) from None
    return run, fits, panels


def _image_files(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Label, file of the original and pattern of the fits' files, for each panel."""
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
    folder: Path, label: str, original: str, fit: str, encodings: Sequence[str]
) -> Panel:
    fits = {
        f"{folder.name}: {encoding}": _read_image(folder / fit.format(encoding))
        for encoding in encodings
    }
    return Panel(label, _read_image(folder / original), fits, {})


def _fit(entry: dict[str, Any], folder: str) -> FitResult:
    return FitResult(
        encoding=f"{folder}: {entry['encoding']}",
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
