"""Rays through pixels, and their intersection with the scene box."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.cameras import Camera


class Rays(NamedTuple):
    """Rays, one per row.

    Attributes:
        origins: where they start.
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
    directions = camera.directions()
    # No matrix product, which autocast would round to half precision.
    rotated = (directions.reshape(-1, 1, 3) * world_from_camera[:3, :3]).sum(-1)
    return Rays(
        world_from_camera[:3, 3].expand_as(rotated),
        F.normalize(rotated, dim=-1),
        pixel_radii(directions).reshape(-1),
        torch.full_like(rotated, background),
    )


def pixel_radii(directions: Float[Tensor, "height width 3"]) -> Float[Tensor, "height width"]:
    """Radius, at distance 1, of the cone through each pixel.

    A disk of this radius has the variance of the square pixel: its width times 2 / sqrt(12)
    (Barron et al. 2021, mip-NeRF, section 3.1).

    Args:
        directions: through the pixels' centers, with z = -1.
    """
    units = torch.nn.functional.normalize(directions, dim=-1)
    if directions.shape[1] > 1:
        widths = (units[:, 1:] - units[:, :-1]).norm(dim=-1)
        widths = torch.cat([widths, widths[:, -1:]], dim=1)
    else:
        widths = torch.zeros(directions.shape[:2])
    return widths * (2 / math.sqrt(12))


def ray_aabb_intersect(
    origins: Float[Tensor, "*batch 3"],
    directions: Float[Tensor, "*batch 3"],
    *,
    half_size: float = 1.0,
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Distances at which rays enter and leave the cube [-half_size, half_size]^3.

    The slab test (Kay and Kajiya 1986).

    Args:
        origins: where the rays start; inside the cube they enter at 0.
        directions: of any length, which is the unit of the distances.
        half_size: half the edge of the cube.

    Returns:
        Near and far distances, equal for a ray that misses.
    """
    # A direction along a face divides 0 by 0 if the origin lies in it: such a ray is inside.
    inverse = 1 / directions
    first = torch.nan_to_num((-half_size - origins) * inverse, nan=-math.inf)
    second = torch.nan_to_num((half_size - origins) * inverse, nan=math.inf)
    near = torch.minimum(first, second).amax(-1).clamp(min=0)
    far = torch.maximum(first, second).amin(-1)
    misses = ~(far > near)
    return near.masked_fill(misses, 0.0), far.masked_fill(misses, 0.0)
