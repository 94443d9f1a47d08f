"""The box that is brought to [-1, 1]^3: what the files of a scene say, compared with its views.

Files of every format state a box, which other programs use in other ways: instant-ngp's
``aabb_scale`` is how far the surroundings reach, and colmap2nerf writes 16 or 32 for any object.
Here an object should fill its box, since bands, cells and samples are spread over it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.images import evenly_spaced
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.occupancy import cell_centers, largest_within
from nerf_posenc.radiance.poses import find_focus
from nerf_posenc.radiance.rays import camera_rays, ray_aabb_intersect
from nerf_posenc.radiance.views import Views
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.posed.folders import listed

# Longer side at which cameras are checked.
_COARSE_SIDE = 512
# The same for the check whether cameras see the scene, and for silhouettes of objects.
_SIGHT_SIDE, _SILHOUETTE_SIDE = 64, 128
# Maximum number of silhouettes, and cells per axis in which an object is sought.
_MOST_SILHOUETTES, _CELLS = 32, 24
# Opacity above which a pixel may be of the object.
_TRANSLUCENT = 0.25
# Share of the views of a cell that show it as opaque, for a cell of the object. One mask in ten may
# be wrong.
_AGREEMENT = 0.9
# Share of views whose silhouette may be cut off by the image, and pixels of its border that count.
_MOST_CUT, _CUT_BORDER = 0.1, 0.02
# A box is too small if more of the opaque rays miss it, and too wide if the object takes less of
# its width.
_MOST_MISSED, _LEAST_FILLED = 0.05, 0.25
# Share of the views whose axes meet behind them where the axes of the cameras are taken for turned.
_MEET_BEHIND = 0.9
# How to turn the axes of cameras.
_AXES = (
    "cameras look down their -z axis, with x right and y up; for poses with the axes of OpenCV (y "
    'down, z forward), set "camera_convention": "opencv" in transforms.json, or negate the second '
    "and third column of each pose"
)


@dataclass(frozen=True)
class Box:
    """The cube that is brought to [-1, 1]^3.

    Attributes:
        center: center in units of the file, ``(3,)``.
        half_size: half the length of an edge.
        near: distance from the cameras at which the scene begins; None if it is not known.
        source: what places the cube, for messages.
    """

    center: npt.NDArray[np.float64]
    half_size: float
    near: float | None = None
    source: str = ""

    def to_box(self, pose: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Bring a pose ``(4, 4)`` to coordinates in which the cube is [-1, 1]^3."""
        moved = pose.copy()
        moved[:3, 3] = (pose[:3, 3] - self.center) / self.half_size
        return moved

    def part(self, center: Tensor, half_size: float) -> "Box":
        """The cube at a position in this one's coordinates, and with this share of its width."""
        middle = self.center + self.half_size * center.double().numpy()
        return Box(middle, self.half_size * half_size, self.near, self.source)

    def __str__(self) -> str:
        return f"{2 * self.half_size:.3g} wide around {np.round(self.center, 3).tolist()}"


def fitted_box(views: Views, box: Box, where: str) -> tuple[Box, list[str]]:
    """The box that suits the views, and a remark if it is not that of the files or does not fit.

    Args:
        views: the views to fit, in the coordinates of the box.
        box: the box that the files state.
        where: path of the scene, for messages.

    Raises:
        SceneError: If more than half of the views see nothing of the box, and no other is found.
    """
    if views.is_opaque:
        blind = blind_views(views)
        if 2 * blind <= len(views) or _meet_behind(views):
            return box, sight_notes(views, where, f"the fitted box, {box}")
        # Opaque views show their surroundings: what the cameras look at is in the middle.
        focus = find_focus(views.world_from_camera)
        own = box.part(focus.center, float(focus.radius))
        return own, [
            f"the fitted box is the cube around the cameras, {own}: {blind} of the {len(views)} "
            f"views to fit see nothing of the scene's box, {box} ({box.source})"
        ]
    silhouettes = _silhouettes(views)
    missed, found = _share_missed(silhouettes), _object_cube(views, silhouettes)
    of_file = f"the scene's box, {box} ({box.source})"
    too_small = f"{missed:.0%} of the rays of opaque pixels miss {of_file}"
    if found is None or (missed <= _MOST_MISSED and found[1] >= _LEAST_FILLED):
        notes = sight_notes(views, where, f"the fitted box, {box}")
        return box, [*notes, *([too_small] if missed > _MOST_MISSED else [])]
    too_wide = f"the object takes {found[1]:.2g} of the width of {of_file}"
    own = box.part(*found)
    why = too_small if missed > _MOST_MISSED else too_wide
    return own, [f"the fitted box is the cube around the object, {own}: {why}"]


def sight_notes(views: Views, where: str, box: str) -> list[str]:
    """A remark on views that see nothing of the box.

    Raises:
        SceneError: If these are more than half of the views of an object, or look away from what
            all look at.
    """
    blind = blind_views(views)
    is_opaque = views.is_opaque
    if 2 * blind > len(views) and (not is_opaque or _meet_behind(views)):
        raise SceneError(
            f"{blind} of the {len(views)} views of {where} do not look at the scene: their rays "
            f"miss its box; {_AXES}; the box of transforms.json is instant-ngp's, around the "
            "origin (aabb_scale, scale, offset)"
        )
    use = ", which the field proposal does not use" if is_opaque else ""
    note = f"{blind} of the {len(views)} views to fit see nothing of {box}{use}"
    return [note] if blind else []


