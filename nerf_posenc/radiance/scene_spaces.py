"""Coordinates in which a scene fills the cube [-1, 1]^3: a box, all of space, or a frustum.

A ray becomes a path in the cube, with a coordinate along it that grows by equal amounts from sample
to sample. Densities are per unit of that coordinate, as in NeRF's normalized device coordinates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.encoders.spaces import contract
from nerf_posenc.radiance.poses import find_focus
from nerf_posenc.radiance.rays import Rays
from nerf_posenc.radiance.views import Views

if TYPE_CHECKING:
    from jaxtyping import Float

SpaceName = Literal["box", "contracted", "forward-facing"]

# Farthest distance in radii of the cameras: everything beyond is one shell.
_FARTHEST = 1000.0
# Length of the mean viewing direction above which all views look the same way, within about 30
# degrees. An arc of 25 degrees to both sides has 0.95, and is fitted better in contracted space.
_ONE_SIDED = 0.95
# Smallest cosine between a ray and the mean view for which a frustum is used.
_LEAST_FORWARD = 0.1
# Near plane where none is given, as a share of the distance to the point that the views look at.
_NEAR_SHARE = 0.3


class Paths(NamedTuple):
    """Rays as paths in the cube.

    Attributes:
        origins: points where the rays start, in the coordinates of the space.
        directions: unit vectors there.
        near: coordinate along the path at which it enters the cube.
        far: coordinate where it leaves; no more than ``near`` for a ray that misses.
    """

    origins: Float[Tensor, "n 3"]
    directions: Float[Tensor, "n 3"]
    near: Float[Tensor, " n"]
    far: Float[Tensor, " n"]


class BoxSpace(nn.Module):
    """The scene's own box: paths are the rays themselves."""

    is_box = True
    """Whether the cube is the scene's own box."""

    def paths(self, rays: Rays) -> Paths:
        """Rays as paths; the caller intersects them with what is occupied."""
        zero = torch.zeros_like(rays.origins[:, 0])
        return Paths(rays.origins, rays.directions, zero, zero + math.inf)

    def positions(
        self,
        origins: Float[Tensor, "*#batch 3"],
        directions: Float[Tensor, "*#batch 3"],
        along: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch 3"]:
        """Positions in the cube at coordinates along paths."""
        return torch.addcmul(origins, directions, along[..., None])

    def distances(
        self, rays: Rays, index: Tensor, along: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Distances from the origins of the rays ``index``, in units of the scene."""
        return along

    def scene_positions(self, positions: Float[Tensor, "n 3"]) -> Float[Tensor, "n 3"]:
        """Positions in the scene of positions in the cube."""
        return positions

    def as_json(self) -> dict[str, Any]:
        """Name and numbers of the space, for programs in other languages."""
        return {"name": "box"}


class ContractedSpace(BoxSpace):
    r"""All of space, contracted to a cube (Barron et al. 2022, mip-NeRF 360, equation 10).

    Positions are centered where the cameras look and divided by the distance of the farthest
    camera that does not lie far out. Up to 1 they stay; beyond, $u$ becomes
    $(2 - 1/|u|)\,u/|u|$ with the largest coordinate as the norm, so that the cube is filled. The
    steps along a ray grow with the distance.

    Args:
        views: views whose cameras are enclosed; None for those of a state that is loaded.
    """

    is_box = False

    center: Tensor
    radius: Tensor

    def __init__(self, views: Views | None = None) -> None:
        super().__init__()
        center, radius = torch.zeros(3), torch.ones(())
        if views is not None:
            # The sphere through the farthest camera about what all look at becomes the unit ball.
            focus = find_focus(views.world_from_camera)
            center, radius = focus.center, focus.radius.clamp(min=1e-3)
        self.register_buffer("center", center)
        self.register_buffer("radius", radius)

    def paths(self, rays: Rays) -> Paths:
        """Rays in units of the cameras' radius."""
        zero = torch.zeros_like(rays.origins[:, 0])
        origins = (rays.origins - self.center) / self.radius
        return Paths(origins, rays.directions, zero, zero + self._last)

    def positions(
        self,
        origins: Float[Tensor, "*#batch 3"],
        directions: Float[Tensor, "*#batch 3"],
        along: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch 3"]:
        """Contracted positions at coordinates along paths."""
        points = super().positions(origins, directions, self._distance(along))
        return contract(points, order=math.inf) / 2

    def distances(
        self, rays: Rays, index: Tensor, along: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Distances from the origins of the rays ``index``, in units of the scene."""
        return self._distance(along) * self.radius

    def scene_positions(self, positions: Float[Tensor, "n 3"]) -> Float[Tensor, "n 3"]:
        """Positions in the scene of positions in the cube; at its faces, the farthest shell."""
        points = 2 * positions
        largest = points.abs().amax(-1, keepdim=True).clamp(1, 2 - 1 / _FARTHEST)
        # A point of norm m beyond 1 was one of norm 1 / (2 - m).
        return self.center + self.radius * points / (largest * (2 - largest))

    def as_json(self) -> dict[str, Any]:
        """Name and numbers of the space, for programs in other languages."""
        return {
            "name": "contracted",
            "center": self.center.tolist(),
            "radius": float(self.radius),
            "last": self._last,
        }

    @property
    def _last(self) -> float:
        """Coordinate of the farthest distance; the cube is half as wide as contracted space."""
        return (2 - 1 / _FARTHEST) / 2

    def _distance(self, along: Tensor) -> Tensor:
        """Distance in radii of the cameras: linear up to 1, then with steps equal in disparity."""
        value = 2 * along
        return torch.where(value <= 1, value, 1 / (2 - value.clamp(1, 2 - 1 / _FARTHEST)))


class ForwardFacingSpace(BoxSpace):
    """Normalized device coordinates of views that look the same way (NeRF, appendix C).

    In axes of the mean view, the frustum from the nearest point of the scene to infinity becomes
    the cube, with equal steps in disparity. Rays stay straight.

    Args:
        views: views that all look the same way; None for those of a state that is loaded.
    """

    is_box = False

    frame: Tensor
    scale: Tensor
    near: Tensor

    def __init__(self, views: Views | None = None) -> None:
        super().__init__()
        frame, scale, near = torch.eye(4), torch.ones(2), torch.ones(())
        if views is not None:
            frame, scale, near = _frustum(views)
        self.register_buffer("frame", frame)
        self.register_buffer("scale", scale)
        self.register_buffer("near", near)

    def _in_frame(self, rays: Rays) -> tuple[Tensor, Tensor, Tensor]:
        """Origins on the near plane, directions, and the distances to that plane."""
        # No matrix product, which autocast would round to half precision.
        turn = self.frame[:3, :3].T
        origins = ((rays.origins - self.frame[:3, 3])[:, None] * turn).sum(-1)
        directions = (rays.directions[:, None] * turn).sum(-1)
        forward = directions[:, 2].clamp(max=-_LEAST_FORWARD)
        # Distance to the plane z = -near, onto which NeRF's appendix C moves the origins.
        before = -(self.near + origins[:, 2]) / forward
        return origins + directions * before[:, None], directions, before

    def paths(self, rays: Rays) -> Paths:
        """Rays in normalized device coordinates."""
        origins, directions, _ = self._in_frame(rays)
        z, forward = origins[:, 2:], directions[:, 2:].clamp(max=-_LEAST_FORWARD)
        # NeRF, equations 25 and 26, with the far plane at infinity; start is at the near plane, and
        # end is the way from there to infinity. x and y are scaled so that the views fill [-1, 1].
        start = torch.cat([-origins[:, :2] / z * self.scale, 1 + 2 * self.near / z], dim=-1)
        slope = directions[:, :2] / forward - origins[:, :2] / z
        end = torch.cat([-slope * self.scale, -2 * self.near / z], dim=-1)
        length = end.norm(dim=-1)
        return Paths(start, end / length[:, None], torch.zeros_like(length), length)

    def distances(
        self, rays: Rays, index: Tensor, along: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Distances from the origins of the rays ``index``, in units of the scene."""
        _, directions, before = self._in_frame(rays)
        share = (along / self.paths(rays).far[index]).clamp(max=1 - 1 / _FARTHEST)
        # Coordinates along the path are linear in 1 - near / depth: share = 1 - near / depth.
        forward = -directions[index, 2].clamp(max=-_LEAST_FORWARD)
        return before[index] + self.near / forward * share / (1 - share)

    def scene_positions(self, positions: Float[Tensor, "n 3"]) -> Float[Tensor, "n 3"]:
        """Positions in the scene of positions in the cube; at its far face, the farthest shell."""
        # The inverse of z' = 1 + 2 near / z, and of x' = -scale x / z.
        z = -2 * self.near / (1 - positions[:, 2:]).clamp(min=2 / _FARTHEST)
        points = torch.cat([-z * positions[:, :2] / self.scale, z], dim=-1)
        return points @ self.frame[:3, :3].T + self.frame[:3, 3]

    def as_json(self) -> dict[str, Any]:
        """Name and numbers of the space, for programs in other languages."""
        return {
            "name": "forward-facing",
            "center": self.frame[:3, 3].tolist(),
            # Column by column, as WebGL has matrices.
            "frame": self.frame[:3, :3].T.flatten().tolist(),
            "scale": self.scale.tolist(),
            "near": float(self.near),
        }


def _frustum(views: Views) -> tuple[Tensor, Tensor, Tensor]:
    """Mean pose of views, half the width of their common frustum at depth 1, and its near plane."""
    poses = views.world_from_camera.double()
    focus = find_focus(poses)
    poses = poses[~focus.is_far]
    frame = torch.eye(4, dtype=torch.float64)
    back = F.normalize(poses[:, :3, 2].mean(0), dim=0)
    # Orthonormal axes from the mean directions back and up, as of LLFF's average pose.
    right = F.normalize(torch.linalg.cross(poses[:, :3, 1].mean(0), back), dim=0)
    frame[:3, 0], frame[:3, 1], frame[:3, 2] = right, torch.linalg.cross(back, right), back
    frame[:3, 3] = poses[:, :3, 3].mean(0)
    near = views.near
    if near is None:
        # No bound is given: a share of the distance to what all views look at.
        near = _NEAR_SHARE * max(float((frame[:3, 3] - focus.center) @ back), 1e-3)
    space = ForwardFacingSpace()
    space.frame, space.near = frame.float(), torch.tensor(near)
    widest = torch.full((2,), 1e-6)
    for view in (~focus.is_far).nonzero()[:, 0].tolist():
        origins, directions, _ = space._in_frame(views.rays(view))
        slopes = directions[:, :2] / directions[:, 2:].clamp(max=-_LEAST_FORWARD)
        # The frustum must hold where rays begin, on the near plane, and where they go, at infinity.
        for edge in (origins[:, :2] / near, slopes):
            widest = torch.maximum(widest, edge.abs().amax(0))
    return frame.float(), 1 / widest, torch.tensor(near)


def space_for(views: Views) -> SpaceName:
    """Choose the coordinates that suit the views.

    A scene with opacity has a box around it. Opaque images show all that is behind a scene: in a
    frustum, if views look the same way from beside one another, and not along a street; otherwise
    all around.
    """
    if not views.is_opaque:
        return "box"
    is_near = ~find_focus(views.world_from_camera).is_far
    backs = F.normalize(views.world_from_camera[is_near, :3, 2], dim=-1)
    # Length of the mean of unit vectors: 1 where all views look the same way, 0 all around.
    mean = backs.mean(0)
    axis = F.normalize(mean, dim=0)
    positions = views.world_from_camera[is_near, :3, 3]
    positions = positions - positions.mean(0)
    # Cameras along a street move in the direction of view, beyond the near plane of a frustum.
    ahead = positions @ axis
    beside = positions - ahead[:, None] * axis
    looks_forward = (
        float(mean.norm()) > _ONE_SIDED
        and float(ahead.norm()) <= float(beside.norm())
        and all(
            bool((views.rays(view).directions @ axis < -2 * _LEAST_FORWARD).all())
            for view in is_near.nonzero()[:, 0].tolist()
        )
    )
    return "forward-facing" if looks_forward else "contracted"


def make_space(name: SpaceName, views: Views | None = None) -> BoxSpace:
    """Build a space for views, or for a state that is loaded."""
    if name == "contracted":
        return ContractedSpace(views)
    return ForwardFacingSpace(views) if name == "forward-facing" else BoxSpace()
