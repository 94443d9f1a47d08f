"""A page in which the fitted networks of an image run: WebGL2, no server, no requests.

``fit_engine.js.j2`` decodes the networks and evaluates them at any points that the page shows, by
the shaders of ``fit_webgl.js.j2`` or on the CPU; view and controls are in ``fit_page.html.j2``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.fits import ImageFit
from nerf_posenc.networks.mlp import MLP, num_parameters
from nerf_posenc_app.report.template import render
from nerf_posenc_app.runs.saved import Metrics, made_by
from nerf_posenc_app.values.names import BASELINE
from nerf_posenc_app.values.results import Result
from nerf_posenc_app.web.packed_weights import PackedFit, linear_layers, pack_fit

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_BYTES = 16_000_000
"""Largest page: beyond it browsers take seconds to open one."""

_TEXEL = 4
_RAW = -1.0
_NO_BAND = -1.0


@dataclass(frozen=True)
class FitPage:
    """A page and what is said of it.

    Attributes:
        html: the page.
        packed: weights of each fit.
    """

    html: str
    packed: Mapping[str, PackedFit]


def why_not(fit: ImageFit) -> str | None:
    """Say why the page cannot run a fit; None if it can."""
    if not isinstance(fit.network, MLP):
        return f"network {fit.options.encoding}"
    encoder = fit.encoder
    if isinstance(encoder, HashGridEncoder):
        suits = encoder.features_per_level == _TEXEL and encoder.interpolation == "linear"
        return None if suits else "a grid other than 4 features with linear interpolation"
    if isinstance(encoder, FourierEncoder) and encoder.basis is not None:
        return "Fourier features along other directions than the axes"
    known = isinstance(encoder, Identity | FourierEncoder | GaussianEncoder)
    return None if known else f"encoder {type(encoder).__name__}"


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
    packed = {name: pack_fit(fit, _unrounded(fit)) for name, fit in fits.items()}
    data = [_for_browser(name, fit, packed[name]) for name, fit in fits.items()]
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


def _for_browser(name: str, fit: ImageFit, packed: PackedFit) -> dict[str, Any]:
    """Data that ``decodeFit`` in ``fit_engine.js.j2`` reads."""
    encoder = fit.encoder
    values: dict[str, Any] = {
        "name": name,
        "bits": packed.bits,
        "bands": encoder.num_bands if isinstance(encoder, FourierEncoder) else 0,
        "features": encoder.out_dim,
        "layers": [[layer.in_features, layer.out_features] for layer in linear_layers(fit.network)],
        "data": base64.b64encode(packed.data).decode("ascii"),
    }
    if isinstance(encoder, HashGridEncoder):
        values["grid"] = {
            "low": encoder.bounds[0],
            "high": encoder.bounds[1],
            "offset": encoder.offset,
            "rows": encoder.rows_per_level,
        }
    return values


def _unrounded(fit: ImageFit) -> list[Tensor]:
    """Numbers of the encoder, and biases: few, and read by every point."""
    encoder = fit.encoder
    biases = [layer.bias.detach() for layer in linear_layers(fit.network)]
    if isinstance(encoder, HashGridEncoder):
        return [_levels(encoder), *biases]
    return [encoder_columns(encoder), *biases]


def _levels(encoder: HashGridEncoder) -> Float[Tensor, "levels 4"]:
    """Multiplier, first row, number of rows, and nodes per axis (0 if hashed) of each level."""
    first, levels = 0, []
    for i, (scale, rows) in enumerate(zip(encoder.scales, encoder.rows_per_level, strict=True)):
        side = encoder.resolutions[i] if i < encoder.num_dense else 0
        levels.append([scale, first, rows, side])
        first += rows
    return torch.tensor(levels, dtype=torch.float64)


def encoder_columns(encoder: Encoder) -> Float[Tensor, "columns 4"]:
    """Describe each column of an encoder without a grid: what the browser computes it from.

    Returns:
        Cycles per unit of x and of y, the phase in cycles, 0 for a sine and 0.25 for a cosine, or
        -1 for the coordinates themselves; and the band, or -1.
    """
    if isinstance(encoder, FourierEncoder):
        cycles = encoder.frequency_bands / (2 * math.pi)
        rows = torch.zeros(encoder.out_dim, 4, dtype=torch.float64)
        for row, (band, phase, axis) in zip(rows, encoder.columns, strict=True):
            row[axis] = 1.0 if phase == "x" else cycles[band, axis]
            row[2] = {"x": _RAW, "sin": 0.0, "cos": 0.25}[phase]
            row[3] = band
        return rows
    if isinstance(encoder, GaussianEncoder):
        matrix = encoder.matrix.detach().double()
        shifts = [0.25 if phase == "cos" else 0.0 for phase in encoder.sincos.phases]
        ends = [torch.tensor([shift, _NO_BAND]).expand(len(matrix), 2) for shift in shifts]
        return torch.cat([torch.cat((matrix, end.double()), dim=1) for end in ends])
    return torch.tensor([[1, 0, _RAW, _NO_BAND], [0, 1, _RAW, _NO_BAND]], dtype=torch.float64)
