"""The page of a run of several data: a table that leads to the report of each."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import torch

from nerf_posenc.images import resize_area
from nerf_posenc.training.checkpoints import write_text
from nerf_posenc.training.results import Measure
from nerf_posenc_app.blocks import FitName, block_files, file_stem
from nerf_posenc_app.report.headline import encoding_title
from nerf_posenc_app.report.images import read_run_image, webp_url
from nerf_posenc_app.report.tables import BASELINE
from nerf_posenc_app.report.template import render

_THUMBNAIL = 128

Scores = Mapping[str, Mapping[str, float]]
"""Score by data and fit; a fit that failed is left out."""


def write_index(
    path: Path,
    scores: Scores,
    encodings: Sequence[str],
    measure: Measure,
    *,
    noun: str,
    command: str,
    report: str,
    failures: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: HTML file in the folder of the run, whose folders are named as the data.
        scores: scores of all fits and references.
        encodings: names of the fits; scores of other names are shown beside them.
        measure: what the scores are.
        noun: what one of the data is, such as ``"image"``.
        command: command line of the run.
        report: name of the page in each folder.
        failures: messages of the data that could not be fitted.
    """
    others = [name for by_fit in scores.values() for name in by_fit if name not in encodings]
    columns = [*encodings, *dict.fromkeys(others)]
    rows = []
    for name, by_fit in scores.items():
        encoded = {e: by_fit[e] for e in encodings if e != BASELINE and e in by_fit}
        best = max(encoded, key=lambda e: encoded[e]) if encoded and BASELINE in by_fit else None
        gain = math.nan if best is None else by_fit[best] - by_fit[BASELINE]
        rows.append(
            {
                "name": name,
                "link": f"{quote(name)}/{report}",
                "thumbnail": _thumbnail(path.parent / name, best),
                "scores": [_cell(by_fit.get(encoding, math.nan)) for encoding in columns],
                "gain": _cell(gain, "+"),
            }
        )
    known = _known(scores, columns)
    means = [f"{statistics.mean(v):.2f}" if v else "-" for v in known.values()]
    spreads = [f"{statistics.stdev(v):.2f}" if len(v) > 1 else "-" for v in known.values()]
    page = render(
        "index.html.j2",
        {"command": command},
        title=_count(len(rows), noun),
        headline=_headline(scores, encodings, measure, noun),
        noun=noun,
        measure=measure,
        encodings=columns,
        num_fits=len(encodings),
        has_gain=BASELINE in encodings and len(encodings) > 1,
        rows=rows,
        failures=failures,
        sums=[{"name": "mean", "texts": means}, {"name": "standard deviation", "texts": spreads}],
    )
    write_text(path, page)


def _cell(value: float, sign: str = "") -> dict[str, str]:
    """What a cell shows, and what it is sorted by."""
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


def _known(scores: Scores, names: Sequence[str]) -> dict[str, list[float]]:
    """Finite scores of all data by fit."""
    return {
        name: [by[name] for by in scores.values() if math.isfinite(by.get(name, math.nan))]
        for name in names
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _headline(scores: Scores, encodings: Sequence[str], measure: Measure, noun: str) -> str | None:
    """Mean of the best encoding beside that of the baseline."""
    known = {e: statistics.mean(v) for e, v in _known(scores, encodings).items() if v}
    if BASELINE not in known or len(known) < 2:
        return None
    best = max((e for e in known if e != BASELINE), key=lambda e: known[e])
    both = [
        (by[best], by[BASELINE])
        for by in scores.values()
        if math.isfinite(by.get(best, math.nan)) and math.isfinite(by.get(BASELINE, math.nan))
    ]
    if not both:
        return None
    reached, without = (statistics.mean(column) for column in zip(*both, strict=True))
    return (
        f"{encoding_title(FitName(best))} reaches {reached:.1f}{measure.unit} on average over "
        f"{_count(len(both), noun)}, {without:.1f}{measure.unit} without it"
    )
