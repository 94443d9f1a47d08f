"""Arguments of encoders as code."""

from typing import Any

import torch
from torch import Tensor

from nerf_posenc.core.bands import linear_bands, ratio_bands

# Relative difference of measured bands that are meant to be equal.
SAME_BAND = 1e-3


def bracketed(code: str) -> str:
    """Put a sum or a product in brackets."""
    return f"({code})" if "*" in code or "+" in code else code


def arguments_code(arguments: dict[str, Any]) -> str:
    """Write arguments by keyword behind others."""

    def code(name: str, value: Any) -> str:
        if not isinstance(value, Tensor):
            return repr(value)
        return bands_code(value) if name == "frequencies" else _numbers_code(value)

    return "".join(f", {name}={code(name, value)}" for name, value in arguments.items())


def bands_code(bands: Tensor) -> str:
    """Bands as code: a series by ratio or at equal distances, or one by one."""
    if bands.ndim == 2 and len(bands) > 1:
        return f"torch.stack([{', '.join(map(bands_code, bands.unbind(-1)))}], -1)"
    if bands.ndim == 1 and len(bands) > 2 and bands[0] > 0 and bands[-1] > 0:
        count, first, last = len(bands), float(bands[0]), float(bands[-1])
        ratio = (last / first) ** (1 / (count - 1))
        by_ratio = ratio_bands(count, first=first, ratio=ratio)
        if torch.allclose(bands, by_ratio, rtol=SAME_BAND, atol=0):
            return f"ratio_bands({count}, first={first!r}, ratio={ratio!r})"
        evenly = linear_bands(count, first=first, last=last)
        if torch.allclose(bands, evenly, rtol=SAME_BAND, atol=0):
            return f"linear_bands({count}, first={first!r}, last={last!r})"
    return _numbers_code(bands)


def _numbers_code(numbers: Tensor) -> str:
    return f"torch.tensor({numbers.tolist()}, dtype=torch.float64)"
