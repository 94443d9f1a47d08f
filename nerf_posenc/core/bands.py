"""Frequency bands in radians per unit of the coordinate, and coarse-to-fine windows on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.checks import require_positive

if TYPE_CHECKING:
    from jaxtyping import Float


def octave_bands(
    num_bands: int,
    *,
    min_octave: int | float = 0,
    max_octave: int | float | None = None,
    base: float = math.pi,
) -> Float[Tensor, " num_bands"]:
    r"""Angular frequencies that double from one band to the next.

    $\omega_k = \text{base} \cdot 2^{k_0 + k}$ for $k = 0 \dots \text{num\_bands} - 1$: with
    the defaults the bands of NeRF (Mildenhall et al. 2020, equation 4).

    Args:
        num_bands: number of bands, 0 or more.
        min_octave: $k_0$, the octave of the first band.
        max_octave: octave of the last band; the others lie at equal ratios between them, as
            nerfstudio has it (``max_freq_exp``). None: one octave from each band to the next.
        base: rad per unit of the coordinate at octave 0, finite and positive.

    Returns:
        Bands in rad per unit of the coordinate, float64, shape ``(num_bands,)``.

    Raises:
        ValueError: If ``num_bands`` is negative, ``base`` is not finite and positive,
            or an octave lies outside -100...100, beyond what float32 can scale by.

    Examples:
        >>> octave_bands(3) / math.pi
        tensor([1., 2., 4.], dtype=torch.float64)
    """
    _require_count(num_bands)
    require_positive(base=base)
    last = min_octave + max(0, num_bands - 1) if max_octave is None else max_octave
    if num_bands and not -100 <= min_octave <= last <= 100:
        raise ValueError(
            f"octaves {min_octave} to {last} leave the range -100 to 100 "
            "that float32 can scale by; ask for fewer bands or another min_octave"
        )
    step = 1 if max_octave is None else (last - min_octave) / max(1, num_bands - 1)
    octaves = torch.linspace(min_octave, last, num_bands, dtype=torch.float64, device="cpu")
    if not (float(min_octave).is_integer() and float(step).is_integer()):
        return base * torch.exp2(octaves)
    # ldexp is exact; base * 2.0**octave through torch.exp2 may be rounded.
    return torch.ldexp(torch.tensor(base, dtype=torch.float64, device="cpu"), octaves)


def geometric_bands(
    num_bands: int, *, base: float = 10_000.0, shift: int | float = 0
) -> Float[Tensor, " num_bands"]:
    r"""Angular frequencies that fall geometrically from 1 rad per position.

    $\omega_i = \text{base}^{-i/(n - \text{shift})}$ of n bands: with the defaults those of an
    embedding of width 2n (Vaswani et al. 2017, section 3.5), whose wavelengths run from $2\pi$ up
    to, but not including, $\text{base} \cdot 2\pi$.

    Args:
        num_bands: number of bands n, 0 or more.
        base: ratio of the longest wavelength (not reached) to the shortest, greater than 0.
        shift: diffusers' ``downscale_freq_shift``, below ``num_bands``. With 1 the last band has
            the longest wavelength; with 1/2 the bands are those of an odd width 2n - 1, whose last
            band has only the column of its first phase.

    Returns:
        Bands in rad per position, float64, shape ``(num_bands,)``.

    Raises:
        ValueError: If ``num_bands`` is negative or not above ``shift``, or ``base`` is not finite
            and positive.

    Examples:
        >>> geometric_bands(2, base=100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    _require_count(num_bands)
    require_positive(base=base)
    if not shift < max(num_bands, 1):
        raise ValueError(f"shift must be below the number of bands, {num_bands}; got {shift}")
    # base^(-i/n): the last band is above 1 / base, or equal to it with a shift of 1.
    exponents = torch.arange(num_bands, dtype=torch.float64, device="cpu") / (num_bands - shift)
    return torch.pow(torch.tensor(base, dtype=torch.float64, device="cpu"), -exponents)


def bands_of_width(dim: int, *, base: float) -> Float[Tensor, " num_bands"]:
    """`geometric_bands` of an embedding: of an odd width the last has only its first phase."""
    return geometric_bands((dim + 1) // 2, base=base, shift=dim % 2 / 2)


def ratio_bands(num_bands: int, *, first: float, ratio: float) -> Float[Tensor, " num_bands"]:
    r"""Angular frequencies $\omega_k = \text{first} \cdot \text{ratio}^k$.

    Args:
        num_bands: number of bands, 0 or more.
        first: the first band, rad per unit, finite and positive.
        ratio: factor from one band to the next, finite and positive.

    Returns:
        Bands in float64.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> ratio_bands(3, first=1.0, ratio=10.0)
        tensor([  1.,  10., 100.], dtype=torch.float64)
    """
    _require_count(num_bands)
    require_positive(first=first, ratio=ratio)
    exponents = torch.arange(num_bands, dtype=torch.float64, device="cpu")
    return first * torch.pow(torch.tensor(ratio, dtype=torch.float64, device="cpu"), exponents)


def linear_bands(num_bands: int, *, first: float, last: float) -> Float[Tensor, " num_bands"]:
    """Angular frequencies at equal distances from ``first`` to ``last``, both included.

    Args:
        num_bands: number of bands, 0 or more.
        first: the first band, rad per unit, finite and positive.
        last: the last band, rad per unit, finite and positive.

    Returns:
        Bands in float64.

    Raises:
        ValueError: If an argument is out of its range.

    Examples:
        >>> linear_bands(3, first=1.0, last=3.0)
        tensor([1., 2., 3.], dtype=torch.float64)
    """
    _require_count(num_bands)
    require_positive(first=first, last=last)
    return torch.linspace(first, last, num_bands, dtype=torch.float64, device="cpu")


def period_bands(*periods: int | float) -> Float[Tensor, "1 num_axes"]:
    """One band for each axis, with a given period: hours, weekdays, days of the year.

    Args:
        periods: periods of each axis, in its own unit, finite and positive.

    Returns:
        Bands in float64, ``(1, num_axes)``, for an encoder of as many coordinates.

    Raises:
        TypeError: If a period is no number.
        ValueError: If it is not finite and positive.

    Examples:
        >>> from nerf_posenc import FourierEncoder
        >>> calendar = FourierEncoder(3, frequencies=period_bands(24, 7, 365.25))
        >>> calendar(torch.tensor([[23.0, 6.0, 200.0]])).shape
        torch.Size([1, 6])
    """
    for period in periods:
        if not isinstance(period, int | float):
            raise TypeError(f"give the periods one by one, period_bands(24, 7); got {period!r}")
        require_positive(period=period)
    return 2 * math.pi / torch.tensor([periods], dtype=torch.float64, device="cpu")


def coarse_to_fine_weight(
    num_bands: int, progress: float | Float[Tensor, ""]
) -> Float[Tensor, " num_bands"]:
    r"""Window that opens bands one after the other, from coarse to fine.

    $w_k = \tfrac12 \big(1 - \cos(\pi\, \mathrm{clamp}(\alpha - k, 0, 1))\big)$ with
    $\alpha = \text{progress} \cdot L$ (Lin et al. 2021, BARF, equation 14).

    Args:
        num_bands: number of bands (or levels) L.
        progress: progress of the fit from 0, with all bands closed, to 1, with all open. A tensor
            keeps its device, and is clamped to this range.

    Returns:
        Weights in [0, 1], float32.

    Raises:
        ValueError: If there is no band, or a number is out of its range.

    Examples:
        >>> coarse_to_fine_weight(4, 0.375)
        tensor([1.0000, 0.5000, 0.0000, 0.0000])
    """
    _require_count(num_bands)
    if not isinstance(progress, Tensor) and not 0 <= progress <= 1:
        raise ValueError(
            f"progress must be in [0, 1], a share of the steps; got {progress}. After the last "
            f"step, give min(1, step / num_steps)"
        )
    alpha = torch.as_tensor(progress, dtype=torch.float32) * num_bands
    bands = torch.arange(num_bands, dtype=torch.float32, device=alpha.device)
    # BARF, equation 14: band k opens by a half cosine while alpha goes from k to k + 1.
    return (1 - torch.cos(math.pi * (alpha - bands).clamp(0, 1))) / 2


def require_bands(bands: Tensor, in_dim: int) -> None:
    """Refuse bands that do not fit the coordinates, or are not finite.

    Raises:
        ValueError: Naming the shape.
    """
    if bands.shape[1:] not in ((), (in_dim,)):
        raise ValueError(
            f"frequencies must have shape (num_bands,) or (num_bands, {in_dim}); got "
            f"{tuple(bands.shape)}"
        )
    if not bool(torch.isfinite(bands).all()):
        raise ValueError("frequencies must be finite; got an infinite or undefined one")


def _require_count(num_bands: int) -> None:
    if num_bands < 0:
        raise ValueError(f"num_bands must be 0 or more; got {num_bands}")
