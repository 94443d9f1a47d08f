"""Posed pictures of a scene: their rays, batches of them, and the space they see through."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.rays import (
    Camera,
    Rays,
    box_interval,
    pixel_radii,
    stratified_edges,
    stratified_samples,
)
from nerf_posenc.radiance.volume_rendering import OccupancyGrid

Background = Literal["white", "black", "random"]

# A pixel that 8 bits store as transparent.
_TRANSPARENT = 0.5 / 255


@dataclass(frozen=True)
class Views:
    """Posed pictures, in coordinates in which the scene lies in [-1, 1]^3.

    Attributes:
        colours: values in [0, 1], multiplied by the opacity.
        opacity: share of each pixel that the scene covers; all 1 where a file has no alpha.
        cameras: one a picture, all of one size.
        world_from_camera: rotation and place of each camera.
        names: one a picture.
    """

    colours: Float[Tensor, "views height width 3"]
    opacity: Float[Tensor, "views height width"]
    cameras: Sequence[Camera]
    world_from_camera: Float[Tensor, "views 4 4"]
    names: Sequence[str]

    def __post_init__(self) -> None:
        counts = {len(self.cameras), len(self.colours), len(self.world_from_camera)}
        if len(counts) > 1 or len(self.names) not in counts or 0 in counts:
            raise ValueError(
                f"each of the views, 1 or more, needs a picture, a camera, a pose and a name; got "
                f"{len(self.colours)}, {len(self.cameras)}, {len(self.world_from_camera)} and "
                f"{len(self.names)}"
            )

    def __len__(self) -> int:
        return len(self.colours)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.colours.shape[2], self.colours.shape[1]

    def over(self, background: float) -> Float[Tensor, "views height width 3"]:
        """Lay the pictures over a grey of this value."""
        return self.colours + (1 - self.opacity)[..., None] * background

    def resized(self, longer_side: int) -> "Views":
        """Average pixels by area until the longer side is ``longer_side``; never enlarges."""
        width, height = self.size
        scale = longer_side / max(width, height)
        if scale >= 1:
            return self
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        stacked = torch.cat([self.colours, self.opacity[..., None]], dim=-1).permute(0, 3, 1, 2)
        small = F.interpolate(stacked, size=(height, width), mode="area").permute(0, 2, 3, 1)
        return Views(
            small[..., :3].contiguous(),
            small[..., 3].contiguous(),
            [camera.resized(width, height) for camera in self.cameras],
            self.world_from_camera,
            self.names,
        )

    def subset(self, count: int) -> "Views":
        """Some of the views, evenly spread; all where there are no more than ``count``."""
        count = min(count, len(self))
        chosen = [i * len(self) // count for i in range(count)]
        return Views(
            self.colours[chosen],
            self.opacity[chosen],
            [self.cameras[i] for i in chosen],
            self.world_from_camera[chosen],
            [self.names[i] for i in chosen],
        )

    def rays(self, view: int, *, background: float = 1.0) -> Rays:
        """Rays through all pixels of a view, row by row."""
        return camera_rays(self.cameras[view], self.world_from_camera[view], background=background)


def camera_rays(
    camera: Camera, world_from_camera: Float[Tensor, "4 4"], *, background: float = 1.0
) -> Rays:
    """Rays through all pixels of a camera, row by row.

    Args:
        camera: the camera.
        world_from_camera: its rotation and place.
        background: grey behind.
    """
    directions = camera.directions()
    rotated = directions.reshape(-1, 3) @ world_from_camera[:3, :3].T
    return Rays(
        world_from_camera[:3, 3].expand_as(rotated),
        F.normalize(rotated, dim=-1),
        pixel_radii(directions).reshape(-1),
        torch.full_like(rotated, background),
    )


class RayBatches:
    """Rays drawn from all pixels of all views, a function of the step alone.

    Args:
        views: what to draw from.
        batch_size: rays a step.
        seed: of the draws.
        background: white, black, or random: a new colour for each ray, which rewards empty
            space for being empty where the pictures have an opacity.
        live: pixels to draw from, all where it is None: those whose rays meet an occupied
            cell, say.
        device: where the batches are made.

    Raises:
        ValueError: where no pixel is live.

    Examples:
        >>> camera = Camera.from_angle(4, 4, 1.0)
        >>> black = torch.zeros(1, 4, 4, 3), torch.ones(1, 4, 4)
        >>> views = Views(*black, [camera], torch.eye(4)[None], ["a"])
        >>> rays, colours = RayBatches(views, 8, seed=0)(step=0)
        >>> rays.directions.shape, colours.shape
        (torch.Size([8, 3]), torch.Size([8, 3]))
    """

    def __init__(
        self,
        views: Views,
        batch_size: int,
        *,
        seed: int,
        background: Background = "white",
        live: Bool[Tensor, "views height width"] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.batch_size = batch_size
        self.seed = seed
        self.background = background
        unique = list(dict.fromkeys(views.cameras))
        directions = [camera.directions() for camera in unique]
        self._camera_of = torch.tensor([unique.index(c) for c in views.cameras], device=device)
        self._directions = torch.stack(directions).flatten(1, 2).to(device)
        self._radii = torch.stack([pixel_radii(d) for d in directions]).flatten(1).to(device)
        self._poses = views.world_from_camera.to(device)
        self._colours = views.colours.flatten(1, 2).to(device)
        self._opacity = views.opacity.flatten(1).to(device)
        self._live = None if live is None else live.flatten().nonzero()[:, 0].to(device)
        if self._live is not None and len(self._live) == 0:
            raise ValueError("no pixel to draw from: every view is transparent all over")

    @torch.no_grad()
    def __call__(self, step: int) -> tuple[Rays, Float[Tensor, "n 3"]]:
        """Rays of a step and the colours they should see."""
        device = self._poses.device
        # On the device, which a copy from the host would wait for.
        generator = torch.Generator(device).manual_seed(self.seed * 1_000_003 + step)
        num_pixels = self._colours.shape[1]
        total = len(self._live) if self._live is not None else len(self._poses) * num_pixels
        drawn = torch.randint(total, (self.batch_size,), generator=generator, device=device)
        if self._live is not None:
            drawn = self._live[drawn]
        view, pixel = drawn // num_pixels, drawn % num_pixels
        camera = self._camera_of[view]
        poses = self._poses[view]
        directions = (poses[:, :3, :3] @ self._directions[camera, pixel, :, None])[..., 0]
        if self.background == "random":
            behind = torch.rand(self.batch_size, 3, generator=generator, device=device)
        else:
            grey = 1.0 if self.background == "white" else 0.0
            behind = torch.full((self.batch_size, 3), grey, device=device)
        rays = Rays(
            poses[:, :3, 3],
            F.normalize(directions, dim=-1),
            self._radii[camera, pixel],
            behind,
            self.seed * 1_000_003 + step,
        )
        opacity = self._opacity[view, pixel, None]
        return rays, self._colours[view, pixel] + (1 - opacity) * behind


@torch.no_grad()
def carve(grid: OccupancyGrid, views: Views) -> None:
    """Mark as empty the cells that some view sees through: outside the visual hull.

    A cell is carved where all that a view shows of it is transparent (Laurentini 1994). Views
    without an opacity carve nothing, and neither does a view that does not hold the whole cell.

    Args:
        grid: changed in place.
        views: with their opacity.
    """
    centres = grid.centres().cpu()
    half_diagonal = 3**0.5 / grid.resolution
    left = torch.arange(len(centres))
    for view, camera in enumerate(views.cameras):
        if not len(left) or bool((views.opacity[view] > _TRANSPARENT).all()):
            continue
        pose = views.world_from_camera[view]
        points = (centres[left] - pose[:3, 3]) @ pose[:3, :3]
        ahead = -points[:, 2]
        # How far a cell may reach in the picture, in whole pixels, where it is nearest.
        nearest = float(torch.where(ahead > 2 * half_diagonal, ahead, math.inf).min())
        if math.isinf(nearest):
            continue
        reach = math.ceil(half_diagonal * max(camera.fx, camera.fy) / (nearest - half_diagonal))
        shown = F.max_pool2d(
            views.opacity[view][None, None], 2 * reach + 3, stride=1, padding=reach + 1
        )[0, 0]
        pixels = camera.project(points)
        column, row = pixels.unbind(-1)
        holds = (column > reach) & (column < camera.width - reach)
        holds &= (row > reach) & (row < camera.height - reach) & (ahead > 2 * half_diagonal)
        inside = holds.nonzero()[:, 0]
        seen = shown[row[inside].long(), column[inside].long()]
        stays = torch.ones_like(holds)
        stays[inside[seen <= _TRANSPARENT]] = False
        left = left[stays]
    carved = torch.ones(len(centres), dtype=torch.bool)
    carved[left] = False
    grid.carve(carved.to(grid.density.device))


@torch.no_grad()
def live_pixels(
    grid: OccupancyGrid, views: Views, *, num_samples: int = 256
) -> Bool[Tensor, "views height width"]:
    """Tell the pixels whose rays meet an occupied cell; of the others no fit learns anything.

    Args:
        grid: of the scene.
        views: the pictures.
        num_samples: places looked at along each ray.
    """
    device = grid.density.device
    live = []
    for view in range(len(views)):
        rays = views.rays(view).to(device)
        found = []
        for i in range(0, len(rays.origins), 1 << 13):
            part = rays.rows(slice(i, i + (1 << 13)))
            edges = stratified_edges(*box_interval(*part[:2]), num_samples)
            distances = stratified_samples(edges)
            places = part.origins[:, None] + part.directions[:, None] * distances[..., None]
            found.append((grid(places) & (edges[..., 1:] > edges[..., :-1])).any(-1))
        live.append(torch.cat(found).view(views.size[::-1]).cpu())
    return torch.stack(live)
