"""The page of a run of several images: a table that leads to the report of each."""

import base64
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image

from app.report.comparison import read_run_image
from app.report.eight_bit import eight_bit
from app.report.headline import title
from app.report.outputs import REPORT
from app.report.tables import BASELINE
from app.report.template import render
from nerf_posenc.images import resize_area

_THUMBNAIL = 128


def write_index(
    path: Path,
    scores: Mapping[str, Mapping[str, float]],
    encodings: Sequence[str],
    command: str,
) -> None:
    """Write the page.

    Args:
        path: HTML file in the folder of the run, whose folders are named as the images.
        scores: PSNR in dB by image and encoding; a fit that failed is left out.
        encodings: that were fitted; scores of other names are shown beside them.
        command: that was run.
    """
    others = [name for by in scores.values() for name in by if name not in encodings]
    columns = [*encodings, *dict.fromkeys(others)]
    rows = [_row(path.parent, name, by, encodings, columns) for name, by in scores.items()]
    has_gain = BASELINE in encodings and len(encodings) > 1
    page = render(
        "index.html.j2",
        {"command": command},
        title=f"{len(rows)} images",
        headline=_headline(scores, encodings),
        encodings=columns,
        num_fits=len(encodings),
        has_gain=has_gain,
        rows=rows,
        sums=_sums(scores, columns),
    )
    path.write_text(page, encoding="utf-8")


def _row(
    folder: Path,
    name: str,
    scores: Mapping[str, float],
    encodings: Sequence[str],
    columns: Sequence[str],
) -> dict[str, Any]:
    others = [scores[name] for name in encodings if name != BASELINE and name in scores]
    gain = math.nan
    if BASELINE in scores and others:
        gain = max(others) - scores[BASELINE]
    return {
        "name": name,
        "link": f"{quote(name)}/{REPORT}",
        "thumbnail": _thumbnail(folder / name),
        "scores": [_cell(scores.get(encoding, math.nan), "") for encoding in columns],
        "gain": _cell(gain, "+"),
    }


def _cell(value: float, sign: str) -> dict[str, str]:
    """What a cell shows, and what it is sorted by."""
    if math.isnan(value):
        return {"value": "", "text": "-"}
    return {"value": f"{value}".replace("inf", "Infinity"), "text": f"{value:{sign}.2f}"}


def _thumbnail(run: Path) -> str | None:
    """The original of a run as a small data URL; None if it cannot be read."""
    try:
        image = read_run_image(run, "original.png")
    except ValueError:
        return None
    small = resize_area(image, min(_THUMBNAIL, max(image.shape[:2])))
    buffer = io.BytesIO()
    Image.fromarray(eight_bit(small)).save(buffer, "WEBP", quality=80, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _known(
    scores: Mapping[str, Mapping[str, float]], encodings: Sequence[str]
) -> dict[str, list[float]]:
    """Finite scores of all images by encoding."""
    return {
        encoding: [
            by[encoding] for by in scores.values() if math.isfinite(by.get(encoding, math.nan))
        ]
        for encoding in encodings
    }


def _sums(
    scores: Mapping[str, Mapping[str, float]], encodings: Sequence[str]
) -> list[dict[str, Any]]:
    known = _known(scores, encodings)
    means = [f"{statistics.mean(v):.2f}" if v else "-" for v in known.values()]
    spreads = [f"{statistics.stdev(v):.2f}" if len(v) > 1 else "-" for v in known.values()]
    return [{"name": "mean", "texts": means}, {"name": "standard deviation", "texts": spreads}]


def _headline(scores: Mapping[str, Mapping[str, float]], encodings: Sequence[str]) -> str | None:
    """Mean of the best encoding beside that of the raw coordinates."""
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
    images = f"{len(both)} images" if len(both) > 1 else "one image"
    return (
        f"{title(best)} reaches {reached:.1f} dB on average over {images}, raw coordinates "
        f"{without:.1f} dB"
    )
