"""Which coefficients of a series are kept: the choice, and its compressed bit mask."""

import lzma
import math

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

_BITS_PER_WORD = 16
# Coefficients per chunk: those of a large image take hundreds of megabytes.
_CHUNK = 1 << 22
# A mask takes about so many words for each coefficient that it keeps.
_USUAL_WORDS = 0.12


def num_words(num_bytes: int) -> int:
    """Size of a mask in parameters of 16 bits."""
    return math.ceil(num_bytes * 8 / _BITS_PER_WORD)


def largest(values: Float[Tensor, "*shape"], budget: int) -> Bool[Tensor, " coefficients"] | None:
    """Mask of the largest coefficients that fit into a budget together with the mask itself.

    Args:
        values: all coefficients, on the CPU.
        budget: parameters of 16 bits.

    Returns:
        A mask of the flat coefficients that leaves at most a thousandth of the budget unused unless
        all fit; None if not one fits.
    """
    if budget < 1:
        return None
    flat = values.reshape(-1)
    ascending = _largest_magnitudes(flat, budget)
    best: Tensor | None = None
    slack = budget // 1000
    # Largest count known to fit, and smallest known not to.
    fits, too_many = 0, min(budget, len(ascending)) + 1
    most = min(too_many - 1, max(1, round(budget / (1 + _USUAL_WORDS))))
    while most > fits:
        smallest = float(ascending[-most])
        mask = torch.empty(len(flat), dtype=torch.bool)
        for chunk, kept in zip(flat.split(_CHUNK), mask.split(_CHUNK), strict=True):
            torch.ge(chunk.abs(), smallest, out=kept)
        mask[mask.nonzero().squeeze(1)[most:]] = False
        words = num_words(compress(mask).numel())
        if most + words <= budget:
            best, fits = mask, most
            if budget - most - words <= slack:
                break
        else:
            too_many = most
        if best is not None and too_many - fits <= slack + 1:
            break
        # The mask of nearly as many is nearly as large.
        most = min(budget - words, len(ascending))
        if not fits < most < too_many:
            most = (fits + too_many) // 2
    return best


def _largest_magnitudes(
    values: Float[Tensor, " coefficients"], count: int
) -> npt.NDArray[np.float32]:
    """At most so many magnitudes, the largest, in ascending order."""
    found = np.empty(0, dtype=np.float32)
    for chunk in values.split(_CHUNK):
        found = np.concatenate([found, chunk.abs().numpy()])
        if len(found) > count:
            found = np.partition(found, len(found) - count)[-count:]
    return np.sort(found)


def compress(mask: Bool[Tensor, " coefficients"]) -> UInt8[Tensor, " bytes"]:
    """Compress a bit mask."""
    packed = np.packbits(mask.numpy()).tobytes()
    found = lzma.compress(packed, format=lzma.FORMAT_RAW, filters=_filters(len(packed)))
    return torch.from_numpy(np.frombuffer(found, dtype=np.uint8).copy())


def _filters(num_bytes: int) -> list[dict[str, int]]:
    """LZMA for a mask of so many bytes: with the memory that it needs, and no more."""
    return [
        {
            "id": lzma.FILTER_LZMA2,
            "preset": 9 | lzma.PRESET_EXTREME,
            "dict_size": max(1 << 12, num_bytes),
            # Bits that belong together lie in neighboring bytes: contexts by bytes only dilute.
            "lc": 0,
            "lp": 0,
            "pb": 0,
        }
    ]
