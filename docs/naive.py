"""Simpler position encodings that lead to sinusoids, and the requirement that each one fails.

For teaching (why_sinusoids.md); networks use `nerf_posenc.SinusoidalEncoder`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.positional.sinusoidal import SinusoidalEncoder

if TYPE_CHECKING:
    from jaxtyping import Float

Scheme = Callable[[int], Tensor]
"""From the length of a sequence to the embeddings of its positions, ``(length, dim)``."""


def index_codes(length: int) -> Float[Tensor, "length 1"]:
    """The position itself.

    Examples:
        >>> index_codes(3).flatten()
        tensor([0., 1., 2.])
    """
    return torch.arange(length, dtype=torch.float32)[:, None]


def normalized_index_codes(length: int) -> Float[Tensor, "length 1"]:
    """The position divided by the last one, so that it stays in [0, 1].

    Examples:
        >>> normalized_index_codes(3).flatten()
        tensor([0.0000, 0.5000, 1.0000])
    """
    return index_codes(length) / max(1, length - 1)


def binary_codes(length: int, *, num_bits: int = 16) -> Float[Tensor, "length num_bits"]:
    """The position's binary digits, the lowest first.

    Raises:
        ValueError: If there are too few digits for the length.

    Examples:
        >>> binary_codes(4, num_bits=2)
        tensor([[0., 0.],
                [1., 0.],
                [0., 1.],
                [1., 1.]])
    """
    if length > 1 << num_bits:
        raise ValueError(f"{num_bits} bits tell {1 << num_bits} positions apart, not {length}")
    positions = torch.arange(length)[:, None]
    return ((positions >> torch.arange(num_bits)) & 1).float()


def sinusoidal_codes(length: int, *, dim: int = 64) -> Float[Tensor, "length dim"]:
    """The digits made continuous: a sine and a cosine of each frequency.

    Examples:
        >>> sinusoidal_codes(5, dim=8).shape
        torch.Size([5, 8])
    """
    return SinusoidalEncoder(dim).table(length)


@dataclass(frozen=True)
class Requirements:
    """Five requirements of a position encoding, and whether a scheme meets them.

    Attributes:
        same_code_at_any_length: a position has the same embedding at every sequence length.
        bounded: all values lie in [-1, 1].
        no_fast_growth: the largest norm grows by less than a factor of 1.2 as the length
            doubles.
        equal_offsets_equal_distance: embeddings an offset apart have the same distance at
            every position and sequence length.
        all_distinct: no two positions share an embedding.
    """

    same_code_at_any_length: bool
    bounded: bool
    no_fast_growth: bool
    equal_offsets_equal_distance: bool
    all_distinct: bool


def check_requirements(
    scheme: Scheme,
    *,
    lengths: Sequence[int] = (128, 256, 512),
    offsets: Sequence[int] = (1, 2, 5, 30),
    tolerance: float = 1e-4,
) -> Requirements:
    """Check a scheme against the five requirements of a position encoding.

    Args:
        scheme: function from a length to the embeddings of its positions.
        lengths: lengths to try, two or more, rising, each at least twice the one before.
        offsets: offsets to compare, below the smallest length.
        tolerance: largest difference that counts as equal.

    Returns:
        The requirements and whether each is met.

    Raises:
        ValueError: If the lengths or offsets do not fit.

    Examples:
        >>> check_requirements(sinusoidal_codes).equal_offsets_equal_distance
        True
    """
    rises = all(b >= 2 * a for a, b in itertools.pairwise(lengths))
    if len(lengths) < 2 or not rises or not 0 < max(offsets) < lengths[0]:
        raise ValueError(
            "give two lengths or more, each at least twice the one before, and offsets below the "
            f"first; got {tuple(lengths)} and {tuple(offsets)}"
        )
    codes = [scheme(length).double() for length in lengths]
    first = codes[0]
    norms = [code.norm(dim=1).max() for code in codes]
    distances = {
        offset: torch.cat([(code[offset:] - code[:-offset]).norm(dim=1) for code in codes])
        for offset in offsets
    }
    longest = codes[-1]
    gaps = torch.cdist(longest, longest, compute_mode="donot_use_mm_for_euclid_dist")
    gaps.fill_diagonal_(torch.inf)
    return Requirements(
        same_code_at_any_length=all(
            bool((code[: len(first)] - first).abs().max() <= tolerance) for code in codes
        ),
        bounded=all(bool(code.abs().max() <= 1 + tolerance) for code in codes),
        no_fast_growth=all(bool(b < 1.2 * a) for a, b in itertools.pairwise(norms)),
        equal_offsets_equal_distance=all(
            bool(d.max() - d.min() <= tolerance * d.max()) for d in distances.values()
        ),
        all_distinct=bool(gaps.min() > tolerance),
    )
