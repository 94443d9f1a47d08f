"""Heat maps: weights in [0, 1] as tables of shaded cells, a block of the page of a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nerf_posenc_app.report.page import SECTIONS, Section
from nerf_posenc_app.report.sections import styles
from nerf_posenc_app.report.template import own_template
from nerf_posenc_app.values.results import Result

_TEMPLATE = Path(__file__).parent / "templates" / "heat_map.html.j2"


@dataclass(frozen=True)
class HeatMap:
    """Weights in [0, 1] as a table of shaded cells.

    Attributes:
        title: heading of the block.
        values: the weights, row by row.
        rows: one label per row.
        columns: one label per column.

    Raises:
        ValueError: If there is not one value for each row and column.
    """

    title: str
    values: list[list[float]]
    rows: list[str]
    columns: list[str]

    def __post_init__(self) -> None:
        if [len(row) for row in self.values] != [len(self.columns)] * len(self.rows):
            raise ValueError("a heat map needs one value for each row and column")

    @classmethod
    def of(
        cls, title: str, table: Tensor, rows: Sequence[str], columns: Sequence[str]
    ) -> "HeatMap":
        """Make a heat map of a tensor ``(rows, columns)``."""
        return cls(title, table.tolist(), list(rows), list(columns))

    @property
    def table(self) -> Tensor:
        """The weights as a tensor ``(rows, columns)``."""
        return torch.tensor(self.values).reshape(len(self.rows), len(self.columns))


def _maps(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Heat maps by title, each with one for every encoding; the largest value of all is darkest."""
    style = styles(results)
    heat_maps = [(result.label, each) for result in results for each in result.blocks(HeatMap)]
    shown = []
    for title in dict.fromkeys(each.title for _, each in heat_maps):
        entries = []
        same = [(name, each) for name, each in heat_maps if each.title == title]
        maxima = [each.table.nan_to_num(0, 0, 0).max() for _, each in same if each.table.numel()]
        largest = max([1e-9, *map(float, maxima)])
        for name, each in same:
            # Numbers that are not finite, of a fit that diverged, leave their cells blank.
            finite = each.table.nan_to_num(0, 0, 0)
            rows = [
                {
                    "label": label,
                    "cells": [
                        {"percent": round(100 * shade / largest), "value": f"{value:.3f}"}
                        for shade, value in zip(shades, values, strict=True)
                    ],
                }
                for label, shades, values in zip(
                    each.rows, finite.tolist(), each.values, strict=True
                )
            ]
            entry = {"name": name, "color": style[name], "columns": each.columns, "rows": rows}
            entries.append(entry)
        shown.append({"title": title, "entries": entries})
    return shown


SECTIONS["heat_maps"] = Section(HeatMap, own_template(_TEMPLATE.read_text()), _maps)
