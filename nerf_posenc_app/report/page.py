"""The page of a run, or of several: one self-contained HTML file without network requests.

It draws blocks: views with a divider, videos, charts, passages, and those that stand in a
section of their own. Each type of block beside views and videos is a row of `SECTIONS`.
"""

import base64
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Template
from markupsafe import Markup
from torch import Tensor

from nerf_posenc.images import resize_area, unit_range
from nerf_posenc_app.crops import Window, detail_crop, most_detailed_window
from nerf_posenc_app.report.charts import Chart, chart_svg, drawable
from nerf_posenc_app.report.images import (
    LOSSLESS_PIXELS,
    WEBP_SIDE,
    clamped,
    color_mapped,
    error_map,
    error_scale,
    nearness,
    reduced_error,
    webp_url,
)
from nerf_posenc_app.report.networks import page_networks
from nerf_posenc_app.report.sections import (
    FrequencyContent,
    Panel,
    block_charts,
    frequency_content,
    panels,
    parameter_charts,
    styles,
    sweep_charts,
    training_charts,
)
from nerf_posenc_app.report.tables import (
    as_csv,
    columns,
    fitted_line,
    gain_label,
    gain_text,
    spread_text,
)
from nerf_posenc_app.report.template import render
from nerf_posenc_app.report.tiles import TilePyramid
from nerf_posenc_app.report.video import snapshot_caption
from nerf_posenc_app.report.volumes import shown_volumes
from nerf_posenc_app.values.blocks import Block, Curve, Passage, Table, Token, View, Volume
from nerf_posenc_app.values.finding import Finding
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import BASELINE, GIVEN, FitName
from nerf_posenc_app.values.results import Result

_MAX_VIEWS = 6
_CROP_SIDE = 512
# A crop of fewer pixels would be too coarse to look at.
_MIN_CROP = 96


@dataclass(frozen=True)
class Section:
    """How the blocks of a type are shown and saved: one row of `SECTIONS`.

    Attributes:
        block: type of the blocks, a dataclass with a title.
        template: a partial with the macros ``style()``, ``section(content)`` and
            ``script(content)``: its name, or the template itself; None for blocks that other parts
            of the page show.
        prepare: function from the fits to the content; an empty one leaves the section out. None
            for pairs of the name of a fit and a block.
        leads: whether it stands at the top of the page, where images do.
        is_saved: whether it is kept for `compare`: its fields in ``metrics.json``, unless it is a
            file of the run folder, which the two functions below write and read.
        write: function from the run folder and the fits, which writes the files.
        read: function from the run folder, a fit and the titles of its blocks to the blocks; raises
            ValueError if a file is missing or damaged.
    """

    block: type[Block]
    template: str | Template | None = None
    prepare: Callable[[Sequence[Result]], Any] | None = None
    leads: bool = False
    is_saved: bool = True
    write: Callable[[Path, Sequence[Result]], None] | None = None
    read: Callable[[Path, Result, Sequence[str]], list[Block]] | None = None

    def content(self, results: Sequence[Result]) -> Any:
        """Content of the template."""
        if self.prepare is not None:
            return self.prepare(results)
        return [(result.label, block) for result in results for block in result.blocks(self.block)]


@dataclass(frozen=True, kw_only=True)
class About:
    """Facts about the data of a page.

    Attributes:
        title: heading of the page, shown as text whatever it contains.
        measures: columns of the table; gains are of the first.
        training: measure of the training curves.
        run: command, configuration and versions that reproduce the run.
        lead: lesson of a comparison of encodings on such data.
        notes: remarks on the data and the results.
        citations: BibTeX.
        groups: groups of a comparison, heading and the names of the fits below it.
        finding: best fit of the run and its verdict; None for a comparison of runs.
        headline: result of a comparison in one sentence.
        differing: settings that the runs of a comparison differ in.
    """

    title: str
    measures: Sequence[Measure]
    training: Measure
    run: Mapping[str, Any]
    lead: str = ""
    notes: Sequence[str] = ()
    citations: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    finding: Finding | None = None
    headline: str | None = None
    differing: Table | None = None


