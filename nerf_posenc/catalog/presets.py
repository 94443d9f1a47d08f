"""All presets by name, over the tables of all encoder classes."""

import inspect
from typing import Any

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import FOURIER, GRID, ROTARY, SEQUENCE, PresetTable

AnyEncoder = FourierEncoder | GridSinusoidalEncoder | RotaryEncoder | SinusoidalEncoder

_TABLES: list[tuple[Any, PresetTable]] = [
    (FourierEncoder, FOURIER),
    (GridSinusoidalEncoder, GRID),
    (RotaryEncoder, ROTARY),
    (SinusoidalEncoder, SEQUENCE),
]
PRESETS = PresetTable({name: preset for _, table in _TABLES for name, preset in table.items()})
"""Rows of all tables of presets by name."""


def preset(name: str, *sizes: int, **overrides: Any) -> AnyEncoder:
    """Make the encoder of a library or a model.

    The encoders have the same as a method, with the types of each: ``RotaryEncoder.preset``.

    Args:
        name: name or alias of a preset; `find_encodings` finds them.
        sizes: sizes, also by their names, as in the encoder's own ``preset``: ``in_dim`` and
            ``num_bands`` of a `FourierEncoder`, ``dim`` and ``num_axes`` of a
            `GridSinusoidalEncoder`, ``dim`` of a
            `SinusoidalEncoder`; of a `RotaryEncoder` ``dim`` or nothing.
        overrides: arguments that differ from the preset's.

    Raises:
        ValueError: If the name is unknown, and the nearest ones are given; or if a size suits no
            encoder of that name.

    Examples:
        >>> preset("nerf", 3, 10).out_dim
        63
        >>> preset("flux")
        RotaryEncoder(dim=128, axis_dims=(16, 56, 56), pairing='interleaved', base=10000)
    """
    encoder: Any = encoder_of(PRESETS.canonical(name))
    order = PRESETS[name].arguments.get("axis_order")
    num_axes = overrides.get("num_axes", sizes[1] if len(sizes) > 1 else 2)
    if isinstance(order, tuple) and len(order) != num_axes:
        raise ValueError(
            f"{name} has {len(order)} axes: preset({name!r}, dim, {len(order)}); got {num_axes}"
        )
    try:
        # Pass the given name, not the canonical one: an alias may have another width.
        made: AnyEncoder = encoder.preset(name, *sizes, **overrides)
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


def encoder_of(name: str) -> type[AnyEncoder]:
    """Class of the encoder of one of `PRESETS`."""
    encoder_class: type[AnyEncoder] = next(encoder for encoder, table in _TABLES if name in table)
    return encoder_class
