"""Comparison of runs, read back from their folders."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nerf_posenc.training.checkpoints import replacing
from nerf_posenc_app.options import NOT_COMPARED
from nerf_posenc_app.report.outputs import TRAINING_VIDEO
from nerf_posenc_app.report.page import About, write_page
from nerf_posenc_app.report.tables import PER_FIT
from nerf_posenc_app.runs.saved import (
    Metrics,
    read_file_blocks,
    read_metrics,
    read_views,
    video_file,
)
from nerf_posenc_app.values.blocks import Table, View
from nerf_posenc_app.values.finding import is_chance
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import video_stem
from nerf_posenc_app.values.results import Result

_MAX_VIEWS = 6
_MAX_SETTING = 80


def write_comparison(
    path: Path, folders: Sequence[Path], *, is_new: bool = False
) -> tuple[Mapping[str, Sequence[Result]], About]:
    """Write one page that compares several runs.

    Args:
        path: HTML file; its folder is created once all runs are read.
        folders: run folders, each with its ``metrics.json`` and images.
        is_new: whether to replace no file.

    Returns:
        All fits, named by folder and encoding, by what was fitted; and what the page says of them,
        with the description of each run.

    Raises:
        FileExistsError: If there is a file of that name, and none is to be replaced.
        ValueError: If a folder contains no complete run, or is given twice, or the runs measure
            different things.
    """
    labels = _unique_labels(folders)
    runs = {label: _read(folder) for folder, label in zip(folders, labels, strict=True)}
    folder_of = dict(zip(labels, folders, strict=True))
    measures = _common_measures(runs)
    originals: dict[str, list[View]] = {}
    groups: dict[str, list[str]] = {}
    results: list[Result] = []
    for label, run in runs.items():
        fits = [_with_views(folder_of[label], label, fit) for fit in run.fits]
        known_views = originals.setdefault(run.data.evaluated_on, [])
        group = groups.setdefault(_group_title(run, fits, known_views), [])
        known_views += [view for fit in fits[:1] for view in fit.blocks(View)]
        # References of the same data are the same in every run.
        known = [_alike(fit) for fit in results if fit.label in group]
        fits = [fit for fit in fits if not (fit.is_reference and _alike(fit) in known)]
        group += [fit.label for fit in fits]
        results += fits
    # Fits of one group stand together.
    results.sort(key=lambda fit: [fit.label in group for group in groups.values()].index(True))
    details: dict[str, Any] = {"command": "\n".join(run.command for run in runs.values())}
    for label, run in runs.items():
        data = {"digest": run.data.digest}
        made_by = {"versions": run.versions, "device": run.device}
        details[label] = {"config": run.config, "data": data, **made_by}
    qualifications = {
        label: run.finding.qualifications for label, run in runs.items() if run.finding is not None
    }
    doubtful = [
        label for label, run in runs.items() if run.finding and run.finding.verdict == "doubtful"
    ]
    about = About(
        title="Comparison of " + ", ".join(labels),
        measures=measures,
        training=next(iter(runs.values())).training,
        run=details,
        lead=" ".join(dict.fromkeys(run.data.about for run in runs.values())),
        citations=list(dict.fromkeys(c for run in runs.values() for c in run.data.citations)),
        groups=groups,
        headline=finding(results, groups, measures[0], doubtful),
        notes=[f"{label}: {text}" for label, texts in qualifications.items() for text in texts],
        differing=differing_settings({label: _settings(run) for label, run in runs.items()}),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, is_new=is_new) as partial:
        write_page(partial, about, results, videos=_videos(runs, folder_of))
    by_group = {
        title: [fit for fit in results if fit.label in names] for title, names in groups.items()
    }
    return by_group, about


def _alike(fit: Result) -> tuple[str, Mapping[str, float]]:
    """Values by which two references are the same."""
    return str(fit.name.in_run), fit.scores


def finding(
    results: Sequence[Result],
    groups: Mapping[str, Sequence[str]],
    measure: Measure,
    doubtful: Sequence[str] = (),
) -> str | None:
    """Say which fit is best, and how far ahead of the next; None if nothing can be compared.

    Args:
        results: all fits.
        groups: names of the fits of each group.
        measure: measure that the fits are compared by.
        doubtful: runs whose scores say little of the encodings.
    """
    sentences = []
    data_of = {title: title.rpartition(": ")[0] for title in groups}
    for title, names in groups.items():
        sign = 1 if measure.higher_is_better else -1
        fits = [fit for fit in results if fit.label in names]
        known = [fit for fit in fits if math.isfinite(fit.scores[measure.name])]
        known.sort(key=lambda fit: -sign * fit.scores[measure.name])
        if len(known) < 2:
            continue
        best, next_best = known[:2]
        first, second = (score_text(fit.scores[measure.name], measure.digits) for fit in known[:2])
        is_alone = list(data_of.values()).count(data_of[title]) == 1
        data = f"{data_of[title] if is_alone else title}: " if len(groups) > 1 else ""
        names = [fit.label for fit in known[:2]]
        sentence = (
            f"{names[0]} and {names[1]} are equal, {measure.label} {first}"
            if first == second
            else f"{names[0]} and {names[1]} differ by less than their seeds: {measure.label} "
            f"{first} and {second}"
            if is_chance(best, next_best, measure)
            else f"{names[0]} is best: {measure.label} {first}, {second} for {names[1]}"
        )
        unsure = dict.fromkeys(str(fit.name.run) for fit in known[:2] if fit.name.run in doubtful)
        if unsure:
            sentence += f" (see the notes on {' and '.join(unsure)} before comparing)"
        sentences.append(data + sentence)
    return "; ".join(sentences) or None


def _common_measures(runs: Mapping[str, Metrics]) -> Sequence[Measure]:
    """Columns of all runs.

    Raises:
        ValueError: If two runs have other first columns, or other quantities of one name.
    """
    first_label, first = next(iter(runs.items()))
    columns = {measure.name: measure for measure in first.measures}
    for label, run in runs.items():
        pairs = [(first.measures[0], run.measures[0])]
        pairs += [(columns.setdefault(own.name, own), own) for own in run.measures]
        for known, own in pairs:
            if (own.name, own.label) != (known.name, known.label):
                raise ValueError(
                    f"{first_label} and {label} measure different things ({known.label} and "
                    f"{own.label}); compare runs of one kind, one model and the same lengths"
                )
    return list(columns.values())


def _with_views(folder: Path, label: str, fit: Result) -> Result:
    """A fit named by its run, with its images and other files."""
    try:
        views = read_views(folder, fit, _MAX_VIEWS)
        others = read_file_blocks(folder, fit)
    except (OSError, ValueError) as error:
        raise _not_complete(folder, error) from None
    evaluation = replace(fit.evaluation, blocks=[*views, *others, *fit.evaluation.blocks])
    return replace(fit, name=replace(fit.name, run=label), evaluation=evaluation)


def _group_title(run: Metrics, fits: Sequence[Result], known: Sequence[View]) -> str:
    """Data, its size if it has images, and what is measured."""
    title, views = run.data.title, [view for fit in fits[:1] for view in fit.blocks(View)]
    if views:
        height, width, _ = views[0].original.shape
        title += ", " + " x ".join(map(str, run.data.size or (width, height)))
        alike = [view.original for view in known if view.title == views[0].title]
        others = [
            o
            for o in alike
            if o.shape != views[0].original.shape or not torch.equal(o, views[0].original)
        ]
        if len(others) == len(alike) and alike:
            title += f", another image of this name ({len(alike) + 1})"
    of = f" of {run.data.evaluated_on}" if run.data.evaluated_on else ""
    return f"{title}: {run.measures[0].label}{of}"


def _settings(run: Metrics) -> dict[str, Any]:
    """Configuration of a run, with what its fits used of the settings that a fit may choose."""
    details = [fit.details for fit in run.fits if not fit.is_reference]
    # Bands are of no fit whose encoding has none, whatever was asked for.
    used = {
        name: list(dict.fromkeys(_plain(each[name]) for each in details if each[name] is not None))
        for name in PER_FIT
        if name in run.config
    }
    return {**run.config, **(used if any(used.values()) else {})}


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Settings in which the runs differ; None if they are alike.

    Args:
        configs: configurations of the runs by their names.
    """
    names = dict.fromkeys(name for config in configs.values() for name in config)
    texts = {
        name.replace("_", " "): [_plain(config.get(name)) for config in configs.values()]
        for name in names
        if name not in (*NOT_COMPARED, "encodings", "references")
    }
    rows = [
        [name, *(text[:_MAX_SETTING] for text in row)]
        for name, row in texts.items()
        if len({*row}) > 1
    ]
    return Table("Settings that differ", ["", *configs], rows) if rows else None


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_plain, value)) or "-"
    if value is None or isinstance(value, bool):
        return "yes" if value else "-"
    return str(value)


