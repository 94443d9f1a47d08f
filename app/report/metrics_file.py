"""``metrics.json``: written as the last file of a run, read back with every value checked."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.report.tables import gain
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.results import FitResult, Record

METRICS = "metrics.json"

_MOST_BYTES = 64 << 20
_MOST_ITEMS = 1_000_000
_MOST_NAME = 200


@dataclass(frozen=True)
class Metrics:
    """What a complete run recorded.

    Attributes:
        command: that was run.
        kind: ``"image"`` or ``"scene"``.
        name: of the image or scene.
        num_steps: length of a fit.
        fits: results, without images.
        view_names: of a scene's test views; empty for an image.
        config: of the run.
        versions: of what it was made with.
    """

    command: str
    kind: str
    name: str
    num_steps: int
    fits: Sequence[FitResult]
    view_names: Sequence[str]
    config: Mapping[str, Any]
    versions: Mapping[str, Any]

    def complete_fits(self) -> dict[str, FitResult]:
        """Fits that took all their steps, by encoding."""
        return {fit.encoding: fit for fit in self.fits if fit.steps == self.num_steps}


def write_metrics(path: Path, results: Sequence[FitResult], run: dict[str, Any]) -> None:
    """Write all results, the histories and the description of the run as JSON.

    Args:
        path: file to write.
        results: the fits.
        run: command, configuration, versions and device.
    """
    fits = [
        {
            "encoding": result.encoding,
            "parameters": result.parameters,
            "psnr_db": result.psnr,
            "ssim": result.ssim,
            "seconds": result.seconds,
            "steps": result.steps,
            "gain_db": gain(result, results),
            "history": [
                {
                    "step": record.step,
                    "seconds": record.seconds,
                    "mse": record.loss,
                    "psnr_db": psnr_from_mse(record.loss),
                }
                for record in result.history
            ],
            **result.details,
        }
        for result in results
    ]
    definitions = {
        "psnr_db": "-10 log10(MSE) over all pixels of an image, with --held-out over those that "
        "were not fitted, or its mean over the test views; values clamped to [0, 1], float64; the "
        "string inf for a perfect fit, null if undefined",
        "ssim": "Wang et al. 2004: 11 x 11 Gaussian window, sigma 1.5, mean over channels",
        "history": "mean over the batches of the steps since the previous point",
    }
    report = _as_json({**run, "definitions": definitions, "fits": fits})
    path.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _as_json(value: Any) -> Any:
    """Replace infinite numbers by strings and NaN by null, also within containers."""
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_json(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def read_metrics(folder: Path) -> Metrics:
    """Read the ``metrics.json`` of a run folder, trusting nothing in it.

    Raises:
        OSError: If it cannot be read.
        ValueError: If a value is missing, of another type, out of its range, or a name that could
            lead out of the run folder.
    """
    file = folder / METRICS
    if not file.is_file():
        if any(folder.glob("*/metrics.json")):
            raise ValueError("it is a run of several images: name the folders of the images")
        resume = "; go on with it by --resume" if (folder / "run.json").is_file() else ""
        raise ValueError(f"it has no {METRICS}: the run is not complete{resume}")
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{METRICS} is larger than {_MOST_BYTES >> 20} MB")
    try:
        run = _mapping(json.loads(file.read_text(encoding="utf-8")), METRICS)
    except RecursionError:
        raise ValueError(f"{METRICS} is nested too deeply") from None
    kind = "image" if "image" in run else "scene"
    fits = [_fit(_mapping(entry, "a fit")) for entry in _list(run.get("fits"), "fits")]
    if not fits:
        raise ValueError("it has no fits")
    if len({fit.encoding for fit in fits}) < len(fits):
        raise ValueError("two of its fits have one name")
    config = _mapping(run.get("config", {}), "config")
    training = _mapping(config.get("training", {}), "training")
    views: Sequence[Any] = ()
    if kind == "scene":
        first = _mapping(run["fits"][0], "a fit")
        views = _list(first.get("views"), "views")
    return Metrics(
        command=_text(run.get("command"), "command", most=100_000),
        kind=kind,
        name=_text(_mapping(run.get(kind), kind).get("name"), "name"),
        num_steps=_count(training.get("steps", max(fit.steps for fit in fits)), "steps"),
        fits=fits,
        view_names=[_text(_mapping(view, "a view").get("name"), "name") for view in views],
        config=config,
        versions=_mapping(run.get("versions", {}), "versions"),
    )


def _fit(entry: Mapping[str, Any]) -> FitResult:
    history = [
        Record(
            _count(record.get("step"), "step"),
            _number(record.get("seconds"), "seconds"),
            _score(record.get("mse"), "mse"),
        )
        for record in (_mapping(each, "history") for each in _list(entry.get("history"), "history"))
    ]
    return FitResult(
        encoding=_file_name(entry.get("encoding"), "encoding"),
        parameters=_count(entry.get("parameters"), "parameters"),
        psnr=_score(entry.get("psnr_db"), "psnr_db"),
        ssim=_score(entry.get("ssim"), "ssim"),
        seconds=_number(entry.get("seconds"), "seconds"),
        steps=_count(entry.get("steps"), "steps"),
        history=history,
    )


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object; it is {type(value).__name__}")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise ValueError(f"{name} must be a list of at most {_MOST_ITEMS:,} items")
    return value


def _text(value: Any, name: str, *, most: int = 1000) -> str:
    if not isinstance(value, str) or len(value) > most or (not value.isascii() and "\0" in value):
        raise ValueError(f"{name} must be a text of at most {most} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode") from None
    return value


def _file_name(value: Any, name: str) -> str:
    text = _text(value, name, most=_MOST_NAME)
    if not text.strip(". ") or set(text) & set("/\\:\0") or not text.isprintable():
        raise ValueError(f"{name} must be the plain name of a file; it is {text!r}")
    return text


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise ValueError(f"{name} must be a whole number of 0 or more; it is {value!r:.80}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise ValueError(f"{name} must be a finite number; it is {value!r:.80}")
    return float(value)


def _score(value: Any, name: str) -> float:
    """Read a score: null is NaN, and infinite ones are strings."""
    if value is None:
        return math.nan
    return math.inf if value == "inf" else _number(value, name)
