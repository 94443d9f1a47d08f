"""Checks of a saved model before memory is spent on it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

# A model up to this number of parameters is always built. More layers than this are refused.
_HARMLESS = 1 << 20
_MAX_LAYERS = 1 << 10


def require_plausible(
    width: int, depth: int, num_bands: int, weights: Mapping[str, Tensor]
) -> None:
    """Refuse a model that cannot have these weights, before memory is spent on it.

    Raises:
        ValueError: Saying which number is implausible.
    """
    most = max(_HARMLESS, sum(tensor.numel() for tensor in weights.values()))
    limits = {"width": (width, most), "depth": (depth, _MAX_LAYERS), "num_bands": (num_bands, most)}
    for name, (number, limit) in limits.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= limit:
            raise ValueError(f"{name} is {number!r}, which {most} weights cannot have")
    if width * width * (depth - 1) > most:
        raise ValueError(f"{depth} layers of {width} units do not have {most} weights")
