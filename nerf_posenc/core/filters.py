"""Filters: encodings of areas instead of points (Yaldiz et al. 2025, arXiv:2510.08394).

The mean of a sine over a symmetric filter is the sine times the filter's frequency response, so
that a filtered encoding costs one factor for each column. The Gaussian has an argument of its own
in the encoders, ``variance``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nerf_posenc.core.checks import require_counts, require_positive

if TYPE_CHECKING:
    from jaxtyping import Float

Filter = Callable[[Tensor], Tensor]
"""From angular frequencies ``(num, in_dim)``, rad per unit, to factors ``(num,)`` or, where the
filter differs from point to point, ``(*batch, num)``."""

_NUM_NODES = 256
_MOST_LOBES = 16


def filtered(
    features: Float[Tensor, "*batch num"], filter: Filter, omega: Float[Tensor, "num in_dim"]
) -> Float[Tensor, "*batch num"]:
    """Means of sines and cosines over a filter around each point.

    Args:
        features: sines and cosines at the points.
        filter: the filter's frequency response.
        omega: angular frequency of each column.

    Raises:
        ValueError: If the filter does not give one factor for each frequency, or point and
            frequency.
    """
    dtype = torch.promote_types(features.dtype, torch.float32)
    factors = filter(omega.to(features.device, dtype))
    if factors.shape not in (features.shape[-1:], features.shape):
        raise ValueError(
            f"a filter must give factors of shape {tuple(features.shape[-1:])} or "
            f"{tuple(features.shape)}; got {tuple(factors.shape)}"
        )
    return features * factors.to(features.dtype)


@dataclass(frozen=True)
class Box:
    r"""The mean over a box around each point, such as a pixel's area.

    $\prod_a \mathrm{sinc}(\omega_a w_a / 2)$ for the widths $w_a$.

    Args:
        width: width of the box in units of the coordinates, above 0, a number or a tensor without
            dimensions for all axes; or one for each axis, ``(in_dim,)``, or for each axis and
            point, ``(*batch, in_dim)``.

    Raises:
        ValueError: If a number is not above 0.

    Examples:
        >>> from nerf_posenc import FourierEncoder
        >>> encoder = FourierEncoder(2, 10)
        >>> x = torch.rand(8, 2)
        >>> area = encoder(x, filter=Box(2 / 64))  # pixels of a 64 x 64 image on [-1, 1]^2
    """

    width: int | float | Float[Tensor, "*batch_and_axes"]

    def __post_init__(self) -> None:
        if not isinstance(self.width, Tensor):
            require_positive(width=self.width)

    def __call__(self, omega: Float[Tensor, "num in_dim"]) -> Float[Tensor, "*batch num"]:
        """Factor of each frequency.

        Raises:
            ValueError: If there is not one width, or one for each axis.
        """
        width = self.width
        if isinstance(width, Tensor) and width.ndim:
            if width.shape[-1:] != omega.shape[-1:]:
                raise ValueError(
                    f"width must be a number or have shape (*batch, {omega.shape[-1]}), a width "
                    f"for each axis; got {tuple(width.shape)}"
                )
            # (*batch, in_dim) -> (*batch, 1, in_dim), which broadcasts with (num, in_dim).
            width = width.unsqueeze(-2)
        # torch.sinc(t) is sin(pi t) / (pi t), with t in cycles.
        return torch.sinc(omega / (2 * math.pi) * width).prod(-1)


@functools.cache
def _gauss_legendre() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Nodes in [-1, 1] and their weights, computed at the first use: it takes milliseconds."""
    return np.polynomial.legendre.leggauss(_NUM_NODES)


@dataclass(frozen=True)
class Lanczos:
    r"""Lanczos resampling to a grid of a given pitch: sharper than the box, with less aliasing.

    The kernel is $\mathrm{sinc}(u)\,\mathrm{sinc}(u / a)$ for $|u| < a$, with $u$ in grid steps,
    for each axis, and the integral 1. Its response is integrated by quadrature, exact to 1e-6.

    Args:
        pitch: distance of neighboring points of the grid in units of the coordinates, above 0, the
            same along all axes.
        lobes: a, 1 to 16.

    Raises:
        ValueError: If an argument is out of its range.
    """

    pitch: int | float
    lobes: int = 3
    _nodes: Tensor = field(init=False, repr=False, compare=False)
    _weights: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_positive(pitch=self.pitch)
        require_counts(lobes=self.lobes)
        if self.lobes > _MOST_LOBES:
            raise ValueError(f"lobes must be 1 to {_MOST_LOBES}; got {self.lobes}")
        # The kernel is symmetric: integrate over u in [0, lobes] grid steps, with weights of sum 1.
        nodes, weights = map(torch.from_numpy, _gauss_legendre())
        u = self.lobes * (nodes + 1) / 2
        weights = weights * torch.sinc(u) * torch.sinc(u / self.lobes)
        object.__setattr__(self, "_nodes", u)
        object.__setattr__(self, "_weights", weights / weights.sum())

    def __call__(self, omega: Float[Tensor, "num in_dim"]) -> Float[Tensor, " num"]:
        """Factor of each frequency."""
        cycles = omega * (self.pitch / (2 * math.pi))
        u, weight = self._nodes.to(omega), self._weights.to(omega)
        # (num, in_dim, nodes) -> (num, in_dim); no matrix product, which autocast would round.
        response = (torch.cos(2 * math.pi * cycles[..., None] * u) * weight).sum(-1)
        # The nodes do not resolve higher frequencies, where the response is below 1e-6.
        return response.where(cycles.abs() * self.lobes < _NUM_NODES / 4, 0.0).prod(-1)