def write_page(
    path: Path,
    about: About,
    results: Sequence[Result],
    *,
    videos: Mapping[str, Mapping[str, Path]] | None = None,
    originals: Sequence[Tensor] = (),
    tiles: TilePyramid | None = None,
) -> None:
    """Write the page.

    Args:
        path: HTML file.
        about: facts about the data.
        results: the fits, with what they are compared with.
        videos: files by heading and name.
        originals: the true images of the fits' snapshots.
        tiles: tiles of the first image, if it is large: the page opens on it and loads them as one
            zooms.
    """
    shown = panels(results)
    first, measure = shown[:_MAX_VIEWS], about.measures[0]
    # Octaves have no mask: they would be of other pixels than the scores.
    has_octaves = bool(shown) and shown[0].is_scored_whole
    content = frequency_content(shown[0], results) if has_octaves else None
    charts = _charts(results, about, content)
    opened = _opened(first) if first and tiles is None else (0, 0, 0)
    scale = error_scale([(fit, p.original) for p in first for fit in p.fits.values()])
    measures = columns(results, about.measures)
    # Below the whole image, beside the comparison of a part of it, is room for the octaves.
    beside = content.charts[:1] if content and opened[0] != opened[1] else []
    sides = _sides(
        [r for r in results if not first or r.label in first[opened[2]].fits],
        measure,
        about.finding,
    )
    page = render(
        "page.html.j2",
        about.run,
        title=about.title,
        headline=about.headline if about.finding is None else about.finding.sentence,
        differing=about.differing,
        lead=about.lead,
        notes=_notes(about, results),
        citations=about.citations,
        measures=measures,
        gain_label=gain_label(measure),
        baseline=BASELINE,
        sides=sides,
        networks=None if tiles else page_networks(results, sides),
        rows=[_row(r, results, measures, about.groups) for r in results],
        fitted="" if about.groups else fitted_line(results, about.run),
        csv=_csv(results, measures, about),
        images=_images(first, scale, results, measure if len(shown) == 1 else None, sides),
        mu=next((view.mu for r in results for view in r.blocks(View) if view.mu), None),
        opened={"whole": opened[0], "detail": opened[1]},
        tiles=None if tiles is None else tiles.as_json(),
        error_scale=f"{scale:.2f}",
        sections=_sections([chart for chart in charts if chart not in beside], content),
        beside=[_for_template(chart) for chart in beside if chart in charts],
        passages=_passages(results, measure),
        learning=_learning(originals, results, about.training),
        blocks=[
            (section.template, content, section.leads)
            for section in SECTIONS.values()
            if section.template is not None and (content := section.content(results))
        ],
        videos=_video_urls(videos or {}),
    )
    path.write_text(page, encoding="utf-8")


def _notes(about: About, results: Sequence[Result]) -> list[str]:
    """Notes of the run, and the remarks of its fits."""
    remarks = [text for result in results for text in result.evaluation.remarks]
    return [*about.notes, *dict.fromkeys(remarks)]


def _sides(results: Sequence[Result], measure: Measure, finding: Finding | None) -> tuple[str, str]:
    """Names of the fits that the comparison opens on, left and right: those of the finding.

    On the left is what was given, where that is not the original. Of a comparison of runs, the best
    fit is on the right, and on the left the one without an encoding or the best of the other runs.
    """
    given = [result for result in results if result.name.encoding == GIVEN]
    names = {result.label for result in results}
    if finding is not None and {*finding.sides} <= {*names, "original"}:
        return (given[0].label if given else finding.sides[0]), finding.best
    fits = [result for result in results if not result.is_reference] or list(results)
    best, *rest = sorted(fits, key=lambda fit: _rank(fit, measure), reverse=True)
    others = [fit for fit in rest if fit.name.run != best.name.run]
    plain = [fit for fit in rest if fit.name == FitName(BASELINE)]
    left = next(iter([*given, *plain, *others, *rest]), None)
    return "original" if left is None else left.label, best.label


def _rank(result: Result, measure: Measure) -> float:
    """A score, more of which is better; one that is undefined is the worst."""
    score = result.scores.get(measure.name, math.nan)
    return -math.inf if math.isnan(score) else score if measure.higher_is_better else -score


