"""Similarity kernel of an encoding: how far apart two points are before they look different."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nerf_posenc.core.encoder import Encoder

if TYPE_CHECKING:
    from jaxtyping import Float

_MOST_SAMPLES = 16_384


@dataclass(frozen=True)
class Kernel:
    """Similarity of the features of two points, by their displacement along the first axis.

    A network generalizes over the width of the peak: with a narrow one it learns fine detail, with
    a wide one it is smooth (Tancik et al. 2020, section 4).

    Attributes:
        displacement: displacements in units of the coordinate, from -1 to 1, evenly spaced, 0 in
            the middle.
        similarity: cosine of the angle between the features, 1 at displacement 0.
        half_width: half width at half maximum, in units of the coordinate: the least displacement
            at which the similarity is 1/2, interpolated linearly; inf if it never is.
    """

    displacement: Float[Tensor, " samples"] = field(repr=False)
    similarity: Float[Tensor, " samples"] = field(repr=False)
    half_width: float

    def __repr__(self) -> str:
        return f"Kernel(half_width={self.half_width:.4g}, samples={len(self.similarity)})"


@torch.no_grad()
def kernel(encoder: Encoder) -> Kernel:
    r"""Compute the similarity kernel of an encoder whose kernel depends on displacement alone.

    $k(d) = \gamma(x) \cdot \gamma(x + d) / (|\gamma(x)| |\gamma(x + d)|)$. For Fourier features
    of bands $\omega_k$ along one axis it is the mean of $\cos(\omega_k d)$.

    Args:
        encoder: encoder with ``is_stationary``; it stays on its device.

    Raises:
        ValueError: If the similarity depends on more than the displacement, as it does for raw
            coordinates and for features that are trained.

    Examples:
        >>> from nerf_posenc import FourierEncoder
        >>> kernel(FourierEncoder(1, num_bands=1))
        Kernel(half_width=0.3333, samples=801)
    """
    if not encoder.is_stationary:
        raise ValueError(
            f"the similarity of {type(encoder).__name__}'s features depends on more than the "
            "displacement; a kernel needs an encoder with is_stationary, such as FourierEncoder"
        )
    half = _num_samples(encoder) // 2
    displacement = torch.arange(-half, half + 1, device=encoder.device) / half
    points = displacement.new_zeros(len(displacement), encoder.in_dim)
    points[:, 0] = displacement
    features = encoder(points)
    center = features[half]
    similarity = features @ center / (features.norm(dim=-1) * center.norm())
    width = _half_width(displacement[half:], similarity[half:])
    return Kernel(displacement, similarity, width)


def _half_width(displacement: Tensor, similarity: Tensor) -> float:
    """Displacement where a curve that begins at 1 first falls to 1/2."""
    below = (similarity <= 0.5).nonzero()
    if len(below) == 0:
        return math.inf
    i = int(below[0])
    high, low = float(similarity[i - 1]), float(similarity[i])
    share = (high - 0.5) / (high - low)
    before, after = float(displacement[i - 1]), float(displacement[i])
    return before + share * (after - before)


def _num_samples(encoder: Encoder) -> int:
    """An odd number of displacements, so that 0 is one, with 8 in the shortest period."""
    bands = encoder.frequency_bands
    if bands is None or bands.numel() == 0:
        return 1 + _MOST_SAMPLES
    periods = float(bands.abs().max()) / math.pi
    return 1 + 2 * min(_MOST_SAMPLES // 2, max(400, math.ceil(4 * periods)))
