"""Line charts: one description, drawn as SVG for the page and by matplotlib for print.

The SVG scales, follows dark mode, and shows values on hover.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from app.report.canvas import new_figure
from app.report.palette import figure_color, unmathematical

# Size of a chart in CSS pixels.
_WIDTH = 640.0
_HEIGHT = 300.0
# Margins around the axes; labels stand in the left and the lower one.
_LEFT = 78.0
_RIGHT = 14.0
_TOP = 14.0
_BOTTOM = 44.0
# A chart with more points than it has pixels is only slower.
_MAX_POINTS = 400
# Rows that the labels of marks are spread over, so that none lie on each other.
_LABEL_ROWS = 3
# Width of a label of a mark, in pixels.
_LABEL_WIDTH = 58.0


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: name in the legend.
        xs: finite numbers.
        ys: the values, as many as ``xs``; those that are not finite are left out.
        color: index of the color in the page's palette.
    """

    name: str
    xs: Sequence[int | float]
    ys: Sequence[int | float]
    color: int


@dataclass(frozen=True)
class Mark:
    """A vertical line at a value of x, with a name."""

    x: int | float
    name: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines in one coordinate system, as the page, print and the live page draw them.

    Attributes:
        title: title of the chart.
        x_label: label of the x axis, with its unit.
        y_label: label of the y axis, with its unit.
        lines: the lines; on a logarithmic axis values of 0 or less are left out.
        section: heading of the page that the chart stands under.
        about: what the charts of the section show.
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


def chart_svg(chart: Chart) -> str:
    """Draw a chart as an SVG element with escaped text; its ``data-series`` has the values."""
    log_x, log_y, marks = chart.log_x, chart.log_y, chart.marks
    lines = [(line, drawable(line, chart)) for line in chart.lines]
    xs = [x for _, points in lines for x, _ in points] or [1.0, 2.0]
    xs += [mark.x for mark in marks if not log_x or mark.x > 0]
    ys = [y for _, points in lines for _, y in points] or [1.0, 2.0]
    to_x = _axis(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT, log_x)
    low, high = _padded(min(ys), max(ys), log_y)
    to_y = _axis(low, high, _HEIGHT - _BOTTOM, _TOP, log_y)
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" tabindex="0" '
        f'aria-label="{escape(chart.y_label)} against {escape(chart.x_label)}" '
        f"data-series='{_data(lines, to_x, to_y, chart.x_label, chart.y_label)}'>"
    ]
    parts += [_y_tick(y, to_y(y)) for y in _ticks(low, high, log_y)]
    # Values that are all integers count something, such as steps or tasks.
    is_count = all(float(x).is_integer() for x in xs)
    x_ticks = _ticks(min(xs), max(xs), log_x, integer=is_count)
    parts += [_x_tick(x, to_x(x)) for x in x_ticks]
    parts += [
        _mark(marks[i], to_x(marks[i].x), row, is_thinned=i % 2 == 1)
        for i, row in enumerate(_label_rows([to_x(mark.x) for mark in marks]))
    ]
    for one, points in lines:
        coordinates = " ".join(f"{to_x(x)},{to_y(y)}" for x, y in points)
        if len(points) == 1:
            x, y = points[0]
            parts.append(f'<circle class="dot c{one.color}" cx="{to_x(x)}" cy="{to_y(y)}" r="4"/>')
        parts.append(f'<polyline class="line c{one.color}" points="{coordinates}"/>')
    parts.append(_axis_labels(chart.x_label, chart.y_label))
    parts.append('<g class="hover" visibility="hidden"><line class="cursor"/></g></svg>')
    return "".join(parts)


def _y_tick(value: float, at: float) -> str:
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
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
    from matplotlib.ticker import LogLocator, MaxNLocator

    if log and high / low >= 10:
        values = LogLocator(numticks=8).tick_values(low, high)
    else:
        values = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10], integer=integer).tick_values(
            low, high
        )
    return [float(v) for v in values if low <= v <= high and (v > 0 or not log)]


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
    """Draw charts side by side for print.

    Args:
        path: file to write, in the format of its suffix, such as .png or .svg.
        charts: one or more.
    """
    figure = new_figure(figsize=(4.5 * len(charts), 3.6), layout="constrained")
    for axis, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        drawn = [(line, drawable(line, chart)) for line in chart.lines]
        for line, points in drawn:
            marker = "o" if len(points) == 1 else None
            color = figure_color(line.color)
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axis.plot(xs, ys, color=color, lw=1.6, marker=marker, label=unmathematical(line.name))
        for mark in chart.marks:
            axis.axvline(mark.x, color="gray", lw=0.8, ls=":")
        if any(points for _, points in drawn):
            axis.set_xscale("log" if chart.log_x else "linear")
            axis.set_yscale("log" if chart.log_y else "linear")
        axis.set_xlabel(unmathematical(chart.x_label))
        axis.set_ylabel(unmathematical(chart.y_label))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if chart.lines:
            axis.legend(frameon=False)
    figure.savefig(path, dpi=150)
