"""Random permutations that take no memory: each index is computed from its position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Int

_ROUNDS = 4
_MASK = (1 << 32) - 1


def index_permutation(
    positions: Int[Tensor, "*shape"], num_indices: int, *, seed: int
) -> Int[Tensor, "*shape"]:
    """Indices at these positions of a random permutation of 0 ... ``num_indices`` - 1.

    A Feistel network over pairs of digits in two bases (Black and Rogaway 2002, "Ciphers with
    arbitrary finite domains", the generalized Feistel cipher): it permutes slightly more indices,
    and those that are too large are permuted again until none is.

    Args:
        positions: integers from 0 to ``num_indices`` - 1.
        num_indices: number of permuted indices, 1 to 2^50.
        seed: random seed of the permutation.

    Raises:
        ValueError: If ``num_indices`` is out of its range.

    Examples:
        >>> sorted(index_permutation(torch.arange(5), 5, seed=0).tolist())
        [0, 1, 2, 3, 4]
    """
    if not 1 <= num_indices <= 1 << 50:
        raise ValueError(f"num_indices must be 1 to 2^50; got {num_indices}")
    generator = torch.Generator().manual_seed(seed)
    keys: list[int] = torch.randint(1 << 32, (_ROUNDS,), generator=generator).tolist()
    # A Feistel network permutes high * low indices, which are hardly more than asked for; one that
    # falls outside is permuted again until it falls inside (cycle walking).
    high = math.isqrt(num_indices - 1) + 1
    low = -(-num_indices // high)
    indices = _permuted(positions, high, low, keys)
    while bool((outside := indices >= num_indices).any()):
        indices = torch.where(outside, _permuted(indices, high, low, keys), indices)
    return indices


def _permuted(indices: Tensor, high: int, low: int, keys: list[int]) -> Tensor:
    """One pass of the network over the indices below ``high * low``."""
    left = indices.div(low, rounding_mode="floor")
    right = indices - left * low
    bases = (high, low)
    for number, key in enumerate(keys):
        base = bases[number % 2]
        # A product and a shift instead of a remainder, which takes ten times as long.
        moved = left + ((_scrambled(right, key) * base) >> 32)
        left, right = right, moved - base * (moved >= base)
    # After an even number of rounds the digits are where they were.
    return left * low + right


def _scrambled(values: Tensor, key: int) -> Tensor:
    """Hash of integers, 32 bits: the finalizer of MurmurHash3."""
    mixed = (values ^ key) & _MASK
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _MASK
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & _MASK
    return mixed ^ (mixed >> 16)
