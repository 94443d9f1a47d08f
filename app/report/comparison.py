"""Runs that were made before, read back from their folders to be compared."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import torch
from torch import Tensor

from app.report.page import Shown, write_page
from app.report.tables import FitResult
from nerf_posenc.training.loop import Record


def write_comparison(path: Path, folders: Sequence[Path]) -> list[FitResult]:
    """Write one page over several runs.

    Args:
        path: HTML file; its folder is made, once all runs are read.
        folders: of runs, each with its ``metrics.json`` and pictures as the run left them.

    Returns:
        All fits, in the order of the folders, named by folder and encoding.

    Raises:
        ValueError: where a folder holds no run.
    """
    results: list[FitResult] = []
    shown: list[Shown] = []
    app = []
    for folder in folders:
        run, fits, pictures = _read_run(folder)
        app.append(run["command"])
        results += fits
        for picture in pictures:
            twin = next((i for i, one in enumerate(shown) if _is_one(one, picture)), None)
            if twin is None:
                shown.append(picture)
            else:
                shown[twin] = replace(shown[twin], fits={**shown[twin].fits, **picture.fits})
    title = "Comparison of " + ", ".join(folder.name for folder in folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(path, title, shown, results, {"command": "\n".join(app)})
    return results


def _is_one(a: Shown, b: Shown) -> bool:
    return a.original.shape == b.original.shape and torch.equal(a.original, b.original)


def _read_run(folder: Path) -> tuple[dict[str, Any], list[FitResult], list[Shown]]:
    try:
        run = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        fits = [_fit(entry, folder.name) for entry in run["fits"]]
        name = (run.get("picture") or run["scene"])["name"]
        encodings = [entry["encoding"] for entry in run["fits"]]
        if "picture" in run:
            files = [(name, "original.png", "{}.png")]
        else:
            views = run["fits"][0]["views"]
            files = [
                (f"{name} {view['name']}", f"truth/view_{i:03}.png", f"{{}}/view_{i:03}.png")
                for i, view in enumerate(views[:6])
            ]
        pictures = [
            Shown(
                label,
                _read_picture(folder / original),
                {
                    f"{folder.name}: {encoding}": _read_picture(folder / fit.format(encoding))
                    for encoding in encodings
                },
                {},
            )
            for label, original, fit in files
        ]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{folder} is no folder of a run, or not a whole one ({type(error).__name__}: {error})"
        ) from None
    return run, fits, pictures


def _fit(entry: dict[str, Any], folder: str) -> FitResult:
    psnr, ssim = entry["psnr_db"], entry["ssim"]
    return FitResult(
        encoding=f"{folder}: {entry['encoding']}",
        parameters=entry["parameters"],
        psnr=math.inf if psnr is None else psnr,
        ssim=math.nan if ssim is None else ssim,
        seconds=entry["seconds"],
        steps=entry["steps"],
        history=[Record(r["step"], r["seconds"], r["mse"]) for r in entry["history"]],
    )


def _read_picture(file: Path) -> Tensor:
    return torch.from_numpy(iio.imread(file)).float() / 255
