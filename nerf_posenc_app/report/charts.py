"""Line charts: one description, drawn as SVG for the page and for print.

The SVG scales, follows dark mode, and shows values on hover.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from nerf_posenc_app.report.palette import NUM_STYLES, RAMP, figure_color

# Styles of a chart as a separate file, as on the page.
_PRINT_STYLE = (
    "text { font: 13px sans-serif; fill: #444; } .heading { font-weight: bold; fill: #111; } "
    ".grid { stroke: #ddd; } .mark { stroke: #999; stroke-dasharray: 2 3; } "
    ".line { fill: none; stroke-width: 1.8; } "
    ".band { fill: currentColor; fill-opacity: 0.2; } .above { display: none; } "
)
# Room above a chart of a file for its heading and the names of its lines.
_TITLE = 52.0
# Size of a chart in CSS pixels.
_WIDTH = 640.0
_HEIGHT = 300.0
# Margins around the axes; labels stand in the left and the lower one.
_LEFT = 78.0
_RIGHT = 14.0
_TOP = 14.0
_BOTTOM = 44.0
# More points than pixels only make a chart slower.
_MAX_POINTS = 400
# Rows that the labels of marks are spread over, so that none lie on each other.
_LABEL_ROWS = 3
# Ticks of an axis.
_MOST_TICKS = 6
# Width of a label of a mark, in pixels.
_LABEL_WIDTH = 58.0
# Names at the ends of lines: most lines that have them, their characters, and the size of those.
_MOST_NAMED = 8
_MOST_LETTERS = 18
_LETTER_WIDTH = 8.0
_LETTER_HEIGHT = 15.0


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: name in the legend.
        xs: finite numbers.
        ys: the values, as many as ``xs``; those that are not finite are left out.
        color: index of the color in the page's palette.
        spread: how far a band around the line reaches, as many as ``xs``; empty for no band.
    """

    name: str
    xs: Sequence[int | float]
    ys: Sequence[int | float]
    color: int
    spread: Sequence[float] = ()


@dataclass(frozen=True)
class Mark:
    """A vertical line at a value of x, with a name."""

    x: int | float
    name: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines in one coordinate system, as the page and print draw them.

    Attributes:
        title: title of the chart.
        x_label: label of the x axis, with its unit.
        y_label: label of the y axis, with its unit.
        lines: the lines; on a logarithmic axis values of 0 or less are left out.
        section: heading of the page that the chart stands under.
        about: description of the charts of the section.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is logarithmic.
        marks: vertical lines.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    section: str = ""
    about: str = ""
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[Mark] = ()


def chart_svg(chart: Chart, *, is_page: bool = True) -> str:
    """Draw a chart as an SVG element with escaped text.

    Args:
        chart: description of the lines, the axes and the marks.
        is_page: whether it is for a page, whose script shows the values of ``data-series``.
    """
    log_x, log_y, marks = chart.log_x, chart.log_y, chart.marks
    lines = [(line, drawable(line, chart)) for line in chart.lines]
    names = _end_names(lines)
    right = _RIGHT + _LETTER_WIDTH * max(map(len, names), default=0)
    xs = [x for _, points in lines for x, _ in points] or [1.0, 2.0]
    xs += [mark.x for mark in marks if not log_x or mark.x > 0]
    bands = [(line.color, edge) for line in chart.lines if (edge := _band(line, chart))]
    ys = [y for _, points in [*lines, *bands] for _, y in points] or [1.0, 2.0]
    to_x = _axis(min(xs), max(xs), _LEFT, _WIDTH - right, log_x)
    low, high = _padded(min(ys), max(ys), log_y)
    to_y = _axis(low, high, _HEIGHT - _BOTTOM, _TOP, log_y)
    data = _data(lines, to_x, to_y, chart.x_label, chart.y_label)
    on_page, alone = (
        f"tabindex=\"0\" data-series='{data}'",
        f'width="{_WIDTH:g}" height="{_HEIGHT:g}"',
    )
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="{escape(chart.y_label)} against {escape(chart.x_label)}" '
        f"{on_page if is_page else alone}>"
    ]
    parts += [_y_tick(y, to_y(y), _WIDTH - right) for y in _ticks(low, high, log_y)]
    # Values that are all integers count something, such as steps or tasks.
    is_count = all(float(x).is_integer() for x in xs)
    x_ticks = _ticks(min(xs), max(xs), log_x, integer=is_count)
    parts += [_x_tick(x, to_x(x)) for x in x_ticks]
    parts += [
        _mark(marks[i], to_x(marks[i].x), row, is_thinned=i % 2 == 1)
        for i, row in enumerate(_label_rows([to_x(mark.x) for mark in marks]))
    ]
    for color, edge in bands:
        corners = " ".join(f"{to_x(x)},{to_y(y)}" for x, y in edge)
        parts.append(f'<polygon class="band k{color}" points="{corners}"/>')
    for one, points in lines:
        coordinates = " ".join(f"{to_x(x)},{to_y(y)}" for x, y in points)
        if len(points) == 1:
            x, y = points[0]
            parts.append(f'<circle class="dot c{one.color}" cx="{to_x(x)}" cy="{to_y(y)}" r="4"/>')
        parts.append(f'<polyline class="line c{one.color}" points="{coordinates}"/>')
    parts += _at_ends([(one.color, to_x(p[-1][0]), to_y(p[-1][1])) for one, p in lines if p], names)
    parts.append(_axis_labels(chart.x_label, chart.y_label))
    if is_page:
        parts.append('<g class="hover" visibility="hidden"><line class="cursor"/></g>')
    parts.append("</svg>")
    return "".join(parts)


