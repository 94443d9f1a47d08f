"""Colors of the fits, the same in figures and on the page."""

import itertools
from collections.abc import Mapping

# Okabe and Ito's colors, which readers with color blindness can tell apart; then, for comparisons
# of many fits, darker ones of Tol's muted scheme and of other hues.
FIGURE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#882255", "#332288", "#8A8A1F", "#8C564B", "#00B5B8"),
)

# The same hues with enough contrast for text on the page; the last one is the original's.
PAGE_LIGHT = (
    *("#0072b2", "#d55e00", "#009e73", "#b0568c", "#6b4600", "#2d8fc4", "#555555"),
    *("#882255", "#332288", "#7a7a14", "#8c564b", "#00898c"),
    "#888888",
)
PAGE_DARK = (
    *("#56b4e9", "#f08a4b", "#36c9a0", "#e29cc4", "#f0b84b", "#8fd0f5", "#c8c8c8"),
    *("#e0558f", "#9d8df1", "#c9c94a", "#c99a8b", "#3fdadd"),
    "#999999",
)

NUM_COLORS = len(FIGURE)
"""Fits beyond this number repeat the colors."""

NUM_STYLES = 2 * NUM_COLORS
"""Fits with repeated colors have dotted lines and hollow keys; beyond this number those repeat."""


RAMP = (40, 52, 64, 76, 88, 100)
"""Percent of its color that each value of a swept option has, the least value the palest.

Their styles follow that of the original, `NUM_STYLES`.
"""

_SWEPT = 1


COLORS = {
    **{"none": 0, "fourier": 1, "hash": 2, "gaussian": 3, "siren": 4, "finer": 5},
    **{"sinusoidal": 1, "learned": 2, "rotary": 3, "alibi": 4},
}
"""Encodings that have the same color in every run; others take those that are free."""


def color_indices(encodings: Mapping[str, str]) -> dict[str, int]:
    """Color index of each fit: the fixed color of its encoding, or the next free one.

    Args:
        encodings: name of each fit in its run, by the name on the page. Of several fits of one
            name, as of two runs, the first has the fixed color.
    """
    chosen: dict[str, int] = {}
    for name, encoding in encodings.items():
        if encoding in COLORS and COLORS[encoding] not in chosen.values():
            chosen[name] = COLORS[encoding]
    free = itertools.cycle(i for i in range(NUM_STYLES) if i not in chosen.values())
    return {name: chosen[name] if name in chosen else next(free) for name in encodings}


def ramp_index(i: int, count: int) -> int:
    """Color index of the i-th of several values of a swept option, in their order."""
    return NUM_STYLES + 1 + round(i * (len(RAMP) - 1) / max(1, count - 1))


def figure_color(index: int) -> str:
    """Color of a line for print: of a fit, the original's gray, or of the ramp of a sweep."""
    if index > NUM_STYLES:
        share = RAMP[index - NUM_STYLES - 1] / 100
        full = bytes.fromhex(FIGURE[_SWEPT][1:])
        return "#" + bytes(round(255 + share * (value - 255)) for value in full).hex()
    return "gray" if index == NUM_STYLES else FIGURE[index % NUM_COLORS]
