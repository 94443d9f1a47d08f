"""Depths as they are shown: near is bright."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from app.report.errors import MOST_VALUES

# Of the visible pixels, nearer and farther than the two ends of the scale.
_BEYOND = 0.01


def nearness(depths: Sequence[Float[Tensor, "height width"]]) -> list[Tensor]:
    """Brightness of depths on one scale: 1 is nearest, 0 is farthest, NaN is empty.

    It is linear in 1 / depth, since the depths of photographs reach to the horizon.

    Args:
        depths: above 0, NaN for empty pixels.
    """
    inverse = [1 / depth.clamp(min=1e-6) for depth in depths]
    visible = torch.cat([part[part.isfinite()] for part in inverse] or [torch.zeros(0)])
    if not len(visible):
        return inverse
    sample = visible[:: 1 + len(visible) // MOST_VALUES]
    ends = torch.tensor([_BEYOND, 1 - _BEYOND], dtype=sample.dtype)
    far, near = sample.quantile(ends)
    span = torch.maximum(near - far, 1e-6 * near)
    return [((part - far) / span).clamp(0, 1) for part in inverse]
