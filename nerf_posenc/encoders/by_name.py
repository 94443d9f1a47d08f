"""Encoders of other libraries by name: all presets of coordinates and of sinusoidal positions."""

import inspect
from typing import Any

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.encoders.sinusoidal import SinusoidalEncoder
from nerf_posenc.encoders.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import FOURIER, GRID, SEQUENCE, Preset, PresetTable

PresetEncoder = FourierEncoder | GridSinusoidalEncoder | SinusoidalEncoder

_TABLES: list[tuple[type[PresetEncoder], PresetTable[Preset]]] = [
    (FourierEncoder, FOURIER),
    (GridSinusoidalEncoder, GRID),
    (SinusoidalEncoder, SEQUENCE),
]
PRESETS = PresetTable({name: row for _, table in _TABLES for name, row in table.items()})
"""Rows of all tables of presets by name."""


def preset(name: str, *sizes: int, **overrides: Any) -> PresetEncoder:
    """Make the encoder of a library or a model.

    The encoders have the same as a method, with the types of each: ``FourierEncoder.preset``.

    Args:
        name: name or alias of a preset, in any case, with any dashes, underscores or spaces.
        sizes: sizes, also by their names, as in the encoder's own ``preset``: ``in_dim`` and
            ``num_bands`` of a `FourierEncoder`, ``dim`` and ``num_axes`` of a
            `GridSinusoidalEncoder`, ``dim`` of a `SinusoidalEncoder`.
        overrides: arguments that differ from the preset's.

    Raises:
        TypeError: If a size is missing.
        ValueError: If the name is unknown, and the nearest ones are given; or if a size suits no
            encoder of that name.

    Examples:
        >>> preset("nerf", 3, 10).out_dim
        63
        >>> preset("NeRF PyTorch", 3, 10).out_dim
        63
    """
    try:
        canonical = PRESETS.canonical(name)
    except ValueError as error:
        if str(error).endswith("?"):
            # It has the nearest name.
            raise
        raise ValueError(
            f"{error}. Presets of attention, such as llama, are in the companion: "
            "`pip install ./more` in the clone, then nerf_posenc_attention.RotaryEncoder.preset"
        ) from None
    encoder: Any = next(encoder for encoder, table in _TABLES if canonical in table)
    try:
        made: PresetEncoder = encoder.preset(name, *sizes, **overrides)
    except (TypeError, ValueError) as error:
        # The same integers mean other things to other encoders.
        names = [n for n in inspect.signature(encoder.preset).parameters if n != "overrides"][1:]
        if not sizes and "missing" not in str(error):
            raise
        if not sizes:
            needed = f"; preset({name!r}, {', '.join(names)}) takes its sizes in this order"
            raise type(error)(f"{error}{needed}") from None
        read = ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=False))
        raise type(error)(f"{error}; {encoder.__name__} takes the sizes as {read}") from None
    return made