def blind_views(views: Views) -> int:
    """Number of views of which no ray meets the box."""
    blind = 0
    for camera, pose in zip(views.cameras, views.world_from_camera, strict=True):
        near, far = ray_aabb_intersect(*camera_rays(coarse(camera, _SIGHT_SIDE), pose)[:2])
        blind += not bool((far > near).any())
    return blind


def coarse(camera: Camera, side: int = _COARSE_SIDE) -> Camera:
    """The same camera with few pixels, to look at all of what it sees."""
    return camera.scaled(min(1.0, side / max(camera.width, camera.height)))


def _silhouettes(views: Views) -> list[tuple[Camera, Tensor, Tensor, Tensor]]:
    """Camera and pose of some views, and pixels of which some part, and all, is opaque."""
    silhouettes = []
    for view in evenly_spaced(_MOST_SILHOUETTES, len(views)):
        camera, opacity = coarse(views.cameras[view], _SILHOUETTE_SIDE), views.opacity(view).cpu()
        mask = torch.ones_like(opacity) if views.masks is None else views.masks[view].to(opacity)
        # Masked pixels are unknown: they may be of the object, and are not known to be.
        size = camera.height, camera.width
        some = F.adaptive_max_pool2d(opacity.where(mask > 0, 1.0)[None], size)[0] > _TRANSLUCENT
        whole = F.adaptive_max_pool2d(1 - opacity[None] * mask, size)[0] < 0.5
        silhouettes.append((camera, views.world_from_camera[view], some, whole))
    return silhouettes


def _share_missed(silhouettes: list[tuple[Camera, Tensor, Tensor, Tensor]]) -> float:
    """Share of the rays of opaque pixels that miss [-1, 1]^3."""
    missed = [
        ~(far > near)[whole.flatten()]
        for camera, pose, _, whole in silhouettes
        for near, far in [ray_aabb_intersect(*camera_rays(camera, pose)[:2])]
    ]
    return float(torch.cat(missed).float().mean().nan_to_num())


def _object_cube(
    views: Views, silhouettes: list[tuple[Camera, Tensor, Tensor, Tensor]]
) -> tuple[Tensor, float] | None:
    """Center and half size of the cube around what nearly all views show as opaque.

    The cube between the cameras is cut down to the cells in the silhouettes, and searched again
    with smaller cells until it stays. None if that bounds no object, or images cut it off.
    """
    borders = [torch.cat([w[0], w[-1], w[:, 0], w[:, -1]]).float().mean() for *_, w in silhouettes]
    if sum(float(border) > _CUT_BORDER for border in borders) > _MOST_CUT * len(silhouettes):
        return None
    focus = find_focus(views.world_from_camera)
    center, half = focus.center, float(focus.radius)
    while True:
        points = center + half * cell_centers(_CELLS)
        seen, opaque = torch.zeros(2, len(points))
        for camera, pose, some, _ in silhouettes:
            # The footprint of a cell in the middle, with the ball around the cell.
            distance = float((pose[:3, 3] - center).norm())
            reach = math.ceil(camera.fx * half * 3**0.5 / _CELLS / max(distance, 1e-6))
            some = largest_within(some.float(), min(reach, max(some.shape)))
            column, row = camera.project((points - pose[:3, 3]) @ pose[:3, :3]).unbind(-1)
            is_inside = (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
            seen += is_inside
            opaque[is_inside] += some[row[is_inside].long(), column[is_inside].long()]
        kept = points[(opaque >= _AGREEMENT * seen) & (2 * seen >= len(silhouettes))]
        if not len(kept):
            return None
        low, high = kept.amin(0) - half / _CELLS, kept.amax(0) + half / _CELLS
        before, half, center = half, float((high - low).max() / 2), (low + high) / 2
        if half >= 0.9 * before:
            # What fills the cube between the cameras is not bounded by their views.
            return None if before == float(focus.radius) else (center, half)


def pose_notes(views: Views, where: str) -> Iterator[str]:
    """Remarks on poses that differ from those of the other views, or whose axes seem turned.

    Raises:
        SceneError: If the axes of views of an object are turned.
    """
    if _meet_behind(views):
        behind = f"the viewing directions of {where} meet behind the cameras: {_AXES}"
        if not views.is_opaque:
            raise SceneError(behind)
        yield f"{behind}; views that look outward all around are right as they are"
    focus = find_focus(views.world_from_camera)
    if far := [views.names[i] for i in focus.is_far.nonzero()[:, 0]]:
        yield (
            f"{len(far)} of the {len(views)} views to fit are up to "
            f"{float(focus.distances.max()):.3g} times as far from the scene as most: "
            f"{listed(far)}; they do not set its scale; if their poses are wrong, leave them out"
        )


def _meet_behind(views: Views) -> bool:
    """Whether the point that is nearest to the axes of the cameras lies behind nearly all."""
    poses = views.world_from_camera
    offsets = poses[:, :3, 3] - find_focus(poses).center
    is_behind = (offsets * poses[:, :3, 2]).sum(-1) < 0
    return float(is_behind.float().mean()) >= _MEET_BEHIND
