"""All presets by name: those of the library, and the rotary embeddings of the companion."""

from typing import Any

from nerf_posenc import FourierEncoder, GridSinusoidalEncoder, SinusoidalEncoder
from nerf_posenc import preset as library_preset
from nerf_posenc.presets import FOURIER, GRID, SEQUENCE, Preset, PresetTable
from nerf_posenc_attention import ROTARY, RotaryEncoder

AnyEncoder = FourierEncoder | GridSinusoidalEncoder | RotaryEncoder | SinusoidalEncoder

_TABLES: list[tuple[type[AnyEncoder], Any]] = [
    (FourierEncoder, FOURIER),
    (GridSinusoidalEncoder, GRID),
    (RotaryEncoder, ROTARY),
    (SinusoidalEncoder, SEQUENCE),
]
PRESETS: PresetTable[Preset] = PresetTable(
    {name: row for _, table in _TABLES for name, row in table.items()}
)
"""Rows of all tables of presets by name."""


def preset(name: str, *sizes: int, **overrides: Any) -> AnyEncoder:
    """Make the encoder of a library or a model: `nerf_posenc.preset`, and rotary embeddings too.

    Args:
        name: name or alias of a preset.
        sizes: sizes of the encoder; of a `RotaryEncoder` ``dim`` or nothing.
        overrides: arguments that differ from the preset's.

    Raises:
        TypeError: If a size is missing.
        ValueError: If the name is unknown, and the nearest ones are given; or if a size suits no
            encoder of that name.

    Examples:
        >>> preset("flux")
        RotaryEncoder(dim=128, axis_dims=(16, 56, 56), pairing='interleaved', base=10000)
    """
    if encoder_of(PRESETS.canonical(name)) is RotaryEncoder:
        return RotaryEncoder.preset(name, *sizes, **overrides)
    return library_preset(name, *sizes, **overrides)


def encoder_of(name: str) -> type[AnyEncoder]:
    """Class of the encoder of one of `PRESETS`."""
    return next(encoder for encoder, table in _TABLES if name in table)
