"""Checks of a saved model before memory is spent on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from torch import Tensor

from nerf_posenc.training.encoding_recipe import EncoderDescription

Description = TypeVar("Description", bound=EncoderDescription)

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


def description_of(kind: type[Description], saved: Mapping[str, Any]) -> Description:
    """The description of a model, also by another version, whose options were at most left open.

    Args:
        kind: its dataclass.
        saved: values of the options by name.

    Raises:
        ValueError: If an option that was used is not one of this version.
    """
    known = {field.name for field in fields(kind)}
    used = [name for name, value in saved.items() if name not in known and value is not None]
    if used:
        raise ValueError(f"this version has no {used[0]}, which was {saved[used[0]]!r:.40}")
    return kind(**{name: value for name, value in saved.items() if name in known})
