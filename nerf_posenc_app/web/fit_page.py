"""A page in which the fitted networks of an image run: WebGL2, no server, no requests.

``fit_engine.js.j2`` decodes the networks and evaluates them at any points that the page shows, by
the shaders of ``fit_webgl.js.j2`` or on the CPU; view and controls are in ``fit_page.html.j2``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nerf_posenc.fits import ImageFit
from nerf_posenc.networks.mlp import num_parameters
from nerf_posenc_app.report.networks import described, pack
from nerf_posenc_app.report.packed_weights import PackedFit
from nerf_posenc_app.report.template import render
from nerf_posenc_app.runs.saved import Metrics, made_by
from nerf_posenc_app.values.names import BASELINE
from nerf_posenc_app.values.results import Result

MOST_BYTES = 16_000_000
"""Largest page: beyond it browsers take seconds to open one."""


@dataclass(frozen=True)
class FitPage:
    """A page and what is said of it.

    Attributes:
        html: the page.
        packed: weights of each fit.
    """

    html: str
    packed: Mapping[str, PackedFit]


def fit_page(
    fits: Mapping[str, ImageFit], *, title: str, command: str, metrics: Metrics | None = None
) -> FitPage:
    """Make the page.

    Args:
        fits: fits of one image, by encoding; `why_not` is None for all of them.
        title: title of the run, shown as text whatever it contains.
        command: command that wrote the page.
        metrics: metrics of the run; None if it is not complete.

    Raises:
        ValueError: If the page would be larger than ``MOST_BYTES``, or a number of the metrics'
            configuration is not finite.
    """
    results = [] if metrics is None else _results(metrics, fits)
    measure = None if metrics is None else metrics.measures[0]
    psnr = {} if measure is None else {r.label: r.scores[measure.name] for r in results}
    psnr = {name: value for name, value in psnr.items() if math.isfinite(value)}
    packed = {name: pack(fit) for name, fit in fits.items()}
    data = [described(name, fit, packed[name]) for name, fit in fits.items()]
    rows = [_row(name, fit, packed[name], psnr.get(name)) for name, fit in fits.items()]
    html = render(
        "fit_page.html.j2",
        made_by(metrics, command),
        title=title,
        headline=None if metrics is None else metrics.sentence,
        fits=data,
        rows=rows,
        size=next(iter(fits.values())).size,
        psnr={name: f"{value:.1f}" for name, value in psnr.items()},
        left=BASELINE if BASELINE in fits else next(iter(fits)),
        right=_best(list(fits), psnr),
    )
    size = len(html.encode())
    if size > MOST_BYTES:
        raise ValueError(
            f"the page would have {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}; choose "
            "one fit by --encoding"
        )
    return FitPage(html, packed)


def _results(metrics: Metrics, fits: Mapping[str, ImageFit]) -> list[Result]:
    """Results of fits on the page that were complete when they were measured."""
    return [r for r in metrics.fits if r.label in fits and fits[r.label].step == r.steps]


def _best(names: Sequence[str], psnr: Mapping[str, float]) -> str:
    others = [name for name in names if name != BASELINE] or list(names)
    return max(others, key=lambda name: psnr.get(name, -math.inf))


def _row(name: str, fit: ImageFit, packed: PackedFit, psnr: float | None) -> dict[str, str]:
    parameters = num_parameters(fit.network) + num_parameters(fit.encoder)
    return {
        "name": name,
        "psnr": "-" if psnr is None else f"{psnr:.2f}",
        "steps": f"{fit.step:,}" if fit.step == fit.num_steps else f"{fit.step} / {fit.num_steps}",
        "parameters": f"{parameters:,}",
        "bits": str(packed.bits),
        "kilobytes": f"{len(packed.data) / 1000:,.0f}",
        "difference": f"{packed.difference * 255:.2f}",
    }
