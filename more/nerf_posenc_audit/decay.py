"""The decay of xPos, from the lengths that a rotation gives."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nerf_posenc.positional.xpos import XPosEncoder
from nerf_posenc_audit.lines import SAME_BAND
from nerf_posenc_audit.position_transforms import simple_number

# Slope of a logarithm of lengths, per position, below which they do not change.
_FLAT = 1e-7
_USUAL = {"scale_base": 512.0, "center": 0.0, "pairing": "interleaved"}


def find_decay(
    before: Tensor, output: Tensor, positions: Tensor
) -> Iterator[tuple[XPosEncoder, dict[str, Any], bool]]:
    r"""Find the xPos encoders that change lengths as an output does.

    The factor of a pair is $\exp((t - c) \log(\zeta) / B)$, of keys its inverse: the slope of
    its logarithm along the positions says B, and where it is 0 the center c.

    Args:
        before: queries or keys, ``(length, width)``, in float64.
        output: the same, rotated.
        positions: positions, ``(length,)``, in float64.

    Yields:
        The encoder, its arguments other than the usual ones, and whether it rotated keys.
    """
    width = before.shape[1]
    for pairing in ("interleaved", "half") if width % 2 == 0 else ():
        plain = XPosEncoder(width, pairing=pairing)
        # Squared lengths of the first pair, which decays most.
        first = plain.to_columns(torch.arange(width // 2)) == 0
        lengths = [value[:, first].square().sum(dim=1) for value in (before, output)]
        if not all(bool((length > 0).all()) for length in lengths):
            continue
        logarithms = 0.5 * (lengths[1].log() - lengths[0].log())
        away = positions - positions.mean()
        slope = float((away * logarithms).sum() / away.square().sum())
        if abs(slope) < _FLAT:
            continue
        log_zeta = math.log(plain.gamma / (1 + plain.gamma))
        center = float(positions.mean() - logarithms.mean() / slope)
        arguments: dict[str, Any] = {
            "scale_base": simple_number(abs(log_zeta / slope), SAME_BAND),
            "center": simple_number(center, SAME_BAND),
            "pairing": pairing,
        }
        arguments = {key: value for key, value in arguments.items() if value != _USUAL[key]}
        yield XPosEncoder(width, **arguments), arguments, slope > 0
