"""Orders of the columns of an encoder, and the side of its raw input."""

from collections.abc import Sequence
from typing import Any, Literal

Phase = Literal["sin", "cos"]
Phases = tuple[Phase, Phase]
IncludeInput = Literal["front", "back"] | None
"""Side of the features on which an encoder puts the raw coordinates; None leaves them out."""

LAYOUTS = ("kpa", "pka", "pak", "apk", "akp", "kap")
"""Column orders, outermost to innermost: k = band, p = phase (sin or cos), a = axis."""


def column_labels(
    in_dim: int, num_bands: int, layout: str, phases: Sequence[str] = ("sin", "cos")
) -> list[tuple[int, str, int]]:
    """Name the columns of a layout: a ``(band, phase, axis)`` triple for each, in order.

    Args:
        in_dim: number of coordinates.
        num_bands: number of bands.
        layout: one of ``LAYOUTS``.
        phases: order of the phases.

    Returns:
        ``2 * num_bands * in_dim`` triples.

    Raises:
        ValueError: If the layout is not one of ``LAYOUTS``.

    Examples:
        >>> column_labels(1, 1, "akp")
        [(0, 'sin', 0), (0, 'cos', 0)]
    """
    require_layout(layout, phases)
    values: dict[str, Sequence[Any]] = dict(k=range(num_bands), p=phases, a=range(in_dim))
    outer, middle, inner = (values[letter] for letter in layout)
    place = [layout.index(letter) for letter in "kpa"]
    triples = [(i, j, m) for i in outer for j in middle for m in inner]
    return [(t[place[0]], t[place[1]], t[place[2]]) for t in triples]


def raw_side(include_input: IncludeInput | bool) -> IncludeInput:
    """Side of the raw coordinates; True is the front, as in nerf-pytorch and nerfstudio.

    Raises:
        ValueError: If it is no side.
    """
    if isinstance(include_input, bool):
        return "front" if include_input else None
    if include_input not in ("front", "back", None):
        raise ValueError(
            "include_input must be 'front' or 'back', the side of the features on which the raw "
            f"coordinates stand, or None to leave them out; got {include_input!r}"
        )
    return include_input


def require_layout(layout: str, phases: Sequence[str]) -> None:
    """Refuse unknown layouts and phases.

    Raises:
        ValueError: Naming those that there are.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
    if sorted(phases) != ["cos", "sin"]:
        raise ValueError(f"phases must be ('sin', 'cos') or ('cos', 'sin'); got {phases!r}")