def _band(line: Line, chart: Chart) -> list[tuple[float, float]]:
    """Corners of the band around a line, above it to the right and below it back to the left."""
    if not any(line.spread) or chart.log_x or chart.log_y:
        return []
    around = list(zip(line.xs, line.ys, line.spread, strict=True))
    edge = [(x, y + s) for x, y, s in around] + [(x, y - s) for x, y, s in around[::-1]]
    return edge if all(math.isfinite(y) for _, y in edge) else []


def _end_names(lines: Sequence[tuple[Line, Sequence[tuple[float, float]]]]) -> list[str]:
    """Names that stand at the ends of lines; none of a single line, or of more than have room."""
    names = [line.name for line, points in lines if points]
    if not 1 < len(names) <= _MOST_NAMED:
        return []
    most = _MOST_LETTERS
    return [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]


def _at_ends(ends: Sequence[tuple[int, float, float]], names: Sequence[str]) -> list[str]:
    """Names to the right of the last points, moved up or down so that none lie on each other."""
    named = sorted(zip(ends, names, strict=bool(names)), key=lambda one: one[0][2])
    heights: list[float] = []
    for (_, _, y), _ in named:
        heights.append(max(y, heights[-1] + _LETTER_HEIGHT) if heights else y)
    # What was moved below the axis moves the names above it up.
    lowest = _HEIGHT - _BOTTOM
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], lowest)
        lowest = heights[i] - _LETTER_HEIGHT
    return [
        f'<text class="end k{color}" x="{x + 7}" y="{y + 5:.1f}">{escape(name)}</text>'
        for ((color, x, _), name), y in zip(named, heights, strict=True)
    ]


def _y_tick(value: float, at: float, end: float) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{end}" y1="{at}" y2="{at}"/>'
        f'<text x="{_LEFT - 7}" y="{at + 4}" text-anchor="end">{_shown(value)}</text>'
    )


def _x_tick(value: float, at: float) -> str:
    return (
        f'<line class="grid" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" x1="{at}" x2="{at}"/>'
        f'<text class="x-tick" x="{at}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
        f"{_shown(value)}</text>"
    )


def _label_rows(positions: Sequence[float]) -> list[int]:
    """Row of the label of each mark, in the order of x; -1 where neighbors leave none."""
    rows: list[int] = []
    free = [-math.inf] * _LABEL_ROWS
    for x in positions:
        start = x if _has_room(x) else x - _LABEL_WIDTH
        row = next((i for i, end in enumerate(free) if end <= start), -1)
        if row >= 0:
            free[row] = start + _LABEL_WIDTH
        rows.append(row)
    return rows


def _mark(mark: Mark, at: float, row: int, *, is_thinned: bool) -> str:
    """A line and its label, which is hidden on a narrow screen if it is thinned out."""
    classes = f"marked row{row}" + (" thinned" if is_thinned else "")
    line = (
        f'<line class="mark" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" x1="{at}" x2="{at}">'
        f"<title>{escape(mark.name)}</title></line>"
    )
    if row < 0:
        return line
    return (
        f'{line}<text class="{classes}" {_beside(at)} y="{_TOP + 11 + 15 * row}">'
        f"{escape(mark.name)}</text>"
    )


def _has_room(at: float) -> bool:
    """Whether a label fits to the right of a mark."""
    return at + _LABEL_WIDTH < _WIDTH


def _beside(at: float) -> str:
    """Attributes that put a label beside its mark, on the side where there is room."""
    if _has_room(at):
        return f'x="{at + 3}"'
    return f'x="{at - 3}" text-anchor="end"'


