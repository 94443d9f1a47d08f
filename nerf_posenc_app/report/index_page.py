"""The page of a run of several data: a table that leads to the report of each."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import torch

from nerf_posenc.images import resize_area
from nerf_posenc.training.checkpoints import write_text
from nerf_posenc_app.report.images import read_run_image, webp_url
from nerf_posenc_app.report.tables import InputScores, comparable, mean_text
from nerf_posenc_app.report.template import render
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, block_files, file_stem

_THUMBNAIL = 128


def write_index(
    path: Path,
    inputs: Mapping[str, InputScores],
    fits: Sequence[str],
    references: Sequence[str] = (),
    *,
    noun: str,
    command: str,
    report: str,
    failures: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: HTML file in the folder of the run, whose folders are named as the data.
        inputs: scores of all data.
        fits: names of the fits; means are over the data that have all of them.
        references: names of what the fits are compared with.
        noun: what one of the data is, such as ``"image"``.
        command: command line of the run.
        report: name of the page in each folder.
        failures: messages of the data that could not be fitted.
    """
    groups, columns = comparable(inputs, fits), [*fits, *references]
    rows = []
    for name, row in inputs.items():
        best = _best(row.measure, [(e, row.scores[e]) for e in fits if e in row.scores])
        best = best if BASELINE in row.scores else None
        gain = math.nan if best is None else row.scores[best] - row.scores[BASELINE]
        rows.append(
            {
                "name": name,
                "measure": row.measure.label,
                "link": f"{quote(name)}/{report}",
                "thumbnail": _thumbnail(path.parent / name, best),
                "scores": [_cell(row.scores.get(column, math.nan)) for column in columns],
                "gain": _cell(gain if row.measure.higher_is_better else -gain, "+"),
            }
        )
    sums = []
    for measure, titles in groups.items():
        known = [[inputs[t].scores.get(column, math.nan) for t in titles] for column in columns]
        spreads = [statistics.stdev(v) if len(v) > 1 else math.nan for v in known]
        names = f"mean of {len(titles)}", "standard deviation"
        for name, texts in zip(
            names, ([mean_text(v) for v in known], [score_text(s, 2) for s in spreads]), strict=True
        ):
            sums.append({"name": name, "measure": measure.label, "texts": texts})
    headlines = [_headline(inputs, titles, fits, m, noun) for m, titles in groups.items()]
    page = render(
        "index.html.j2",
        {"command": command},
        title=_count(len(rows), noun),
        headline="; ".join(filter(None, headlines)),
        noun=noun,
        measures=list(groups),
        encodings=columns,
        has_references=bool(references),
        has_gain=BASELINE in fits and len(fits) > 1,
        rows=rows,
        failures=failures,
        sums=sums,
    )
    write_text(path, page)


def _best(measure: Measure, scores: Sequence[tuple[str, float]]) -> str | None:
    """Name of the best of some fits with an encoding; None if there is none."""
    sign = 1 if measure.higher_is_better else -1
    encoded = [(sign * score, name) for name, score in scores if name != BASELINE]
    return max(encoded, key=lambda each: each[0])[1] if encoded else None


def _cell(value: float, sign: str = "") -> dict[str, str]:
    """Text of a cell and its sort key."""
    if math.isnan(value):
        return {"value": "", "text": "-"}
    return {"value": f"{value}".replace("inf", "Infinity"), "text": f"{value:{sign}.2f}"}


def _thumbnail(run: Path, best: str | None) -> str | None:
    """Left half without an encoding, right half with the best one, as a small data URL.

    The original of a run that lacks one of the two; None if there is no image either.
    """
    original, pattern = block_files(1)[0]
    try:
        if best is None:
            image = read_run_image(run, original)
        else:
            without, image = (
                read_run_image(run, pattern.format(file_stem(e))) for e in (BASELINE, best)
            )
            half = image.shape[1] // 2
            image = torch.cat([without[:, :half], image[:, half:]], dim=1)
    except (ValueError, RuntimeError):
        return None if best is None else _thumbnail(run, None)
    return webp_url(resize_area(image, min(_THUMBNAIL, max(image.shape[:2]))), 80)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _headline(
    inputs: Mapping[str, InputScores],
    titles: Sequence[str],
    fits: Sequence[str],
    measure: Measure,
    noun: str,
) -> str | None:
    """Mean of the best encoding beside that of the baseline, over data that have both."""
    if BASELINE not in fits or not titles:
        return None
    means = {e: statistics.mean(inputs[t].scores[e] for t in titles) for e in fits}
    best = _best(measure, list(means.items()))
    if best is None:
        return None
    return (
        f"{best} reached {measure.quantity} {means[best]:.1f}"
        f"{measure.suffix} on average over {_count(len(titles), noun)}, "
        f"{means[BASELINE]:.1f}{measure.suffix} without it"
    )
