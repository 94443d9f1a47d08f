"""What a module of positions computes: its bands are measured and named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nerf_posenc_attention.presets.rotary import ROTARY
from nerf_posenc_attention.rotary import RotaryEncoder
from nerf_posenc_audit.probe import Measured, Probe
from nerf_posenc_audit.series import Series, name_bands, same_bands

SAME_SCALE = 1e-3
"""Largest difference of two factors of cosines and sines that are the same."""
# Positions that no measurement uses, to check an answer with.
_UNSEEN = torch.tensor([3, 5, 11, 77, 113, 211, 333, 499])


@dataclass(frozen=True)
class Answer:
    """What a module computes.

    Attributes:
        name: the series of its bands, in words.
        presets: presets with these bands and this scale.
        series: the series; None if it has no name.
        measured: cosines, sines and bands, measured at positions up to the farthest.
        num_axes: number of axes of positions that share the series.
        unseen: largest difference from the module at positions that the measurement did not use.
    """

    name: str
    presets: tuple[str, ...]
    series: Series | None = field(repr=False)
    measured: Measured = field(repr=False)
    num_axes: int
    unseen: float

    @property
    def bands(self) -> Tensor:
        """Exact bands of all pairs, before any rounding; measured ones without a name."""
        if self.series is None or self.num_axes > 1:
            return self.measured.bands
        return self.series.bands

    @property
    def line(self) -> str:
        """Code of the encoder with these bands; without a name, with the measured ones."""
        dim = 2 * len(self.measured.bands)
        bands = f"torch.tensor({self.measured.bands.tolist()}, dtype=torch.float64)"
        if self.series is not None and self.num_axes == 1:
            bands = self.series.code
            if self.series.rounded:
                bands = f"({bands}).to(torch.{self.series.rounded}).double()"
        scale = (
            "" if abs(self.measured.scale - 1) <= SAME_SCALE else f", scale={self.measured.scale!r}"
        )
        pairing = self.measured.pairing or "half"
        return f"RotaryEncoder({dim}, frequencies={bands}, pairing={pairing!r}{scale})"

    def __str__(self) -> str:
        known = f" ({', '.join(self.presets)})" if self.presets else ""
        return f"{self.name}{known}; {self.measured.form}, {len(self.measured.bands)} pairs"


def ask(module: Callable[..., Any], *, layer_type: str | None = None) -> Answer:
    """Measure a module of sines and cosines of positions, and name what it computes.

    Args:
        module: module or function that gives cosines and sines, angles or rotated queries.
        layer_type: argument ``layer_type`` where it takes one.

    Returns:
        The answer, which is checked at positions that the measurement did not use.

    Raises:
        NotAskableError: If no usual way to call it gives waves of the position.
    """
    probe = Probe(module, layer_type=layer_type)
    measured = probe.measure()
    is_scaled = abs(measured.scale - 1) > SAME_SCALE
    series = name_bands(measured.bands, measured.slack, is_scaled=is_scaled)
    blocks = [] if series is None else [series]
    bands = measured.bands if series is None else _rounded(series)
    for axes in (2, 3, 4):
        if not blocks and len(measured.bands) % axes == 0 and len(measured.bands) > axes:
            blocks, bands = _shared(measured, axes)
    blocks = blocks or _blocks(measured.bands, measured.slack)
    if len(blocks) > 1:
        bands = torch.cat([_rounded(one) for one in blocks]) if bands is measured.bands else bands
    words = str(blocks[0]) if blocks else "bands of its own"
    if len({len(one.bands) for one in blocks}) > 1:
        words += f", on axes of {', '.join(str(2 * len(one.bands)) for one in blocks)} columns"
    elif len(blocks) > 1:
        words += f", on {len(blocks)} axes"
    words += f", scale {measured.scale:.6g}" if is_scaled else ""
    unseen = _difference(probe, bands, measured, _UNSEEN)
    if blocks and unseen > 10 * SAME_SCALE:
        words, blocks = "bands of its own, which depend on the length", []
    series = blocks[0] if blocks else None
    return Answer(words, _presets(measured), series, measured, max(len(blocks), 1), unseen)


def _rounded(series: Series) -> Tensor:
    dtype = getattr(torch, series.rounded) if series.rounded else torch.float64
    return series.bands.to(dtype).double()


def _shared(measured: Measured, axes: int) -> tuple[list[Series], Tensor]:
    """The series that all axes have, one after the other or in turn, and the bands of all."""
    bands = measured.bands
    for one, repeat in (
        (bands[: len(bands) // axes], Tensor.repeat),
        (bands[::axes], Tensor.repeat_interleave),
    ):
        series = name_bands(one, measured.slack)
        made = bands if series is None else repeat(_rounded(series), axes)
        if series is not None and same_bands(bands, made, 2 * measured.slack):
            return [series] * axes, made
    return [], bands


def _blocks(bands: Tensor, slack: float) -> list[Series]:
    """The series of each axis, one after the other; none if one has no name or another base."""
    starts = [0, *((bands.diff() > slack).nonzero()[:, 0] + 1).tolist()]
    if not 2 <= len(starts) <= 4:
        return []
    ends = [*starts[1:], len(bands)]
    blocks = [name_bands(bands[a:b], slack) for a, b in zip(starts, ends, strict=True)]
    named = [one for one in blocks if one is not None]
    same = len({(one.kind, one.base) for one in named}) == 1
    return named if len(named) == len(blocks) and same else []


def _presets(measured: Measured) -> tuple[str, ...]:
    """Names of presets of sequences with the measured bands and scale."""
    found = []
    for name, row in ROTARY.items():
        if row.arguments.get("num_axes", 1) == 1:
            encoder = RotaryEncoder.preset(name)
            same = same_bands(measured.bands, encoder.frequency_bands[:, 0], measured.slack)
            if same and abs(measured.scale - encoder.scale) < SAME_SCALE:
                found.append(name)
    return tuple(found[:3])


def _waves(bands: Tensor, measured: Measured, positions: Tensor) -> Tensor:
    """Exact waves of bands, with the measured scale and phases that are whole quarters."""
    angles = positions.double()[:, None] * bands
    return torch.polar(torch.full_like(angles, measured.scale), angles)


def _difference(probe: Probe, bands: Tensor, measured: Measured, positions: Tensor) -> float:
    """Largest difference of cosines and sines from exact ones."""
    off = torch.view_as_real(probe.waves(positions) - _waves(bands, measured, positions))
    return float(off.abs().max())
