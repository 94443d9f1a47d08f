"""``metrics.json``: written as the last file of a run, read back with every value checked."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.report.checked_json import count, file_name, items, mapping, number, score, text
from app.report.evaluation_json import evaluation_as_json, evaluation_from_json
from app.report.tables import gain
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training.results import (
    FIELD_MEASURES,
    FieldResult,
    FitResult,
    Measure,
    Record,
    Storage,
)
from nerf_posenc.training.system import SequenceResult

METRICS = "metrics.json"

_MOST_BYTES = 64 << 20


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
        run = mapping(json.loads(file.read_text(encoding="utf-8")), METRICS)
    except RecursionError:
        raise ValueError(f"{METRICS} is nested too deeply") from None
    kind = next((kind for kind in ("image", "sequence") if kind in run), "scene")
    measures = _measures(run) if kind == "sequence" else FIELD_MEASURES
    entries = [mapping(entry, "a fit") for entry in items(run.get("fits"), "fits")]
    fits: list[FitResult]
    if kind == "sequence":
        fits = [_sequence_fit(entry, measures) for entry in entries]
    else:
        fits = [_field_fit(entry) for entry in entries]
    if not fits:
        raise ValueError("it has no fits")
    if len({fit.encoding for fit in fits}) < len(fits):
        raise ValueError("two of its fits have one name")
    config = mapping(run.get("config", {}), "config")
    training = mapping(config.get("training", {}), "training")
    seconds = training.get("seconds")
    fitted = mapping(run.get(kind), kind)
    citations = items(fitted.get("citations", []), "citations")
    views: Sequence[Any] = ()
    if kind == "scene":
        first = mapping(run["fits"][0], "a fit")
        views = items(first.get("views"), "views")
    return Metrics(
        command=text(run.get("command"), "command", most=100_000),
        kind=kind,
        name=text(fitted.get("name"), "name"),
        measures=measures,
        num_steps=count(training.get("steps") or max(fit.steps for fit in fits), "steps"),
        limit_seconds=None if seconds is None else number(seconds, "seconds"),
        fits=fits,
        lesson=text(fitted.get("lesson", ""), "lesson"),
        citations=[text(citation, "citations") for citation in citations],
        view_names=[text(mapping(view, "a view").get("name"), "name") for view in views],
        config=config,
        versions=mapping(run.get("versions", {}), "versions"),
    )


def _field_fit(entry: Mapping[str, Any]) -> FieldResult:
    return FieldResult(
        **_common(entry, "mse"),
        psnr=score(entry.get("psnr_db"), "psnr_db"),
        ssim=score(entry.get("ssim"), "ssim"),
        storage=_storage(entry),
    )


def _storage(entry: Mapping[str, Any]) -> Storage | None:
    """What a fit within a number of parameters takes; None if that was not measured."""
    names = ("bpp_float16", "psnr_float16_db", "bpp_8bit", "psnr_8bit_db")
    if not any(name in entry for name in names):
        return None
    bpp_float16, psnr_float16, bpp_8bit, psnr_8bit = (score(entry.get(n), n) for n in names)
    return Storage(
        bpp_float16=bpp_float16,
        psnr_float16=psnr_float16,
        bpp_8bit=bpp_8bit,
        psnr_8bit=psnr_8bit,
    )


def _sequence_fit(entry: Mapping[str, Any], measures: Sequence[Measure]) -> SequenceResult:
    names = [measure.name for measure in measures]
    scores = {name: score(entry.get(name), name) for name in names}
    seeds = [mapping(seed, "by_seed") for seed in items(entry.get("by_seed"), "by_seed")]
    return SequenceResult(
        **_common(entry, "loss"),
        evaluation=evaluation_from_json(entry, scores),
        by_seed=[{name: score(seed.get(name), name) for name in names} for seed in seeds],
    )


def _common(entry: Mapping[str, Any], loss: str) -> dict[str, Any]:
    """What all fits have, and their history of losses of that name."""
    records = [mapping(each, "history") for each in items(entry.get("history"), "history")]
    return {
        "encoding": file_name(entry.get("encoding"), "encoding"),
        "parameters": count(entry.get("parameters"), "parameters"),
        "seconds": number(entry.get("seconds"), "seconds"),
        "steps": count(entry.get("steps"), "steps"),
        "history": [
            Record(
                count(record.get("step"), "step"),
                number(record.get("seconds"), "seconds"),
                score(record.get(loss), loss),
            )
            for record in records
        ],
    }


def _measures(run: Mapping[str, Any]) -> list[Measure]:
    """Columns of a sequence's table."""
    found = []
    for entry in items(run.get("measures"), "measures"):
        each = mapping(entry, "a measure")
        digits = count(each.get("digits"), "digits")
        if digits > 10:
            raise ValueError(f"digits must be 10 or less; they are {digits}")
        found.append(
            Measure(
                name=text(each.get("name"), "name"),
                label=text(each.get("label"), "label"),
                digits=digits,
                higher_is_better=each.get("higher_is_better") is True,
                meaning=text(each.get("meaning", ""), "meaning"),
            )
        )
    if not found:
        raise ValueError("it has no measures")
    return found