def _score(result: Result, measure: Measure) -> str:
    """A score in a caption: fewer digits, with its unit."""
    text = score_text(result.scores[measure.name], max(1, measure.digits - 1))
    return f"{text}{measure.suffix}" if measure.unit else f"{measure.label}: {text}"


def _row(
    result: Result,
    results: Sequence[Result],
    measures: Sequence[Measure],
    groups: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    group = next((name for name, fits in groups.items() if result.label in fits), "")
    fits = groups.get(group, [r.label for r in results])
    rivals = [r for r in results if r.label in fits]
    first = measures[0]
    return {
        "group": group if fits[0] == result.label else "",
        "color": str(styles(results)[result.label]),
        "name": result.label,
        "best": [
            len(rivals) > 1 and _rank(result, m) == max(_rank(r, m) for r in rivals) > -math.inf
            for m in measures
        ],
        "scores": [score_text(result.scores.get(m.name, math.nan), m.digits) for m in measures],
        "gain": gain_text(result, results, first),
        "spread": spread_text(result, first),
        "steps": f"{result.steps:,}" if result.steps else "-",
        "seconds": f"{result.seconds:.1f}",
        "parameters": f"{result.parameters:,}" if result.parameters else "-",
    }


def _csv(results: Sequence[Result], measures: Sequence[Measure], about: About) -> str:
    """The table to all digits, by what was fitted."""
    fit_of = {result.label: result for result in results}
    groups = about.groups or {about.title: list(fit_of)}
    named = {title: [fit_of[label] for label in labels] for title, labels in groups.items()}
    return as_csv(named, measures, about.run)


def _for_template(chart: Chart) -> dict[str, Any]:
    return {"title": chart.title, "svg": Markup(chart_svg(chart))}


def _sections(charts: Sequence[Chart], content: FrequencyContent | None) -> list[dict[str, Any]]:
    """Charts by their headings; the octaves have a table as well."""
    sections = []
    for name in dict.fromkeys(chart.section for chart in charts):
        section_charts = [chart for chart in charts if chart.section == name]
        sections.append(
            {
                "name": name,
                "about": section_charts[0].about,
                "charts": [_for_template(chart) for chart in section_charts],
                "octaves": content if name == "Frequency content" else None,
            }
        )
    return sections


@dataclass(frozen=True)
class _Part:
    """A part of an image that the page shows.

    Attributes:
        label: name of the choice.
        window: rows and columns.
        longer_side: pixels that the window is reduced to; None for all of its own.
    """

    label: str
    window: Window
    longer_side: int | None = None

    def image(self, image: Tensor) -> Tensor:
        """This part of an image or a map, values in [0, 1] of an image."""
        part = image[self.window]
        return unit_range(part) if self.longer_side is None else resize_area(part, self.longer_side)

    def error(self, fit: Tensor, original: Tensor) -> Tensor:
        """This part of the error map."""
        fit, original = fit[self.window], original[self.window]
        if self.longer_side is None:
            return error_map(fit, original)
        return reduced_error(fit, original, self.longer_side)


def _parts(panel: Panel) -> list[_Part]:
    """All of an image, or an overview if it is large, and its most detailed crop."""
    height, width, _ = panel.original.shape
    all_of_it = slice(0, height), slice(0, width)
    is_large = height * width > LOSSLESS_PIXELS or max(height, width) > WEBP_SIDE
    side = _CROP_SIDE if is_large else max(_MIN_CROP, max(height, width) // 3)
    if not is_large:
        whole = [_Part(panel.title, all_of_it)]
        if min(height, width) <= _MIN_CROP:
            return whole
        # Wider than high, to fill a screen.
        crop = most_detailed_window(panel.original, min(height, 2 * side // 3), min(width, side))
        return [*whole, _Part(f"{panel.title}, most detailed crop", crop)]
    reduced = round(max(height, width) * math.sqrt(LOSSLESS_PIXELS / (height * width)))
    longer_side = min(reduced, max(height, width), WEBP_SIDE)
    crop = detail_crop(panel.original, side=side)
    return [
        _Part(f"{panel.title}, reduced from {width} x {height}", all_of_it, longer_side),
        _Part(f"{panel.title}, most detailed crop at full size", crop),
    ]


def _opened(shown: Sequence[Panel]) -> tuple[int, int, int]:
    """Where fits differ most: the whole image, the part of it that the page opens on, its panel.

    One fit differs from no other: the page opens on the whole of the first image.
    """

    def spread(panel: Panel) -> float:
        errors = [10 ** (-panel.psnr(name) / 10) for name in panel.fits]
        finite = [error for error in errors if math.isfinite(error)]
        return max(finite) - min(finite) if len(finite) > 1 else 0.0

    counts = [len(_parts(panel)) for panel in shown]
    whole_views = [i for i, panel in enumerate(shown) if not panel.is_section]
    chosen = max(whole_views or range(len(shown)), key=lambda i: spread(shown[i]))
    whole = sum(counts[:chosen])
    detail = whole + counts[chosen] - 1
    return whole, detail if len(shown[chosen].fits) > 1 else whole, chosen


def _images(
    shown: Sequence[Panel],
    scale: float,
    results: Sequence[Result],
    single: Measure | None,
    sides: tuple[str, str],
) -> list[dict[str, Any]]:
    """All images of the page, each whole one before its part.

    Args:
        shown: the images.
        scale: largest error of the error maps.
        results: the fits.
        single: first measure of the table, if its scores are those of a single image.
        sides: names of the views at the left and at the right of the divider.
    """
    # A fit of several seeds shows the first, and the table has their mean.
    repeated = {result.label for result in results if len(result.evaluation.by_seed) > 1}
    known: dict[str, float] = {}
    if single is not None and single.unit == "dB":
        # Computed again from an image of 8 bits, they would be others than those of the table.
        known = {r.label: r.scores[single.name] for r in results if r.label not in repeated}
    images: list[dict[str, Any]] = []
    for panel in shown:
        whole = len(images)
        for part in _parts(panel):
            scores = known if len(images) == whole else {}
            images.append(_shown(panel, scale, part, whole, repeated, scores))
            left, right = (part.image(panel.fits.get(side, panel.original)) for side in sides)
            images[-1]["divide"] = _middle_of_difference(left, right)
    return images


def _middle_of_difference(left: Tensor, right: Tensor) -> int:
    """Percent of the width at which half of the difference between two images lies to the left."""
    by_column = (left.cpu() - right.cpu()).abs().nan_to_num(0.0).sum((0, 2)).cumsum(0)
    column = (
        int((by_column < by_column[-1] / 2).sum()) if by_column[-1] > 0 else len(by_column) // 2
    )
    return round(100 * (column + 0.5) / len(by_column))


def _frame(window: Window, original: Tensor) -> list[float]:
    """Left, top, width and height of a part, as shares of the whole image."""
    height, width, _ = original.shape
    rows, columns = window
    return [
        columns.start / width,
        rows.start / height,
        (columns.stop - columns.start) / width,
        (rows.stop - rows.start) / height,
    ]


def _shown(
    panel: Panel,
    scale: float,
    part: _Part,
    whole: int,
    repeated: Collection[str],
    scores: Mapping[str, float],
) -> dict[str, Any]:
    original = part.image(panel.original)
    height, width, _ = original.shape
    near = dict(zip(panel.depths, nearness(list(panel.depths.values())), strict=True))
    fits = []
    for name, fit in panel.fits.items():
        error = (part.error(fit, panel.original) / scale).clamp(0, 1)
        fitted = webp_url(part.image(clamped(fit)))
        decibels = scores.get(name, panel.psnr(name, part.window))
        entry = {
            "name": name,
            "score": f"{score_text(decibels, 1)} dB",
            "seed": ", first seed" if name in repeated else "",
            "url": fitted,
            "error": webp_url(color_mapped(error, "magma"), 80),
        }
        if name in near:
            depth = part.image(near[name][..., None])[..., 0]
            entry["depth"] = webp_url(color_mapped(depth.nan_to_num(0.0), "viridis"), 80)
        fits.append(entry)
    return {
        "name": part.label,
        "whole": whole,
        "frame": _frame(part.window, panel.original),
        "width": width,
        "height": height,
        "original": webp_url(original),
        "fits": fits,
    }


def _passages(results: Sequence[Result], measure: Measure) -> list[dict[str, Any]]:
    """Passages by title, each with one text for every encoding."""
    passages = [(result, passage) for result in results for passage in result.blocks(Passage)]
    titles = dict.fromkeys(passage.title for _, passage in passages)
    return [
        {
            "title": title,
            "texts": [
                {
                    "name": result.label,
                    # For several tasks this is the mean, not the score of the task below.
                    "score": _score(result, measure) if len(titles) == 1 else "",
                    "spans": Markup(passage_spans(passage)),
                }
                for result, passage in passages
                if passage.title == title
            ],
        }
        for title in titles
    ]


def passage_spans(passage: Passage) -> str:
    """Tokens of a passage with classes ``right`` and ``wrong``; neighbors of one class are joined.

    Above a wrong prediction stands the truth.
    """
    parts: list[str] = []
    given: list[str] = []
    for token in passage.tokens:
        if token.mark == "given":
            given.append(token.text)
            continue
        parts += [escape("".join(given)), _marked(token)]
        given = []
    return "".join([*parts, escape("".join(given))])


def _marked(token: Token) -> str:
    text = f'<span class="{token.mark}">{escape(_visible(token.text))}</span>'
    if token.mark != "wrong" or token.truth is None:
        return text
    return f"<ruby>{text}<rt>{escape(_visible(token.truth))}</rt></ruby>"


def _visible(text: str) -> str:
    """A symbol with a sign for a space or a line break, which would not be seen."""
    return {" ": "␣", "\n": "↵"}.get(text, text)


def _learning(
    originals: Sequence[Tensor], results: Sequence[Result], training: Measure
) -> dict[str, Any] | None:
    """Snapshots of all fits as small images with captions; None if there are none."""
    recorded = [result for result in results if result.snapshots]
    if not recorded:
        return None
    fits = [
        {
            "name": result.label,
            "frames": [
                {
                    "caption": snapshot_caption(snapshot, training),
                    "urls": [webp_url(image, 75) for image in snapshot.images],
                }
                for snapshot in result.snapshots
            ],
        }
        for result in recorded
    ]
    return {
        "originals": [webp_url(image, 75) for image in originals],
        "fits": fits,
        "count": max(len(result.snapshots) for result in recorded),
    }


def _charts(
    results: Sequence[Result], about: About, content: FrequencyContent | None
) -> list[Chart]:
    """All charts in the order of the page, but for those of single points, which the table has."""
    drawn: list[Chart] = [
        *sweep_charts(results, about.measures),
        *block_charts(results),
        *(parameter_charts(results, about.measures[0]) if len(about.groups) < 2 else ()),
        *(content.charts if content else ()),
        *training_charts(results, about.training),
    ]
    return [c for c in drawn if any(len(drawable(line, c)) > 1 for line in c.lines)]


def _video_urls(videos: Mapping[str, Mapping[str, Path]]) -> dict[str, dict[str, dict[str, str]]]:
    return {
        heading: {name: _data_url(file) for name, file in files.items()}
        for heading, files in videos.items()
    }


def _data_url(video: Path) -> dict[str, str]:
    kind = "video/mp4" if video.suffix == ".mp4" else f"image/{video.suffix[1:]}"
    data = base64.b64encode(video.read_bytes()).decode()
    return {"kind": kind, "url": f"data:{kind};base64,{data}"}


SECTIONS: dict[str, Section] = {
    "curves": Section(Curve),
    "passages": Section(Passage),
    "tables": Section(Table, "table.html.j2"),
    "volumes": Section(
        Volume,
        "volume.html.j2",
        lambda results: shown_volumes({r.label: v for r in results for v in r.blocks(Volume)}),
        is_saved=False,
    ),
}
"""Blocks by the key of ``metrics.json``, in the order of the page; kinds add theirs."""
