"""Random shifts and scales of patch positions, so that networks run at other resolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float


def augmented_positions(
    positions: Float[Tensor, "*shape num_axes"],
    *,
    shift: float | None = None,
    jitter: float | None = None,
    rescale: float | None = None,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*shape num_axes"]:
    """Shift and scale positions at random, all alike, as DINOv3 does in training.

    Networks that are trained so run at other resolutions (Siméoni et al. 2025, arXiv:2508.10104:
    RoPE-box jittering).

    Args:
        positions: positions of the patches, in [-1, 1].
        shift: add a number from -shift to shift along each axis.
        jitter: multiply each axis by a number from 1/jitter to jitter, uniform in its logarithm.
        rescale: multiply all axes by one number from 1/rescale to rescale, uniform in its
            logarithm; 2 in DINOv3.
        generator: random number generator; None is torch's own.

    Raises:
        ValueError: If a number is out of its range.
    """
    if (shift is not None and shift < 0) or any(
        factor is not None and factor < 1 for factor in (jitter, rescale)
    ):
        raise ValueError(
            "shift must be 0 or more, jitter and rescale 1 or more; got "
            f"{shift}, {jitter} and {rescale}"
        )

    def drawn(count: int) -> Tensor:
        """Uniform in -1 to 1."""
        numbers = torch.rand(count, generator=generator, dtype=positions.dtype)
        return (2 * numbers - 1).to(positions.device)

    num_axes = positions.shape[-1]
    if shift is not None:
        positions = positions + shift * drawn(num_axes)
    if jitter is not None:
        positions = positions * jitter ** drawn(num_axes)
    if rescale is not None:
        positions = positions * rescale ** drawn(1)
    return positions
