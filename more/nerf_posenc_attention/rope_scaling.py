"""Bands of rotary embeddings for sequences longer than in training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.bands import bands_of_width
from nerf_posenc.core.checks import require_counts

if TYPE_CHECKING:
    from jaxtyping import Float


def ntk_bands(dim: int, *, factor: float, base: float = 10_000.0) -> Float[Tensor, " num_bands"]:
    r"""Bands for sequences ``factor`` times as long as in training, from a larger base.

    The base is multiplied by $\text{factor}^{d/(d-2)}$, which leaves the first band as it is and
    divides the last by the factor ("NTK-aware" interpolation; Peng et al. 2023, YaRN,
    arXiv:2309.00071, section 3.1). Dividing every band by the factor is linear interpolation
    (Chen et al. 2023, arXiv:2306.15595): ``geometric_bands(dim // 2) / factor``.

    Args:
        dim: width, an even number of 4 or more.
        factor: ratio of the new length to the trained one, 1 or more.
        base: base used in training.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _require_scaling(dim, factor)
    return bands_of_width(dim, base=base * factor ** (dim / (dim - 2)))


def dynamic_ntk_bands(
    dim: int, *, length: int, trained_length: int, factor: float = 1.0, base: float = 10_000.0
) -> Float[Tensor, " num_bands"]:
    r"""NTK bands whose factor grows with the sequence, and is 1 up to the trained length.

    The base is multiplied by $(\text{factor} \cdot n / n_0 - (\text{factor} - 1))^{d/(d-2)}$
    for a length n above the trained $n_0$ (``"dynamic"`` of transformers).

    Args:
        dim: width, an even number of 4 or more.
        length: length of the sequence, 1 or more.
        trained_length: length used in training, 1 or more.
        factor: growth of the base, 1 or more.
        base: base used in training.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> bands = dynamic_ntk_bands(64, length=100, trained_length=2048)
        >>> torch.equal(bands, geometric_bands(32))
        True
    """
    _require_scaling(dim, factor)
    require_counts(length=length, trained_length=trained_length)
    growth = max(1.0, factor * length / trained_length - (factor - 1))
    return ntk_bands(dim, factor=growth, base=base)


def yarn_bands(
    dim: int,
    *,
    factor: float,
    trained_length: int,
    base: float = 10_000.0,
    fast_cycles: float = 32.0,
    slow_cycles: float = 1.0,
    truncate: bool = True,
) -> Float[Tensor, " num_bands"]:
    """YaRN's bands: slow ones are interpolated, fast ones kept, with a ramp between.

    A band with more than ``fast_cycles`` cycles over the trained length is kept, one with fewer
    than ``slow_cycles`` is divided by the factor (Peng et al. 2023, section 3.2).
    The queries and keys are also scaled by [yarn_scale][nerf_posenc_attention.yarn_scale].

    Args:
        dim: width, an even number of 4 or more.
        factor: ratio of the new length to the trained one, 1 or more.
        trained_length: length used in training.
        base: base used in training.
        fast_cycles: the paper's beta.
        slow_cycles: the paper's alpha; equal to beta in Kimi K2.
        truncate: begin and end the ramp at whole bands, as the paper's code; gpt-oss does not.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _require_scaling(dim, factor)
    _require_ramp(trained_length, slow_cycles, fast_cycles)

    def pair_with(cycles: float) -> float:
        """Index, as a real number, of the band with this many cycles."""
        # base^(-2i/dim) = 2 pi / wavelength, solved for i.
        wavelength = trained_length / cycles
        return dim * math.log(wavelength / (2 * math.pi)) / (2 * math.log(base))

    low, high = pair_with(fast_cycles), pair_with(slow_cycles)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(0, low), min(dim - 1, high)
    pairs = torch.arange(dim // 2, dtype=torch.float64, device="cpu")
    # Share of interpolation: 0 for fast bands (kept), 1 for slow ones (divided by the factor).
    interpolated = ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)
    bands = bands_of_width(dim, base=base)
    return bands * (1 - interpolated) + bands / factor * interpolated


def yarn_scale(factor: float, *, strength: float = 1.0) -> float:
    """YaRN's factor for queries and keys, ``0.1 ln(factor) + 1`` (Peng et al. 2023, section 3.4).

    Args:
        factor: ratio of the new length to the trained one, 1 or more.
        strength: factor of the logarithm. DeepSeek's factor is
            ``yarn_scale(f, strength=mscale) / yarn_scale(f, strength=mscale_all_dim)``.

    Raises:
        ValueError: If the factor is below 1.

    Examples:
        >>> yarn_scale(1.0)
        1.0
    """
    if not factor >= 1:
        raise ValueError(f"factor must be 1 or more; got {factor}")
    return 0.1 * strength * math.log(factor) + 1.0


def llama3_bands(
    dim: int,
    *,
    factor: float = 8.0,
    trained_length: int = 8192,
    base: float = 500_000.0,
    slow_cycles: float = 1.0,
    fast_cycles: float = 4.0,
) -> Float[Tensor, " num_bands"]:
    """Bands of Llama 3.1: slow ones are divided by the factor, fast ones kept, with a ramp between.

    As [yarn_bands][nerf_posenc_attention.yarn_bands], but the ramp is linear in the number of
    cycles over the trained length instead of in the index of the band (Llama Team 2024,
    arXiv:2407.21783; ``"llama3"`` of transformers).

    Args:
        dim: width, an even number of 4 or more.
        factor: ratio of the new length to the trained one, 1 or more: 8 in Llama 3.1, 32 in the
            small models of Llama 3.2.
        trained_length: length used in training.
        base: base used in training.
        slow_cycles: ``low_freq_factor``; bands with fewer cycles are divided by the factor. Equal
            to the other in Llama 4.
        fast_cycles: ``high_freq_factor``; bands with more cycles are kept.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _require_scaling(dim, factor)
    _require_ramp(trained_length, slow_cycles, fast_cycles)
    bands = bands_of_width(dim, base=base)
    cycles = trained_length * bands / (2 * math.pi)
    # Share that is kept: 1 for fast bands, 0 for slow ones. Equal limits (Llama 4) give a step; the
    # 1e-12 avoids the division by 0.
    kept = ((cycles - slow_cycles) / max(fast_cycles - slow_cycles, 1e-12)).clamp(0, 1)
    return bands * kept + bands / factor * (1 - kept)


def longrope_bands(
    dim: int, factors: Sequence[float], *, base: float = 10_000.0
) -> Float[Tensor, " num_bands"]:
    """LongRoPE's bands: each divided by a factor of its own (Ding et al. 2024, arXiv:2402.13753).

    Models have two lists, ``short_factor`` up to the trained length and ``long_factor`` beyond
    it. The queries and keys are also scaled by
    [longrope_scale][nerf_posenc_attention.longrope_scale].

    Args:
        dim: width, an even number of 2 or more.
        factors: one positive number for each band.
        base: base used in training.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If the factors are not ``dim / 2`` positive numbers.

    Examples:
        >>> longrope_bands(4, [1.0, 4.0])
        tensor([1.0000, 0.0025], dtype=torch.float64)
    """
    values = torch.as_tensor(factors, dtype=torch.float64, device="cpu")
    if values.shape != (dim // 2,) or not bool((values > 0).all()):
        raise ValueError(
            f"factors must be {dim // 2} positive numbers, one for each band; got {factors}"
        )
    return bands_of_width(dim, base=base) / values


def longrope_scale(factor: float, trained_length: int) -> float:
    r"""LongRoPE's factor for queries and keys, $\sqrt{1 + \ln s / \ln n_0}$.

    Args:
        factor: ratio s of the new length to the trained one, 1 or more.
        trained_length: $n_0$, 2 or more.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> longrope_scale(1.0, 4096)
        1.0
    """
    if not (math.isfinite(factor) and factor >= 1) or trained_length < 2:
        raise ValueError(
            f"factor must be 1 or more and trained_length 2 or more; got {factor}, {trained_length}"
        )
    # The entropy of attention grows with ln(length); larger logits compensate for it.
    return math.sqrt(1 + math.log(factor) / math.log(trained_length))


def p_rope_bands(
    dim: int, *, fraction: float, base: float = 10_000.0
) -> Float[Tensor, " num_bands"]:
    """p-RoPE's bands: the fastest ones, then zeros, so that the other pairs are not rotated.

    Pairs with band 0 carry meaning that does not depend on the position, at any length
    (Barbero et al. 2025, Round and Round We Go, arXiv:2410.06205).

    Args:
        dim: width, an even number of 2 or more.
        fraction: share p of the bands that is kept, 0 to 1.
        base: ratio of the longest wavelength (not reached) to the shortest, before any is removed.

    Returns:
        Bands in float64, ``(dim / 2,)``.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> p_rope_bands(8, fraction=0.5)
        tensor([1.0000, 0.1000, 0.0000, 0.0000], dtype=torch.float64)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be 0 to 1; got {fraction}")
    bands = bands_of_width(dim, base=base)
    bands[int(fraction * len(bands)) :] = 0
    return bands


def _require_scaling(dim: int, factor: float) -> None:
    if dim < 4 or dim % 2:
        raise ValueError(f"dim must be an even number of 4 or more; got {dim}")
    if not (math.isfinite(factor) and factor >= 1):
        raise ValueError(f"factor must be 1 or more; got {factor}")


def _require_ramp(trained_length: int, slow_cycles: float, fast_cycles: float) -> None:
    if trained_length < 1 or not 0 < slow_cycles <= fast_cycles:
        raise ValueError(
            "trained_length must be 1 or more and 0 < slow_cycles <= fast_cycles; got "
            f"{trained_length}, {slow_cycles} and {fast_cycles}"
        )
