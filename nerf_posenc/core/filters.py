"""Filters: encodings of areas instead of points (Yaldiz et al. 2025, arXiv:2510.08394).

The mean of a sine over a symmetric filter is the sine times the filter's frequency response, so
that a filtered encoding costs one factor for each column. The Gaussian has an argument of its own
in the encoders, ``variance``.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nerf_posenc.core.encoder import require_positive

Filter = Callable[[Tensor], Tensor]
"""From angular frequencies ``(num, in_dim)``, rad per unit, to factors ``(num,)`` or, where the
filter differs from point to point, ``(*batch, num)``."""

_NUM_NODES = 256


def filtered(
    features: Float[Tensor, "*batch num"], filter: Filter, omega: Float[Tensor, "num in_dim"]
) -> Float[Tensor, "*batch num"]:
    """Means of sines and cosines over a filter around each point.

    Args:
        features: sines and cosines at the points.
        filter: the filter's frequency response.
        omega: angular frequency of each column.
    """
    dtype = torch.promote_types(features.dtype, torch.float32)
    return features * filter(omega.to(features.device, dtype)).to(features.dtype)


@dataclass(frozen=True)
class Box:
    r"""The mean over a box around each point, such as a pixel's area.

    $\prod_a \mathrm{sinc}(\omega_a w_a / 2)$ for the widths $w_a$.

    Args:
        width: width of the box in units of the coordinates, one for all axes; or one for each
            axis, ``(in_dim,)``, or point, ``(*batch, in_dim)``.

    Examples:
        >>> from nerf_posenc import FourierEncoder
        >>> encoder = FourierEncoder(2, 10)
        >>> x = torch.rand(8, 2)
        >>> area = encoder(x, filter=Box(2 / 64))  # pixels of a 64 x 64 image on [-1, 1]^2
    """

    width: int | float | Float[Tensor, "*batch in_dim"]

    def __call__(self, omega: Float[Tensor, "num in_dim"]) -> Float[Tensor, "*batch num"]:
        """Factor of each frequency.

        Raises:
            ValueError: If the width is not that of one or each axis.
        """
        width = self.width
        if isinstance(width, Tensor):
            if width.shape[-1:] != omega.shape[-1:]:
                raise ValueError(
                    f"width must be a number or have shape (*batch, {omega.shape[-1]}), a width "
                    f"for each axis; got {tuple(width.shape)}"
                )
            # Widths of each point, beside all frequencies.
            width = width.unsqueeze(-2)
        # torch.sinc(t) is sin(pi t) / (pi t), with t in cycles.
        return torch.sinc(omega / (2 * math.pi) * width).prod(-1)


@dataclass(frozen=True)
class Lanczos:
    r"""Lanczos resampling to a grid of a given pitch: sharper than the box, with less aliasing.

    The kernel is $\mathrm{sinc}(u)\,\mathrm{sinc}(u / a)$ for $|u| < a$, with $u$ in grid steps,
    for each axis, and the integral 1. Its response is integrated by quadrature, exact to 1e-6.

    Args:
        width: pitch of the grid in units of the coordinates, above 0.
        lobes: a, 1 or more.

    Raises:
        ValueError: If an argument is out of its range.
    """

    width: int | float
    lobes: int = 3

    def __post_init__(self) -> None:
        require_positive(width=self.width, lobes=self.lobes)

    def __call__(self, omega: Float[Tensor, "num in_dim"]) -> Float[Tensor, " num"]:
        """Factor of each frequency."""
        cycles = omega * (self.width / (2 * math.pi))
        u, weight = (torch.as_tensor(each).to(omega) for each in _lanczos_nodes(self.lobes))
        response = torch.cos(2 * math.pi * cycles[..., None] * u) @ weight
        # Beyond the frequencies that the nodes resolve the response is below 1e-6.
        return response.where(cycles.abs() * self.lobes < _NUM_NODES / 4, 0.0).prod(-1)


@functools.cache
def _lanczos_nodes(lobes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes of half the kernel, in grid steps, and their weights, which add to 1."""
    node, weight = np.polynomial.legendre.leggauss(_NUM_NODES)
    u = (node + 1) * lobes / 2
    weight = weight * np.sinc(u) * np.sinc(u / lobes)
    return u, weight / weight.sum()
