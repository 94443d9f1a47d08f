"""Every preset by its name, whichever encoder it is of."""

import re
from typing import Any

from nerf_posenc.encoders.fourier import FourierEncoder
from nerf_posenc.positional.rotary import RotaryEncoder
from nerf_posenc.positional.sinusoidal import SinusoidalEncoder
from nerf_posenc.positional.sinusoidal_grid import GridSinusoidalEncoder
from nerf_posenc.presets import FOURIER, GRID, ROTARY, SEQUENCE, Preset, PresetTable

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
        name: name or alias of a preset; `find_presets` lists them.
        sizes: sizes as in the encoder's own ``preset``: ``in_dim`` and ``num_bands`` of a
            `FourierEncoder`, ``dim`` and ``num_axes`` of a `GridSinusoidalEncoder`, ``dim`` of a
            `SinusoidalEncoder`; of a `RotaryEncoder` ``dim`` or nothing.
        overrides: arguments that differ from the preset's.

    Raises:
        ValueError: If the name is unknown; the nearest ones are given.

    Examples:
        >>> preset("nerf", 3, 10).out_dim
        63
        >>> preset("flux")
        RotaryEncoder(dim=128, axis_dims=(16, 56, 56), pairing='interleaved', base=10000)
    """
    encoder: Any = encoder_of(PRESETS.canonical(name))
    # By the name that was given: an alias may have another width.
    made: AnyEncoder = encoder.preset(name, *sizes, **overrides)
    return made


def encoder_of(name: str) -> type[AnyEncoder]:
    """Class of the encoder of one of `PRESETS`."""
    found: type[AnyEncoder] = next(encoder for encoder, table in _TABLES if name in table)
    return found


def find_presets(text: str = "") -> list[tuple[str, Preset]]:
    """Presets whose name, aliases, source or note contain a text, from the beginning of a word.

    Args:
        text: part of the name of a model or a library, in any case and with any or no dashes, as
            ``rtdetr``; empty for all.

    Returns:
        Names and presets, the one whose name it is first.

    Examples:
        >>> [name for name, _ in find_presets("dust3r")]
        ['croco']
    """
    wanted = "".join(_words(text))
    found = [
        (name, row)
        for name, row in PRESETS.items()
        for words in [_words(" ".join((name, *row.aliases, row.source, row.note)))]
        if any("".join(words[i:]).startswith(wanted) for i in range(len(words)))
    ]
    return sorted(found, key=lambda row: row[0] != text.lower())


def _words(text: str) -> list[str]:
    """Letters and digits of a text, word by word."""
    return re.findall(r"[a-z0-9]+", text.lower())
