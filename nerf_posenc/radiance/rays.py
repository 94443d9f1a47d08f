"""Rays through pixels, and their intersection with the scene box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera, undistort

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Rays(NamedTuple):
    """Rays, one per row.

    Attributes:
        origins: points where the rays start.
        directions: unit vectors.
        radii: radius of the pixel's cone at distance 1.
        background: color behind each ray.
    """

    origins: Float[Tensor, "n 3"]
    directions: Float[Tensor, "n 3"]
    radii: Float[Tensor, " n"]
    background: Float[Tensor, "n 3"]

    @classmethod
    def cat(cls, parts: Iterable["Rays"]) -> "Rays":
        """Concatenate rays."""
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def rows(self, rows: slice | Tensor) -> "Rays":
        """Select some of the rays."""
        return Rays(*(column[rows] for column in self))

    def to(self, device: torch.device | str) -> "Rays":
        """Move the rays to a device."""
        return Rays(*(column.to(device) for column in self))


def camera_rays(
    camera: Camera, world_from_camera: Float[Tensor, "4 4"], *, background: float = 1.0
) -> Rays:
    """Rays through all pixels of a camera, row by row.

    Args:
        camera: the camera.
        world_from_camera: its pose.
        background: gray value of the background.
    """
    device = world_from_camera.device
    pixels = torch.arange(camera.width * camera.height, device=device)
    directions, radii = PixelDirections([camera], device)(torch.zeros_like(pixels), pixels)
    # No matrix product, which autocast would round to half precision.
    rotated = (directions[:, None] * world_from_camera[:3, :3]).sum(-1)
    return Rays(
        world_from_camera[:3, 3].expand_as(rotated),
        F.normalize(rotated, dim=-1),
        radii,
        torch.full_like(rotated, background),
    )


class PixelDirections:
    """Directions through pixels of several cameras, without a table of all their pixels.

    Args:
        cameras: one or more, of one size.
        device: device that they are computed on; on the CPU if it has no float64.

    Raises:
        ValueError: If a distortion cannot be inverted at every pixel.

    Examples:
        >>> directions = PixelDirections([Camera.from_angle(4, 2, math.pi / 2)])
        >>> directions(torch.tensor([0]), torch.tensor([5]))[0]
        tensor([[-0.2500, -0.2500, -1.0000]])
    """

    def __init__(self, cameras: Sequence[Camera], device: torch.device | str = "cpu") -> None:
        self._width = cameras[0].width
        # A lens that cannot be inverted is refused now, not in the middle of a fit.
        self._lens_steps = max(camera.lens_steps() for camera in cameras)
        lenses = [[c.fx, c.fy, c.cx, c.cy, *c.distortion] for c in cameras]
        has_float64 = torch.device(device).type != "mps"
        self._lenses = torch.tensor(lenses, dtype=torch.float64).to(
            device if has_float64 else "cpu"
        )

    def __call__(
        self, camera: Int[Tensor, " n"], pixel: Int[Tensor, " n"]
    ) -> tuple[Float[Tensor, "n 3"], Float[Tensor, " n"]]:
        """Directions in camera axes, with z = -1, and the radii of the pixels' cones at distance 1.

        A disk of this radius has the variance of the square pixel: its width times 2 / sqrt(12)
        (Barron et al. 2021, mip-NeRF, section 3.1).

        Args:
            camera: indices of cameras.
            pixel: indices of their pixels, row by row.
        """
        device = pixel.device
        camera, pixel = camera.to(self._lenses.device), pixel.to(self._lenses.device)
        column, row = pixel % self._width, pixel // self._width
        # The last column is as wide as the one before it.
        left = column.clamp(max=max(self._width - 2, 0))
        lenses = self._lenses[camera]
        right = (left + 1).clamp(max=self._width - 1)
        ends = self._directions_at(lenses, torch.stack([left, right]), row.expand(2, -1))
        here = torch.where((column == left)[:, None], ends[0], ends[1])
        widths = F.normalize(ends, dim=-1).diff(dim=0)[0].norm(dim=-1)
        return here.to(device), (widths * (2 / math.sqrt(12))).to(device)

    def _directions_at(self, lenses: Tensor, column: Tensor, row: Tensor) -> Tensor:
        pixels = torch.stack([column, row], dim=-1) + 0.5
        points = (pixels - lenses[:, 2:4]) / lenses[:, :2]
        if self._lens_steps:
            points, _ = undistort(points, lenses[:, 4:].unbind(-1), steps=self._lens_steps)
        right, down = points.unbind(-1)
        return torch.stack([right, -down, -torch.ones_like(right)], dim=-1).float()


def ray_aabb_intersect(
    origins: Float[Tensor, "*batch 3"],
    directions: Float[Tensor, "*batch 3"],
    *,
    half_size: float | Float[Tensor, " 3"] = 1.0,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Distances at which rays enter and leave the box from -half_size to half_size.

    The slab test (Kay and Kajiya 1986).

    Args:
        origins: points where the rays start; inside the cube they enter at 0.
        directions: directions of any length, which is the unit of the distances.
        half_size: half the edge of a cube, or of a box along each axis.

    Returns:
        Near and far distances, equal for a ray that misses.
    """
    # A direction along a face divides 0 by 0 if the origin lies in it: such a ray is inside.
    inverse = 1 / directions
    first = torch.nan_to_num((-half_size - origins) * inverse, nan=-math.inf)
    second = torch.nan_to_num((half_size - origins) * inverse, nan=math.inf)
    # Slabs: a ray is in the box from its last entry to its first exit, over the axes.
    near = torch.minimum(first, second).amax(-1).clamp(min=0)
    far = torch.maximum(first, second).amin(-1)
    misses = ~(far > near)
    return near.masked_fill(misses, 0.0), far.masked_fill(misses, 0.0)