def _axis_labels(x_label: str, y_label: str) -> str:
    center = (_LEFT + _WIDTH - _RIGHT) / 2
    # On a narrow screen the label of y lies above the chart instead of beside it.
    return (
        f'<text class="label below" x="{center}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text class="label beside" transform="translate(14 {_HEIGHT / 2 - 10}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>'
        f'<text class="label above" x="0" y="-8" aria-hidden="true">{escape(y_label)}</text>'
    )


def drawable(line: Line, chart: Chart) -> list[tuple[float, float]]:
    """Points of a line that a chart can show, thinned out if there are more than it has pixels."""
    points = [
        (float(x), float(y))
        for x, y in zip(line.xs, line.ys, strict=True)
        if math.isfinite(x)
        and math.isfinite(y)
        and (x > 0 or not chart.log_x)
        and (y > 0 or not chart.log_y)
    ]
    return thinned(points, _MAX_POINTS)


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Keep about ``most`` points of a line, with the highest and the lowest of each part of it.

    Args:
        points: points in the order of x.
        most: number of points, 4 or more.
    """
    if len(points) <= most:
        return list(points)
    kept = {0, len(points) - 1}
    num_parts = most // 2
    for i in range(num_parts):
        first = i * len(points) // num_parts
        part = range(first, (i + 1) * len(points) // num_parts)
        kept |= {min(part, key=lambda j: points[j][1]), max(part, key=lambda j: points[j][1])}
    return [points[i] for i in sorted(kept)]


def _padded(low: int | float, high: int | float, log: bool) -> tuple[float, float]:
    if log:
        return low / 1.3, high * 1.3
    pad = 0.05 * (high - low) or 0.5
    return low - pad, high + pad


def _axis(low: int | float, high: int | float, start: float, end: float, log: bool) -> Any:
    scale: Any = math.log if log else float
    first, last = scale(low), scale(high)

    def place(value: float) -> float:
        share = (scale(value) - first) / (last - first) if last > first else 0.5
        return round(start + share * (end - start), 2)

    return place


def _ticks(low: int | float, high: int | float, log: bool, *, integer: bool = False) -> list[float]:
    """Round numbers within an interval: powers of ten, or multiples of 1, 2, 2.5 or 5 times one.

    Args:
        low: beginning of the interval.
        high: its end.
        log: whether the axis is logarithmic.
        integer: whether all ticks must be integers.
    """
    if log and high / low >= 10:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        stride = -(-(last - first + 1) // _MOST_TICKS)
        return [10.0**power for power in range(first, last + 1, stride)]
    if high <= low:
        return [float(low)]
    magnitude = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
    steps = [factor * magnitude for factor in (1, 2, 2.5, 5, 10, 20)]
    step = next(s for s in steps if (high - low) / s <= _MOST_TICKS)
    if integer:
        step = max(1, math.ceil(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Multiples of the step, rounded to 12 digits: 3 * 0.1 is 0.30000000000000004.
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _shown(value: int | float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:g}"


def _data(lines: Any, to_x: Any, to_y: Any, x_label: str, y_label: str) -> str:
    data = {
        "x": x_label,
        "y": y_label,
        "lines": [
            {
                "name": one.name,
                "color": one.color,
                "points": [[to_x(x), to_y(y), float(f"{x:.5g}"), float(f"{y:.5g}")] for x, y in p],
            }
            for one, p in lines
        ],
    }
    return escape(json.dumps(data, allow_nan=False), quote=True)


def save_charts(path: Path, charts: Sequence[Chart]) -> None:
    """Write charts one below the other as an SVG file of its own, on white.

    Args:
        path: file to write, .svg.
        charts: one or more.
    """
    step = _HEIGHT + _TITLE + 22 * max(1, max(len(chart.lines) for chart in charts) // 6 + 1)
    parts = []
    for i, chart in enumerate(charts):
        drawn = chart_svg(chart, is_page=False)
        names = "   ".join(
            f'<tspan fill="{figure_color(line.color)}">{escape(line.name)}</tspan>'
            for line in chart.lines
            if 'class="end ' not in drawn
        )
        heading = escape(chart.title)
        parts.append(
            f'<g transform="translate(0 {i * step + _TITLE:g})">'
            f'<text class="heading" x="{_LEFT}" y="-26">{heading}</text>'
            f'<text x="{_LEFT}" y="-6" xml:space="preserve">{names}</text>'
            f"{drawn}</g>"
        )
    colors = "".join(
        f".c{i} {{ stroke: {color}; }} .k{i} {{ fill: {color}; }} "
        for i in range(NUM_STYLES + 1 + len(RAMP))
        for color in [figure_color(i)]
    )
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:g}" '
        f'height="{len(charts) * step:g}" viewBox="0 0 {_WIDTH:g} {len(charts) * step:g}">'
        f"<style>{_PRINT_STYLE}{colors}</style>"
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )
