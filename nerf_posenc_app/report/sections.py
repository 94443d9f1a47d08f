"""The charts of a report: those of the blocks, of the training, and of what images contain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.metrics.image import Scored
from nerf_posenc.metrics.spectrum import Spectra, nyquist_frequency, spectra
from nerf_posenc_app.crops import Window
from nerf_posenc_app.report.charts import Chart, Line, Mark
from nerf_posenc_app.report.palette import NUM_STYLES, color_indices, ramp_index
from nerf_posenc_app.values.blocks import Curve, View
from nerf_posenc_app.values.measures import Measure, score_text
from nerf_posenc_app.values.names import SEED
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Num, Shaped

_OCTAVES = (
    "Octave k is detail about 1/2^k of the image wide, at frequencies around 2^k π rad per unit. "
    "For each octave: the PSNR of its error, and the share of its energy that the fit reproduces "
    "(in the first view, if there are several)."
)
# Difference of two fits, in dB or percentage points, that another seed may turn around.
_SEED_SPREAD = 1.0
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TRAINING = (
    "Scores of the training batches, which are random, so the curves are noisy. With several "
    "seeds, the mean, in a band of one standard deviation."
)


@dataclass(frozen=True)
class Panel:
    """An image beside its reconstructions by all fits.

    Attributes:
        title: name of the image or the view.
        original: values in [0, 1], or as stored.
        fits: reconstructions by the name of the fit.
        depths: depths by the name of the fit, NaN for empty pixels.
        bands: frequency bands of the encodings, in rad per unit of the image plane.
        is_section: whether it cuts through the data.
        scored: weight of each pixel in the scores; None for 1 everywhere.
    """

    title: str
    original: Shaped[Tensor, "height width 3"]
    fits: Mapping[str, Shaped[Tensor, "height width 3"]]
    depths: Mapping[str, Float[Tensor, "height width"]]
    bands: Sequence[float]
    is_section: bool = False
    scored: Num[Tensor, "height width"] | Bool[Tensor, "height width"] | None = None

    @property
    def is_scored_whole(self) -> bool:
        """Whether every pixel counts in the scores."""
        return self.scored is None or bool((self.scored > 0).all())

    def psnr(self, name: str, window: Window = (slice(None), slice(None))) -> float:
        """PSNR of a fit in a part of the image, in dB; NaN where nothing is scored."""
        return Scored(self.original, self.scored).at(*window).psnr(self.fits[name][window])


def panels(results: Sequence[Result]) -> list[Panel]:
    """Views of all fits, those of one image together.

    Views of one title and size whose originals differ, as in a comparison of runs on different
    data, stay apart.
    """
    grouped: list[dict[str, View]] = []
    for result in results:
        for view in result.blocks(View):
            twin = next((g for g in grouped if _is_same(next(iter(g.values())), view)), None)
            if twin is None:
                grouped.append({result.label: view})
            else:
                twin[result.label] = view
    return [
        Panel(
            (first := next(iter(views.values()))).title,
            first.original,
            {name: view.reconstruction for name, view in views.items()},
            {name: view.depth for name, view in views.items() if view.depth is not None},
            sorted({band for view in views.values() for band in view.bands}),
            first.is_section,
            first.scored,
        )
        for views in grouped
    ]


def _is_same(a: View, b: View) -> bool:
    is_alike = a.title == b.title and a.original.shape == b.original.shape
    return is_alike and (a.original is b.original or torch.equal(a.original, b.original))


def styles(results: Sequence[Result]) -> dict[str, int]:
    """Index of the color of each fit; the values of a swept option are a ramp of one color."""
    named = [(r.label, r.name) for r in results if r.name.swept and r.name.swept[0] != SEED]
    is_one = len({name.encoding for _, name in named}) == 1
    swept = {label: name.swept[1] for label, name in named if is_one and name.swept}
    chosen = color_indices({r.label: str(r.name.in_run) for r in results if r.label not in swept})
    values = sorted({*swept.values()})
    return chosen | {
        label: ramp_index(values.index(value), len(values)) for label, value in swept.items()
    }


def block_charts(results: Sequence[Result]) -> list[Chart]:
    """One chart for each title of the fits' curves, with one line or more per fit."""
    style = styles(results)
    curves = [(r.label, curve) for r in results for curve in r.blocks(Curve)]
    charts = []
    for title in dict.fromkeys(curve.title for _, curve in curves):
        same = [(name, curve) for name, curve in curves if curve.title == title]
        first = same[0][1]
        lines = [
            Line(f"{name}, {curve.name}" if curve.name else name, curve.xs, curve.ys, style[name])
            for name, curve in same
        ]
        charts.append(
            Chart(
                title=title,
                x_label=first.x_label,
                y_label=first.y_label,
                lines=lines,
                section=first.section,
                about=first.about,
                log_x=first.log_x,
            )
        )
    return charts


def training_charts(results: Sequence[Result], training: Measure) -> list[Chart]:
    """Training score over the seconds and the steps of training."""
    style, charts = styles(results), []
    trained = [result for result in results if result.history]
    if not trained:
        return []
    for name, label in (("seconds", "training time (s)"), ("step", "training steps")):
        lines = [
            Line(
                result.label,
                [getattr(point, name) for point in result.history],
                [point.score for point in result.history],
                style[result.label],
                [point.deviation for point in result.history],
            )
            for result in trained
        ]
        charts.append(
            Chart(
                title=f"{training.quantity} against {name}",
                x_label=label,
                y_label=training.of_batches,
                lines=lines,
                section="Training curves",
                about=_TRAINING,
            )
        )
    return charts


