"""ALiBi: attention with linear biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import default_dtype, require_counts
from nerf_posenc_attention.relative_bias import relative_positions

if TYPE_CHECKING:
    from jaxtyping import Float


def alibi_slopes(num_heads: int) -> Float[Tensor, " num_heads"]:
    r"""Slopes of ALiBi's heads: $2^{-8i/n}$ for $i = 1 \dots n$ (Press et al. 2022, section 3).

    If n is no power of two, the slopes of the next lower one are followed by every second
    slope of the next higher one, as in the authors' code.

    Raises:
        ValueError: If there is no head.

    Examples:
        >>> alibi_slopes(2)
        tensor([0.0625, 0.0039])
    """
    require_counts(num_heads=num_heads)
    # 12 heads: the 8 slopes of 8 heads, then the 1st, 3rd, 5th and 7th slope of 16 heads.
    lower = 1 << (num_heads.bit_length() - 1)
    slopes: Sequence[float] = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    higher = [2 ** (-4 * i / lower) for i in range(1, 2 * lower + 1)]
    return torch.tensor([*slopes, *higher[0::2][: num_heads - lower]], dtype=default_dtype())


def alibi_bias(
    num_heads: int, num_queries: int, num_keys: int | None = None
) -> Float[Tensor, "num_heads num_queries num_keys"]:
    """ALiBi's bias: minus the slope of the head times the distance of query and key.

    Queries are the last ``num_queries`` of the ``num_keys`` positions, as when decoding from
    a cache. The bias is symmetric; a causal mask is the caller's.

    Args:
        num_heads: number of heads, 1 or more.
        num_queries: number of queries.
        num_keys: number of keys, at least that of the queries; None is as many.

    Returns:
        Bias to add to the attention scores, float32.

    Raises:
        ValueError: If a number is out of its range.

    Examples:
        >>> alibi_bias(1, 2)[0]
        tensor([[-0.0000, -0.0039],
                [-0.0039, -0.0000]])
    """
    distances = relative_positions(num_queries, num_keys).abs()
    return -alibi_slopes(num_heads)[:, None, None] * distances
