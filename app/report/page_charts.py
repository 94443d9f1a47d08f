"""The charts of a page: training curves, frequencies, octaves and kernels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.report.charts import Mark, Series, line_chart
from app.report.palette import NUM_STYLES
from app.task import Panel
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.metrics.spectra import Spectra
from nerf_posenc.metrics.spectrum import nyquist_frequency
from nerf_posenc.training.results import FieldResult


def decibels(value: float, digits: int) -> str:
    """Format a PSNR: a dash if it is undefined."""
    if math.isnan(value):
        return "-"
    return f"{value:.{digits}f}" if math.isfinite(value) else str(value).replace("inf", "∞")


def page_charts(
    panel: Panel, content: Spectra, results: Sequence[FieldResult]
) -> list[dict[str, str]]:
    """Training curves, the spectrum, and the kernels.

    Args:
        panel: the first image.
        content: its frequency content.
        results: the fits.
    """
    color = {result.encoding: i % NUM_STYLES for i, result in enumerate(results)}
    charts = _training_charts(results, color)
    charts += _parameter_chart(panel, results)
    # The bands of a scene are those of its box, not of the image plane.
    bands = [] if panel.depths else [band for result in results for band in result.bands]
    title = "Power by frequency" + (", with the bands of the encoding" if bands else "")
    spectrum = _spectrum_chart(panel, content, bands, color)
    charts.append({"section": "frequencies", "title": title, "svg": spectrum})
    charts += _octave_charts(content, results, color)
    charts += _forecast_charts(content, results, color)
    kernels = [
        Series(result.encoding, *result.kernel, color[result.encoding])
        for result in results
        if result.kernel is not None
    ]
    if kernels:
        chart = line_chart(
            kernels, x_label="distance along x (units)", y_label="similarity of features"
        )
        title = "Similarity of features by distance"
        charts.append({"section": "kernel", "title": title, "svg": chart})
    return charts


def _training_charts(
    results: Sequence[FieldResult], color: Mapping[str, int]
) -> list[dict[str, str]]:
    """PSNR over the time and the steps of training; what took no steps is a point in time."""
    if not any(result.steps for result in results):
        return []
    charts = []
    for name, label in (("seconds", "training time (s)"), ("step", "steps")):
        curves = [
            Series(
                result.encoding,
                [getattr(record, name) for record in result.history],
                [psnr_from_mse(record.loss) for record in result.history],
                color[result.encoding],
            )
            for result in results
            if result.history and (result.steps or name == "seconds")
        ]
        chart = line_chart(curves, x_label=label, y_label="PSNR of the batches (dB)")
        charts.append({"section": "curves", "title": f"PSNR against {name}", "svg": chart})
    return charts


def _parameter_chart(panel: Panel, results: Sequence[FieldResult]) -> list[dict[str, str]]:
    """PSNR against parameters of the fits of several runs; those of one encoding make one line."""
    points: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        run, _, encoding = result.encoding.rpartition(": ")
        if run and result.is_fit and result.encoding in panel.fits:
            points.setdefault(encoding, []).append((result.parameters, result.psnr))
    if len({count for line in points.values() for count, _ in line}) < 2:
        return []
    lines = [
        Series(encoding, [x for x, _ in sorted(line)], [y for _, y in sorted(line)], i % NUM_STYLES)
        for i, (encoding, line) in enumerate(points.items())
    ]
    svg = line_chart(lines, x_label="parameters", y_label="PSNR (dB)", log_x=True)
    return [{"section": "parameters", "title": "PSNR against parameters", "svg": svg}]


def _spectrum_chart(
    panel: Panel, content: Spectra, bands: Sequence[float], color: Mapping[str, int]
) -> str:
    frequencies = content.frequencies.tolist()
    spectra = [Series("original", frequencies, content.original.tolist(), NUM_STYLES)]
    for name, power in content.power.items():
        spectra.append(Series(name, frequencies, power.tolist(), color[name]))
    height, width, _ = panel.original.shape
    nyquist = nyquist_frequency(height, width)
    marks = [Mark(nyquist, "Nyquist")] + [
        Mark(band, f"2^{round(math.log2(band / math.pi))}π")
        for band in sorted(set(bands))
        if band <= nyquist
    ]
    return line_chart(
        spectra,
        x_label="angular frequency (rad per unit)",
        y_label="mean power",
        log_x=True,
        log_y=True,
        marks=marks,
    )


def _octave_charts(
    content: Spectra, results: Sequence[FieldResult], color: Mapping[str, int]
) -> list[dict[str, str]]:
    """PSNR, and the share of the energy that is recovered, by octave."""
    scored = content.bands
    names = [result.encoding for result in results if result.encoding in scored]
    charts = []
    for title, label, value in (
        ("PSNR by octave", "PSNR (dB)", lambda band: band.psnr),
        (
            "Energy recovered by octave",
            "recovered (%)",
            lambda band: 100 * max(0.0, band.recovered),
        ),
    ):
        lines = [
            Series(
                name,
                [-1 if band.octave is None else band.octave for band in scored[name]],
                [value(band) for band in scored[name]],
                color[name],
            )
            for name in names
        ]
        svg = line_chart(lines, x_label="octave (-1: below octave 0)", y_label=label)
        charts.append({"section": "octaves", "title": title, "svg": svg})
    return charts


def _forecast_charts(
    content: Spectra, results: Sequence[FieldResult], color: Mapping[str, int]
) -> list[dict[str, str]]:
    """PSNR by octave as it was forecast before a fit, and as it was measured after."""
    lines = []
    for result in results:
        forecast = result.details.get("forecast")
        if forecast is None or result.encoding not in content.bands:
            continue
        name, shade = result.encoding, color[result.encoding]
        measured = [band for band in content.bands[name] if band.octave is not None]
        octaves = forecast["octaves"]
        lines += [
            Series(name, [b.octave or 0 for b in measured], [b.psnr for b in measured], shade),
            Series(
                f"{name}, forecast {forecast['psnr']:.1f} ± {forecast['error']:.1f} dB",
                [octave["octave"] for octave in octaves],
                [octave["psnr"] for octave in octaves],
                shade,
                is_dashed=True,
            ),
        ]
    if not lines:
        return []
    title = "Forecast (dashed) and measured PSNR by octave"
    svg = line_chart(lines, x_label="octave", y_label="PSNR (dB)")
    return [{"section": "forecast", "title": title, "svg": svg}]


def forecast_notes(results: Sequence[FieldResult]) -> list[str]:
    """Why fits have no forecast, one line for each reason."""
    names: dict[str, list[str]] = {}
    for result in results:
        reason = result.details.get("no_forecast")
        if reason is not None:
            names.setdefault(reason, []).append(result.encoding)
    return [f"No forecast for {' and '.join(each)}: {reason}." for reason, each in names.items()]


def octave_rows(content: Spectra, results: Sequence[FieldResult]) -> list[dict[str, Any]]:
    """Rows of the table by octave."""
    scored = content.bands
    names = [result.encoding for result in results if result.encoding in scored]
    rows = []
    for i, band in enumerate(next(iter(scored.values()))):
        cells = []
        for name in names:
            score = scored[name][i]
            recovered = 0.0 if math.isnan(score.recovered) else max(0.0, score.recovered)
            cells.append(
                {
                    "psnr": decibels(score.psnr, 1),
                    "percent": f"{100 * recovered:.1f}",
                }
            )
        label = "below" if band.octave is None else f"{band.octave}"
        span = f"{band.low:.4g} to {band.high:.4g}"
        rows.append({"octave": label, "span": span, "cells": cells})
    return rows
