"""An encoder as plain numbers: the pairs that it rotates, or the wave of each column."""

import math
from typing import NamedTuple

import torch

from nerf_posenc.core.columns import column_labels
from nerf_posenc.core.sinusoids import SinCos
from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc_attention.rotary import RotaryEncoder


class Pair(NamedTuple):
    """Columns a and b, rotated by ``band * position[axis]``."""

    a: int
    b: int
    axis: int
    band: float


class Column(NamedTuple):
    """``sin(band * position[axis] + phase)``; the position itself where the band is None."""

    axis: int
    band: float | None
    phase: float


def rotation_pairs(encoder: RotaryEncoder) -> list[Pair]:
    """Pairs of a rotary embedding, in the order of its bands.

    Raises:
        ValueError: If it rotates no pairs: V-JEPA 2's.
    """
    if encoder.pairing == "tiled":
        raise ValueError("the pairing 'tiled' is no rotation of pairs: see its source")
    # The pair of each column: its first column is a, its second b.
    pair_of_column = encoder.to_columns(torch.arange(len(encoder.pair_axes))).tolist()
    columns: list[list[int]] = [[] for _ in encoder.pair_axes]
    for column, pair in enumerate(pair_of_column):
        columns[pair].append(column)
    bands = encoder.frequency_bands[:, 0].tolist()
    first = encoder.dim - encoder.rotary_dim if encoder.trailing else 0
    return [
        Pair(first + a, first + b, axis, band)
        for (a, b), axis, band in zip(columns, encoder.pair_axes, bands, strict=True)
    ]


def sinusoid_columns(
    encoder: FourierEncoder | GridSinusoidalEncoder | SinusoidalEncoder,
) -> list[Column]:
    """Columns of an embedding of single axes."""
    if isinstance(encoder, FourierEncoder):
        columns = _columns(encoder.sincos)
        raw = [Column(axis, None, 0.0) for axis in range(encoder.in_dim)]
        if encoder.include_input is not None:
            columns = raw + columns if encoder.include_input == "front" else columns + raw
        return columns
    if isinstance(encoder, SinusoidalEncoder):
        return _columns(encoder.sincos)[: encoder.out_dim]
    parts = [encoder] if encoder.axis_dims is None else list(encoder.axes)
    columns = [
        column._replace(axis=encoder.axis_order[first + column.axis])
        for first, part in enumerate(parts)
        for column in _columns(part.sincos)  # type: ignore[arg-type]
    ]
    return columns[: encoder.out_dim]


def _columns(sincos: SinCos) -> list[Column]:
    labels = column_labels(sincos.in_dim, sincos.num_bands, sincos.layout, sincos.phases)
    return [
        Column(axis, float(sincos.frequencies[band, axis]), 0.0 if phase == "sin" else math.pi / 2)
        for band, phase, axis in labels
    ]
