"""Radiance fields that are orbited in the browser: what ``volume.html.j2`` draws."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc_app.report.images import webp_url
from nerf_posenc_app.values.blocks import Volume

# Optical depth of a cell above which a denser one looks the same.
_OPAQUE = 7.0
# Slices side by side in an image: a column of 128 would be longer than WebP allows.
_SIDE_BY_SIDE = 8
# Cells by which colors are spread into empty ones, from which the browser interpolates.
_SPREAD = 2


def shown_volumes(volumes: Mapping[str, Volume]) -> list[dict[str, Any]]:
    """Fields as images of their slices.

    A density d is stored in 8 bits, as log(1 + d) relative to the largest that can be told apart.

    Args:
        volumes: one of each fit.
    """
    entries = []
    for name, volume in volumes.items():
        cells = len(volume.density)
        limit = math.log1p(_OPAQUE * cells / 2)
        codes = (torch.log1p(volume.density) / limit).clamp(0, 1)
        entries.append(
            {
                "name": name,
                "title": volume.title,
                "cells": cells,
                "limit": limit,
                "density": webp_url(_slices(codes), is_exact=True),
                "colors": webp_url(_slices(_spread(volume.rgb)), 90),
                "space": volume.space,
                "orbit": volume.orbit,
                "background": volume.background,
            }
        )
    return entries


def _spread(rgb: Tensor) -> Tensor:
    """Give cells beside colored ones the mean of their colors."""
    colors = rgb.permute(3, 0, 1, 2)
    known = (colors.amax(0, keepdim=True) > 0).float()
    for _ in range(_SPREAD):
        count = F.avg_pool3d(known, 3, stride=1, padding=1)
        mean = F.avg_pool3d(colors * known, 3, stride=1, padding=1) / count.clamp(min=1e-6)
        colors = torch.where(known > 0, colors, mean)
        known = (count > 0).float()
    return colors.permute(1, 2, 3, 0)


def _slices(values: Tensor) -> Tensor:
    """Slices across z, from left to right and then down: each has x to the right and y down."""
    slices = values.transpose(0, 2)
    rows = [torch.cat(list(part), dim=1) for part in slices.split(_SIDE_BY_SIDE)]
    return torch.cat(rows)
