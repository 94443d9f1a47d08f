"""Fitted images that the browser evaluates: which suit, and how the page is told of them.

``fit_engine.js.j2`` decodes what `described` lays out, and evaluates it at any points: by the
shaders of ``fit_webgl.js.j2``, or on the CPU.
"""

from __future__ import annotations

import base64
import copy
import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder, Identity
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.hash_grid import HashGridEncoder
from nerf_posenc.encoders.random_fourier import GaussianEncoder
from nerf_posenc.fits import ImageFit
from nerf_posenc.networks.mlp import MLP
from nerf_posenc_app.values.blocks import Network
from nerf_posenc_app.values.measures import score_text
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from jaxtyping import Float

# Base64 of the networks of one page: two of 4 x 256 units.
_MOST_BYTES = 1_200_000
# Largest difference to the exact fit: less than half a step of 8 bits, so that a pixel in 8 bits is
# off by one step at most.
_TOLERANCE = 0.45 / 255
_CHECKED_POINTS = 1 << 16
_TEXEL = 4
_RAW = -1.0
_NO_BAND = -1.0


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


def page_networks(results: Sequence[Result], first: Sequence[str]) -> dict[str, Any] | None:
    """Networks that the comparison evaluates, so that bands are let in one by one.

    Args:
        results: the fits of one run.
        first: names of the fits that are taken before others, of those with bands.

    Returns:
        What the template reads: no networks if the smallest is larger than `_MOST_BYTES`; None if
        no fit has bands that can be switched off.
    """
    networks = {r.label: block for r in results for block in r.blocks(Network)}
    networks = {name: each for name, each in networks.items() if why_not(each.fit) is None}
    if not any(each.psnr_by_bands for each in networks.values()):
        return None
    order = sorted(networks, key=lambda name: (not networks[name].psnr_by_bands, name not in first))
    fits, scores, room = [], {}, _MOST_BYTES
    for name in order:
        described_fit = described(name, networks[name].fit)
        room -= len(described_fit["data"])
        if room < 0:
            break
        fits.append(described_fit)
        scores[name] = [f"{score_text(each, 1)} dB" for each in networks[name].psnr_by_bands]
    return {"fits": fits, "psnr": scores, "size": networks[order[0]].fit.size}


def described(name: str, fit: ImageFit) -> dict[str, Any]:
    """Describe a fit to ``decodeFit`` in ``fit_engine.js.j2``.

    Its data is float32, little-endian: the numbers of the encoder and the biases; then all weights,
    in half precision if that leaves the pixels as they are, else in float32.

    Args:
        name: name of the fit on the page.
        fit: the fit; `why_not` is None for it.
    """
    encoder = fit.encoder
    is_half = _differs_little(fit)
    data = b"".join(each.detach().numpy().astype("<f4").tobytes() for each in _unrounded(fit))
    for weight in _weights(fit):
        data += weight.detach().numpy().astype("<f2" if is_half else "<f4").tobytes()
    values: dict[str, Any] = {
        "name": name,
        "half": is_half,
        "bands": encoder.num_bands if isinstance(encoder, FourierEncoder) else 0,
        "features": encoder.out_dim,
        "layers": [[layer.in_features, layer.out_features] for layer in _linear_layers(fit)],
        "data": base64.b64encode(zlib.compress(data, 9)).decode("ascii"),
    }
    if isinstance(encoder, HashGridEncoder):
        values["grid"] = {
            "low": encoder.bounds[0],
            "high": encoder.bounds[1],
            "offset": encoder.offset,
            "rows": encoder.rows_per_level,
        }
    return values


def _linear_layers(fit: ImageFit) -> list[nn.Linear]:
    """Linear layers from input to output."""
    return [module for module in fit.network.modules() if isinstance(module, nn.Linear)]


def _weights(fit: ImageFit) -> list[Tensor]:
    """Levels of a grid, then the weights of each linear layer."""
    tables = fit.encoder.tables if isinstance(fit.encoder, HashGridEncoder) else []
    return [*tables, *(layer.weight for layer in _linear_layers(fit))]


@torch.no_grad()
def _differs_little(fit: ImageFit) -> bool:
    """Whether weights in half precision change no pixel by more than the tolerance."""
    rounded = copy.deepcopy(fit)
    for weight in _weights(rounded):
        weight.copy_(weight.half())
    corner = torch.tensor(fit.size) / max(fit.size)
    generator = torch.Generator().manual_seed(0)
    points = corner * (2 * torch.rand(_CHECKED_POINTS, 2, generator=generator) - 1)
    # An infinite weight makes NaN, which is no small difference.
    return bool((rounded(points) - fit(points)).abs().max() <= _TOLERANCE)


def _unrounded(fit: ImageFit) -> list[Tensor]:
    """Numbers of the encoder, and biases: few, and read by every point."""
    encoder = fit.encoder
    biases = [layer.bias for layer in _linear_layers(fit)]
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
