"""Figures for print; matplotlib, which takes half a second to import, is loaded for the first."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(**options: Any) -> "Figure":
    """A figure that no window shows.

    Args:
        options: arguments of matplotlib's ``Figure``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**options)
    FigureCanvasAgg(figure)
    return figure
