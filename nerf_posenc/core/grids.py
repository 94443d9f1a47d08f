"""Positions of the patches of an image and the frames of a video, as models count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def grid_positions(
    shape: Sequence[int], *, device: torch.device | None = None
) -> Int[Tensor, "*shape num_axes"]:
    """Indices of all cells of a grid.

    Args:
        shape: size along each axis, as an array's: (frames,) rows, columns.
        device: device of the result.

    Returns:
        0-based indices, ``(*shape, num_axes)``; ``flatten(0, -2)`` lists them row by row.

    Raises:
        TypeError: If the shape is a number.
        ValueError: If a size is negative, or there is none.

    Examples:
        >>> grid_positions((2, 2)).flatten(0, -2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape must have a size for each axis, as ({shape}, {shape})")
    if len(shape) == 0 or min(shape) < 0:
        raise ValueError(f"shape must be one or more sizes of 0 or more; got {tuple(shape)}")
    axes = [torch.arange(size, device=device) for size in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)


def patch_centers(
    shape: Sequence[int],
    *,
    normalize: Literal["each", "shorter", "longer"] = "each",
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Float[Tensor, "*shape num_axes"]:
    """Centers of the patches of an image in [-1, 1], as DINOv3 counts positions.

    Args:
        shape: number of patches along each axis, rows first, 1 or more.
        normalize: axes that span [-1, 1]: ``"each"`` (``"separate"`` in DINOv3), or one of
            them, whose scale the others have too: ``"longer"`` (``"max"``) or ``"shorter"``
            (``"min"``).
        dtype: type of the result.
        device: device of the result.

    Returns:
        Centers ``(*shape, num_axes)``.

    Raises:
        TypeError: If the shape is a number.
        ValueError: If an argument is out of its range.

    Examples:
        >>> patch_centers((1, 2))
        tensor([[[ 0.0000, -0.5000],
                 [ 0.0000,  0.5000]]])
    """
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape must have a size for each axis, as ({shape}, {shape})")
    if min(shape, default=0) < 1 or normalize not in ("each", "shorter", "longer"):
        raise ValueError(
            "shape must be sizes of 1 or more and normalize 'each', 'shorter' or 'longer'; got "
            f"{tuple(shape)} and {normalize!r}"
        )
    size = torch.tensor(shape, dtype=dtype, device=device)
    if normalize != "each":
        size = (size.amin() if normalize == "shorter" else size.amax()).expand(len(shape))
    centers = grid_positions(shape, device=device).to(dtype) + 0.5
    return 2 * centers / size - 1


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
