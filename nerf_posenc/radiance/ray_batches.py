"""Batches of rays from posed images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from nerf_posenc.images import pixels_at
from nerf_posenc.radiance.occupancy import OccupancyGrid, footprint_reach
from nerf_posenc.radiance.rays import PixelDirections, Rays
from nerf_posenc.radiance.views import (
    Background,
    SurfacePoints,
    Views,
    background_gray,
    over_background,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

# Margin around an object that rays are drawn from too, as a share of the longer side.
_SURROUNDINGS = 0.05
# Step between the pixels of the lattice, along rows and columns.
_LATTICE = 3


class RayBatch(NamedTuple):
    """Rays of one training step.

    Attributes:
        rays: the rays.
        generator: random number generator for the samples along them.
        views: index of the view that each ray is of.
        distances: distance at which each ray meets a surface, 0 where it is not known; None if
            none is.
    """

    rays: Rays
    generator: torch.Generator
    views: Int[Tensor, " n"]
    distances: Float[Tensor, " n"] | None = None


class RayBatches:
    """Rays drawn from all pixels of all views that no mask leaves out, as a function of the step.

    Args:
        views: training views.
        batch_size: rays per step.
        seed: random seed of the draws.
        background: white, black, or random: a new color for each ray, so that only empty space
            explains transparent pixels; or a function that returns one of them for each batch.
        live: pixels of each view to draw from, for example those whose rays meet an occupied cell;
            None for all.
        known_share: share of the rays that show points of surfaces, if the views have any.
        device: device that the batches are drawn on.

    Raises:
        ValueError: If no pixel is live.

    Examples:
        >>> from nerf_posenc.radiance import Camera
        >>> camera = Camera.from_angle(4, 4, 1.0)
        >>> views = Views(torch.zeros(1, 4, 4, 3), [camera], torch.eye(4)[None], ["a"])
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
        background: Background | Callable[[], Background] = "white",
        live: Iterable[Bool[Tensor, "height width"]] | None = None,
        known_share: float = 0.0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.batch_size = batch_size
        self.seed = seed
        self.background = background
        unique = list(dict.fromkeys(views.cameras))
        self._camera_of = torch.tensor([unique.index(c) for c in views.cameras], device=device)
        self._directions = PixelDirections(unique, device)
        self._poses = views.world_from_camera.to(device)
        self._pixels = views.pixels.flatten(1, 2).to(device)
        self._masks = views.masks
        if views.masks is not None:
            kept = iter(views.masks)
            live = kept if live is None else (m & k for m, k in zip(live, kept, strict=True))
        self._live: Tensor | None = None
        if live is not None:
            # Half the memory of 64 bits, which would be more than that of the images.
            in_views = [mask.flatten().nonzero()[:, 0].int() for mask in live]
            self._live = torch.cat(in_views).to(device)
            counts = torch.tensor([len(pixels) for pixels in in_views])
            # Number of live pixels up to the end of each view.
            self._live_until = counts.cumsum(0).to(device)
            if len(self._live) == 0:
                raise ValueError(
                    "no pixel to draw from: every view is transparent or masked all over"
                )
        self._num_known = round(known_share * batch_size)
        self._points: SurfacePoints | None = None
        if views.points is not None and self._num_known:
            self._points = SurfacePoints(*(part.to(device) for part in views.points))
            column, row = (views.points.place * torch.tensor(views.size)).long().unbind(-1)
            self._pixel_of_point = (row * views.size[0] + column).to(device)

    @torch.no_grad()
    def __call__(self, step: int) -> tuple[RayBatch, Float[Tensor, "n 3"]]:
        """Rays of a step and their colors."""
        device = self._poses.device
        # The generator is on the device, so that nothing is copied there from the host.
        generator = torch.Generator(device).manual_seed(self.seed * 1_000_003 + step)
        num_pixels = self._pixels.shape[1]
        total = len(self._live) if self._live is not None else len(self._poses) * num_pixels
        drawn = torch.randint(total, (self.batch_size,), generator=generator, device=device)
        if self._live is not None:
            view = torch.searchsorted(self._live_until, drawn, right=True)
            pixel = self._live[drawn].long()
        else:
            view, pixel = drawn // num_pixels, drawn % num_pixels
        if self._points is None:
            rays, rgb = self._rays_of(view, pixel, generator)
            return RayBatch(rays, generator, view), rgb
        count = len(self._points.view)
        chosen = torch.randint(count, (self._num_known,), generator=generator, device=device)
        view = torch.cat([self._points.view[chosen], view[self._num_known :]])
        pixel = torch.cat([self._pixel_of_point[chosen], pixel[self._num_known :]])
        rays, rgb = self._rays_of(view, pixel, generator)
        known = (self._points.position[chosen] - rays.origins[: self._num_known]).norm(dim=-1)
        distances = F.pad(known, (0, self.batch_size - self._num_known))
        return RayBatch(rays, generator, view, distances), rgb

    @torch.no_grad()
    def of_view(self, view: int, count: int, seed: int) -> tuple[Rays, Float[Tensor, "n 3"]]:
        """Rays of random pixels of one view, and their colors."""
        device = self._poses.device
        generator = torch.Generator(device).manual_seed(seed)
        num_pixels = self._pixels.shape[1]
        if self._masks is not None:
            kept = self._masks[view].flatten().nonzero()[:, 0].to(device)
            ranks = torch.randint(len(kept), (count,), generator=generator, device=device)
            pixel = kept[ranks]
        else:
            pixel = torch.randint(num_pixels, (count,), generator=generator, device=device)
        return self._rays_of(torch.full_like(pixel, view), pixel, generator)

    def _rays_of(
        self, view: Tensor, pixel: Tensor, generator: torch.Generator
    ) -> tuple[Rays, Tensor]:
        device = self._poses.device
        camera = self._camera_of[view]
        poses = self._poses[view]
        directions, radii = self._directions(camera, pixel)
        directions = (poses[:, :3, :3] @ directions[..., None])[..., 0]
        kind = self.background() if callable(self.background) else self.background
        if kind == "random":
            background = torch.rand(len(view), 3, generator=generator, device=device)
        else:
            gray = background_gray(kind)
            background = torch.full((len(view), 3), gray, device=device)
        rays = Rays(poses[:, :3, 3], F.normalize(directions, dim=-1), radii, background)
        stored = self._pixels.device
        pixels = pixels_at(self._pixels, view.to(stored), pixel.to(stored)).to(device)
        return rays, over_background(pixels, background)