def sweep_charts(results: Sequence[Result], measures: Sequence[Measure]) -> list[Chart]:
    """Scores against the option that fits were made with several values of.

    The best is marked if it is ahead by more than seeds differ.
    """
    first, charts = measures[0], []
    alike = [m for m in measures if m.unit == first.unit != ""]
    sign = 1 if first.higher_is_better else -1
    swept = [(*result.name.swept, result.scores) for result in results if result.name.swept]
    for field in dict.fromkeys(field for field, _, _ in swept):
        fits = [(value, scores) for name, value, scores in swept if name == field]
        if len(fits) < 2:  # The others were stopped.
            continue
        option = field.removeprefix("num_")  # As on the command line.
        fits_by_rank = sorted(fits, key=lambda fit: -sign * fit[1][first.name])
        (best, highest), (second, next_highest) = fits_by_rank[:2]
        ahead = abs(highest[first.name] - next_highest[first.name])
        is_best = ahead >= _SEED_SPREAD
        found = (
            f"{option} {best:g} scores best, {ahead:.1f}{first.suffix} ahead of {second:g}"
            if is_best
            else f"{option} {best:g} and {second:g} differ by less than seeds may"
        )
        lines = [
            Line(m.label, [x for x, _ in fits], [scores[m.name] for _, scores in fits], i)
            for i, m in enumerate(alike)
            if all(m.name in scores for _, scores in fits)
        ]
        chart = Chart(
            title=f"{first.quantity} against {option}",
            x_label=option,
            y_label=first.label,
            lines=lines,
            section="Which value is best",
            about=f"One fit for each, from one seed: {found}. Scores of fitted pixels say nothing "
            "of what lies between them; --held-out measures that.",
            marks=[Mark(best, f"best: {best:g}")] if is_best else [],
        )
        charts.append(chart)
    return charts


def parameter_charts(results: Sequence[Result], measure: Measure) -> list[Chart]:
    """Score against parameters of the fits of several runs; those of one encoding are one line."""
    points: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        if result.name.run is not None and result.parameters:
            point = result.parameters, result.scores[measure.name]
            points.setdefault(str(result.name.in_run), []).append(point)
    if len({count for line in points.values() for count, _ in line}) < 2:
        return []
    lines = [
        Line(encoding, [x for x, _ in sorted(line)], [y for _, y in sorted(line)], i % NUM_STYLES)
        for i, (encoding, line) in enumerate(points.items())
    ]
    label = measure.quantity
    return [
        Chart(
            title=f"{label} against parameters",
            x_label="parameters",
            y_label=measure.label,
            lines=lines,
            section="Size",
            log_x=True,
        )
    ]


@dataclass(frozen=True)
class FrequencyContent:
    """Energy of an image and its reconstructions by octave of spatial frequency.

    Attributes:
        charts: power by frequency, PSNR and energy by octave.
        names: names of the fits.
        rows: a row of the table for each octave.
        colors: color of each fit.
    """

    charts: Sequence[Chart]
    names: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    colors: Mapping[str, int]


def frequency_content(panel: Panel, results: Sequence[Result]) -> FrequencyContent:
    """Measure the frequencies of an image and its reconstructions."""
    content, style = spectra(panel.original, panel.fits), styles(results)
    charts = [
        _octave_chart(content, style, "PSNR by octave", "PSNR (dB)", lambda band: band.psnr),
        _octave_chart(
            content,
            style,
            "Energy recovered by octave",
            "recovered (%)",
            # NaN stays NaN: the octave has no energy to recover.
            lambda band: 100 * max(band.recovered, 0.0),
        ),
        _spectrum_chart(panel, content, style),
    ]
    names = [result.label for result in results if result.label in content.bands]
    return FrequencyContent(charts, names, _octave_rows(content, names), style)


def _octave_chart(
    content: Spectra,
    style: Mapping[str, int],
    title: str,
    label: str,
    value: Callable[[Any], float],
) -> Chart:
    lines = [
        Line(
            name,
            [-1 if band.octave is None else band.octave for band in bands],
            [value(band) for band in bands],
            style[name],
        )
        for name, bands in content.bands.items()
    ]
    return Chart(
        title=title,
        x_label="octave (-1: below octave 0)",
        y_label=label,
        lines=lines,
        section="Frequency content",
        about=_OCTAVES,
    )


def _spectrum_chart(panel: Panel, content: Spectra, style: Mapping[str, int]) -> Chart:
    frequencies = content.frequencies.tolist()
    lines = [Line("original", frequencies, content.original.tolist(), NUM_STYLES)]
    lines += [
        Line(name, frequencies, power.tolist(), style[name])
        for name, power in content.power.items()
    ]
    height, width, _ = panel.original.shape
    nyquist = nyquist_frequency(height, width)
    marks = [
        Mark(band, f"2{str(round(math.log2(band / math.pi))).translate(_RAISED)}π")
        for band in panel.bands
        if band < nyquist
    ] + [Mark(nyquist, "Nyquist")]
    return Chart(
        title="Power by frequency" + (", with the bands of the encoding" if panel.bands else ""),
        x_label="angular frequency (rad per unit)",
        y_label="mean power",
        lines=lines,
        section="Frequency content",
        about=_OCTAVES,
        log_x=True,
        log_y=True,
        marks=marks,
    )


def _octave_rows(content: Spectra, names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for i, band in enumerate(content.bands[names[0]]):
        cells = []
        for name in names:
            score = content.bands[name][i]
            recovered = (
                "-" if math.isnan(score.recovered) else f"{100 * max(0, score.recovered):.1f}"
            )
            cells.append({"psnr": score_text(score.psnr, 1), "percent": recovered})
        rows.append(
            {
                "octave": "below" if band.octave is None else f"{band.octave}",
                "span": f"{band.low:.4g} to {band.high:.4g}",
                "cells": cells,
            }
        )
    return rows
