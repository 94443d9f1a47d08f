"""``metrics.json``: written as the last file of a run, read back with every value checked."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.report.evaluation_json import evaluation_as_json, evaluation_from_json
from app.report.tables import gain
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.results import (
    FIELD_MEASURES,
    FieldResult,
    FitResult,
    Measure,
    Record,
)
from nerf_posenc.training.system import SequenceResult

METRICS = "metrics.json"

_MOST_BYTES = 64 << 20
_MOST_ITEMS = 1_000_000
_MOST_NAME = 200


@dataclass(frozen=True)
class Metrics:
    """What a complete run recorded.

    Attributes:
        command: that was run.
        kind: ``"image"``, ``"scene"`` or ``"sequence"``.
        name: of what was fitted.
        measures: columns of the table.
        num_steps: length of a fit.
        limit_seconds: length of a fit in seconds of training, if it was given so.
        fits: results, without images.
        view_names: of a scene's test views; empty for all others.
        lesson: what a sequence's encodings show; empty for all others.
        citations: BibTeX of a sequence's papers; empty for all others.
        config: of the run.
        versions: of what it was made with.
    """

    command: str
    kind: str
    name: str
    measures: Sequence[Measure]
    num_steps: int
    limit_seconds: float | None
    fits: Sequence[FitResult]
    view_names: Sequence[str]
    lesson: str
    citations: Sequence[str]
    config: Mapping[str, Any]
    versions: Mapping[str, Any]

    def complete_fits(self) -> dict[str, FitResult]:
        """Fits that took all their steps, or all their seconds, by encoding."""
        return {
            fit.encoding: fit
            for fit in self.fits
            if fit.has_all_steps(self.num_steps, self.limit_seconds)
        }


def write_metrics(
    path: Path,
    results: Sequence[FitResult],
    run: dict[str, Any],
    measures: Sequence[Measure] = FIELD_MEASURES,
) -> None:
    """Write all results, the histories and the description of the run as JSON.

    Args:
        path: file to write.
        results: the fits.
        run: command, configuration, versions and device.
        measures: of the results.
    """
    gain_name = "gain_db" if measures[0].name.endswith("_db") else "gain"
    fits = [
        {
            "encoding": result.encoding,
            "parameters": result.parameters,
            **result.scores,
            "seconds": result.seconds,
            "steps": result.steps,
            gain_name: gain(result, results, measures),
            "history": [
                {"step": record.step, "seconds": record.seconds, **_loss(record, result)}
                for record in result.history
            ],
            **_evaluation(result),
            **result.details,
        }
        for result in results
    ]
    definitions = {
        **{measure.name: measure.meaning for measure in measures},
        "history": "mean over the batches of the steps since the previous point",
    }
    columns = [asdict(measure) for measure in measures]
    report = _as_json({**run, "definitions": definitions, "measures": columns, "fits": fits})
    path.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _loss(record: Record, result: FitResult) -> dict[str, float]:
    if isinstance(result, FieldResult):
        return {"mse": record.loss, "psnr_db": psnr_from_mse(record.loss)}
    return {"loss": record.loss}


def _evaluation(result: FitResult) -> dict[str, Any]:
    """What a sequence's report shows, so that runs can be compared later."""
    if not isinstance(result, SequenceResult):
        return {}
    return {"by_seed": list(result.by_seed), **evaluation_as_json(result.evaluation)}


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
    kind = next((kind for kind in ("image", "sequence") if kind in run), "scene")
    measures = _measures(run) if kind == "sequence" else FIELD_MEASURES
    entries = [_mapping(entry, "a fit") for entry in _list(run.get("fits"), "fits")]
    fits: list[FitResult]
    if kind == "sequence":
        fits = [_sequence_fit(entry, measures) for entry in entries]
    else:
        fits = [_field_fit(entry) for entry in entries]
    if not fits:
        raise ValueError("it has no fits")
    if len({fit.encoding for fit in fits}) < len(fits):
        raise ValueError("two of its fits have one name")
    config = _mapping(run.get("config", {}), "config")
    training = _mapping(config.get("training", {}), "training")
    seconds = training.get("seconds")
    fitted = _mapping(run.get(kind), kind)
    citations = _list(fitted.get("citations", []), "citations")
    views: Sequence[Any] = ()
    if kind == "scene":
        first = _mapping(run["fits"][0], "a fit")
        views = _list(first.get("views"), "views")
    return Metrics(
        command=_text(run.get("command"), "command", most=100_000),
        kind=kind,
        name=_text(fitted.get("name"), "name"),
        measures=measures,
        num_steps=_count(training.get("steps") or max(fit.steps for fit in fits), "steps"),
        limit_seconds=None if seconds is None else _number(seconds, "seconds"),
        fits=fits,
        lesson=_text(fitted.get("lesson", ""), "lesson"),
        citations=[_text(citation, "citations") for citation in citations],
        view_names=[_text(_mapping(view, "a view").get("name"), "name") for view in views],
        config=config,
        versions=_mapping(run.get("versions", {}), "versions"),
    )


def _field_fit(entry: Mapping[str, Any]) -> FieldResult:
    return FieldResult(
        **_common(entry, "mse"),
        psnr=_score(entry.get("psnr_db"), "psnr_db"),
        ssim=_score(entry.get("ssim"), "ssim"),
    )


def _sequence_fit(entry: Mapping[str, Any], measures: Sequence[Measure]) -> SequenceResult:
    names = [measure.name for measure in measures]
    scores = {name: _score(entry.get(name), name) for name in names}
    seeds = [_mapping(seed, "by_seed") for seed in _list(entry.get("by_seed"), "by_seed")]
    return SequenceResult(
        **_common(entry, "loss"),
        evaluation=evaluation_from_json(entry, scores),
        by_seed=[{name: _score(seed.get(name), name) for name in names} for seed in seeds],
    )


def _common(entry: Mapping[str, Any], loss: str) -> dict[str, Any]:
    """What all fits have, and their history of losses of that name."""
    records = [_mapping(each, "history") for each in _list(entry.get("history"), "history")]
    return {
        "encoding": _file_name(entry.get("encoding"), "encoding"),
        "parameters": _count(entry.get("parameters"), "parameters"),
        "seconds": _number(entry.get("seconds"), "seconds"),
        "steps": _count(entry.get("steps"), "steps"),
        "history": [
            Record(
                _count(record.get("step"), "step"),
                _number(record.get("seconds"), "seconds"),
                _score(record.get(loss), loss),
            )
            for record in records
        ],
    }


def _measures(run: Mapping[str, Any]) -> list[Measure]:
    """Columns of a sequence's table."""
    found = []
    for entry in _list(run.get("measures"), "measures"):
        each = _mapping(entry, "a measure")
        digits = _count(each.get("digits"), "digits")
        if digits > 10:
            raise ValueError(f"digits must be 10 or less; they are {digits}")
        found.append(
            Measure(
                name=_text(each.get("name"), "name"),
                label=_text(each.get("label"), "label"),
                digits=digits,
                higher_is_better=each.get("higher_is_better") is True,
                meaning=_text(each.get("meaning", ""), "meaning"),
            )
        )
    if not found:
        raise ValueError("it has no measures")
    return found


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
