"""Batches of rays from posed images."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.radiance.occupancy import OccupancyGrid, footprint_reach
from nerf_posenc.radiance.rays import Rays, pixel_radii
from nerf_posenc.radiance.sampling import Jitter
from nerf_posenc.radiance.views import Background, Views, background_gray


class RayBatch(NamedTuple):
    """Rays of one training step.

    Attributes:
        rays: the rays.
        generator: random number generator for the samples along them.
        views: index of the view that each ray is of.
    """

    rays: Rays
    generator: Jitter
    views: Int[Tensor, " n"]


class RayBatches:
    """Rays drawn from all pixels of all views, as a function of the step alone.

    Args:
        views: training views.
        batch_size: rays per step.
        seed: of the draws.
        background: white, black, or random: a new color for each ray, so that only empty space
            explains transparent pixels.
        live: pixels to draw from, for example those whose rays meet an occupied cell; None
            for all.
        device: where the batches are drawn.

    Raises:
        ValueError: If no pixel is live.

    Examples:
        >>> from nerf_posenc.radiance import Camera
        >>> camera = Camera.from_angle(4, 4, 1.0)
        >>> black = torch.zeros(1, 4, 4, 3), torch.ones(1, 4, 4)
        >>> views = Views(*black, [camera], torch.eye(4)[None], ["a"])
        >>> batch, rgb = RayBatches(views, 8, seed=0)(step=0)
        >>> batch.rays.directions.shape, rgb.shape
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
        self._rgb = views.rgb.flatten(1, 2).to(device)
        self._opacity = views.opacity.flatten(1).to(device)
        self._live = None if live is None else live.flatten().nonzero()[:, 0].to(device)
        if self._live is not None and len(self._live) == 0:
            raise ValueError("no pixel to draw from: every view is transparent all over")

    @torch.no_grad()
    def __call__(self, step: int) -> tuple[RayBatch, Float[Tensor, "n 3"]]:
        """Rays of a step and their colors."""
        device = self._poses.device
        # On the device: a copy from the host would wait for it.
        generator = torch.Generator(device).manual_seed(self.seed * 1_000_003 + step)
        num_pixels = self._rgb.shape[1]
        total = len(self._live) if self._live is not None else len(self._poses) * num_pixels
        drawn = torch.randint(total, (self.batch_size,), generator=generator, device=device)
        if self._live is not None:
            drawn = self._live[drawn]
        view, pixel = drawn // num_pixels, drawn % num_pixels
        camera = self._camera_of[view]
        poses = self._poses[view]
        directions = (poses[:, :3, :3] @ self._directions[camera, pixel, :, None])[..., 0]
        if self.background == "random":
            background = torch.rand(self.batch_size, 3, generator=generator, device=device)
        else:
            gray = background_gray(self.background)
            background = torch.full((self.batch_size, 3), gray, device=device)
        rays = Rays(
            poses[:, :3, 3],
            F.normalize(directions, dim=-1),
            self._radii[camera, pixel],
            background,
        )
        opacity = self._opacity[view, pixel, None]
        rgb = self._rgb[view, pixel] + (1 - opacity) * background
        return RayBatch(rays, generator, view), rgb


@torch.no_grad()
def occupied_pixels(grid: OccupancyGrid, views: Views) -> Bool[Tensor, "views height width"]:
    """Pixels that an occupied cell may cover; a fit learns nothing from the others.

    Args:
        grid: occupancy of the scene.
        views: the images.
    """
    centers = grid.centers(grid.occupied.nonzero()[:, 0]).cpu()
    half_diagonal = 3**0.5 / grid.resolution
    width, height = views.size
    live = torch.zeros(len(views), height, width)
    for camera, pose, pixels in zip(views.cameras, views.world_from_camera, live, strict=True):
        points = (centers - pose[:3, 3]) @ pose[:3, :3]
        reach = footprint_reach(points, camera, half_diagonal)
        if reach is None or reach > max(width, height):
            pixels.fill_(1)
            continue
        column, row = camera.project(points).unbind(-1)
        near = (
            (column > -reach) & (column < width + reach) & (row > -reach) & (row < height + reach)
        )
        pixels[row[near].long().clamp(0, height - 1), column[near].long().clamp(0, width - 1)] = 1
        pixels.copy_(F.max_pool2d(pixels[None, None], 2 * reach + 1, stride=1, padding=reach)[0, 0])
    return live > 0