def object_pixels(views: Views) -> Iterator[Bool[Tensor, "height width"]]:
    """Pixels of each view that are not transparent, those around them, and a lattice of the rest.

    Most pixels around an object show an empty background. Drawn evenly, they would be more than
    half of the rays of a batch, and no pose gets a gradient by them. The lattice, every third pixel
    of every third row, keeps the rest of the space empty.

    Args:
        views: the images.
    """
    reach = round(_SURROUNDINGS * max(views.size))
    for view in range(len(views)):
        pixels = _any_within((views.opacity(view) > 0).cpu(), reach)
        pixels[::_LATTICE, ::_LATTICE] = True
        yield pixels


def _any_within(mask: Bool[Tensor, "height width"], reach: int) -> Bool[Tensor, "height width"]:
    """Whether a mask is set anywhere within ``reach`` pixels along both axes, for each pixel."""
    # Numbers of pixels above and left of each corner, of which a square is a difference.
    sums = F.pad(mask.long().cumsum(0).cumsum(1), (1, 0, 1, 0))
    (top, bottom), (left, right) = (
        ((i - reach).clamp(min=0), (i + reach + 1).clamp(max=len(i)))
        for i in map(torch.arange, mask.shape)
    )
    return sums[bottom][:, right] - sums[top][:, right] > sums[bottom][:, left] - sums[top][:, left]


@torch.no_grad()
def occupied_pixels(grid: OccupancyGrid, views: Views) -> Iterator[Bool[Tensor, "height width"]]:
    """Pixels of each view that an occupied cell may cover; a fit learns nothing from the others.

    Args:
        grid: occupancy of the scene.
        views: the images.
    """
    # A ray that meets the occupied cells leaves them through one of their surface.
    centers = grid.centers(grid.surface().nonzero()[:, 0]).cpu()
    half_diagonal = 3**0.5 / grid.resolution
    width, height = views.size
    for camera, pose in zip(views.cameras, views.world_from_camera, strict=True):
        # In the camera's axes; a cell covers no more than `reach` pixels around its center.
        points = (centers - pose[:3, 3]) @ pose[:3, :3]
        reach = footprint_reach(points, camera, half_diagonal)
        if reach is None or reach > max(width, height):
            yield torch.ones(height, width, dtype=torch.bool)
            continue
        column, row = camera.project(points).unbind(-1)
        near = (
            (column > -reach) & (column < width + reach) & (row > -reach) & (row < height + reach)
        )
        rows, columns = row[near].long(), column[near].long()
        pixels = torch.zeros(height, width, dtype=torch.bool)
        pixels[rows.clamp(0, height - 1), columns.clamp(0, width - 1)] = True
        yield _any_within(pixels, reach)