def _videos(runs: Mapping[str, Metrics], folders: Mapping[str, Path]) -> dict[str, dict[str, Path]]:
    """Videos of the run folders that are there, by heading and by what they show."""
    files_by_view: dict[str, dict[str, Path]] = {}
    for label, run in runs.items():
        training = video_file(folders[label], TRAINING_VIDEO)
        if training is not None:
            files_by_view.setdefault("Training progress", {})[label] = training
        for fit in run.fits:
            for title in fit.details["video_titles"]:
                file = video_file(folders[label], video_stem(title, fit.name))
                if file is not None:
                    files_by_view.setdefault(title, {})[f"{label}: {fit.label}"] = file
    return files_by_view


def _unique_labels(folders: Sequence[Path]) -> list[str]:
    """Names of run folders, with as many of their parents as tell them apart."""
    resolved = [folder.resolve() for folder in folders]
    for depth in range(1, max((len(folder.parts) for folder in resolved), default=1) + 1):
        labels = ["/".join(folder.parts[-depth:]) for folder in resolved]
        # The page has the commands of all runs under this name.
        if len(set(labels)) == len(labels) and "command" not in labels:
            return labels
    twice = next(folder for i, folder in enumerate(resolved) if folder in resolved[:i])
    raise ValueError(f"the run folder {twice} is given twice")


def _read(folder: Path) -> Metrics:
    try:
        return read_metrics(folder)
    except (OSError, ValueError) as error:
        raise _not_complete(folder, error) from None


def _not_complete(folder: Path, error: OSError | ValueError) -> ValueError:
    reason = getattr(error, "strerror", None) or error
    return ValueError(f"{folder} is not the folder of a complete run: {reason}")
