"""Positions of the patches of an image and the frames of a video, as models count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from nerf_posenc.core.checks import default_dtype, whole

if TYPE_CHECKING:
    from jaxtyping import Float, Num


Units = Literal["index", "box", "longer", "ends"]


def axis_positions(shape: Sequence[int], units: Units) -> list[Float[Tensor, " size"]]:
    """Positions along each axis of a grid, in float64; see `grid_positions`."""
    positions = [torch.arange(size, dtype=torch.float64, device="cpu") for size in shape]
    if units == "index":
        return positions
    if units == "ends":
        return [torch.linspace(-1, 1, size, dtype=torch.float64, device="cpu") for size in shape]
    spans = [max(shape) if units == "longer" else size for size in shape]
    # The center of the grid is 0, and a cell of an axis of n cells that spans [-1, 1] is 2 / n.
    return [
        (along + 0.5 - size / 2) * (2 / max(span, 1))
        for along, size, span in zip(positions, shape, spans, strict=True)
    ]


def grid_positions(
    shape: Sequence[int],
    *,
    units: Units = "index",
    xy: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Num[Tensor, "*shape num_axes"]:
    """Positions of all cells of a grid, such as the pixels or patches of an image.

    Args:
        shape: size along each axis, as an array's: (frames,) rows, columns.
        units: how positions are counted. ``"index"`` counts cells from 0; ``"box"`` and
            ``"longer"`` are centers of the cells, around 0 in the middle: in a box every axis spans
            [-1, 1], as DINOv3 counts patches, and with ``"longer"`` the longest axis does and all
            have its scale, as everywhere in this project (docs/conventions.md). With ``"ends"`` the
            first and the last cell of every axis lie at -1 and 1, as in SIREN's ``get_mgrid``.
        xy: give the coordinate of the last axis first, as the (x, y) of an image, x right and y
            down; the shape stays.
        dtype: type of the result; None is int64 for indices, and the default floating-point type
            for centers.
        device: device of the result; None is torch's default.

    Returns:
        Positions ``(*shape, num_axes)``; ``flatten(0, -2)`` lists them row by row.

    Raises:
        TypeError: If the shape is not made of integers, or centers are to be integers.
        ValueError: If a size is negative, there is none, or the units are unknown.

    Examples:
        >>> grid_positions((2, 2)).flatten(0, -2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> grid_positions((1, 2), units="box").flatten(0, -2).tolist()
        [[0.0, -0.5], [0.0, 0.5]]
        >>> grid_positions((2, 4), units="longer", xy=True)[0].tolist()
        [[-0.75, -0.25], [-0.25, -0.25], [0.25, -0.25], [0.75, -0.25]]
    """
    if not isinstance(shape, Sequence):
        raise TypeError(f"shape must be integers, one for each axis, as (14, 14); got {shape!r}")
    shape = [whole(size, "a size of shape") for size in shape]
    if len(shape) == 0 or min(shape) < 0:
        raise ValueError(f"shape must be one or more sizes of 0 or more; got {tuple(shape)}")
    if units not in ("index", "box", "longer", "ends"):
        raise ValueError(f"units must be 'index', 'box', 'longer' or 'ends'; got {units!r}")
    if dtype is None:
        dtype = torch.int64 if units == "index" else default_dtype()
    if units != "index" and not dtype.is_floating_point:
        raise TypeError(f"centers need a floating-point dtype; got {dtype}")
    device = torch.get_default_device() if device is None else device
    axes = [along.to(device, dtype) for along in axis_positions(shape, units)]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    return grid.flip(-1) if xy else grid
